//! The log of all groups of a node: what may be asked of it. How it lies on disk is told in the modules below.
//!
//! The groups of a node share one stream of *frames*. A frame is synced before the next one is begun. So at any moment at most
//! one frame, the last, can be incomplete, and recovery can tell a cut tail (nothing comes after it) from damage (something
//! does). A frame has a checksum for its head and one for the *section* of each group, so that damage to the log of one group
//! is no damage to the others.
//!
//! The stream lies in *segments* of equal size that are written over again and again, never grown: syncing a file
//! whose blocks are all in place costs one disk flush and no journal commit. A segment begins with the state of every
//! group at that point, so that older segments can go without anything having to be copied forward.
//!
//! The log of a group belongs to one replica of its shard. When that one is removed a tombstone stays, because a replica
//! that comes back has forgotten its vote.

// In the order in which a newcomer should read them.
mod segment_log;
mod gather;
mod writer;
mod part;
mod segment;
mod frame;
mod record;

mod groups;
mod group;
mod pins;

mod pen;
mod spares;

mod replay;
mod damage;

use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{HardState, LogEntry, LogWrite};

pub(crate) use self::group::Group;
pub use self::replay::scan;
pub use self::segment_log::{SegmentLog, Start};

/// How much disk the log takes, and in which pieces.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The unit in which space is taken and freed. Large enough that changing segments is rare, small enough that
    /// a fresh node is not fat. Whole blocks.
    pub segment_bytes: usize,
    /// The most that is written at once. What comes above goes into another frame with a sync of its own: after a stall of the
    /// disk there may be gigabytes, and a frame is put together in memory.
    pub frame_bytes: usize,
    /// Freed segments that are kept to be written over. More than are freed by one round of snapshots is waste.
    pub spares_max: usize,
    /// Whether a thread of its own prepares the next segment. Without it, the write that needs one waits for it; and
    /// everything happens in the caller's thread, in an order that can be repeated.
    pub fill_ahead: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { segment_bytes: 32 << 20, frame_bytes: 32 << 20, spares_max: 4, fill_ahead: true }
    }
}

/// What can happen to the log of one group.
#[derive(Clone, Debug)]
pub enum Change {
    Write(LogWrite),
    /// Forgets the entries below an index; they are in a snapshot.
    Truncate {
        shard: ShardId,
        below: u64,
    },
    /// Forgets all entries: the group's state was replaced by a snapshot that holds everything up to this index.
    Reset {
        shard: ShardId,
        replica: ReplicaId,
        hard_state: HardState,
        index: u64,
    },
    /// Forgets the group and leaves a tombstone: neither this replica nor an older one is taken again.
    Remove {
        shard: ShardId,
        replica: ReplicaId,
    },
}

/// Everything kept of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLog {
    pub replica: ReplicaId,
    pub hard_state: HardState,
    /// Entries before this one are not in the log. Above 1, they are in a snapshot.
    pub first: u64,
    /// In order, without gaps, from `first` on.
    pub entries: Vec<LogEntry>,
}
