//! The simulator: three replicas of the real core per shard, under a seeded single-thread scheduler, with a network, disks,
//! clocks and an SQL database that misbehave, and checkers that are files named for their promises (`docs/simulator.md`).
//!
//! One number decides everything: [`run`] with the same seed gives the same trace, event for event.

// In the order in which a newcomer should read them.
mod mutants;
mod run;

mod plan;
mod world;

mod host;
mod statements;

mod clients;
mod draw;

mod nemesis;

mod watch;

pub mod check;

mod ask;
mod chance;
mod clock;
mod counters;
mod disk;
mod event;
mod history;
mod model;
mod net;
mod sql;
mod trace;
mod universe;

pub use counters::Counters;
pub use mutants::{Catch, count, hunt};
pub use plan::{Fault, Plan};
pub use run::{Options, Outcome, run};
pub use shardine_shard::Mutant;
