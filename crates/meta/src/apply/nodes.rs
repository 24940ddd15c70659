//! How the cluster begins, and how nodes come, change and go.

use std::collections::BTreeMap;

use shardine_model::{
    ClusterMap, Descriptor, ErrorCode, Generation, NodeEntry, NodeId, NodeMode as Mode, Refusal, ShardId, Table,
    limits as model_limits,
};

use crate::change::Change;
use crate::command::{Joiner, Replaced};
use crate::limits::{
    GROUP_VOTERS, LABEL_BYTES_MAX, LABELS_MAX, NODES_MAX, NUMBER_MAX, SQL_BYTES_MAX, WEIGHT_DEFAULT, WEIGHT_MAX,
};
use crate::map::Keyspace;
use crate::node::{Node, NodeState};
use crate::reply::{OLD_COPY, Reply};
use crate::state::{Meta, refused};

impl Meta {
    /// The map was checked when it was read.
    pub(super) fn init(&mut self, first: ClusterMap, starts: Vec<u64>) -> Result<Reply, Refusal> {
        if self.map.is_formed() && self.map.cluster == first.cluster {
            return Ok(Reply::Done);
        }
        if self.map.is_formed() {
            return refused(ErrorCode::Exists, "there is a cluster already: `init` runs once, ever");
        }
        if first.cluster == 0 || first.group(ShardId::META).is_none() {
            return refused(ErrorCode::BadRequest, "a first map needs a cluster's id and the group that holds the map");
        }
        if first.sql.len() > SQL_BYTES_MAX {
            return refused(ErrorCode::TooLarge, format!("an SQL address has {SQL_BYTES_MAX} bytes at most"));
        }
        let members = first.groups.iter().flat_map(|group| group.voters.iter().chain(&group.learners));
        let mut numbers = members.map(|one| one.replica.0).chain(first.nodes.iter().map(|node| node.node.0));
        if numbers.any(|number| number > NUMBER_MAX) {
            return refused(ErrorCode::TooLarge, "numbers of nodes and replicas begin small");
        }
        self.map.cluster = first.cluster;
        self.last.node = first.nodes.iter().map(|node| node.node.0).max().unwrap_or(0);
        for group in &first.groups {
            let numbers = group.voters.iter().chain(&group.learners).map(|placement| placement.replica.0);
            self.last.replicas.insert(group.shard, numbers.max().unwrap_or(0));
        }
        let keyspace = Change::Keyspace(Keyspace { sql: first.sql, scheme: Generation::FIRST });
        let starts = starts.into_iter().chain(std::iter::repeat(0));
        let nodes = first.nodes.into_iter().zip(starts).map(|(entry, start)| Change::Node(founder(entry, start)));
        let groups = first.groups.into_iter().map(Change::Group);
        let tables = [Change::Table(Table::kv())];
        self.publish([keyspace].into_iter().chain(nodes).chain(groups).chain(tables).collect());
        Ok(Reply::Done)
    }

    pub(super) fn join(&mut self, joiner: Joiner, replaces: Option<Replaced>) -> Result<Reply, Refusal> {
        joiner.check()?;
        let known = self.map.member_named(&joiner.name).cloned();
        if let Some(known) = known.as_ref().filter(|known| known.start == joiner.start) {
            return Ok(Reply::Node(known.node));
        }
        if self.map.nodes.len() >= NODES_MAX {
            return refused(ErrorCode::TooLarge, format!("{NODES_MAX} nodes are the limit"));
        }
        let mut changes = Vec::new();
        if let Some(known) = known {
            let is_meant = |old: Replaced| old.node == known.node && old.incarnation == known.incarnation;
            if !replaces.is_some_and(is_meant) {
                let message = format!("node {} is called {:?} already: choose another --name", known.node, known.name);
                return refused(ErrorCode::Exists, message);
            }
            changes.push(Change::Node(Node { state: NodeState::Removed, ..known }));
        }
        let node = self.next_node();
        changes.push(Change::Node(joiner.into_node(node)));
        self.publish(changes);
        Ok(Reply::Node(node))
    }

    /// A start that is older than a known one, or another one of the same count, comes from a copy of the node's directory.
    pub(super) fn announce(&mut self, node: NodeId, joiner: Joiner) -> Result<Reply, Refusal> {
        joiner.check()?;
        let known = self.member(node)?;
        let is_known = (known.incarnation, known.start) == (joiner.incarnation, joiner.start);
        if joiner.incarnation <= known.incarnation && !is_known {
            let message = format!(
                "{OLD_COPY}: node {node} has been seen at start {}, this is start {}",
                known.incarnation, joiner.incarnation
            );
            return refused(ErrorCode::Forbidden, message);
        }
        if joiner.name != known.name {
            let message = format!("node {node} is called {:?}: a node keeps its --name", known.name);
            return refused(ErrorCode::BadRequest, message);
        }
        let held = self.map.groups_on(node);
        if joiner.is_gateway && held > 0 {
            let message =
                format!("node {node} holds replicas of {held} groups and cannot be a gateway: empty it first");
            return refused(ErrorCode::Forbidden, message);
        }
        let next = Node { weight: known.weight, mode: known.mode, ..joiner.into_node(node) };
        if next != *known {
            self.publish(vec![Change::Node(next)]);
        }
        Ok(Reply::Node(node))
    }

    pub(super) fn set_mode(&mut self, node: NodeId, mode: Mode) -> Result<Reply, Refusal> {
        let known = self.member(node)?;
        let next = Node { mode, ..known.clone() };
        if next == *known {
            return Ok(Reply::Done);
        }
        if mode == Mode::Draining {
            self.check_drain(known)?;
        }
        Ok(self.use_as(next))
    }

    /// A node can be emptied if the others can hold as many replicas of every group as it has now, of which it may have one:
    /// a drain never costs a copy.
    fn check_drain(&self, node: &Node) -> Result<(), Refusal> {
        let is_on = |group: &&Descriptor| group.members().any(|member| member.node == node.node);
        let held = self.map.groups.values().filter(is_on);
        let wanted = held.map(|group| group.members().count().min(GROUP_VOTERS)).max().unwrap_or(0);
        let left = self.map.members().filter(|other| other.node != node.node && other.keeps_data()).count();
        if left >= wanted {
            return Ok(());
        }
        let (name, missing) = (&node.name, wanted - left);
        let message = format!(
            "node {name} cannot be emptied: its shards have {wanted} replicas each, and {left} other nodes are there to hold them; add {missing} first: `shardine start --name NAME --join ADDR`"
        );
        refused(ErrorCode::Forbidden, message)
    }

    pub(super) fn set_weight(&mut self, node: NodeId, weight: u16) -> Result<Reply, Refusal> {
        if weight > WEIGHT_MAX {
            return refused(ErrorCode::BadRequest, format!("a weight is 0 to {WEIGHT_MAX}"));
        }
        let known = self.member(node)?;
        let next = Node { weight, ..known.clone() };
        Ok(if next == *known { Reply::Done } else { self.use_as(next) })
    }

    /// A node has another mode or weight. If it is not to be emptied any more, moves away from it are taken back: a planner could
    /// not tell them from those that somebody asked for.
    fn use_as(&mut self, next: Node) -> Reply {
        let is_kept = !next.is_draining() && self.map.nodes.get(&next.node).is_some_and(Node::is_draining);
        let mut changes: Vec<Change> = if is_kept { self.take_back(next.node).collect() } else { Vec::new() };
        changes.push(Change::Node(next));
        self.publish(changes);
        Reply::Done
    }

    /// Its replicas are replaced later, by operations; until then they stay members of their groups.
    pub(super) fn remove_node(&mut self, node: NodeId) -> Result<Reply, Refusal> {
        if self.map.nodes.get(&node).is_some_and(|node| !node.is_member()) {
            return Ok(Reply::Done);
        }
        let next = Node { state: NodeState::Removed, ..self.member(node)?.clone() };
        if !self.map.members().any(|other| other.node != node && other.holds_data()) {
            return refused(ErrorCode::Forbidden, format!("node {node} is the last one that holds data"));
        }
        if let Some(shard) = self.held_alone(node) {
            let group = shard.label();
            let message = format!("{group} has no quorum without node {node}: move its replica away first");
            return refused(ErrorCode::Forbidden, message);
        }
        self.publish(vec![Change::Node(next)]);
        Ok(Reply::Done)
    }

    /// A group whose other voters, on nodes that are not removed, are no majority: nobody could replace this node's replica.
    fn held_alone(&self, node: NodeId) -> Option<ShardId> {
        let stays = |other: NodeId| other != node && self.map.nodes.get(&other).is_some_and(Node::is_member);
        let is_held = |group: &&Descriptor| {
            let votes = group.voters.iter().any(|voter| voter.node == node);
            votes && group.voters.iter().filter(|voter| stays(voter.node)).count() <= group.voters.len() / 2
        };
        self.map.groups.values().find(is_held).map(|group| group.shard)
    }

    pub(super) fn member(&self, node: NodeId) -> Result<&Node, Refusal> {
        match self.map.nodes.get(&node) {
            Some(found) if found.is_member() => Ok(found),
            Some(_) => {
                let message = format!("node {node} has been removed: start it with an empty directory to join again");
                refused(ErrorCode::Forbidden, message)
            }
            None => refused(ErrorCode::NotFound, format!("there is no node {node}")),
        }
    }
}

impl Joiner {
    fn check(&self) -> Result<(), Refusal> {
        let is_long = |text: &str, limit: usize| text.len() > limit || text.chars().any(char::is_control);
        if self.name.is_empty() || is_long(&self.name, model_limits::NAME_BYTES_MAX) {
            let limit = model_limits::NAME_BYTES_MAX;
            return refused(ErrorCode::BadRequest, format!("a node's name has 1 to {limit} bytes, all printable"));
        }
        if self.start == 0 {
            return refused(ErrorCode::BadRequest, "a start has a number that was drawn for it");
        }
        if is_long(&self.zone, LABEL_BYTES_MAX) {
            return refused(
                ErrorCode::BadRequest,
                format!("a zone has at most {LABEL_BYTES_MAX} bytes, all printable"),
            );
        }
        let is_bad = |(name, value): (&String, &String)| {
            name.is_empty() || is_long(name, LABEL_BYTES_MAX) || is_long(value, LABEL_BYTES_MAX)
        };
        if self.labels.len() > LABELS_MAX || self.labels.iter().any(is_bad) {
            let message = format!("a node has at most {LABELS_MAX} labels of {LABEL_BYTES_MAX} printable bytes");
            return refused(ErrorCode::BadRequest, message);
        }
        Ok(())
    }

    fn into_node(self, node: NodeId) -> Node {
        let Self { name, addresses, zone, labels, is_gateway, incarnation, start } = self;
        let (weight, mode, state) = (WEIGHT_DEFAULT, Mode::default(), NodeState::Member);
        Node { node, name, addresses, zone, labels, weight, mode, state, is_gateway, incarnation, start }
    }
}

/// One that was there at the beginning, at this start of it. It tells the rest when it announces itself.
fn founder(entry: NodeEntry, start: u64) -> Node {
    let NodeEntry { node, name, zone, addresses } = entry;
    let joiner = Joiner { name, addresses, zone, labels: BTreeMap::new(), is_gateway: false, incarnation: 0, start };
    joiner.into_node(node)
}
