//! Moves for the sake of balance: replicas spread over zones first, then equal bytes, then equal numbers of replicas, for the weights
//! of nodes (sharding (d)). Nothing moves that has lost somebody, and a node takes part in one copy at a time, on each side of it.
//!
//! No move can be taken back by a later one as long as the load is the same: each brings two nodes nearer to each other in what it is
//! made for, and a move for equal numbers leaves bytes well within what counts as equal.

use shardine_model::{Descriptor, GroupKind, NodeId};

use super::fill::{Fill, Fills, Goal};
use super::{Load, Move, Planner};
use crate::command::Command;
use crate::operation::{Operation, Stage};

/// Of a hundred groups so many are moved at a time.
const CHURN_PERCENT: usize = 9;

/// Pairs of groups and nodes that are looked at for one plan; more are found by the next one.
const STEPS_MAX: usize = 1_000_000;

/// A group that may be moved.
struct Movable<'a> {
    group: &'a Descriptor,
    bytes: u64,
    leader: Option<NodeId>,
    is_taken: bool,
}

/// A replica that is to go from one node to another.
struct Swap {
    movable: usize,
    source: usize,
    target: usize,
}

struct Balancer<'a> {
    planner: &'a Planner<'a>,
    fills: Fills<'a>,
    movable: Vec<Movable<'a>>,
    /// Which of them have a replica on each node.
    on: Vec<Vec<usize>>,
    zones: usize,
    moves: Vec<Move>,
    steps: usize,
}

/// What to move, and in how many steps that was found.
pub(super) fn moves(planner: &Planner<'_>, load: &Load) -> (Vec<Move>, usize) {
    let room = room(planner);
    if room == 0 {
        return (Vec::new(), 0);
    }
    let mut balancer = Balancer::new(planner, load);
    balancer.spread_over_zones(room);
    for goal in [Goal::Bytes, Goal::Replicas] {
        while balancer.moves.len() < room && balancer.move_one(goal) {}
    }
    (balancer.moves, balancer.steps)
}

fn room(planner: &Planner<'_>) -> usize {
    let (groups, nodes) = (planner.map.groups.len(), planner.keeping);
    let churn = (groups * CHURN_PERCENT / 100).clamp(1, (nodes / 2).max(1));
    churn.saturating_sub(planner.map.operations.len())
}

impl<'a> Balancer<'a> {
    fn new(planner: &'a Planner<'a>, load: &Load) -> Self {
        let nodes = planner.map.nodes.values().filter(|node| planner.keeps_data(node.node));
        let fill = |node: &'a crate::node::Node| Fill {
            node: node.node,
            name: &node.name,
            zone: &node.zone,
            weight: u64::from(node.weight.max(1)),
            replicas: 0,
            bytes: 0,
            receives: 0,
            sends: 0,
        };
        let fills = Fills::new(nodes.map(fill).collect(), load.split_bytes);
        let mut zones: Vec<&str> = fills.nodes.iter().map(|fill| fill.zone).collect();
        zones.sort_unstable();
        zones.dedup();
        let on = vec![Vec::new(); fills.nodes.len()];
        let (zones, movable) = (zones.len(), Vec::new());
        let mut balancer = Self { planner, fills, movable, on, zones, moves: Vec::new(), steps: 0 };
        planner.map.groups.values().for_each(|group| balancer.add(group, load));
        balancer
    }

    /// Counts a group where it is, or where it is about to be.
    fn add(&mut self, group: &'a Descriptor, load: &Load) {
        self.steps += 1;
        let bytes = load.bytes_of(group.shard);
        let leader = load.leaders.get(&group.shard).copied();
        let operation = self.planner.operations.get(&group.shard).copied();
        let replace = operation.and_then(Operation::replace).filter(|replace| replace.stage != Stage::Undoing);
        let (voters, learners) =
            replace.map_or((&group.voters, &group.learners), |replace| (&replace.voters, &replace.learners));
        // The map's own group is everywhere that it can be, and is not moved.
        let counted = voters.iter().chain(learners).filter(|_| group.shard.kind() != GroupKind::Meta);
        for member in counted {
            self.change(member.node, |fill| {
                fill.replicas += 1;
                fill.bytes += bytes;
            });
        }
        if let Some(replace) = replace.filter(|replace| replace.is_open() && !replace.new.is_empty()) {
            replace.new.iter().for_each(|new| self.change(new.node, |fill| fill.receives += 1));
            leader.into_iter().for_each(|leader| self.change(leader, |fill| fill.sends += 1));
        }
        let is_whole = || group.learners.is_empty() && self.planner.is_sound(group);
        let lives = || group.voters.iter().all(|voter| self.planner.is_living(voter.node));
        if group.shard.kind() == GroupKind::Meta || operation.is_some() || !is_whole() || !lives() {
            return;
        }
        for voter in &group.voters {
            let place = self.fills.place(voter.node).expect("a sound group is on nodes that keep data");
            self.on[place].push(self.movable.len());
        }
        self.movable.push(Movable { group, bytes, leader, is_taken: false });
    }

    fn change(&mut self, node: NodeId, change: impl FnOnce(&mut Fill<'a>)) {
        if let Some(place) = self.fills.place(node) {
            self.fills.change(place, change);
        }
    }

    /// Where two replicas of a group are in one zone, and none in another, one of the two moves.
    fn spread_over_zones(&mut self, room: usize) {
        if self.zones < 2 {
            return;
        }
        for movable in 0..self.movable.len() {
            if self.moves.len() == room || self.steps >= STEPS_MAX {
                return;
            }
            self.steps += 1;
            let Some(swap) = self.zone_swap(movable) else { continue };
            let (source, target) = (&self.fills.nodes[swap.source], &self.fills.nodes[swap.target]);
            let why = format!(
                "two of its replicas are in zone {:?}, and none in {:?}: from {} to {}",
                source.zone, target.zone, source.name, target.name
            );
            self.take(&swap, why);
        }
    }

    fn zone_swap(&mut self, movable: usize) -> Option<Swap> {
        let voters = self.places_of(movable);
        if self.is_busy(movable) || self.distinct_zones(&voters) >= voters.len().min(self.zones) {
            return None;
        }
        let zone_of = |place: &usize| self.fills.nodes[*place].zone;
        let is_doubled = |place: &&usize| voters.iter().filter(|other| zone_of(other) == zone_of(place)).count() > 1;
        let level = |place: &&usize| (self.fills.nodes[**place].level(Goal::Replicas), **place);
        let source = *voters.iter().filter(is_doubled).max_by_key(level)?;
        let mut looked = 0;
        let target = self.fills.ascending(Goal::Replicas).find(|target| {
            looked += 1;
            self.takes(*target) && voters.iter().all(|voter| zone_of(voter) != zone_of(target))
        });
        self.steps += looked;
        Some(Swap { movable, source, target: target? })
    }

    /// Moves one replica from a node that has much to one that has little, if two are far enough apart for that.
    fn move_one(&mut self, goal: Goal) -> bool {
        let threshold = self.fills.threshold(goal);
        let order: Vec<usize> = self.fills.ascending(goal).collect();
        self.steps += order.len();
        for &source in order.iter().rev() {
            let level = self.fills.nodes[source].level(goal);
            for (rank, &target) in order.iter().enumerate() {
                let is_close = level.saturating_sub(self.fills.nodes[target].level(goal)) <= threshold;
                if is_close && rank == 0 || self.steps >= STEPS_MAX {
                    return false;
                }
                if is_close {
                    break;
                }
                self.steps += 1;
                if !self.takes(target) {
                    continue;
                }
                let Some(movable) = self.best(goal, source, target) else { continue };
                let why = self.why(goal, source, target);
                self.take(&Swap { movable, source, target }, why);
                return true;
            }
        }
        false
    }

    /// What should go from one node to another, if anything may: it should bring them as near to each other as possible, and not be
    /// led where it is.
    fn best(&mut self, goal: Goal, source: usize, target: usize) -> Option<usize> {
        self.steps += self.on[source].len();
        let calm = self.fills.threshold(Goal::Bytes) * 3 / 4;
        let apart = self.fills.nodes[source].bytes.saturating_sub(self.fills.nodes[target].bytes);
        let fits = |movable: &&usize| {
            let bytes = self.movable[**movable].bytes;
            let leaves_bytes_alone = || {
                self.fills.spread_after(source, target, bytes) <= calm
                    || bytes == 0
                    || self.fills.brings_nearer(Goal::Bytes, source, target, bytes)
            };
            !self.is_busy(**movable)
                && self.fills.brings_nearer(goal, source, target, goal.part(bytes))
                && (goal == Goal::Bytes || leaves_bytes_alone())
                && self.may_swap(**movable, source, target)
        };
        let rank = |movable: &&usize| {
            let one = &self.movable[**movable];
            let is_led = one.leader == Some(self.fills.nodes[source].node);
            let left = (u128::from(one.bytes) * 2).abs_diff(u128::from(apart));
            (left, is_led, one.group.shard)
        };
        self.on[source].iter().filter(fits).min_by_key(rank).copied()
    }

    /// Whether a group may have a replica on one node in place of another: it has none there, and is in no fewer zones then.
    fn may_swap(&self, movable: usize, source: usize, target: usize) -> bool {
        let mut voters = self.places_of(movable);
        if voters.contains(&target) {
            return false;
        }
        let before = self.distinct_zones(&voters);
        voters.retain(|voter| *voter != source);
        voters.push(target);
        self.distinct_zones(&voters) >= before
    }

    fn places_of(&self, movable: usize) -> Vec<usize> {
        let voters = &self.movable[movable].group.voters;
        voters.iter().filter_map(|voter| self.fills.place(voter.node)).collect()
    }

    fn distinct_zones(&self, places: &[usize]) -> usize {
        let zone = |place: &usize| self.fills.nodes[*place].zone;
        let is_first = |at: usize| places[..at].iter().all(|other| zone(other) != zone(&places[at]));
        (0..places.len()).filter(|at| is_first(*at)).count()
    }

    /// Whether a group cannot be copied now: it is being moved already, or its leader gives somebody else a copy of something.
    fn is_busy(&self, movable: usize) -> bool {
        let one = &self.movable[movable];
        let sends =
            || one.leader.and_then(|leader| self.fills.place(leader)).map(|place| self.fills.nodes[place].sends);
        one.is_taken || sends().is_some_and(|sends| sends > 0)
    }

    /// Whether a node can be given a copy now.
    fn takes(&self, place: usize) -> bool {
        let fill = &self.fills.nodes[place];
        fill.receives == 0 && self.planner.is_living(fill.node)
    }

    fn take(&mut self, swap: &Swap, why: String) {
        let one = &mut self.movable[swap.movable];
        one.is_taken = true;
        let (group, bytes, leader) = (one.group, one.bytes, one.leader);
        let (source, target) = (self.fills.nodes[swap.source].node, self.fills.nodes[swap.target].node);
        let mut voters: Vec<NodeId> = group.voters.iter().map(|voter| voter.node).collect();
        voters.iter_mut().filter(|voter| **voter == source).for_each(|voter| *voter = target);
        voters.sort_unstable();
        let (shard, conf) = (group.shard, group.epoch.conf);
        let command = Command::Reconfigure { shard, conf, voters, learners: Vec::new() };
        self.moves.push(Move { command, why, is_for_balance: true });
        self.fills.change(swap.source, |fill| {
            fill.replicas -= 1;
            fill.bytes = fill.bytes.saturating_sub(bytes);
        });
        self.fills.change(swap.target, |fill| {
            fill.replicas += 1;
            fill.bytes += bytes;
            fill.receives += 1;
        });
        leader.into_iter().for_each(|leader| self.change(leader, |fill| fill.sends += 1));
    }

    fn why(&self, goal: Goal, source: usize, target: usize) -> String {
        let (from, to) = (&self.fills.nodes[source], &self.fills.nodes[target]);
        let weights = match from.weight == to.weight {
            true => String::new(),
            false => format!(" (weights {} and {})", from.weight, to.weight),
        };
        match goal {
            Goal::Bytes => {
                format!("{} holds {}, {} {}{weights}", from.name, mib(from.bytes), to.name, mib(to.bytes))
            }
            Goal::Replicas => {
                let (has, gets) = (from.replicas, to.replicas);
                format!("{} holds {has} replicas, {} {gets}{weights}", from.name, to.name)
            }
        }
    }
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests;
