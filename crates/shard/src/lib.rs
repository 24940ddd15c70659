//! One replica of one shard: the pure core. Events go in by method calls, actions come out in [`Actions`], and the host
//! performs them in order. The same code runs in the server and under the simulator.
//!
//! The walk of a write: [`Replica::submit`] adds the encoded request to the entry being gathered; [`Replica::propose_gathered`]
//! proposes it; `drain` hands the log write to the host; [`Replica::persisted`] lets the group commit; `apply` executes it
//! and answers. Never touches a socket, a disk or a clock: time is an argument.
//!
//! What does not depend on the state machine is in `member`, for records here, for coordination in [`coord`], and for the cluster's map in
//! [`meta`].

// In the order in which a newcomer should read them.
mod actions;
mod member;
mod replica;
mod clock;

mod submit;
mod gather;
mod early;
mod apply;
mod reads;
mod programs;
mod stale;
mod freshness;

mod split;

mod loads;
mod hold;
mod writeback;
mod evict;
mod upkeep;
mod handover;

pub mod coord;
pub mod meta;

mod row_map;

pub use actions::{
    Actions, Caller, LoadedRow, LogProgress, Persist, Question, Returned, SnapshotPart, SqlLoad, SqlPurge, SqlWrite,
    Time, Trouble,
};
pub use evict::MemoryLimits;
pub use member::Checks;
pub use reads::{ReadBarrier, ReadNow};
pub use replica::{Left, Options, Replica, Status};
pub use shardine_consensus::{
    ChangeRefused, Group, MembershipChange, Message, Progress, ProgressState, Pulse, REST_PACE, Removed, Restored,
    Role, Step, TransferRefused,
};
#[cfg(feature = "mutants")]
pub use shardine_records::Mutant;
pub use shardine_records::{Dirty, Records};
pub use split::{Infancy, Newborn, SplitProgress};
pub use stale::ReadStale;
pub use writeback::{DirtyLimits, LEASE_LENGTH_MS, LEASE_TRUST_MS, TableStatus};
