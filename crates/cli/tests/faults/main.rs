//! Real SQL databases in trouble while clients write and Shardine is killed: stopped, killed, hung, slowed, made read-only,
//! cut off, filled up. At the end SQL equals memory, row for row and version for version; nothing that was acknowledged
//! is lost; and a trigger that wrote down every version of every row never saw one go down (write-back 86, 87, 93, 109).
//!
//! Every trouble is here for both servers. A file has no process to be killed and no connections to be cut: it is moved
//! away, locked by somebody else and filled up. That it takes no writes is seen in `writeback/src/sqlite/tests.rs`, because
//! whoever owns the machine may write to a read-only file.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

// In the order in which a newcomer should read them.
mod writers;

mod behind;
mod disk;
mod trial;

mod file;
mod servers;
