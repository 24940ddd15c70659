//! Every maximum of the house in one place, each with its reason.

/// Bytes of a table, field or sort-part name. PostgreSQL cuts identifiers at 63 bytes without a word.
pub const NAME_BYTES_MAX: usize = 63;

/// Bytes of a key. InnoDB's primary keys end at 3,072 bytes; 1,024 leaves room for a sort key beside it.
pub const KEY_BYTES_MAX: usize = 1_024;

/// Bytes of an encoded sort key, for the same reason.
pub const SORT_BYTES_MAX: usize = 1_024;

/// Bytes of one value. Half of the frame limit, so that a value always fits a frame with its command.
pub const VALUE_BYTES_MAX: usize = 32 << 20;

/// Bytes of all fields of one record. A record is copied when it changes; above this that would be felt.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// Fields in a definition. PostgreSQL ends at 1,600 columns, MySQL at 1,017.
pub const TABLE_FIELDS_MAX: usize = 512;

/// Parts of a sort key (DESIGN 2: an integer, a string, or both).
pub const SORT_PARTS_MAX: usize = 2;

/// Tables in a catalogue. Each one costs every shard a definition in its state.
pub const TABLES_MAX: usize = 4_096;

/// Fields that a record of a dynamic table keeps packed; above, it turns into a tree, because packed fields are searched from the front.
pub const PACKED_FIELDS_MAX: usize = 64;

/// Fields in one record of a dynamic table.
pub const DYNAMIC_FIELDS_MAX: usize = 1 << 20;

/// Commands of one atomic batch. One entry carries them all and applies them without a pause.
pub const BATCH_COMMANDS_MAX: usize = 1_024;

/// Bytes of one log entry; what arrives above it waits for the next.
pub const ENTRY_BYTES_MAX: usize = 4 << 20;

/// Rows of one scan page.
pub const SCAN_ROWS_MAX: usize = 10_000;

/// Bytes of one scan page, after which it ends early with a cursor.
pub const SCAN_BYTES_MAX: usize = 4 << 20;

/// Results kept for one client that numbers its requests. A client may have that many unanswered at once.
pub const SESSION_RESULTS_MAX: usize = 128;

/// Clients with kept results per shard; the one unused for longest is forgotten.
pub const SESSIONS_MAX: usize = 10_000;

/// Bytes of one kept result; a larger one is kept without its row.
pub const SESSION_RESULT_BYTES_MAX: usize = 16 << 10;

/// Commands that may wait for one key's load.
pub const LOAD_WAITERS_MAX: usize = 10_000;

/// Keys that may be loading in one shard.
pub const LOADS_MAX: usize = 50_000;

/// Rows of one SQL read, as one statement.
pub const LOAD_ROWS_MAX: usize = 200;

/// Rows of one SQL write, as one transaction. Measured: above 1,000 nothing is gained (crates.md 1.4).
pub const FLUSH_ROWS_MAX: usize = 1_000;

/// Requests waiting in one shard, in bytes, before it answers `busy`.
pub const PENDING_BYTES_MAX: usize = 64 << 20;

/// Records expired by one entry, so that a wave of expiries does not hold up commands.
pub const EXPIRE_ROWS_MAX: usize = 1_000;
