//! The cluster as every node knows it: its nodes, and which of them hold which group. Leaders are not in it: they change without
//! anybody's leave, and nodes tell each other.
//!
//! A node keeps the newest map that it has heard of on disk, and starts by it: what needs no change of the map needs nobody
//! who could change it.

use std::collections::BTreeSet;

use crate::bound::Bounds;
use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::descriptor::{Descriptor, Placement};
use crate::ids::{GroupKind, NodeId, ReplicaId, ShardId};
use crate::limits;

const FORMAT: u8 = 1;

/// Where the doors of a node are, as others reach them: `host:port`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoorAddresses {
    pub peer: String,
    pub grpc: String,
    pub redis: String,
    pub http: String,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEntry {
    pub node: NodeId,
    /// Unique among the living.
    pub name: String,
    /// Where it stands; replicas of one group go to different zones first.
    pub zone: String,
    pub addresses: DoorAddresses,
}

/// What a node is used for. The numbers are frozen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeMode {
    #[default]
    ReadWrite,
    /// Holds replicas and answers reads, and leads nothing that another one can lead.
    ReadOnly,
    /// Is to be emptied: leads nothing, and gets no new replicas.
    Draining,
}

impl NodeMode {
    pub const ALL: [Self; 3] = [Self::ReadWrite, Self::ReadOnly, Self::Draining];

    /// The name that users see.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadWrite => "rw",
            Self::ReadOnly => "ro",
            Self::Draining => "draining",
        }
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    #[must_use]
    pub fn tag(self) -> u8 {
        match self {
            Self::ReadWrite => 1,
            Self::ReadOnly => 2,
            Self::Draining => 3,
        }
    }

    pub fn from_tag(tag: u8) -> Result<Self, DecodeError> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.tag() == tag)
            .ok_or(DecodeError::Unknown { what: "mode of a node", value: u64::from(tag) })
    }
}

/// Invariant: nodes and groups stand in the order of their numbers, and the bounds of the record groups cover everything once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterMap {
    pub cluster: u128,
    /// Grows with every change.
    pub version: u64,
    pub nodes: Vec<NodeEntry>,
    pub groups: Vec<Descriptor>,
    /// The SQL database of the keyspace `default`. May hold a password.
    pub sql: String,
}

/// Why bytes are no map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMap {
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
    #[error("its nodes or groups are not in order, or are there twice")]
    Disordered,
    #[error("its shards do not cover every key once")]
    Uncovered,
    #[error("group {0} has a replica on a node that is not in it")]
    UnknownNode(ShardId),
}

impl ClusterMap {
    #[must_use]
    pub fn node(&self, node: NodeId) -> Option<&NodeEntry> {
        self.nodes.iter().find(|entry| entry.node == node)
    }

    #[must_use]
    pub fn node_named(&self, name: &str) -> Option<&NodeEntry> {
        self.nodes.iter().find(|entry| entry.name == name)
    }

    #[must_use]
    pub fn group(&self, shard: ShardId) -> Option<&Descriptor> {
        self.groups.iter().find(|group| group.shard == shard)
    }

    pub fn groups_of(&self, kind: GroupKind) -> impl Iterator<Item = &Descriptor> {
        self.groups.iter().filter(move |group| group.shard.kind() == kind)
    }

    /// Where a replica of a group lives.
    #[must_use]
    pub fn node_of(&self, shard: ShardId, replica: ReplicaId) -> Option<NodeId> {
        let group = self.group(shard)?;
        members(group).find(|placement| placement.replica == replica).map(|placement| placement.node)
    }

    /// The replica of a group that lives on a node.
    #[must_use]
    pub fn replica_on(&self, shard: ShardId, node: NodeId) -> Option<ReplicaId> {
        let group = self.group(shard)?;
        members(group).find(|placement| placement.node == node).map(|placement| placement.replica)
    }

    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend(self.cluster.to_be_bytes());
        put_varint(&mut out, self.version);
        put_varint(&mut out, self.nodes.len() as u64);
        for NodeEntry { node, name, zone, addresses } in &self.nodes {
            put_varint(&mut out, node.0);
            let DoorAddresses { peer, grpc, redis, http } = addresses;
            for text in [name, zone, peer, grpc, redis, http] {
                put_bytes(&mut out, text.as_bytes());
            }
        }
        put_varint(&mut out, self.groups.len() as u64);
        for group in &self.groups {
            group.encode(&mut out);
        }
        put_bytes(&mut out, self.sql.as_bytes());
        out
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadMap> {
        let map = Self::decode(bytes)?;
        map.check()?;
        Ok(map)
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let format = reader.u8("map format")?;
        if format != FORMAT {
            return Err(DecodeError::Unknown { what: "map format", value: u64::from(format) });
        }
        let cluster = reader.take(16, "cluster")?.try_into().expect("sixteen were taken");
        let version = reader.varint("map version")?;
        let nodes = (0..reader.count("nodes")?).map(|_| node_entry(&mut reader)).collect::<Result<_, _>>()?;
        let groups = (0..reader.count("groups")?).map(|_| Descriptor::decode(&mut reader));
        let groups = groups.collect::<Result<_, _>>()?;
        let sql = reader.text("sql")?.to_owned();
        reader.finish("map")?;
        Ok(Self { cluster: u128::from_be_bytes(cluster), version, nodes, groups, sql })
    }

    /// Whether it is what it says it is.
    pub fn check(&self) -> Result<(), BadMap> {
        let nodes_grow = self.nodes.windows(2).all(|pair| pair[0].node < pair[1].node);
        let groups_grow = self.groups.windows(2).all(|pair| pair[0].shard < pair[1].shard);
        if !nodes_grow || !groups_grow {
            return Err(BadMap::Disordered);
        }
        let mut bounds: Vec<&Bounds> = self.groups_of(GroupKind::Records).map(|group| &group.bounds).collect();
        bounds.sort_by(|one, other| one.lo.cmp(&other.lo));
        let begins = bounds.first().is_some_and(|first| first.lo == Bounds::default().lo);
        let ends = bounds.last().is_some_and(|last| last.hi.is_none());
        let touch = bounds.windows(2).all(|pair| pair[0].hi.as_ref() == Some(&pair[1].lo));
        if !(begins && ends && touch) {
            return Err(BadMap::Uncovered);
        }
        let nodes: BTreeSet<NodeId> = self.nodes.iter().map(|entry| entry.node).collect();
        for group in &self.groups {
            if members(group).any(|placement| !nodes.contains(&placement.node)) {
                return Err(BadMap::UnknownNode(group.shard));
            }
        }
        Ok(())
    }
}

/// Voters, then learners.
fn members(group: &Descriptor) -> impl Iterator<Item = &Placement> {
    group.voters.iter().chain(&group.learners)
}

fn node_entry(reader: &mut Reader<'_>) -> Result<NodeEntry, DecodeError> {
    let node = NodeId(reader.varint("node")?);
    let mut text = |what| {
        let text = reader.text(what)?;
        let (value, limit) = (text.len() as u64, limits::ADDRESS_BYTES_MAX as u64);
        if value > limit { Err(DecodeError::TooLong { what, value, limit }) } else { Ok(text.to_owned()) }
    };
    let (name, zone) = (text("name of a node")?, text("zone")?);
    let addresses =
        DoorAddresses { peer: text("peer")?, grpc: text("grpc")?, redis: text("redis")?, http: text("http")? };
    Ok(NodeEntry { node, name, zone, addresses })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::Bound;
    use crate::descriptor::ShardState;
    use crate::epoch::Epoch;
    use crate::key::Position;

    fn node(number: u64) -> NodeEntry {
        let addresses = DoorAddresses { peer: format!("h{number}:7500"), ..DoorAddresses::default() };
        NodeEntry { node: NodeId(number), name: format!("n{number}"), zone: String::new(), addresses }
    }

    fn shard(number: u32, bounds: Bounds) -> Descriptor {
        let voters = vec![Placement { node: NodeId(1), replica: ReplicaId(1) }];
        let (epoch, state, learners) = (Epoch::default(), ShardState::default(), Vec::new());
        Descriptor { shard: ShardId(number), epoch, state, bounds, voters, learners }
    }

    fn halves() -> ClusterMap {
        let middle = Bound::at(Position(1 << 63));
        let low = Bounds { lo: Bound::default(), hi: Some(middle.clone()) };
        let high = Bounds { lo: middle, hi: None };
        let groups = vec![shard(1, low), shard(2, high)];
        ClusterMap { cluster: 7, version: 300, nodes: vec![node(1), node(2)], groups, sql: "none".into() }
    }

    #[test]
    fn a_map_has_these_bytes_for_ever() {
        let bytes = halves().to_bytes();

        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let golden = concat!(
            "0100000000000000000000000000000007ac02",
            "0201026e31000768313a3735303000000002026e32000768323a3735303000000002",
            "01010000000008000000000000000000000001088000000000000000000000010101000102",
            "000000000880000000000000000000000001010100046e6f6e65",
        );
        assert_eq!(hex, golden);
        assert_eq!(ClusterMap::from_bytes(&bytes), Ok(halves()));
    }

    #[test]
    fn a_map_cut_anywhere_is_refused() {
        let bytes = halves().to_bytes();

        for len in 0..bytes.len() {
            assert!(ClusterMap::from_bytes(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_map_with_a_gap_or_a_stranger_is_refused() {
        let mut gap = halves();
        gap.groups.remove(0);
        let mut stranger = halves();
        stranger.nodes.remove(0);
        let mut twice = halves();
        twice.nodes[1].node = NodeId(1);

        assert_eq!(gap.check(), Err(BadMap::Uncovered));
        assert_eq!(stranger.check(), Err(BadMap::UnknownNode(ShardId(1))));
        assert_eq!(twice.check(), Err(BadMap::Disordered));
    }

    #[test]
    fn replicas_and_nodes_are_found_by_each_other() {
        let map = halves();

        assert_eq!(map.node_of(ShardId(2), ReplicaId(1)), Some(NodeId(1)));
        assert_eq!(map.replica_on(ShardId(2), NodeId(2)), None);
    }
}
