//! What whoever leads meta sees, beside the map.

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::{NodeId, ShardId};

/// What whoever leads meta sees of the nodes.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Nodes that are suspected of being dead, or have never been heard.
    pub silent: BTreeSet<NodeId>,
    /// Those of them that have been silent for so long that what they hold is to be made again elsewhere.
    pub gone: BTreeSet<NodeId>,
    /// What is told of the load, if anything is to be moved for the sake of balance.
    pub load: Option<Load>,
}

/// What leaders have last said. Shards that nobody has spoken of count as empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub bytes: BTreeMap<ShardId, u64>,
    pub leaders: BTreeMap<ShardId, NodeId>,
    /// Bytes at which a shard is split: nodes that differ by no more than a few of these are as good as equal.
    pub split_bytes: u64,
}

impl Load {
    #[must_use]
    pub fn bytes_of(&self, shard: ShardId) -> u64 {
        self.bytes.get(&shard).copied().unwrap_or(0)
    }
}
