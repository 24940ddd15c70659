//! Every maximum of the project in one place, each with its reason.

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

/// Bytes of one reply, however many records or fields it was asked for. Twice a record's limit, so that any one record fits
/// with what stands around its fields; a node copies and sends that much without being felt for long.
pub const REPLY_BYTES_MAX: usize = 2 * RECORD_BYTES_MAX;

/// Fields in a definition. PostgreSQL ends at 1,600 columns, MySQL at 1,017.
pub const TABLE_FIELDS_MAX: usize = 512;

/// Parts of a sort key: an integer, a string, or both.
pub const SORT_PARTS_MAX: usize = 2;

/// Tables in a catalogue. Each one costs every shard a definition in its state.
pub const TABLES_MAX: usize = 4_096;

/// Tables that one table comes after in SQL. Each is looked at before every batch; more foreign keys than that are rare.
pub const PARENTS_MAX: usize = 16;

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

/// Numbers that a client may have open, from the lowest without an answer on. So many results are kept for it at most.
pub const REMEMBERED_RESULTS_MAX: usize = 128;

/// Clients with kept results per shard; the one unused for longest is forgotten.
pub const REMEMBERED_CLIENTS_MAX: usize = 10_000;

/// Bytes of kept results per shard, for the same reason as clients: the product of the other limits would be 20 GiB.
pub const REMEMBERED_BYTES_MAX: usize = 64 << 20;

/// Bytes of one kept result; a larger one is kept without its row.
pub const REMEMBERED_RESULT_BYTES_MAX: usize = 16 << 10;

/// Commands that may wait for one key's load.
pub const LOAD_WAITERS_MAX: usize = 10_000;

/// Keys that may be loading in one shard.
pub const LOADS_MAX: usize = 50_000;

/// Rows of one SQL read, as one statement.
pub const LOAD_ROWS_MAX: usize = 200;

/// Rows of one SQL write, as one transaction. Measured: above 1,000 nothing is gained.
pub const FLUSH_ROWS_MAX: usize = 1_000;

/// How long a change waits for others of its row where the table says nothing else. So long that a row which is written ten
/// times a second or more costs SQL less than it costs memory, and a burst makes whole batches; so short that nobody who looks
/// into SQL notices.
pub const WRITE_DELAY_MS: u32 = 100;

/// How long a change may wait for others of its row. Longer, and a lost node would leave SQL far behind for nothing.
pub const WRITE_DELAY_MS_MAX: u32 = 60_000;

/// Answers of one shard that may be held back for SQL at once: so many changes may be under way while it is slow.
pub const SQL_WAITS_MAX: usize = 100_000;

/// How long an answer is held back for SQL where the caller names no time of its own.
pub const SQL_ACK_MS: u64 = 5_000;

/// Bytes of one SQL write. Well below MySQL's default packet of 16 MiB (64 in 8.0), and a retry repeats them all. A larger
/// row goes alone.
pub const FLUSH_BYTES_MAX: usize = 8 << 20;

/// Dirty rows of one shard above which nothing waits for its delay any longer: ten seconds' work of a quick database.
pub const DIRTY_ROWS_SOFT: u64 = 500_000;

/// Dirty rows of one shard above which no further row may become dirty. Each costs its key twice more, in the queue.
pub const DIRTY_ROWS_HARD: u64 = 4_000_000;

/// The same in bytes of records. Dirty records cannot be evicted, so this is memory that an outage of SQL may take.
pub const DIRTY_BYTES_SOFT: u64 = 128 << 20;
pub const DIRTY_BYTES_HARD: u64 = 1 << 30;

/// Rows of one shard that are remembered as absent. Somebody who asks for keys that are not there fills memory with them.
pub const ABSENT_ROWS_MAX: u64 = 100_000;

/// Milliseconds that a row which SQL does not have is remembered as absent: so long may an insert made in SQL by others stay
/// unseen.
pub const ABSENT_KEEP_MS: u64 = 60_000;

/// Dead letters of one shard. They are part of its state and of the head of its snapshots: with their errors, 6 MB at most.
pub const DEAD_LETTERS_MAX: usize = 10_000;

/// Bytes of SQL's words in a dead letter.
pub const DEAD_LETTER_ERROR_BYTES_MAX: usize = 512;

/// Replicas in one list of a group's membership. Three or five by habit; a list that claims more is damaged.
pub const MEMBERS_MAX: usize = 100;

/// Bytes of one chunk of a snapshot. It is held in memory before it is checked, on its way to a peer too, and small things wait
/// behind it.
pub const SNAPSHOT_CHUNK_BYTES_MAX: usize = 1 << 20;

/// Bytes of one item of a snapshot, such as a record. Nothing larger can have come through the log, whose frames end there.
pub const SNAPSHOT_ITEM_BYTES_MAX: usize = 1 << 30;

/// Requests waiting in one shard, in bytes, before it answers `busy`.
pub const PENDING_BYTES_MAX: usize = 64 << 20;

/// How long a request waits for a definition that its shard lacks. Whoever read its text had that definition, so it comes in
/// a moment, or somebody is cut off.
pub const EARLY_REQUEST_MS_MAX: u64 = 5_000;

/// Records that one entry of upkeep expires, purges or kicks, so that a wave of them does not hold up commands.
pub const EXPIRE_ROWS_MAX: usize = 1_000;

/// Bytes of an address of a node, its name or its zone: a host's name has 253 at most, and a port follows.
pub const ADDRESS_BYTES_MAX: usize = 300;
