//! What should be done about the members of groups. A function of the map and of who is silent; whoever leads meta asks it now
//! and then, and proposes what it says.
//!
//! It fills what is missing, replaces what is lost for good (replicas on nodes that were removed, or are gone, while the others are a
//! quorum without them), and empties nodes that are to be drained. Once nothing of that can be begun it moves replicas for the sake
//! of balance ([`balance`]), if it is told the load.

mod balance;
mod fill;
mod leads;
mod left;
mod sight;
mod why;

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::{Descriptor, GroupKind, NodeId, Placement, ShardId};

pub use self::leads::{LeadMove, plan_leads};
pub use self::left::{Left, left_on};
pub use self::sight::{Load, Sight};
use crate::command::Command;
use crate::limits::VOTERS_MAX;
use crate::limits::{GROUP_VOTERS, META_VOTERS_MAX, OPERATIONS_MAX};
use crate::map::Map;
use crate::node::Node;
use crate::operation::Operation;

/// Something to do, and why, in words that a person can check.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    pub command: Command,
    pub why: String,
    /// Whether nothing is wrong if it is left undone.
    pub is_for_balance: bool,
}

/// What to propose, the map's own group first, then the groups that can lose the fewest voters, then what is for the sake of balance.
#[must_use]
pub fn plan(map: &Map, sight: &Sight) -> Vec<Command> {
    plan_with_reasons(map, sight).into_iter().map(|planned| planned.command).collect()
}

/// The same, with the reasons.
#[must_use]
pub fn plan_with_reasons(map: &Map, sight: &Sight) -> Vec<Move> {
    plan_counted(map, sight).0
}

/// The same, with the number of steps that it took: groups, and pairs of groups and nodes, that were looked at.
fn plan_counted(map: &Map, sight: &Sight) -> (Vec<Move>, usize) {
    if !map.is_formed() {
        return (Vec::new(), 0);
    }
    let mut planner = Planner::new(map, sight);
    let mut moves = planner.hopeless();
    let given_up = moves.len();
    moves.extend(planner.repairs());
    let mut steps = planner.steps;
    if moves.len() == given_up
        && let Some(load) = &sight.load
    {
        let (balancing, more) = balance::moves(&planner, load);
        moves.extend(balancing);
        steps += more;
    }
    (moves, steps)
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
    /// Nodes that may be given replicas, by zone, those with the least to do first.
    fit: BTreeMap<&'a str, BTreeSet<(u64, NodeId)>>,
    operations: BTreeMap<ShardId, &'a Operation>,
    steps: usize,
}

impl<'a> Planner<'a> {
    fn new(map: &'a Map, sight: &'a Sight) -> Self {
        let mut load: BTreeMap<NodeId, usize> = BTreeMap::new();
        let members = map.groups.values().flat_map(|group| group.voters.iter().chain(&group.learners));
        let planned = map.operations.values().filter_map(Operation::replace).flat_map(|replace| &replace.new);
        members.chain(planned).for_each(|placement| *load.entry(placement.node).or_default() += 1);
        let count = |is_meant: fn(&&Node) -> bool| map.nodes.values().filter(is_meant).count();
        let (size, keeping) = (count(|node| node.holds_data()), count(|node| node.keeps_data()));
        let operations = map.operations.values().map(|operation| (operation.shard(), operation)).collect();
        let mut planner = Self { map, sight, size, keeping, load, fit: BTreeMap::new(), operations, steps: 0 };
        let is_fit = |node: &&NodeId| planner.keeps_data(**node) && planner.is_living(**node);
        let fit: Vec<NodeId> = map.nodes.keys().filter(is_fit).copied().collect();
        for node in fit {
            let place = (planner.level(node), node);
            planner.fit.entry(planner.zone(node)).or_default().insert(place);
        }
        planner
    }

    fn hopeless(&self) -> Vec<Move> {
        let hopeless = self.map.operations.iter().filter(|(_, operation)| self.is_hopeless(operation));
        let given_up = hopeless.map(|(id, operation)| Move {
            command: Command::Cancel { operation: *id },
            why: self.why_given_up(operation),
            is_for_balance: false,
        });
        given_up.collect()
    }

    /// Groups whose members should be others. At most so many that no more than the permitted number of operations are under way.
    fn repairs(&mut self) -> Vec<Move> {
        let room = self.operations_max().saturating_sub(self.map.operations.len());
        let map = self.map;
        self.steps += map.groups.len();
        // Meta has the highest number, and comes first: nothing else can be changed without it.
        let idle = map.groups.values().rev().filter(|group| !self.operations.contains_key(&group.shard));
        let mut idle: Vec<&Descriptor> = idle.filter(|group| !self.is_sound(group)).collect();
        idle.sort_by_cached_key(|group| (group.shard.kind() != GroupKind::Meta, self.spare_voters(group)));
        let mut moves = Vec::new();
        for group in idle {
            if moves.len() == room {
                break;
            }
            self.steps += 1;
            moves.extend(self.change(group));
        }
        moves
    }

    /// In a large cluster each node may take part in something.
    fn operations_max(&self) -> usize {
        OPERATIONS_MAX.max(self.keeping / 2)
    }

    /// Whether it can be told at a glance that a group has the members that it should have; of a group of one, or one that somebody
    /// learns in, it cannot.
    fn is_sound(&self, group: &Descriptor) -> bool {
        group.learners.is_empty()
            && group.voters.len() >= self.wanted_voters(group.shard.kind()).max(2)
            && group.voters.iter().all(|voter| self.keeps_data(voter.node))
    }

    /// How much a node has to do, for its weight.
    fn level(&self, node: NodeId) -> u64 {
        let weight = self.map.nodes.get(&node).map_or(1, |node| u64::from(node.weight.max(1)));
        self.load.get(&node).copied().unwrap_or(0) as u64 * 1_000_000 / weight
    }

    fn note_planned(&mut self, node: NodeId) {
        let before = (self.level(node), node);
        *self.load.entry(node).or_default() += 1;
        let after = (self.level(node), node);
        let zone = self.zone(node);
        if let Some(nodes) = self.fit.get_mut(zone)
            && nodes.remove(&before)
        {
            nodes.insert(after);
        }
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

    fn change(&mut self, group: &Descriptor) -> Option<Move> {
        let (voters, learners) = self.target(group)?;
        for node in voters.iter().chain(&learners) {
            self.note_planned(*node);
        }
        let why = self.why_changed(group, &voters, &learners);
        let command = Command::Reconfigure { shard: group.shard, conf: group.epoch.conf, voters, learners };
        Some(Move { command, why, is_for_balance: false })
    }

    /// Nodes that could become voters, best first: those that learn already, then those with the least to do. Of each zone as many as
    /// a group may have voters.
    fn candidates(&self, kept: &[NodeId], learning: &[NodeId]) -> Vec<NodeId> {
        let is_new = |(_, node): &&(u64, NodeId)| !kept.contains(node) && !learning.contains(node);
        let zones = self.fit.values().flat_map(|nodes| nodes.iter().filter(is_new).take(VOTERS_MAX));
        let mut others: Vec<(u64, NodeId)> = zones.copied().collect();
        others.sort_unstable();
        let is_fit = |node: &NodeId| self.keeps_data(*node) && self.is_living(*node) && !kept.contains(node);
        let mut learning: Vec<NodeId> = learning.iter().copied().filter(is_fit).collect();
        learning.sort_by_key(|node| (self.level(*node), *node));
        learning.extend(others.into_iter().map(|(_, node)| node));
        learning
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

    /// Whether replicas are to stay on a node: not where it is gone, nor where it is to be emptied.
    fn keeps_data(&self, node: NodeId) -> bool {
        !self.sight.gone.contains(&node) && self.map.nodes.get(&node).is_some_and(Node::keeps_data)
    }

    fn is_member(&self, node: NodeId) -> bool {
        self.map.nodes.get(&node).is_some_and(Node::is_member)
    }

    fn is_living(&self, node: NodeId) -> bool {
        self.is_member(node) && !self.sight.silent.contains(&node)
    }

    fn zone(&self, node: NodeId) -> &'a str {
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
