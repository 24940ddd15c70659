//! An engine for tests of doors: one shard over the real records, without a log, other threads or SQL. What a door does with
//! records is answered as in production; what it asks of nodes, tables and SQL is answered with just enough to tell right from
//! wrong.

mod shard;
mod scan;
mod tables;
mod looks;
mod programs;
mod local;
mod remote;

pub use local::LocalFake;
pub use remote::{FakeEngine, Mood};
pub use shard::FakeShard;
pub use shardine_script::read_library;
