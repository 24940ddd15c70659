//! Real processes for tests and measurements: free ports, temporary folders, servers that are started, waited for, killed
//! and started again, and a small Redis client. Waits for events, never for a guessed time. Knows nothing of the inside of
//! a server: everything here is what a user could do from a shell.

mod shardine;
mod cluster;
pub mod process;
mod port;
mod dir;
mod wait;
pub mod resp;
mod redis_server;
pub mod sql_server;
pub mod apps;
pub mod python;
mod disk;
mod network;
pub mod namespace;
mod certificate;
pub mod chaos;

pub use cluster::{Cluster, ClusterNode, Home};
pub use dir::{Dir, target_dir, workspace_root};
pub use disk::Disk;
pub use network::Network;
pub use port::Port;
pub use process::Process;
pub use redis_server::{Appendonly, RedisServer};
pub use resp::{Client, Reply};
pub use shardine::{Doors, Options, Shardine, Sql, find_binary, find_example};
pub use sql_server::SqlServer;
pub use wait::wait_for;

use std::time::Duration;

/// How long a test waits for a server to start, stop or answer. Far above what is ever needed on a quiet machine, because
/// a slow machine is not a failure; a wait that succeeds never takes longer than the event itself.
pub const PATIENCE: Duration = Duration::from_secs(60);
