//! The cluster on one screen, put together from what its nodes say of themselves: of each group its leader is believed, and of a
//! node that says nothing it is told that it says nothing.

use std::collections::BTreeMap;

use shardine_model::{ClusterMap, Descriptor, DoorAddresses, GroupKind, NodeId, NodeMode, ShardId};

use crate::coord::CoordStatus;
use crate::response::{EngineStatus, ShardStatus, SqlError, WritebackStatus};

/// Replicas that a shard has where there are nodes for them: one may be lost.
const REPLICAS_WANTED: usize = 3;

/// Groups that a sentence names; of more it says how many.
const NAMED_MAX: usize = 8;

/// A node of the cluster, as the one that was asked sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStatus {
    pub node: NodeId,
    pub name: String,
    pub zone: String,
    pub addresses: DoorAddresses,
    pub state: NodeState,
    /// What it is used for, and its share of reads; whoever has the whole map fills them in.
    pub mode: NodeMode,
    pub weight: u16,
    /// Whether it was taken out, and is listed for as long as groups have replicas there.
    pub is_removed: bool,
    /// Whether it holds no data and only passes requests on.
    pub is_gateway: bool,
    /// Its newest start that the map has heard of.
    pub incarnation: u64,
    /// Groups of which it holds a replica, and those of them that it leads, coordination among them.
    pub replicas: u64,
    pub leads: u64,
    /// The rest is what it says of itself, and empty if it says nothing.
    pub version: String,
    pub protocol: u64,
    pub uptime_ms: u64,
    pub connections: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeState {
    /// The one that was asked.
    Here,
    Up,
    /// Nothing has come from it for so long.
    Silent {
        for_ms: u64,
    },
    /// It is not silent, but has not answered this question.
    #[default]
    Mute,
}

impl NodeState {
    #[must_use]
    pub fn lives(self) -> bool {
        match self {
            Self::Here | Self::Up => true,
            Self::Silent { .. } | Self::Mute => false,
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Up => "up",
            Self::Silent { .. } => "silent",
            Self::Mute => "mute",
        }
    }
}

/// A replica of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaStatus {
    pub node: NodeId,
    pub name: String,
    /// Whether its node lives and it has not stopped.
    pub lives: bool,
}

/// How far a node is with being emptied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainReport {
    pub node: NodeId,
    pub name: String,
    pub mode: NodeMode,
    pub weight: u16,
    /// Groups that still have a replica on it.
    pub left: Vec<DrainLeft>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainLeft {
    pub shard: ShardId,
    /// Whether the node leads it.
    pub leads: bool,
    /// Whether somebody has to do something first.
    pub stuck: bool,
    /// What it waits for.
    pub waits_for: String,
}

/// What has come of asking a node.
#[derive(Clone, Debug)]
pub enum Heard {
    Status(Box<EngineStatus>),
    Silent { for_ms: u64 },
    Nothing,
}

impl EngineStatus {
    /// What is wrong with nodes and replicas, a sentence each: every shard should have as many living replicas as the cluster has
    /// nodes for, up to three.
    #[must_use]
    pub fn absences(&self) -> Vec<String> {
        let mut absences: Vec<String> = self.nodes.iter().filter_map(NodeStatus::trouble).collect();
        let holding = self.nodes.iter().filter(|node| !node.is_gateway);
        let wanted = holding.count().min(REPLICAS_WANTED);
        let living = |shard: &ShardStatus| shard.replicas.iter().filter(|replica| replica.lives).count();
        let thin = self.shards.iter().filter(|shard| living(shard) < wanted);
        let thin: Vec<u32> = thin.map(|shard| shard.shard.0).collect();
        let fewest = self.shards.iter().map(living).min().unwrap_or(0);
        absences.extend(sentence("shard", &thin, &format!("down to {fewest} of {wanted} replicas")));
        absences
    }
}

impl NodeStatus {
    fn trouble(&self) -> Option<String> {
        match self.state {
            NodeState::Here | NodeState::Up => None,
            NodeState::Silent { for_ms } => {
                Some(format!("node {} has been silent for {} s", self.name, for_ms / 1_000))
            }
            NodeState::Mute => Some(format!("node {} does not answer", self.name)),
        }
    }
}

fn sentence(what: &str, numbers: &[u32], how: &str) -> Option<String> {
    let names: Vec<String> = numbers.iter().take(NAMED_MAX).map(u32::to_string).collect();
    let names = names.join(", ");
    match numbers.len() {
        0 => None,
        1 => Some(format!("{what} {names} is {how}")),
        2..=NAMED_MAX => Some(format!("{what}s {names} are {how}")),
        count => Some(format!("{what}s {names} and {} more are {how}", count - NAMED_MAX)),
    }
}

/// Puts together what the node that was asked says, and what the others have answered it.
#[must_use]
pub fn join(map: &ClusterMap, mut own: EngineStatus, others: Vec<(NodeId, Heard)>) -> EngineStatus {
    let here = own.node;
    let mut states = BTreeMap::from([(here, NodeState::Here)]);
    let mut told: BTreeMap<NodeId, EngineStatus> = BTreeMap::new();
    for (node, heard) in others {
        let state = match heard {
            Heard::Status(status) => {
                told.insert(node, *status);
                NodeState::Up
            }
            Heard::Silent { for_ms } => NodeState::Silent { for_ms },
            Heard::Nothing => NodeState::Mute,
        };
        states.insert(node, state);
    }
    told.insert(here, own.clone());
    let state_of = |node: NodeId| states.get(&node).copied().unwrap_or_default();
    let shards = map.groups_of(GroupKind::Records).filter_map(|group| join_shard(map, group, &told, &state_of));
    own.shards = shards.collect();
    own.shards.sort_by_key(|shard| shard.lo);
    let groups = map.groups_of(GroupKind::Coordination).filter_map(|group| join_group(group.shard, &told, &state_of));
    own.coordination = groups.collect();
    let dirty = own.shards.iter().map(|shard| shard.dirty).sum();
    own.writeback = join_writeback(told.values().filter_map(|status| status.writeback.clone()), dirty);
    own.differences = told.iter().flat_map(|(node, status)| differences(map, *node, status)).collect();
    own.nodes = nodes(map, &own, &told, &state_of);
    own
}

fn differences(map: &ClusterMap, node: NodeId, status: &EngineStatus) -> Vec<String> {
    let name = map.node(node).map_or("", |entry| &entry.name);
    status.differences.iter().map(|sentence| format!("node {name}: {sentence}")).collect()
}

fn nodes(
    map: &ClusterMap,
    joined: &EngineStatus,
    told: &BTreeMap<NodeId, EngineStatus>,
    state_of: &impl Fn(NodeId) -> NodeState,
) -> Vec<NodeStatus> {
    let leaders = joined.shards.iter().map(|shard| shard.leader);
    let leaders: Vec<_> = leaders.chain(joined.coordination.iter().map(|group| group.leader)).collect();
    let status = |entry: &shardine_model::NodeEntry| {
        let said = told.get(&entry.node);
        let number = |of: fn(&EngineStatus) -> u64| said.map_or(0, of);
        NodeStatus {
            node: entry.node,
            name: entry.name.clone(),
            zone: entry.zone.clone(),
            addresses: entry.addresses.clone(),
            state: state_of(entry.node),
            mode: NodeMode::default(),
            weight: 0,
            is_removed: false,
            is_gateway: false,
            incarnation: 0,
            replicas: map.groups.iter().filter(|group| map.replica_on(group.shard, entry.node).is_some()).count()
                as u64,
            leads: leaders.iter().filter(|leader| **leader == Some(entry.node)).count() as u64,
            version: said.map(|status| status.version.clone()).unwrap_or_default(),
            protocol: number(|status| status.protocol),
            uptime_ms: number(|status| status.uptime_ms),
            connections: number(|status| status.connections),
        }
    };
    map.nodes.iter().map(status).collect()
}

fn join_shard(
    map: &ClusterMap,
    group: &Descriptor,
    told: &BTreeMap<NodeId, EngineStatus>,
    state_of: &impl Fn(NodeId) -> NodeState,
) -> Option<ShardStatus> {
    let of_node = |status: &EngineStatus| status.shards.iter().find(|shard| shard.shard == group.shard).cloned();
    let said: BTreeMap<NodeId, ShardStatus> =
        told.iter().filter_map(|(node, status)| Some((*node, of_node(status)?))).collect();
    let rank =
        |(node, shard): &(&NodeId, &ShardStatus)| (shard.leader == Some(**node), shard.stopped.is_none(), shard.term);
    let (node, best) = said.iter().max_by_key(rank)?;
    let mut shard = best.clone();
    shard.leader = believed(*node, shard.leader, state_of);
    shard.place(map);
    for replica in &mut shard.replicas {
        let is_stopped = said.get(&replica.node).is_some_and(|shard| shard.stopped.is_some());
        replica.lives = state_of(replica.node).lives() && !is_stopped;
    }
    Some(shard)
}

fn join_group(
    group: ShardId,
    told: &BTreeMap<NodeId, EngineStatus>,
    state_of: &impl Fn(NodeId) -> NodeState,
) -> Option<CoordStatus> {
    let of_node = |status: &EngineStatus| status.coordination.iter().find(|said| said.group == group.0).cloned();
    let said = told.iter().filter_map(|(node, status)| Some((*node, of_node(status)?)));
    let rank = |(node, said): &(NodeId, CoordStatus)| (said.leader == Some(*node), said.stopped.is_none(), said.term);
    let (node, mut best) = said.max_by_key(rank)?;
    best.leader = believed(node, best.leader, state_of);
    Some(best)
}

/// Whoever says that it leads does. Of one that others believe in it is believed too, unless it is known to be silent.
fn believed(said_by: NodeId, leader: Option<NodeId>, state_of: &impl Fn(NodeId) -> NodeState) -> Option<NodeId> {
    leader.filter(|leader| *leader == said_by || !matches!(state_of(*leader), NodeState::Silent { .. }))
}

/// One database seen by several nodes: it is connected if it is so for all that were heard.
pub fn join_writeback(told: impl Iterator<Item = WritebackStatus>, dirty: u64) -> Option<WritebackStatus> {
    let mut joined = told.reduce(|mut one, other| {
        one.connected &= other.connected;
        one.last_error = newest(one.last_error, other.last_error);
        one.tables_ahead.extend(other.tables_ahead);
        one
    })?;
    joined.dirty = dirty;
    joined.tables_ahead.sort();
    joined.tables_ahead.dedup();
    Some(joined)
}

/// Of what several say, what was said last; trouble that lasts comes before what is past.
#[must_use]
pub fn newest(one: Option<SqlError>, other: Option<SqlError>) -> Option<SqlError> {
    one.into_iter().chain(other).min_by_key(|error| (error.is_past, error.ago_ms))
}

impl ShardStatus {
    /// Fills in what the map knows: where its replicas are, and the name of its leader.
    pub fn place(&mut self, map: &ClusterMap) {
        let name = |node| map.node(node).map(|entry| entry.name.clone()).unwrap_or_default();
        self.leader_name = self.leader.map(name).unwrap_or_default();
        let Some(group) = map.group(self.shard) else { return };
        self.epoch = group.epoch;
        let members = group.voters.iter().chain(&group.learners);
        let replica = |node| ReplicaStatus { node, name: name(node), lives: true };
        self.replicas = members.map(|placement| replica(placement.node)).collect();
    }
}

#[cfg(test)]
mod tests;
