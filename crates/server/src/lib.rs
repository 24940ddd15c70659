//! A whole node in one process: lanes, log threads, SQL, doors, start and stop.
//!
//! A lane is one thread that owns shards *and* the Redis connections accepted on it, so a command for a shard of the
//! same lane is parsed, executed and answered without crossing a thread. Each lane has a log thread, which does nothing
//! but synced writes, and a snapshot thread. Doors on other threads speak to lanes by letters ([`exchange`]).

// In the order in which a newcomer should read them.
mod options;
mod node;
mod restore;
mod letter;
mod lane;
mod log_thread;
mod snapshot_thread;
mod exchange;
mod steward;
mod doors;
mod clock;

pub use node::{Addresses, Node};
pub use options::UpOptions;
