//! Why the disk could not be used. Each message names the file, the reason and the way out.

use std::io;
use std::path::{Path, PathBuf};

use shardine_model::ids::{NodeId, ReplicaId, ShardId};

/// What somebody can do whose node lost something. Told with everything that is lost.
const REMEDY: &str = "put this data directory back from a copy, or, if other nodes hold the shards, move it away and let \
                      the node join again (docs/damage.md)";

/// A failure of the store. None of them is cured by trying again in the same process.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} {}: {cause}", path.display())]
    Io { action: &'static str, path: PathBuf, cause: io::Error },
    #[error("an earlier write to the log in {} failed; restart the node, it recovers what was synced", dir.display())]
    Stopped { dir: PathBuf },

    // Faults of whoever asked. Nothing was written.
    #[error(
        "shard {shard}: log entry {found} cannot follow, {expected} is next; this is a fault of the caller, nothing was written"
    )]
    OutOfOrder { shard: ShardId, expected: u64, found: u64 },
    #[error(
        "shard {shard}: the log belongs to replica {owner}, replica {replica} cannot go on in it; this is a fault of the \
         caller, nothing was written"
    )]
    AnotherReplica { shard: ShardId, replica: ReplicaId, owner: ReplicaId },
    #[error(
        "shard {shard}: replica {replica} cannot come back, replica {removed} was removed from this node; this is a fault of \
         the caller, nothing was written"
    )]
    ReplicaRemoved { shard: ShardId, replica: ReplicaId, removed: ReplicaId },
    #[error(
        "shard {shard}: entries below {below} cannot be forgotten, {next} is not written yet; this is a fault of the caller, \
         nothing was written"
    )]
    TruncatedTooFar { shard: ShardId, below: u64, next: u64 },
    #[error(
        "shard {shard}: entries below {below} cannot be forgotten, what is in a snapshot on disk ends with entry {covered}; this \
         is a fault of the caller, nothing was written"
    )]
    NotInSnapshot { shard: ShardId, below: u64, covered: u64 },
    #[error(
        "shard {shard}: a snapshot of entry {index} in term {term} came with a hard state that is behind it, commit {commit} in \
         term {hard_term}; this is a fault of the caller, nothing was written"
    )]
    HardStateBehind { shard: ShardId, index: u64, term: u64, commit: u64, hard_term: u64 },
    #[error(
        "shard {shard}: a snapshot from a peer came without {what}; this is a fault of the caller, nothing was written"
    )]
    IncompleteInstall { shard: ShardId, what: &'static str },
    #[error("a log entry of {bytes} bytes is over the limit of {bytes_max}; nothing was written")]
    EntryTooLarge { bytes: usize, bytes_max: usize },
    #[error("a snapshot chunk of {bytes} bytes is over the limit of {bytes_max}; cut it into smaller ones")]
    ChunkTooLarge { bytes: usize, bytes_max: usize },
    #[error("{name} would have {bytes} bytes, which is over the limit of {bytes_max}; nothing was written")]
    FileTooLarge { name: &'static str, bytes: usize, bytes_max: usize },

    // What is not as it was written.
    #[error(
        "log file {} is damaged at byte {offset}: {reason}; all shards of this node share the log and it cannot be told \
         which of them lost something, so none is started; {}",
        file.display(), REMEDY
    )]
    LogDamaged { file: PathBuf, offset: u64, reason: String },
    #[error(
        "shard {shard}: log file {} is damaged at byte {offset}: {reason}; this shard is not started, the others are; {}",
        file.display(), REMEDY
    )]
    ShardLogDamaged { shard: ShardId, file: PathBuf, offset: u64, reason: String },
    #[error(
        "shard {shard}: log entries {from} to {to} are missing, they were in files older than {}; put the missing files \
         back, or {}",
        oldest.display(), REMEDY
    )]
    LogMissing { shard: ShardId, from: u64, to: u64, oldest: PathBuf },
    #[error(
        "there is no log in {}, and this data directory had one: if it is a volume of its own, is it mounted? Nothing is \
         started, because everything that was acknowledged would be gone; {}",
        dir.display(), REMEDY
    )]
    LogGone { dir: PathBuf },
    #[error(
        "there is no directory {}, and the logs of {shards} shards go on behind snapshots that were in it: if it is a volume of \
         its own, is it mounted? Nothing is started; {}",
        dir.display(), REMEDY
    )]
    SnapshotsGone { dir: PathBuf, shards: usize },
    #[error(
        "shard {shard}: its log begins at entry {first}, and the snapshot with what came before is not in {}; this shard is not \
         started, the others are; {}",
        dir.display(), REMEDY
    )]
    SnapshotMissing { shard: ShardId, first: u64, dir: PathBuf },
    #[error(
        "shard {shard}: snapshot {} reaches entry {index}, and the log ends before entry {end}: a part of the log is gone; this \
         shard is not started, the others are; {}",
        file.display(), REMEDY
    )]
    LogBehindSnapshot { shard: ShardId, file: PathBuf, index: u64, end: u64 },
    #[error(
        "shard {shard}: snapshot {} reaches entry {index}, and the log begins at entry {first}: what was between them is gone; \
         this shard is not started, the others are; {}",
        file.display(), REMEDY
    )]
    SnapshotBehindLog { shard: ShardId, file: PathBuf, index: u64, first: u64 },
    #[error(
        "shard {shard}: snapshot {} and the log disagree about {what}; they do not belong together; this shard is not started, \
         the others are; {}",
        file.display(), REMEDY
    )]
    SnapshotDisagrees { shard: ShardId, file: PathBuf, what: &'static str },
    #[error(
        "snapshot {} is damaged: {reason}; the log before it is gone, so its shard is not started; put the file back from a \
         copy, or {}",
        file.display(), REMEDY
    )]
    SnapshotDamaged { file: PathBuf, reason: String },
    #[error(
        "{} is damaged: {reason}; put it back from a copy of this node's directory, do not copy one from another node",
        file.display()
    )]
    IdentityDamaged { file: PathBuf, reason: String },
    #[error(
        "{} is damaged: {reason}; put it back from a copy of this node's directory, or move it away: {loss}",
        file.display()
    )]
    FileDamaged { file: PathBuf, reason: &'static str, loss: &'static str },
    #[error(
        "{} is missing although the directory holds data; put it back, or choose an empty directory",
        file.display()
    )]
    IdentityMissing { file: PathBuf },

    // What is not ours.
    #[error(
        "{} has format {found}, this version knows up to {known}; start the version that wrote it or a newer one",
        file.display()
    )]
    NewerFormat { file: PathBuf, found: u32, known: u32 },
    #[error(
        "{} has format {found}, which was given up before the first release; this version reads format {known} only: move the \
         data directory away and begin with an empty one",
        file.display()
    )]
    OlderFormat { file: PathBuf, found: u32, known: u32 },
    #[error(
        "data directory {} is in use by another process; stop that one, or choose another directory",
        dir.display()
    )]
    InUse { dir: PathBuf },
    #[error(
        "{} belongs to cluster {found:032x}, this node is of cluster {expected:032x}; choose the right directory, or put back \
         what belongs into this one",
        path.display()
    )]
    AnotherCluster { path: PathBuf, found: u128, expected: u128 },
    #[error(
        "{} belongs to node {found}, this is node {expected}; choose the right directory, or put back what belongs into this one",
        path.display()
    )]
    AnotherNode { path: PathBuf, found: NodeId, expected: NodeId },
    #[error(
        "{} belongs to the node called {found}, this one is called {expected}; choose the right directory, or the name that it has",
        path.display()
    )]
    AnotherName { path: PathBuf, found: String, expected: String },
    #[error("{name:?} cannot be the name of a node: it must be text of at most {bytes_max} bytes on one line")]
    BadName { name: String, bytes_max: usize },
}

impl Error {
    /// For `map_err`: says what was being done to which path when the operating system refused.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Io { action, path: path.to_path_buf(), cause }
    }
}
