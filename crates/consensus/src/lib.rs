//! The only crate that names raft-rs: one Raft group as a pure step function.
//!
//! A [`Group`] takes ticks, messages and proposals, and gives out, as [`Ready`], what must be written, sent and applied.
//! It owns no clock, no randomness, no disk and no socket: the one random thing in raft-rs, the election timeout, is
//! overridden after every call by a number made from the group's own numbers, so a seeded run repeats itself exactly.

// In the order in which a newcomer should read them.
mod group;
mod window;
mod message;
mod codec;

mod membership;
mod lead;
mod aside;
mod rest;
mod progress;
mod snapshot;
#[cfg(feature = "mutants")]
mod mutant;

pub use group::{Group, Options, Proposed, ReadDone, Ready, Refused, Restored, Role, WhyRefused};
pub use lead::{Pulse, TransferRefused};
pub use membership::{ChangeRefused, MembershipChange, Removed, Step};
pub use message::{Message, Stamps, Told};
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use progress::{Progress, ProgressState};
pub use rest::REST_PACE;
pub use window::Keep;
