//! What should be done about the members of groups. A function of the map and of who is silent; whoever leads meta asks it now
//! and then, and proposes what it says.
//!
//! It fills what is missing, replaces what is lost for good (replicas on nodes that were removed, while the others are a quorum
//! without them), and empties nodes that are to be drained. It moves nothing for the sake of balance.

mod left;

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::{Descriptor, GroupKind, NodeId, Placement};

pub use self::left::{Left, left_on};
use crate::command::Command;
use crate::limits::{GROUP_VOTERS, META_VOTERS_MAX, OPERATIONS_MAX};
use crate::map::Map;
use crate::node::Node;
use crate::operation::Operation;

/// What whoever leads meta sees of the nodes.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// Nodes that are suspected of being dead, or have never been heard.
    pub silent: BTreeSet<NodeId>,
}

/// What to propose, the map's own group first, then the groups that can lose the fewest voters. At most so much that no more than
/// [`OPERATIONS_MAX`] operations are under way.
#[must_use]
pub fn plan(map: &Map, sight: &Sight) -> Vec<Command> {
    if !map.is_formed() {
        return Vec::new();
    }
    let mut planner = Planner::new(map, sight);
    let hopeless = map.operations.iter().filter(|(_, operation)| planner.is_hopeless(operation));
    let mut commands: Vec<Command> = hopeless.map(|(id, _)| Command::Cancel { operation: *id }).collect();
    let room = OPERATIONS_MAX.saturating_sub(map.operations.len());
    // Meta has the highest number, and comes first: nothing else can be changed without it.
    let idle = map.groups.values().rev().filter(|group| map.operation_on(group.shard).is_none());
    let mut idle: Vec<&Descriptor> = idle.collect();
    idle.sort_by_key(|group| (group.shard.kind() != GroupKind::Meta, planner.spare_voters(group)));
    let changes: Vec<Command> = idle.into_iter().filter_map(|group| planner.change(group)).take(room).collect();
    commands.extend(changes);
    commands
}

struct Planner<'a> {
    map: &'a Map,
    sight: &'a Sight,
    /// Nodes that hold data, whether or not they live: the cluster is as large as they are many.
    size: usize,
    /// Those of them that are to keep it.
    keeping: usize,
    /// Replicas of each node, those that are planned too.
    load: BTreeMap<NodeId, usize>,
}

impl<'a> Planner<'a> {
    fn new(map: &'a Map, sight: &'a Sight) -> Self {
        let mut load: BTreeMap<NodeId, usize> = BTreeMap::new();
        let members = map.groups.values().flat_map(|group| group.voters.iter().chain(&group.learners));
        let planned = map.operations.values().filter_map(Operation::replace).flat_map(|replace| &replace.new);
        members.chain(planned).for_each(|placement| *load.entry(placement.node).or_default() += 1);
        let count = |is_meant: fn(&&Node) -> bool| map.nodes.values().filter(is_meant).count();
        Self { map, sight, size: count(|node| node.holds_data()), keeping: count(|node| node.keeps_data()), load }
    }

    /// Whether an operation waits for somebody who will not come any more, or should not.
    fn is_hopeless(&self, operation: &Operation) -> bool {
        let Some(replace) = operation.replace() else { return false };
        replace.is_open() && replace.new.iter().any(|placement| !self.keeps_data(placement.node))
    }

    /// How many voters a group should have. What is drained is no reason to have fewer copies; meta alone, which has more of them
    /// where there are many nodes, may do with three.
    fn wanted_voters(&self, kind: GroupKind) -> usize {
        voters_for(kind, self.keeping).max(voters_for(kind, self.size).min(GROUP_VOTERS))
    }

    /// How many voters a group may lose and go on; negative if it cannot go on now.
    fn spare_voters(&self, group: &Descriptor) -> isize {
        let living = group.voters.iter().filter(|voter| self.is_living(voter.node)).count();
        let quorum = group.voters.len() / 2 + 1;
        living.cast_signed() - quorum.cast_signed()
    }

    /// What the members of a group should become, if they should be others.
    fn target(&self, group: &Descriptor) -> Option<(Vec<NodeId>, Vec<NodeId>)> {
        if self.spare_voters(group) < 0 {
            return None;
        }
        let on = |list: &[Placement], is_meant: &dyn Fn(NodeId) -> bool| -> Vec<NodeId> {
            list.iter().map(|placement| placement.node).filter(|node| is_meant(*node)).collect()
        };
        let kept = on(&group.voters, &|node| self.keeps_data(node));
        let learning = on(&group.learners, &|node| self.keeps_data(node));
        // They stay for as long as nobody can take their place.
        let is_draining = |node: NodeId| self.is_member(node) && !self.keeps_data(node);
        let leaving = [on(&group.voters, &is_draining), on(&group.learners, &is_draining)].concat();
        let loses_voters = kept.len() < group.voters.len();
        let candidates = self.candidates(&kept, &learning);
        let wanted = self.wanted_voters(group.shard.kind()).max(if loses_voters { 1 } else { kept.len() });
        let possible = wanted.min(kept.len() + candidates.len() + leaving.len());
        // Whoever is silent may come back, and take the place; until then two of three are more than one.
        if loses_voters && possible < wanted {
            return None;
        }
        // An even number survives no more than the odd one below it.
        let count =
            if loses_voters || possible > kept.len() { possible - usize::from(possible % 2 == 0) } else { kept.len() };
        let (voters, spare) = self.choose_voters(kept, candidates, leaving, count);
        let learners = self.choose_learners(&voters, &learning, &spare);
        let is_same = |present: &[Placement], target: &[NodeId]| {
            present.len() == target.len() && present.iter().all(|placement| target.contains(&placement.node))
        };
        let is_reached = is_same(&group.voters, &voters) && is_same(&group.learners, &learners);
        (!is_reached).then_some((voters, learners))
    }

    fn change(&mut self, group: &Descriptor) -> Option<Command> {
        let (voters, learners) = self.target(group)?;
        for node in voters.iter().chain(&learners) {
            *self.load.entry(*node).or_default() += 1;
        }
        Some(Command::Reconfigure { shard: group.shard, conf: group.epoch.conf, voters, learners })
    }

    /// Nodes that could become voters, best first: those that learn already, then those with the least to do.
    fn candidates(&self, kept: &[NodeId], learning: &[NodeId]) -> Vec<NodeId> {
        let fit = self.map.nodes.keys().copied().filter(|node| self.keeps_data(*node) && self.is_living(*node));
        let mut candidates: Vec<NodeId> = fit.filter(|node| !kept.contains(node)).collect();
        candidates.sort_by_key(|node| (!learning.contains(node), self.load.get(node).copied().unwrap_or(0), *node));
        candidates
    }

    /// Fills up with candidates, from zones that have nobody yet first, and where there are not enough with those that were to
    /// leave. Gives those that are left over, too; among them are present voters where there are to be fewer.
    fn choose_voters(
        &self,
        mut kept: Vec<NodeId>,
        mut candidates: Vec<NodeId>,
        leaving: Vec<NodeId>,
        count: usize,
    ) -> (Vec<NodeId>, Vec<NodeId>) {
        while kept.len() < count && !candidates.is_empty() {
            let is_elsewhere = |node: &NodeId| kept.iter().all(|other| self.zone(*other) != self.zone(*node));
            let best = candidates.iter().position(is_elsewhere).unwrap_or(0);
            kept.push(candidates.remove(best));
        }
        // Those that live stay first.
        kept.sort_by_key(|node| (!self.is_living(*node), *node));
        let needed = leaving.len().min(count.saturating_sub(kept.len()));
        kept.extend(&leaving[..needed]);
        let mut spare = kept.split_off(count.max(1));
        spare.extend(candidates);
        spare.extend(&leaving[needed..]);
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

    fn keeps_data(&self, node: NodeId) -> bool {
        self.map.nodes.get(&node).is_some_and(Node::keeps_data)
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

/// How many voters a group should have, with so many nodes. Never two: the loss of either would stop both.
fn voters_for(kind: GroupKind, nodes: usize) -> usize {
    match (kind, nodes) {
        (GroupKind::Meta, META_VOTERS_MAX..) => META_VOTERS_MAX,
        (GroupKind::Meta | GroupKind::Coordination | GroupKind::Records, GROUP_VOTERS..) => GROUP_VOTERS,
        (GroupKind::Meta | GroupKind::Coordination | GroupKind::Records, _) => 1,
    }
}

#[cfg(test)]
mod tests;
