//! What should be done about the members of groups. A function of the map and of who is silent; whoever leads meta asks it now
//! and then, and proposes what it says.
//!
//! It only fills what is missing, and replaces what is lost for good: replicas on nodes that were removed, while the others are a
//! quorum without them. It moves nothing for the sake of balance.

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::{Descriptor, GroupKind, NodeId, Placement};

use crate::command::Command;
use crate::limits::{GROUP_VOTERS, META_VOTERS_MAX, OPERATIONS_MAX};
use crate::map::Map;
use crate::node::{Mode, Node};
use crate::operation::{Operation, Stage};

/// What whoever leads meta sees of the nodes.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Nodes that are suspected of being dead, or have never been heard.
    pub silent: BTreeSet<NodeId>,
}

/// What to propose, the map's own group first. At most so much that no more than [`OPERATIONS_MAX`] operations are under way.
#[must_use]
pub fn plan(map: &Map, sight: &Sight) -> Vec<Command> {
    if !map.is_formed() {
        return Vec::new();
    }
    let mut planner = Planner::new(map, sight);
    let mut commands: Vec<Command> = map
        .operations
        .iter()
        .filter_map(|(id, operation)| planner.is_hopeless(operation).then_some(Command::Cancel { operation: *id }))
        .collect();
    let room = OPERATIONS_MAX.saturating_sub(map.operations.len());
    // Meta has the highest number, and comes first: nothing else can be changed without it.
    let idle = map.groups.values().rev().filter(|group| map.operation_on(group.shard).is_none());
    let changes: Vec<Command> = idle.filter_map(|group| planner.change(group)).take(room).collect();
    commands.extend(changes);
    commands
}

struct Planner<'a> {
    map: &'a Map,
    sight: &'a Sight,
    /// Nodes that hold data, whether or not they live: the cluster is as large as they are many.
    size: usize,
    /// Replicas of each node, those that are planned too.
    load: BTreeMap<NodeId, usize>,
}

impl<'a> Planner<'a> {
    fn new(map: &'a Map, sight: &'a Sight) -> Self {
        let mut load: BTreeMap<NodeId, usize> = BTreeMap::new();
        let members = map.groups.values().flat_map(|group| group.voters.iter().chain(&group.learners));
        let planned = map.operations.values().flat_map(|operation| match operation {
            Operation::Replace(replace) => &replace.new,
        });
        members.chain(planned).for_each(|placement| *load.entry(placement.node).or_default() += 1);
        Self { map, sight, size: map.nodes.values().filter(|node| node.holds_data()).count(), load }
    }

    /// Whether an operation waits for somebody who will not come any more.
    fn is_hopeless(&self, operation: &Operation) -> bool {
        let Operation::Replace(replace) = operation;
        let is_open = matches!(replace.stage, Stage::Adding | Stage::CatchingUp);
        is_open && replace.new.iter().any(|placement| !self.is_member(placement.node))
    }

    /// How many voters a group should have, with so many nodes. Never two: the loss of either would stop both.
    fn wanted_voters(&self, kind: GroupKind) -> usize {
        match (kind, self.size) {
            (GroupKind::Meta, META_VOTERS_MAX..) => META_VOTERS_MAX,
            (GroupKind::Meta | GroupKind::Coordination | GroupKind::Records, GROUP_VOTERS..) => GROUP_VOTERS,
            (GroupKind::Meta | GroupKind::Coordination | GroupKind::Records, _) => 1,
        }
    }

    fn change(&mut self, group: &Descriptor) -> Option<Command> {
        let is_kept = |placement: &&Placement| self.is_member(placement.node);
        let kept: Vec<NodeId> = group.voters.iter().filter(is_kept).map(|voter| voter.node).collect();
        let learning: Vec<NodeId> = group.learners.iter().filter(is_kept).map(|learner| learner.node).collect();
        let loses_voters = kept.len() < group.voters.len();
        let living = kept.iter().filter(|node| self.is_living(**node)).count();
        if living <= group.voters.len() / 2 {
            return None;
        }
        let candidates = self.candidates(&kept, &learning);
        let wanted = self.wanted_voters(group.shard.kind()).max(if loses_voters { 1 } else { kept.len() });
        let possible = wanted.min(kept.len() + candidates.len());
        // An even number survives no more than the odd one below it.
        let count =
            if loses_voters || possible > kept.len() { possible - usize::from(possible % 2 == 0) } else { kept.len() };
        let (voters, spare) = self.choose_voters(kept, candidates, count);
        let learners = self.choose_learners(&voters, &learning, &spare);
        let is_same = |present: &[Placement], target: &[NodeId]| {
            present.len() == target.len() && present.iter().all(|placement| target.contains(&placement.node))
        };
        if is_same(&group.voters, &voters) && is_same(&group.learners, &learners) {
            return None;
        }
        for node in voters.iter().chain(&learners) {
            *self.load.entry(*node).or_default() += 1;
        }
        Some(Command::Reconfigure { shard: group.shard, conf: group.epoch.conf, voters, learners })
    }

    /// Nodes that could become voters, best first: those that learn already, then those with the least to do.
    fn candidates(&self, kept: &[NodeId], learning: &[NodeId]) -> Vec<NodeId> {
        let is_fit = |node: &&Node| node.holds_data() && node.mode != Mode::Draining && self.is_living(node.node);
        let fit = self.map.nodes.values().filter(is_fit).map(|node| node.node);
        let mut candidates: Vec<NodeId> = fit.filter(|node| !kept.contains(node)).collect();
        candidates.sort_by_key(|node| (!learning.contains(node), self.load.get(node).copied().unwrap_or(0), *node));
        candidates
    }

    /// Fills up with candidates, from zones that have nobody yet first. Gives those that are left over, too; among them are
    /// present voters where there are to be fewer.
    fn choose_voters(
        &self,
        mut kept: Vec<NodeId>,
        mut candidates: Vec<NodeId>,
        count: usize,
    ) -> (Vec<NodeId>, Vec<NodeId>) {
        while kept.len() < count {
            let is_elsewhere = |node: &NodeId| kept.iter().all(|other| self.zone(*other) != self.zone(*node));
            let best = candidates.iter().position(is_elsewhere).unwrap_or(0);
            kept.push(candidates.remove(best));
        }
        // Those that live stay first.
        kept.sort_by_key(|node| (!self.is_living(*node), *node));
        let mut spare = kept.split_off(count.max(1));
        spare.extend(candidates);
        kept.sort_unstable();
        (kept, spare)
    }

    /// With two nodes the other one learns, so that there is a second copy. Whoever learns already goes on, unless it votes now.
    fn choose_learners(&self, voters: &[NodeId], learning: &[NodeId], spare: &[NodeId]) -> Vec<NodeId> {
        let mut learners: Vec<NodeId> = learning.iter().copied().filter(|node| !voters.contains(node)).collect();
        if self.size == 2 && voters.len() == 1 && learners.is_empty() {
            learners.extend(spare.first());
        }
        if voters.len() > 1 {
            learners.clear();
        }
        learners
    }

    fn is_member(&self, node: NodeId) -> bool {
        self.map.nodes.get(&node).is_some_and(Node::is_member)
    }

    fn is_living(&self, node: NodeId) -> bool {
        self.is_member(node) && !self.sight.silent.contains(&node)
    }

    fn zone(&self, node: NodeId) -> &str {
        self.map.nodes.get(&node).map_or("", |node| &node.zone)
    }
}

#[cfg(test)]
mod tests;
