//! Lua scripts in a sandbox, and what commands would do to a few rows: reads in, writes and a reply out.
//!
//! A script runs before anything is decided: on rows as its leader sees them, under a clock that stands still. What it
//! read become conditions and what it wrote one batch, which the state machine applies or refuses as a whole (ADR 0005); so it
//! may be stopped and run again at any time, and nothing was done. Knows no socket, lane or log.

// In the order in which a newcomer should read them.
mod limits;
mod run;
mod rehearsal;

mod sandbox;
mod functions;
mod raised;
mod reply;
mod number;
mod pattern;
mod chance;
mod libraries;

pub use functions::read_library;
pub use limits::{Limits, Spent};
pub use rehearsal::{Rows, Seen, Writes};
pub use run::{Performance, Stage, Stopped};
pub use sandbox::{Ended, Host, Sandbox, Script, check};
