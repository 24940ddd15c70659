//! The only crate that names raft-rs: one Raft group as a pure step function.
//!
//! A [`Group`] takes ticks, messages and proposals, and gives out, as [`Ready`], what must be written, sent and applied.
//! It owns no clock, no randomness, no disk and no socket: the one random thing in raft-rs, the election timeout, is
//! overridden after every call by a number made from the group's own numbers, so a seeded run repeats itself exactly.

mod group;
mod message;
mod window;

pub use group::{Group, Options, Proposed, ReadDone, Ready, Restored, Role};
pub use message::Message;
