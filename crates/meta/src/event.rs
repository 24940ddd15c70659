//! What the cluster did, and why: a short history that every node has with the map. It is written when a change is applied, so it is the
//! same everywhere; the time is that of whoever led then.

use shardine_model::codec::{DecodeError, Reader, put_varint};
use shardine_model::{Descriptor, NodeId, ShardId, Timestamp};

use crate::change::Change;
use crate::codec::{put_text, text};
use crate::limits::EVENT_BYTES_MAX;
use crate::map::Map;
use crate::node::Node;
use crate::operation::{Operation, Replace, Stage};

/// One line of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Each has the next number.
    pub number: u64,
    pub at: Timestamp,
    pub text: String,
}

/// When a command was given, and why: what is told of what comes of it.
#[derive(Clone, Debug)]
pub(crate) struct Occasion {
    pub at: Timestamp,
    pub why: String,
}

impl Event {
    pub(crate) fn new(number: u64, at: Timestamp, mut text: String) -> Self {
        if text.len() > EVENT_BYTES_MAX {
            text.truncate(text.floor_char_boundary(EVENT_BYTES_MAX));
        }
        Self { number, at, text }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.number);
        put_varint(out, self.at.0);
        put_text(out, &self.text);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (number, at) = (reader.varint("number of an event")?, reader.varint("time of an event")?);
        Ok(Self { number, at: Timestamp(at), text: text(reader, "event")? })
    }
}

/// What is told of a change that this map is about to take; most are not worth a word.
pub(crate) fn told(map: &Map, change: &Change, why: &str) -> Option<String> {
    let because = if why.is_empty() { String::new() } else { format!(": {why}") };
    match change {
        Change::Node(node) => told_of_node(map.nodes.get(&node.node), node),
        Change::Operation(id, operation) => told_of_beginning(map, map.operations.get(id), operation, &because),
        Change::OperationOver(id) => told_of_end(map, map.operations.get(id)?),
        Change::Setting(name, Some(value)) => Some(format!("setting {name} is {value}")),
        Change::Setting(name, None) => Some(format!("setting {name} is as it was at first")),
        Change::Group(_)
        | Change::Table(_)
        | Change::Catalogue { .. }
        | Change::Path(..)
        | Change::Library(..)
        | Change::Keyspace(_)
        | Change::Given(..)
        | Change::Event(_) => None,
    }
}

fn told_of_node(before: Option<&Node>, node: &Node) -> Option<String> {
    let name = &node.name;
    let Some(before) = before else { return Some(format!("node {name} has joined as number {}", node.node)) };
    if before.is_member() && !node.is_member() {
        return Some(format!("node {name} is out for good"));
    }
    if before.mode != node.mode {
        return Some(format!("node {name} is {}, it was {}", node.mode.name(), before.mode.name()));
    }
    if before.weight != node.weight {
        return Some(format!("node {name} has weight {}, it had {}", node.weight, before.weight));
    }
    (before.incarnation != node.incarnation).then(|| format!("node {name} has started again"))
}

fn told_of_beginning(map: &Map, before: Option<&Operation>, operation: &Operation, because: &str) -> Option<String> {
    let label = operation.shard().label();
    match (before, operation) {
        (None, Operation::Split(_, split)) => {
            Some(format!("{label} is being split, shard {} is parted off", split.child))
        }
        (None, Operation::Replace(replace)) => {
            let nodes = |list: &[shardine_model::Placement]| list.iter().map(|one| one.node).collect::<Vec<_>>();
            let what = map.describe_change(replace.shard, &nodes(&replace.voters), &nodes(&replace.learners));
            Some(format!("{label} begins to move: {what}{because}"))
        }
        (
            Some(Operation::Replace(Replace { stage, .. })),
            Operation::Replace(Replace { stage: Stage::Undoing, .. }),
        ) if *stage != Stage::Undoing => Some(format!("{label} stays where it is, the move is given up{because}")),
        (Some(_), Operation::Replace(_) | Operation::Split(..)) => None,
    }
}

fn told_of_end(map: &Map, operation: &Operation) -> Option<String> {
    let label = operation.shard().label();
    match operation {
        Operation::Replace(Replace { stage: Stage::Undoing, .. }) => None,
        Operation::Replace(replace) => {
            let voters = replace.voters.iter().map(|voter| voter.node);
            Some(format!("{label} has moved: it is on {}", map.names(voters)))
        }
        Operation::Split(_, split) if map.groups.contains_key(&split.child) => {
            Some(format!("{label} is split, shard {} has the upper half", split.child))
        }
        Operation::Split(..) => Some(format!("{label} is not split")),
    }
}

impl Map {
    /// What a group's members would become, in a few words.
    #[must_use]
    pub fn describe_change(&self, shard: ShardId, voters: &[NodeId], learners: &[NodeId]) -> String {
        let group = self.groups.get(&shard);
        let present: Vec<NodeId> = group.into_iter().flat_map(Descriptor::members).map(|member| member.node).collect();
        let target = || voters.iter().chain(learners).copied();
        let coming: Vec<NodeId> = target().filter(|node| !present.contains(node)).collect();
        let leaving: Vec<NodeId> =
            present.iter().copied().filter(|node| target().all(|other| other != *node)).collect();
        let (coming, leaving) = (self.names(coming.into_iter()), self.names(leaving.into_iter()));
        match (coming.is_empty(), leaving.is_empty()) {
            (false, false) => format!("{coming} in place of {leaving}"),
            (false, true) => format!("{coming} too"),
            (true, false) => format!("no longer {leaving}"),
            (true, true) => format!("{} vote", self.names(voters.iter().copied())),
        }
    }

    fn names(&self, nodes: impl Iterator<Item = NodeId>) -> String {
        let name = |node: NodeId| self.nodes.get(&node).map_or_else(|| node.to_string(), |node| node.name.clone());
        nodes.map(name).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests;
