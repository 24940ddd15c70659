//! The simulator: replicas of the real cores under a seeded single-thread scheduler, with a network, disks and clocks that
//! misbehave, and checkers that are files named for their promises (`docs/simulator.md`).
//!
//! A [`World`](world) has one [`Tenant`]: [`Records`] with SQL behind them, or [`Coordination`]. One number decides
//! everything: [`run`] with the same seed gives the same trace, event for event.

// In the order in which a newcomer should read them.
mod mutants;
mod run;

mod ground;
mod tenant;
mod theme;
mod world;

mod replicas;
mod host;
mod failover;
mod council;
mod moves;
mod kinship;
mod links;
mod nemesis;
mod pulses;
mod watch;

pub mod check;

// Who may live there.
mod coord;
mod records;

mod chance;
mod clock;
mod counters;
mod disk;
mod event;
mod net;
mod trace;

pub use coord::Coordination;
pub use mutants::{Catch, count, hunt, hunt_about};
pub use records::Records;
pub use run::{Options, Outcome, run};
pub use shardine_shard::Mutant;
pub use shardine_shard::coord::Mutant as CoordMutant;
pub use tenant::Tenant;
pub use theme::Theme;
