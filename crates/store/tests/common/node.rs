//! What the tests of the storage share: a node's directory, opened and held, and what is done to it.

use bytes::Bytes;
use shardine_model::codec::put_bytes;
use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{HardState, Install, LogOp, LogWrite, Membership, SnapshotMeta};
use shardine_store::{DataDir, Error, Identity, Options, Storage};

use super::{Ground, OWNER, SMALL, entries};

/// The group that most of it is about.
pub const SHARD: ShardId = ShardId(1);
pub const REPLICA: ReplicaId = ReplicaId(1);

/// A process on a directory. The directory is given back last.
pub struct Node {
    pub storage: Storage,
    pub incarnation: u64,
    _data: DataDir,
}

pub fn identity() -> Identity {
    Identity { cluster: OWNER.cluster, node: OWNER.node, name: String::new() }
}

impl Ground {
    pub fn start(&self) -> Node {
        self.try_start(SMALL).unwrap()
    }

    pub fn try_start(&self, options: Options) -> Result<Node, Error> {
        let data = DataDir::lock_on(self.disk(), self.dir())?;
        let incarnation = data.adopt(&identity())?;
        Ok(Node { storage: Storage::open(&data, options)?, incarnation, _data: data })
    }
}

impl Node {
    pub fn perform<const N: usize>(&self, ops: [LogOp; N]) {
        self.try_perform(ops).unwrap();
    }

    pub fn try_perform<const N: usize>(&self, ops: [LogOp; N]) -> Result<(), Error> {
        self.storage.perform(ops.into())
    }

    /// Stores a snapshot as a replica cuts it.
    pub fn cut(&self, meta: &SnapshotMeta, chunks: &[&[u8]]) -> std::path::PathBuf {
        let mut writer = self.storage.cut_snapshot(SHARD, REPLICA, meta).unwrap();
        chunks.iter().for_each(|chunk| writer.push(chunk).unwrap());
        writer.finish().unwrap()
    }

    /// What is kept of a group.
    pub fn kept(&self, shard: ShardId) -> Kept {
        let loaded = self.storage.load(shard).unwrap().expect("the group is known");
        let mut kept = Kept {
            replica: loaded.replica,
            hard_state: loaded.hard_state,
            snapshot: 0,
            chunks: Vec::new(),
            entries: loaded.entries.iter().map(|entry| entry.index).collect(),
        };
        if let Some(mut snapshot) = loaded.snapshot {
            kept.snapshot = snapshot.meta().index;
            while let Some(chunk) = snapshot.next_chunk().unwrap() {
                kept.chunks.push(chunk);
            }
        }
        kept
    }

    /// Why a group cannot be loaded.
    pub fn refusal(&self, shard: ShardId) -> Error {
        self.storage.load(shard).err().expect("the group is not given out")
    }
}

/// What is on disk of a group, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub replica: ReplicaId,
    pub hard_state: HardState,
    /// 0 if there is none.
    pub snapshot: u64,
    pub chunks: Vec<Vec<u8>>,
    pub entries: Vec<u64>,
}

pub fn write(shard: u32, indexes: impl IntoIterator<Item = u64>) -> LogOp {
    LogOp::Write(entries(shard, indexes, 50))
}

pub fn meta(index: u64) -> SnapshotMeta {
    let membership = Membership { learners: vec![ReplicaId(9)], ..Membership::of([1, 2].map(ReplicaId)) };
    SnapshotMeta { index, term: 1, membership, conf_index: 3 }
}

/// A snapshot from a peer, with what stands behind it.
pub fn install(meta: &SnapshotMeta, chunks: &[&[u8]], hard_state: HardState, behind: LogWrite) -> LogOp {
    let mut data = Vec::new();
    chunks.iter().for_each(|chunk| put_bytes(&mut data, chunk));
    let write = LogWrite { hard_state: Some(hard_state), ..behind };
    LogOp::Install(Box::new(Install { meta: meta.clone(), data: Bytes::from(data), write }))
}
