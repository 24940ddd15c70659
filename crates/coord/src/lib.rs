//! Coordination: nodes with sessions and semaphores, as YDB's coordination service has them (`docs/coordination.md`).
//!
//! Two parts. [`Coord`] is the replicated state machine: a function of state and entry, the same on every replica.
//! [`Leader`] is what only a leader knows: which stream holds which session, who waits for an answer, which watches stand
//! and which timers run; it turns requests and the passing of time into commands for the log, and outcomes into messages.
//! Neither touches a socket, a disk or a clock: time is an argument.

// In the order in which a newcomer should read them.
mod ids;
mod command;
mod outcome;
mod status;
mod state;

mod apply;
mod nodes;
mod attach;
mod semaphores;
mod acquire;
mod queue;
mod resources;

mod snapshot;
mod leader;

mod config;
mod path;
mod limits;

#[cfg(feature = "mutants")]
mod mutant;

pub use apply::Fatal;
pub use command::{Asker, Command, Start, open_entry, read_opening};
pub use config::{Config, Consistency, CountersMode};
pub use ids::{NodeNumber, OrderId, ResourceId, SemaphoreId, SessionId};
pub use leader::{
    Ask, Gathered, Leader, Message, NodeCall, NodeReply, Opening, Origin, Out, Patience, ResourceCall, StreamId,
    Ticket, Units,
};
pub use limits::*;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use outcome::{ClaimLine, Description, NodeLine, Notice, Outcome, Range, SemaphoreLine, SessionLine};
pub use path::Path;
pub use resources::Pace;
pub use snapshot::{CutStep, Restore};
pub use state::{Coord, Totals};
pub use status::{Refusal, Status};
