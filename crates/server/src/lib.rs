//! A whole node in one process: lanes, log threads, SQL, doors, start and stop.
//!
//! A lane is one thread that owns shards *and* the Redis connections accepted on it, so a command for a shard of the
//! same lane is parsed, executed and answered without crossing a thread. Each lane has a log thread, which does nothing
//! but synced writes, and a snapshot thread. Coordination groups have a thread of their own ([`coord`]). Doors on other threads speak to lanes by messages ([`exchange`]).

// In the order in which a newcomer should read them.
mod options;
mod start_error;
mod directory;
mod formation;
mod atlas;
mod audit;
mod topology;
mod node;
mod restore;
mod reunion;
mod baseline;

mod lane;
mod lane_message;
mod scripts_thread;
mod exchange;
mod catalogue;
mod peers;
mod places;
mod failover;
mod differences;

mod journal;
mod log_thread;
mod snapshot_thread;

mod coord;
mod meta;
mod schema_manager;
mod doors;
mod stop;

mod clock;
mod owner_thread;

pub use directory::{Directory, look_at};
pub use formation::{Found, find_cluster};
pub use node::{Addresses, Node};
pub use options::{ClusterOptions, UpOptions};
pub use shardine_host::{LoadLimits, SplitLimits};
pub use shardine_transport::PROTOCOL_VERSION;
pub use shardine_ydb::{Access, Path as CoordPath, Right};
pub use start_error::StartError;
pub use stop::{Flushing, Stopped};
