//! What is still on a node that is to be emptied, and what each of it waits for: for whoever watches a drain, or plans one.

use shardine_model::{Descriptor, NodeId, ShardId};

use super::{Planner, Sight};
use crate::limits::OPERATIONS_MAX;
use crate::map::Map;
use crate::operation::{Operation, Replace, Stage};

/// A group with a replica on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub shard: ShardId,
    /// Whether nothing will come of waiting: somebody has to do something first.
    pub is_stuck: bool,
    /// What it waits for, in words.
    pub waits_for: String,
}

/// Every group that has a replica on a node, or is about to get one there. Empty once the node is.
#[must_use]
pub fn left_on(map: &Map, sight: &Sight, node: NodeId) -> Vec<Left> {
    let planner = Planner::new(map, sight);
    let is_to_come = |group: &Descriptor| match map.operation_on(group.shard) {
        Some((_, Operation::Replace(replace))) => replace.new.iter().any(|placement| placement.node == node),
        Some((_, Operation::Split(..))) | None => false,
    };
    let is_there = |group: &&Descriptor| group.members().any(|member| member.node == node) || is_to_come(group);
    map.groups.values().filter(is_there).map(|group| planner.left(group, node)).collect()
}

impl Planner<'_> {
    fn left(&self, group: &Descriptor, node: NodeId) -> Left {
        let (is_stuck, waits_for) = match self.map.operation_on(group.shard) {
            _ if self.spare_voters(group) < 0 => (true, self.no_quorum(group)),
            Some((_, Operation::Replace(replace))) => self.under_way(replace, node),
            Some((_, Operation::Split(..))) => (false, "it is being split".to_owned()),
            None => self.at_rest(group, node),
        };
        Left { shard: group.shard, is_stuck, waits_for }
    }

    fn no_quorum(&self, group: &Descriptor) -> String {
        let silent = group.voters.iter().map(|voter| voter.node).filter(|node| !self.is_living(*node));
        format!("it has no quorum: {} must come back first", self.names(silent))
    }

    fn under_way(&self, replace: &Replace, node: NodeId) -> (bool, String) {
        let stays = replace.voters.iter().chain(&replace.learners).any(|member| member.node == node);
        let new = || replace.new.iter().map(|placement| placement.node);
        let absent: Vec<NodeId> = new().filter(|new| !self.is_living(*new)).collect();
        match replace.stage {
            Stage::Undoing => (false, "a change of its members is being taken back".to_owned()),
            Stage::Adding | Stage::CatchingUp if !absent.is_empty() => {
                (true, format!("it is being copied to {}, which is silent", self.names(absent.into_iter())))
            }
            _ if stays => (false, "another change of its members has to end first".to_owned()),
            Stage::Adding | Stage::CatchingUp => (false, format!("it is being copied to {}", self.names(new()))),
            Stage::Joint => (false, "it is copied, and about to leave".to_owned()),
        }
    }

    fn at_rest(&self, group: &Descriptor, node: NodeId) -> (bool, String) {
        if self.keeps_data(node) {
            return (false, "nothing: the node is not to be emptied".to_owned());
        }
        if let Some((voters, learners)) = self.target(group)
            && !voters.contains(&node)
            && !learners.contains(&node)
        {
            return (false, format!("its turn: {OPERATIONS_MAX} shards are moved at a time"));
        }
        let is_free = |other: &NodeId| self.keeps_data(*other) && group.members().all(|member| member.node != *other);
        let free: Vec<NodeId> = self.map.nodes.keys().copied().filter(is_free).collect();
        let why = match free.is_empty() {
            true => "no other node can hold it: every one has a replica, or is to be emptied itself".to_owned(),
            false => format!("no other node can hold it: {} is silent", self.names(free.into_iter())),
        };
        (true, why)
    }

    fn names(&self, nodes: impl Iterator<Item = NodeId>) -> String {
        nodes.map(|node| self.name(node)).collect::<Vec<_>>().join(", ")
    }
}
