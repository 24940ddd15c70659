//! Snapshots of a shard, cut without stopping it.
//!
//! A cut fixes the state at one index. Its stream (`shardine_model::stream`) is then written over many turns: the head, tables,
//! kept results, segments. What is about to change before its turn is written first, and waits in memory until it is taken:
//! one segment, or one client's results. A large row is not copied for that but kept as it was. So the pause of a cut is one
//! segment at the most; of a shard that is not written to meanwhile, memory holds no copy.
//!
//! What is derived is not written but made again. `docs/encoding.md` has the bytes.

// In the order in which a newcomer should read them.
mod cut;
mod sections;
mod segments;
mod large;
mod restore;
mod summing;

pub(crate) use cut::Cut;
pub use cut::CutStep;
pub use restore::Restore;

/// The items of the stream. Frozen: a section that changes gets a new version, a new one a new number.
pub(crate) mod tag {
    /// Generation, range version, state, bounds. Comes first.
    pub const RANGE: u8 = 1;
    pub const CLOCK: u8 = 2;
    /// The version of the definitions.
    pub const CATALOGUE: u8 = 3;
    pub const LEASE: u8 = 4;
    pub const FLOORS: u8 = 5;
    /// One definition. All come before the first row.
    pub const TABLE: u8 = 6;
    /// The kept results of one client.
    pub const CLIENT: u8 = 7;
    /// Rows that are neighbours, and their dead letters.
    pub const SEGMENT: u8 = 8;
    /// One packed row that is too large for its segment's item.
    pub const LARGE_ROW: u8 = 9;
    /// A record with very many fields: its address and versions, fields in as many items as it takes, and an end.
    pub const WIDE: u8 = 10;
    pub const WIDE_FIELDS: u8 = 11;
    pub const WIDE_END: u8 = 12;
    /// How many clients were forgotten with their results.
    pub const FORGOTTEN_CLIENTS: u8 = 13;
}

/// The version of every section, so far.
pub(crate) const VERSION: u8 = 1;
