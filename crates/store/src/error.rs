//! Why the disk could not be used. Each message names the file, the reason and the way out.

use std::io;
use std::path::{Path, PathBuf};

use shardine_model::ids::{NodeId, ShardId};

/// A failure of the store. None of them is cured by trying again in the same process.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} {}: {cause}", path.display())]
    Io { action: &'static str, path: PathBuf, cause: io::Error },
    #[error("an earlier write to the log in {} failed; restart the node, it recovers what was synced", dir.display())]
    Stopped { dir: PathBuf },
    #[error(
        "shard {shard}: log entry {found} cannot follow, {expected} is next; this is a fault of the caller, nothing was written"
    )]
    OutOfOrder { shard: ShardId, expected: u64, found: u64 },
    #[error("a log write of {bytes} bytes is over the limit of {bytes_max}; nothing was written")]
    WriteTooLarge { bytes: usize, bytes_max: usize },
    #[error(
        "log file {} is damaged at byte {offset}: {reason}; all shards of this node share the log and it cannot be told \
         which of them lost something, so none is started; put this data directory back from a copy, or, if other nodes \
         hold the shards, move it away and let the node join again (docs/damage.md)",
        file.display()
    )]
    LogDamaged { file: PathBuf, offset: u64, reason: String },
    #[error(
        "shard {shard}: log file {} is damaged at byte {offset}: {reason}; this shard is not started, the others are; \
         put this data directory back from a copy, or, if other nodes hold the shard, move it away and let the node join \
         again (docs/damage.md)",
        file.display()
    )]
    ShardLogDamaged { shard: ShardId, file: PathBuf, offset: u64, reason: String },
    #[error(
        "shard {shard}: log entries {from} to {to} are missing, they were in files older than {}; \
         put the missing files back, or, if other nodes hold the shard, move this data directory away and let the node join again (docs/damage.md)",
        oldest.display()
    )]
    LogMissing { shard: ShardId, from: u64, to: u64, oldest: PathBuf },
    #[error(
        "snapshot {} is damaged: {reason}; the log before it is gone, so its shard is not started; \
         put the file back from a copy, or, if other nodes hold the shard, move this data directory away and let the node join again (docs/damage.md)",
        file.display()
    )]
    SnapshotDamaged { file: PathBuf, reason: String },
    #[error("a snapshot chunk of {bytes} bytes is over the limit of {bytes_max}; cut it into smaller ones")]
    ChunkTooLarge { bytes: usize, bytes_max: usize },
    #[error(
        "{} has format {found}, this version knows up to {known}; start the version that wrote it or a newer one",
        file.display()
    )]
    NewerFormat { file: PathBuf, found: u32, known: u32 },
    #[error(
        "data directory {} is in use by another process; stop that one, or choose another directory",
        dir.display()
    )]
    InUse { dir: PathBuf },
    #[error(
        "{} is damaged: {reason}; put it back from a copy of this node's directory, do not copy one from another node",
        file.display()
    )]
    IdentityDamaged { file: PathBuf, reason: String },
    #[error(
        "{} is missing although the directory holds data; put it back, or choose an empty directory",
        file.display()
    )]
    IdentityMissing { file: PathBuf },
    #[error(
        "data directory {} belongs to cluster {found:032x}, this node is of cluster {expected:032x}; choose the right directory",
        dir.display()
    )]
    AnotherCluster { dir: PathBuf, found: u128, expected: u128 },
    #[error("data directory {} belongs to node {found}, this is node {expected}; choose the right directory", dir.display())]
    AnotherNode { dir: PathBuf, found: NodeId, expected: NodeId },
}

impl Error {
    /// For `map_err`: says what was being done to which path when the operating system refused.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Io { action, path: path.to_path_buf(), cause }
    }
}
