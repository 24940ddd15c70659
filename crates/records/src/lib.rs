//! Records: the replicated state machine of a shard.
//!
//! [`Records::apply`] takes one committed entry at a time and is a function of state and entry alone: two replicas at
//! the same index are equal. What an entry means is decided here and nowhere else; who proposes it, when, and what is
//! done with the outcome is the replica's business (`shardine-shard`). Never touches a socket, a disk or a clock.

// In the order in which a newcomer should read them.
mod state;
mod apply;
mod command;
mod evaluate;
mod put;
mod merge;

mod change;
mod record;
mod slot;
mod segment;
mod index;

mod derived;
mod tally;
mod absents;

mod remembered;
mod dead_letters;
mod scan;
mod snapshot;
mod slabs;
mod split;
mod rehearsal;
mod middle;

#[cfg(feature = "mutants")]
mod mutant;

pub use apply::{Fatal, Nobody, Sink, read_reply};
pub use dead_letters::DeadLetter;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use scan::{Page, Scan, ScanBound, ScanFrom};
pub use snapshot::{CutStep, Restore};
pub use split::Split;
pub use state::{DirtyRow, EpochFit, Lease, Lookup, Records};
pub use tally::Dirty;
