//! The cluster's map as this node knows it: the newest version that it has on disk. Whoever must not wait keeps a sheet of its own
//! and is told of the next one.

use std::sync::{Arc, PoisonError, RwLock};

use shardine_model::{ErrorCode, NodeId, Refusal};
use shardine_router::{ClusterMap, First};
use shardine_shard::meta::{BadDelta, Command, Map, Meta, Node};

/// One version of the map, and the part of it that routing and links need.
#[derive(Debug)]
pub(crate) struct Sheet {
    pub full: Map,
    pub cluster: Arc<ClusterMap>,
}

impl Sheet {
    pub fn new(full: Map) -> Arc<Self> {
        let cluster = Arc::new(full.cluster_map());
        Arc::new(Self { full, cluster })
    }

    /// Of a cluster that begins: what its map's group will have, too, when it has taken the first command.
    pub fn first(first: &First) -> Result<Arc<Self>, Refusal> {
        let mut meta = Meta::new();
        let mut refusal = None;
        let applied = meta.apply(&init(first).to_entry(), |reply| refusal = reply.err());
        applied.map_err(|fatal| Refusal::new(ErrorCode::Internal, fatal.to_string()))?;
        refusal.map_or_else(|| Ok(Self::new(meta.map().clone())), Err)
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Arc<Self>, BadDelta> {
        Ok(Self::new(Map::decode(bytes)?))
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        self.full.whole().to_bytes()
    }

    pub fn version(&self) -> u64 {
        self.full.version
    }

    /// Whether a node was sent away for good.
    pub fn is_removed(&self, node: NodeId) -> bool {
        self.full.nodes.get(&node).is_some_and(|node| !node.is_member())
    }

    pub fn member_named(&self, name: &str) -> Option<&Node> {
        self.full.member_named(name)
    }

    /// What the first leader of the map's group puts into its log, so that all begin with it.
    pub fn init(&self) -> Command {
        let starts = self.full.nodes.values().map(|node| node.start).collect();
        init(&First { map: ClusterMap::clone(&self.cluster), starts })
    }
}

fn init(first: &First) -> Command {
    Command::Init { map: first.map.clone(), starts: first.starts.clone() }
}

/// The newest sheet.
#[derive(Debug)]
pub(crate) struct Atlas {
    sheet: RwLock<Arc<Sheet>>,
}

impl Atlas {
    pub fn new(sheet: Arc<Sheet>) -> Self {
        Self { sheet: RwLock::new(sheet) }
    }

    pub fn sheet(&self) -> Arc<Sheet> {
        Arc::clone(&self.sheet.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn put(&self, sheet: Arc<Sheet>) {
        *self.sheet.write().unwrap_or_else(PoisonError::into_inner) = sheet;
    }
}
