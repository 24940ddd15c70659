//! What lies on disk: the log of all groups, snapshots, the node's identity. Never interprets what it keeps.
//!
//! A node has one data directory, and these things live in it:
//!
//! ```text
//! LOCK                     held while a process uses the directory, like the directory itself
//! IDENTITY                 which node of which cluster this directory belongs to, how often it was started, whether it has a log
//! PEERS                    the newest life seen of each peer
//! MAP                      the node's map of the cluster
//! log/<sequence>.seg       the log of every group of the node, one stream of synced frames
//! log/<number>.spare       segments without content, ready to be written over
//! snapshots/<shard>/<replica>-<index>.snap
//! ```
//!
//! The disk answers two questions, and the code keeps them apart. *Was this written completely?* The last write
//! before a crash may be cut; nobody was told that it happened, so it is dropped without a fuss. *Is this still what
//! was written?* Everything before that last write was synced and promised; if it cannot be read back, the shard that
//! it belongs to is refused, or the whole node if nobody can tell whose it was, with a message that says which file,
//! why, and what to do. Nothing is ever repaired by forgetting it.
//!
//! Every stored byte is covered by a checksum, every form carries a version and has its bytes frozen in a test.
//! Calls block until the disk has answered. Threads, retries and scheduling belong to the host; after a failed write
//! there is no second try, because the kernel may already have dropped the pages that a second sync would report clean.

// In the order in which a newcomer should read them.
pub mod storage;
pub mod log;
pub mod snapshot;

pub mod data_dir;
pub mod identity;
pub mod node_file;

pub mod disk;
mod files;
mod error;

pub use data_dir::DataDir;
#[cfg(feature = "memory")]
pub use disk::MemoryDisk;
pub use disk::{Disk, OsDisk};
pub use error::Error;
pub use identity::{Identity, Owner};
pub use log::{Options, SegmentLog};
pub use node_file::NodeFile;
pub use snapshot::{SnapshotReader, SnapshotReceiver, SnapshotWriter};
#[cfg(feature = "mutants")]
pub use storage::Mutant;
pub use storage::{Loaded, Storage};
