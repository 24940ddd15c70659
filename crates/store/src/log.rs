//! The log of all groups of a node: what may be asked of it. How it lies on disk is told in the modules below.
//!
//! The groups of a node share one stream of *frames*. A frame is everything that one call of `write` brings, and it is
//! synced before the next one is begun. So at any moment at most one frame, the last, can be incomplete, and recovery
//! can tell a cut tail (nothing comes after it) from damage (something does). A frame has a checksum for its head and
//! one for the *section* of each group, so that damage to the log of one group is no damage to the others.
//!
//! The stream lies in *segments* of equal size that are written over again and again, never grown: syncing a file
//! whose blocks are all in place costs one disk flush and no journal commit. A segment begins with the state of every
//! group at that point, so that older segments can go without anything having to be copied forward.

// In the order in which a newcomer should read them.
mod segment_log;
mod segment;
mod frame;
mod record;
mod group;

mod pen;
mod spares;

mod replay;
mod damage;

use shardine_model::ids::ShardId;
use shardine_model::log::{HardState, LogEntry, LogWrite};

pub use self::replay::scan;
pub use self::segment_log::{Options, SegmentLog};
use crate::error::Error;

/// Everything kept of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupLog {
    pub hard_state: HardState,
    /// In order, without gaps.
    pub entries: Vec<LogEntry>,
}

/// Keeps the logs of all groups of a node. Calls are served one after another; a thread that serves several lanes
/// should hand over what all of them wait for in one call.
pub trait LogStore: Send + Sync {
    /// Writes everything of one lane turn, all groups, as one synced write: all of it or, after a crash, none of it.
    /// Returns after it is on disk. An error means that the process must stop: no later write is accepted.
    fn write(&self, writes: &[LogWrite]) -> Result<(), Error>;

    /// The groups that anything is kept of, also those whose log is damaged.
    fn shards(&self) -> Vec<ShardId>;

    /// Everything kept of one group. The first call after opening takes what recovery has read; later ones read the
    /// files again. An unknown group is empty. An error about damage is about this group alone.
    fn load(&self, shard: ShardId) -> Result<GroupLog, Error>;

    /// Forgets the entries below `index`; they are in a snapshot. Segments that no group needs any more become spare.
    fn truncate_before(&self, shard: ShardId, index: u64) -> Result<(), Error>;

    /// Forgets all entries of a group whose state was replaced by a snapshot from a peer. The next entry may have any index.
    fn reset(&self, shard: ShardId, hard_state: HardState) -> Result<(), Error>;

    /// The group to which the oldest kept entry belongs. To get space back, take a snapshot of this one first.
    fn oldest_shard(&self) -> Option<ShardId>;

    /// What the log occupies, spare segments included.
    fn bytes_on_disk(&self) -> u64;
}
