//! The map as every node has it, and keeps it on disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use shardine_model::codec::DecodeError;
use shardine_model::log::Membership;
use shardine_model::{BadMap, Catalogue, ClusterMap, Descriptor, Generation, NodeId, ReplicaId, ShardId, Table};
use thiserror::Error;

use crate::apply::libraries::Libraries;
use crate::change::{Change, Delta};
use crate::event::Event;
use crate::limits::EVENTS_MAX;
use crate::node::Node;
use crate::operation::{Operation, OperationId};

/// A keyspace: what belongs to all its shards together. There is one, `default`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyspace {
    /// The SQL database behind it. May hold a password.
    pub sql: String,
    /// Which key lives where.
    pub scheme: Generation,
}

/// Where a path of coordination is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub group: ShardId,
    /// The version of the map that gave it. A group makes no node for a place that was taken back, and tells by this which were.
    pub placed: u64,
}

/// The cluster as of one version. Invariants: the bounds of record groups cover every key once; nobody is in a group who is not
/// among the nodes; a group has one operation at most.
#[derive(Clone, Debug, Default)]
pub struct Map {
    /// 0 before there is a cluster.
    pub cluster: u128,
    pub version: u64,
    pub keyspace: Keyspace,
    pub nodes: BTreeMap<NodeId, Node>,
    pub groups: BTreeMap<ShardId, Descriptor>,
    pub catalogue: Catalogue,
    /// The coordination group of each path: of every node that there is, and of those that are about to be made.
    pub paths: BTreeMap<String, Place>,
    pub settings: BTreeMap<String, String>,
    /// Libraries of functions.
    pub libraries: Libraries,
    pub operations: BTreeMap<OperationId, Operation>,
    /// What was done last, newest last.
    pub events: VecDeque<Event>,
    /// The last number given to a replica of each group, as far as this map has come.
    pub(crate) given: BTreeMap<ShardId, ReplicaId>,
}

/// Why a change of the map is not taken. Whoever asked gets the map whole.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadDelta {
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
    #[error("it is of another cluster")]
    OtherCluster,
    #[error("it leads from version {from} on, and this is version {version}")]
    NotNext { from: u64, version: u64 },
    #[error("it leads to version {to}, and this is version {version} already")]
    Older { to: u64, version: u64 },
    #[error("what comes of it is no map: {0}")]
    Contradiction(BadMap),
}

impl Map {
    #[must_use]
    pub fn is_formed(&self) -> bool {
        self.cluster != 0
    }

    pub fn members(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(|node| node.is_member())
    }

    #[must_use]
    pub fn member_named(&self, name: &str) -> Option<&Node> {
        self.members().find(|node| node.name == name)
    }

    /// Of how many groups a node has a replica, or is about to get one.
    #[must_use]
    pub fn groups_on(&self, node: NodeId) -> usize {
        let holds = |group: &&Descriptor| self.with_planned(group).members().any(|member| member.node == node);
        self.groups.values().filter(holds).count()
    }

    /// The operation on a group.
    #[must_use]
    pub fn operation_on(&self, shard: ShardId) -> Option<(OperationId, &Operation)> {
        self.operations.iter().find(|(_, operation)| operation.shard() == shard).map(|(id, operation)| (*id, operation))
    }

    /// Where a replica is, or is to be.
    #[must_use]
    pub fn node_of(&self, shard: ShardId, replica: ReplicaId) -> Option<NodeId> {
        let group = self.groups.get(&shard)?;
        let members = group.voters.iter().chain(&group.learners);
        let placed = members.filter(|placement| placement.replica == replica).map(|placement| placement.node).next();
        let planned = || self.operation_on(shard)?.1.replace()?.node_of(replica);
        placed.or_else(planned)
    }

    /// Members of a group, as its log has them, that the map knows nothing of and no operation is about to add. A leader that
    /// had an old map has added them for an operation that was given up; whoever leads now removes them. One whose number was given
    /// after this map is none: here it is this map that is old.
    #[must_use]
    pub fn strays(&self, shard: ShardId, membership: &Membership) -> Vec<ReplicaId> {
        let last = self.last_given(shard);
        let is_stray = |replica: &ReplicaId| *replica <= last && self.node_of(shard, *replica).is_none();
        membership.learners.iter().copied().filter(is_stray).collect()
    }

    /// The last number that was given to a replica of a group, as of this map.
    fn last_given(&self, shard: ShardId) -> ReplicaId {
        self.given.get(&shard).copied().unwrap_or_default()
    }

    /// The highest number of those that are in the group or about to be.
    fn last_shown(&self, shard: ShardId) -> Option<ReplicaId> {
        let present = self.groups.get(&shard).into_iter().flat_map(Descriptor::members);
        let planned = self.operation_on(shard).and_then(|(_, operation)| Some(&operation.replace()?.new[..]));
        present.chain(planned.unwrap_or_default()).map(|placement| placement.replica).max()
    }

    fn note_given(&mut self, shard: ShardId, numbers: impl Iterator<Item = ReplicaId>) {
        let last = numbers.max().unwrap_or_default().max(self.last_given(shard));
        self.given.insert(shard, last);
    }

    /// The part that routing and links need. Replicas that an operation is about to add are among the learners: their nodes have
    /// to make room, and the leader has to find them, before the group knows them. Of removed nodes only those that still are in
    /// a group.
    #[must_use]
    pub fn cluster_map(&self) -> ClusterMap {
        let groups: Vec<Descriptor> = self.groups.values().map(|group| self.with_planned(group)).collect();
        let placed = groups.iter().flat_map(|group| group.voters.iter().chain(&group.learners));
        let placed: BTreeSet<NodeId> = placed.map(|placement| placement.node).collect();
        let nodes = self.nodes.values().filter(|node| node.is_member() || placed.contains(&node.node));
        ClusterMap {
            cluster: self.cluster,
            version: self.version,
            nodes: nodes.map(Node::entry).collect(),
            sql: self.keyspace.sql.clone(),
            groups,
        }
    }

    fn with_planned(&self, group: &Descriptor) -> Descriptor {
        let mut group = group.clone();
        if let Some(replace) = self.operation_on(group.shard).and_then(|(_, operation)| operation.replace()) {
            let is_there = |replica| group.voters.iter().chain(&group.learners).any(|one| one.replica == replica);
            let planned: Vec<_> = replace.new.iter().filter(|new| !is_there(new.replica)).copied().collect();
            group.learners.extend(planned);
        }
        group
    }

    /// Whether it is what it says it is.
    pub fn check(&self) -> Result<(), BadMap> {
        if self.is_formed() { self.cluster_map().check() } else { Ok(()) }
    }

    /// Takes a delta that leads on from this version, or a whole map that is newer. What does not fit leaves the map as it was.
    pub fn take(&mut self, delta: &Delta) -> Result<(), BadDelta> {
        if self.is_formed() && delta.cluster != self.cluster {
            return Err(BadDelta::OtherCluster);
        }
        if self.is_formed() && delta.to <= self.version {
            return Err(BadDelta::Older { to: delta.to, version: self.version });
        }
        let mut next = match delta.from {
            0 => Self::default(),
            from if from == self.version => self.clone(),
            from => return Err(BadDelta::NotNext { from, version: self.version }),
        };
        delta.changes.iter().for_each(|change| next.put(change));
        (next.cluster, next.version) = (delta.cluster, delta.to);
        next.check().map_err(BadDelta::Contradiction)?;
        *self = next;
        Ok(())
    }

    /// Everything in one delta that leads from nothing to this version.
    #[must_use]
    pub fn whole(&self) -> Delta {
        let keyspace = std::iter::once(Change::Keyspace(self.keyspace.clone()));
        let nodes = self.nodes.values().cloned().map(Change::Node);
        let groups = self.groups.values().cloned().map(Change::Group);
        let tables = self.catalogue.definitions().map(|table| Change::Table(Table::clone(table)));
        let versions = Change::Catalogue { version: self.catalogue.version(), named_in: self.catalogue.named_in() };
        let paths = self.paths.iter().map(|(path, place)| Change::Path(path.clone(), Some(*place)));
        let settings = self.settings.iter().map(|(name, value)| Change::Setting(name.clone(), Some(value.clone())));
        let libraries = self.libraries.iter().map(|(name, text)| Change::Library(name.clone(), Some(Arc::clone(text))));
        let operations = self.operations.iter().map(|(id, operation)| Change::Operation(*id, operation.clone()));
        let tables = tables.chain([versions]);
        let is_above =
            |(shard, last): &(&ShardId, &ReplicaId)| self.last_shown(**shard).is_none_or(|shown| **last > shown);
        let given = self.given.iter().filter(is_above).map(|(shard, last)| Change::Given(*shard, *last));
        let events = self.events.iter().cloned().map(Change::Event);
        let operations = operations.chain(given).chain(events);
        let changes = keyspace
            .chain(nodes)
            .chain(groups)
            .chain(tables)
            .chain(paths)
            .chain(settings)
            .chain(libraries)
            .chain(operations);
        Delta { cluster: self.cluster, from: 0, to: self.version, changes: changes.collect() }
    }

    /// Makes one change.
    pub(crate) fn put(&mut self, change: &Change) {
        match change {
            Change::Node(node) => drop(self.nodes.insert(node.node, node.clone())),
            Change::Group(group) => {
                self.note_given(group.shard, group.members().map(|member| member.replica));
                self.groups.insert(group.shard, group.clone());
            }
            Change::Table(table) => drop(self.catalogue.put(table.clone())),
            Change::Catalogue { version, named_in } => {
                self.catalogue = std::mem::take(&mut self.catalogue).versioned(*version, *named_in);
            }
            Change::Path(path, Some(place)) => drop(self.paths.insert(path.clone(), *place)),
            Change::Path(path, None) => drop(self.paths.remove(path)),
            Change::Setting(name, Some(value)) => drop(self.settings.insert(name.clone(), value.clone())),
            Change::Setting(name, None) => drop(self.settings.remove(name)),
            Change::Library(name, Some(text)) => drop(self.libraries.insert(name.clone(), Arc::clone(text))),
            Change::Library(name, None) => drop(self.libraries.remove(name)),
            Change::Keyspace(keyspace) => self.keyspace = keyspace.clone(),
            Change::Operation(id, operation) => {
                let (shard, given) = operation.given();
                self.note_given(shard, given.into_iter());
                self.operations.insert(*id, operation.clone());
            }
            Change::OperationOver(id) => drop(self.operations.remove(id)),
            Change::Event(event) => {
                self.events.push_back(event.clone());
                if self.events.len() > EVENTS_MAX {
                    self.events.pop_front();
                }
            }
            Change::Given(shard, last) => self.note_given(*shard, std::iter::once(*last)),
        }
    }
}
