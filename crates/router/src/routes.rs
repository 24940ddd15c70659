//! Where requests go, as one node knows it: the map, who leads each group, and which of its own lanes holds what.
//!
//! The map comes from meta and changes seldom. Leaders are not in it: nodes tell each other, and the highest term wins, so
//! that a lost node is routed around without asking anybody. Everything heard is put into one table in routing order, which a
//! lane searches once per request. Takes no part in what is done: whoever executes a request checks it again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shardine_model::{
    Bound, Bounds, CatalogueVersion, ClusterMap, Descriptor, Epoch, GroupKind, NodeId, Placement, Position, ReplicaId,
    RequestEpoch, RowKey, ShardId,
};

use crate::response::{RouteList, ShardRoute};

/// Who is to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// This node leads it, on this lane.
    Here {
        lane: usize,
    },
    There(NodeId),
    /// Nobody is known to lead it, or whoever did is out of reach.
    Unknown,
}

/// A shard of records and the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardWay {
    pub shard: ShardId,
    pub bounds: Bounds,
    pub epoch: Epoch,
    pub route: Route,
}

/// Why a request was sent back, in words that whoever sent it learns from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Who leads the shard of the request, as far as is known.
    pub leader: Option<NodeId>,
    /// In which term; 0 if nothing is known.
    pub term: u64,
    /// The shards that hold the position.
    pub descriptors: Vec<Descriptor>,
}

/// The newest that was heard about the leader of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lead {
    term: u64,
    /// `None`: none in this term, as far as is known.
    replica: Option<ReplicaId>,
}

/// Invariant: `places` are in routing order and do not overlap. There may be gaps between them: what lies there is known to
/// belong to a shard that nobody has described yet.
#[derive(Clone, Debug)]
pub struct Routes {
    node: NodeId,
    map: Arc<ClusterMap>,
    /// Every group's newest descriptor: the map's, or a newer one that a refusal brought.
    groups: BTreeMap<ShardId, Descriptor>,
    leads: BTreeMap<ShardId, Lead>,
    lanes: BTreeMap<ShardId, usize>,
    away: BTreeSet<NodeId>,
    places: Vec<ShardWay>,
}

impl Routes {
    #[must_use]
    pub fn new(node: NodeId, map: Arc<ClusterMap>) -> Self {
        let groups = map.groups.iter().map(|group| (group.shard, group.clone())).collect();
        let (leads, lanes, away) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut routes = Self { node, map, groups, leads, lanes, away, places: Vec::new() };
        routes.lay_out();
        routes
    }

    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    #[must_use]
    pub fn map(&self) -> &Arc<ClusterMap> {
        &self.map
    }

    /// All shards of records, in routing order.
    #[must_use]
    pub fn places(&self) -> &[ShardWay] {
        &self.places
    }

    /// The newest that is known of a group.
    #[must_use]
    pub fn group(&self, shard: ShardId) -> Option<&Descriptor> {
        self.groups.get(&shard)
    }

    /// The shard of a position; the first one, where a bound parts its rows. `None` in a gap.
    #[inline]
    #[must_use]
    pub fn find(&self, position: Position) -> Option<&ShardWay> {
        let behind = self.places.partition_point(|place| place.bounds.lo.position <= position);
        let mut at = behind.checked_sub(1)?;
        // Bounds inside of a position are rare, and then there are few.
        while self.places[at].bounds.lo.position == position && !self.places[at].bounds.lo.is_between_positions() {
            let Some(before) = at.checked_sub(1) else { break };
            if !reaches(&self.places[before].bounds, position) {
                break;
            }
            at = before;
        }
        Some(&self.places[at]).filter(|place| reaches(&place.bounds, position))
    }

    /// The shard of a row.
    #[must_use]
    pub fn find_row(&self, position: Position, row: RowKey<'_>) -> Option<&ShardWay> {
        let behind = self.places.partition_point(|place| place.bounds.lo.is_before(position, row));
        let place = &self.places[behind.checked_sub(1)?];
        place.bounds.contains(position, row).then_some(place)
    }

    #[inline]
    #[must_use]
    pub fn route(&self, position: Position) -> Route {
        self.find(position).map_or(Route::Unknown, |place| place.route)
    }

    /// The way to any group, coordination and meta among them.
    #[must_use]
    pub fn route_of(&self, shard: ShardId) -> Route {
        let Some(node) = self.leader_of(shard) else { return Route::Unknown };
        match self.lanes.get(&shard) {
            Some(&lane) if node == self.node => Route::Here { lane },
            _ if node == self.node || self.away.contains(&node) => Route::Unknown,
            _ => Route::There(node),
        }
    }

    /// Who leads a group, as far as is known, whether or not it can be reached.
    #[must_use]
    pub fn leader_of(&self, shard: ShardId) -> Option<NodeId> {
        let leader = self.leads.get(&shard)?.replica?;
        self.node_of(shard, leader)
    }

    /// Whether a node is taken for dead.
    #[must_use]
    pub fn is_away(&self, node: NodeId) -> bool {
        self.away.contains(&node)
    }

    /// Who leads the shard of a position, for a client that should ask there: `None` where that is this node, or nobody who can be
    /// reached.
    #[must_use]
    pub fn elsewhere(&self, position: Position) -> Option<ShardRoute> {
        let place = self.find(position)?;
        matches!(place.route, Route::There(_)).then(|| self.shard_route(place))
    }

    /// All that a client needs to find the leaders by itself.
    #[must_use]
    pub fn list(&self) -> RouteList {
        RouteList {
            version: self.map.version,
            shards: self.places.iter().map(|place| self.shard_route(place)).collect(),
            addresses: self.map.nodes.iter().map(|entry| entry.addresses.grpc.clone()).collect(),
        }
    }

    fn shard_route(&self, place: &ShardWay) -> ShardRoute {
        let leader = match place.route {
            Route::Here { .. } => Some(self.node),
            Route::There(node) => Some(node),
            Route::Unknown => None,
        };
        let address = leader.and_then(|node| self.map.node(node)).map(|entry| entry.addresses.grpc.clone());
        ShardRoute {
            shard: place.shard,
            lo: place.bounds.lo.position,
            hi: place.bounds.hi.as_ref().map(|hi| hi.position),
            epoch: place.epoch,
            leader,
            term: self.leads.get(&place.shard).map_or(0, |lead| lead.term),
            address: address.unwrap_or_default(),
        }
    }

    /// What whoever asked the wrong node is told.
    #[must_use]
    pub fn moved(&self, position: Position) -> Moved {
        let Some(place) = self.find(position) else { return Moved::default() };
        let lead = self.leads.get(&place.shard);
        let leader = lead.and_then(|lead| lead.replica).and_then(|replica| self.node_of(place.shard, replica));
        let descriptors = self.groups.get(&place.shard).cloned().into_iter().collect();
        Moved { leader, term: lead.map_or(0, |lead| lead.term), descriptors }
    }

    /// Where a replica lives, as far as descriptors say.
    #[must_use]
    pub fn node_of(&self, shard: ShardId, replica: ReplicaId) -> Option<NodeId> {
        let placement = self.members(shard).find(|placement| placement.replica == replica)?;
        Some(placement.node)
    }

    fn replica_on(&self, shard: ShardId, node: NodeId) -> Option<ReplicaId> {
        let placement = self.members(shard).find(|placement| placement.node == node)?;
        Some(placement.replica)
    }

    fn members(&self, shard: ShardId) -> impl Iterator<Item = &Placement> {
        self.groups.get(&shard).into_iter().flat_map(|group| group.voters.iter().chain(&group.learners))
    }
}

impl Routes {
    /// A map from meta, or from disk. An older one changes nothing. What refusals have told of newer epochs stays.
    pub fn adopt(&mut self, map: Arc<ClusterMap>) -> bool {
        if map.version <= self.map.version {
            return false;
        }
        let learnt = std::mem::take(&mut self.groups);
        self.groups = map.groups.iter().map(|group| (group.shard, group.clone())).collect();
        self.map = map;
        for descriptor in learnt.into_values() {
            self.put(descriptor);
        }
        self.lay_out();
        true
    }

    /// Descriptors that came with a refusal. Only those are taken that are newer than all that they overlap.
    pub fn learn(&mut self, descriptors: Vec<Descriptor>) -> bool {
        let mut is_new = false;
        for descriptor in descriptors {
            is_new |= self.put(descriptor);
        }
        if is_new {
            self.lay_out();
        }
        is_new
    }

    fn put(&mut self, descriptor: Descriptor) -> bool {
        let is_rival = |known: &Descriptor| {
            known.shard == descriptor.shard
                || known.shard.kind() == GroupKind::Records
                    && descriptor.shard.kind() == GroupKind::Records
                    && known.bounds.overlaps(&descriptor.bounds)
        };
        if self.groups.values().any(|known| is_rival(known) && known.epoch >= descriptor.epoch) {
            return false;
        }
        self.groups.retain(|_, known| !is_rival(known));
        self.groups.insert(descriptor.shard, descriptor);
        true
    }

    /// Somebody says who leads a group, or that nobody does. The highest term wins; within a term there is one leader.
    pub fn hear(&mut self, shard: ShardId, term: u64, leader: Option<ReplicaId>) -> bool {
        let news = Lead { term, replica: leader };
        let is_new = match self.leads.get(&shard) {
            None => true,
            Some(known) => term > known.term || term == known.term && known.replica.is_none() && leader.is_some(),
        };
        if is_new {
            self.leads.insert(shard, news);
            self.reroute(shard);
        }
        is_new
    }

    /// The leader of this term has said that it leads no more.
    pub fn forget(&mut self, shard: ShardId, term: u64) -> bool {
        let Some(known) = self.leads.get_mut(&shard).filter(|known| known.term == term && known.replica.is_some())
        else {
            return false;
        };
        known.replica = None;
        self.reroute(shard);
        true
    }

    /// Takes from a refusal what is newer than what is known. A hint of an old term is not followed: two nodes that each take
    /// the other for the leader would send a request to and fro.
    pub fn heed(&mut self, shard: ShardId, moved: Moved) -> bool {
        let learnt = self.learn(moved.descriptors);
        let replica = moved.leader.and_then(|node| self.replica_on(shard, node));
        let heard = replica.is_some() && self.hear(shard, moved.term, replica);
        learnt || heard
    }

    /// A node that does not answer is not asked, until it does again.
    pub fn suspect(&mut self, node: NodeId) -> bool {
        let is_new = self.away.insert(node);
        self.lay_out();
        is_new
    }

    pub fn trust(&mut self, node: NodeId) -> bool {
        let is_new = self.away.remove(&node);
        self.lay_out();
        is_new
    }

    /// A replica of this node's has a lane; `None`: no longer.
    pub fn seat(&mut self, shard: ShardId, lane: Option<usize>) {
        match lane {
            Some(lane) => self.lanes.insert(shard, lane),
            None => self.lanes.remove(&shard),
        };
        self.reroute(shard);
    }

    fn reroute(&mut self, shard: ShardId) {
        let route = self.route_of(shard);
        if let Some(place) = self.places.iter_mut().find(|place| place.shard == shard) {
            place.route = route;
        }
    }

    fn lay_out(&mut self) {
        let records = self.groups.values().filter(|group| group.shard.kind() == GroupKind::Records);
        let mut places: Vec<ShardWay> = records
            .map(|group| ShardWay {
                shard: group.shard,
                bounds: group.bounds.clone(),
                epoch: group.epoch,
                route: self.route_of(group.shard),
            })
            .collect();
        places.sort_by(|one, other| one.bounds.lo.cmp(&other.bounds.lo));
        self.places = places;
    }
}

impl ShardWay {
    /// What a request for it is routed by.
    #[must_use]
    pub fn request_epoch(&self, catalogue: CatalogueVersion) -> RequestEpoch {
        RequestEpoch { generation: self.epoch.generation, range: self.epoch.range, catalogue }
    }
}

/// Whether it holds rows of the position.
fn reaches(bounds: &Bounds, position: Position) -> bool {
    let ends_before = |hi: &Bound| hi.position < position || hi.position == position && hi.is_between_positions();
    bounds.lo.position <= position && !bounds.hi.as_ref().is_some_and(ends_before)
}

#[cfg(test)]
mod tests;
