//! Which groups this node holds replicas of, and with whom: from the map of its cluster, or, for a node that is alone for ever,
//! from what its directory holds.

use std::sync::Arc;

use anyhow::bail;
use shardine_model::key::Interval;
use shardine_model::log::Membership;
use shardine_model::{Bounds, Catalogue, ConfVersion, GroupKind, NodeId, RangeVersion, ReplicaId, ShardId};
use shardine_router::{ClusterMap, ShardMap, ShardPlace};
use shardine_store::Storage;

use crate::atlas::Sheet;
use crate::coord;
use crate::options::{SHARDS_DEFAULT, UpOptions};
use crate::start_error::StartError;

/// The number of a node that is alone, and of each of its replicas.
pub(crate) const ALONE: NodeId = NodeId(1);
const LONE_REPLICA: ReplicaId = ReplicaId(1);
/// The version of a group's members before any change.
const FIRST_CONF: ConfVersion = ConfVersion(1);

/// A replica that lives on this node.
#[derive(Clone, Debug)]
pub(crate) struct LocalReplica {
    pub shard: ShardId,
    pub replica: ReplicaId,
    /// Who takes part in the group when it begins; nobody in one that was there before this replica.
    pub first_members: Membership,
    pub origin: Origin,
}

/// What a replica's log begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// With what the map says: nothing changes on a node that is alone.
    Map,
    /// With these bounds, whatever has become of them since.
    Founded(Bounds),
    /// With its birth in a split, or with a snapshot of a peer's.
    Later,
}

#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub node: NodeId,
    /// Absent for a node that is alone.
    pub sheet: Option<Arc<Sheet>>,
    /// The map as it was when the node came to its cluster.
    pub first: Option<Arc<ClusterMap>>,
}

impl Topology {
    pub fn alone() -> Self {
        Self { node: ALONE, sheet: None, first: None }
    }

    /// Absent for a node that is alone.
    pub fn map(&self) -> Option<&ClusterMap> {
        self.sheet.as_ref().map(|sheet| &*sheet.cluster)
    }

    /// The definitions that the map has.
    pub fn catalogue(&self) -> Catalogue {
        self.sheet.as_ref().map(|sheet| sheet.full.catalogue.clone()).unwrap_or_default()
    }

    /// How many shards of records there are.
    pub fn shard_count(&self, storage: &Storage, options: &UpOptions) -> anyhow::Result<u32> {
        match self.map() {
            None => lone_shards(storage, options),
            Some(map) => Ok(u32::try_from(map.groups_of(GroupKind::Records).count())?),
        }
    }

    /// Where every shard is, and the lane that has it if it is here. Dealt out to the lanes in turn.
    pub fn shard_map(&self, count: u32, lanes: usize) -> ShardMap {
        let place = |shard: ShardId, interval, range| {
            let lane = (shard.0 as usize - 1) % lanes;
            ShardPlace { shard, interval, range, lane }
        };
        let Some(map) = self.map() else {
            let cuts = Interval::cut_evenly(count).into_iter().zip(1..);
            return ShardMap::new(
                cuts.map(|(interval, number)| place(ShardId(number), interval, RangeVersion::FIRST)).collect(),
            );
        };
        let groups = map.groups_of(GroupKind::Records);
        let mut places: Vec<ShardPlace> =
            groups.map(|group| place(group.shard, group.bounds.positions(), group.epoch.range)).collect();
        places.sort_by_key(|place| place.interval.lo);
        ShardMap::new(places)
    }

    /// The coordination groups of the cluster, or as many as a lone node has or is asked for.
    pub fn coord_groups(&self, storage: &Storage, options: &UpOptions) -> anyhow::Result<Vec<ShardId>> {
        match self.map() {
            None => coord::groups(storage, options.coord_groups),
            Some(map) => Ok(map.groups_of(GroupKind::Coordination).map(|group| group.shard).collect()),
        }
    }

    /// The replica of a group that lives here, if one does.
    pub fn local(&self, shard: ShardId) -> Option<LocalReplica> {
        let Some(map) = self.map() else {
            let (replica, first_members) = (LONE_REPLICA, Membership::of([LONE_REPLICA]));
            return Some(LocalReplica { shard, replica, first_members, origin: Origin::Map });
        };
        let replica = map.replica_on(shard, self.node)?;
        let first_members = self.founders(shard, replica).unwrap_or_default();
        let founded = self.first.as_ref().and_then(|first| first.group(shard));
        let origin = founded.map_or(Origin::Later, |group| Origin::Founded(group.bounds.clone()));
        Some(LocalReplica { shard, replica, first_members, origin })
    }

    /// Who founded a group together with a replica, if it did: those that were there when no change of its members had been made.
    fn founders(&self, shard: ShardId, replica: ReplicaId) -> Option<Membership> {
        let group = self.first.as_ref()?.group(shard)?;
        let founded = group.epoch.conf == FIRST_CONF && group.voters.iter().any(|voter| voter.replica == replica);
        founded.then(|| Membership::of(group.voters.iter().map(|voter| voter.replica)))
    }
}

/// How many shards the directory holds, or, if it is new, as many as asked for.
fn lone_shards(storage: &Storage, options: &UpOptions) -> anyhow::Result<u32> {
    let mut known = storage.shards()?;
    known.retain(|shard| shard.kind() == GroupKind::Records);
    if known.is_empty() {
        return Ok(options.shards.unwrap_or(SHARDS_DEFAULT));
    }
    let count = u32::try_from(known.len())?;
    if known.iter().enumerate().any(|(place, shard)| shard.0 as usize != place + 1) {
        bail!(
            "the data directory holds shards {known:?}, which are not 1 to {count}: part of it is missing; restore it from a copy"
        );
    }
    match options.shards {
        Some(asked) if asked != count => Err(StartError::OtherLayout { option: "shards", asked, found: count }.into()),
        Some(_) | None => Ok(count),
    }
}
