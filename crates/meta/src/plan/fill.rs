//! How full nodes are, for their weights: what the balancer compares.

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::NodeId;

/// Levels are kept as whole numbers of these parts.
const PARTS: u128 = 1_000_000;

/// Nodes that differ by less than this share of the mean are as good as equal, in percent.
const CLOSE_PERCENT: u128 = 5;

/// Nodes that differ by no more than so many shards of full size are as good as equal.
const CLOSE_PIECES: u128 = 3;

/// What is to be equal on all nodes, for their weights; the first counts most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    Bytes,
    Replicas,
}

impl Goal {
    /// How much of it a replica with so many bytes is.
    pub fn part(self, bytes: u64) -> u64 {
        match self {
            Self::Bytes => bytes,
            Self::Replicas => 1,
        }
    }
}

/// A node that holds data and is to keep it.
#[derive(Clone, Debug)]
pub(super) struct Fill<'a> {
    pub node: NodeId,
    pub name: &'a str,
    pub zone: &'a str,
    pub weight: u64,
    pub replicas: u64,
    pub bytes: u64,
    /// Replicas that it is being given, and groups of which it gives others a copy.
    pub receives: usize,
    pub sends: usize,
}

impl Fill<'_> {
    pub fn of(&self, goal: Goal) -> u64 {
        match goal {
            Goal::Bytes => self.bytes,
            Goal::Replicas => self.replicas,
        }
    }

    pub fn level(&self, goal: Goal) -> u128 {
        u128::from(self.of(goal)) * PARTS / u128::from(self.weight)
    }
}

/// All of them, and their order by each goal.
pub(super) struct Fills<'a> {
    pub nodes: Vec<Fill<'a>>,
    place: BTreeMap<NodeId, usize>,
    split_bytes: u64,
    order: [BTreeSet<(u128, usize)>; 2],
}

impl<'a> Fills<'a> {
    pub fn new(nodes: Vec<Fill<'a>>, split_bytes: u64) -> Self {
        let place = nodes.iter().enumerate().map(|(place, fill)| (fill.node, place)).collect();
        let order = |goal| nodes.iter().enumerate().map(|(place, fill)| (fill.level(goal), place)).collect();
        let order = [order(Goal::Bytes), order(Goal::Replicas)];
        Self { nodes, place, split_bytes, order }
    }

    pub fn place(&self, node: NodeId) -> Option<usize> {
        self.place.get(&node).copied()
    }

    /// From the emptiest on.
    pub fn ascending(&self, goal: Goal) -> impl DoubleEndedIterator<Item = usize> {
        self.order[goal as usize].iter().map(|(_, place)| *place)
    }

    /// Takes note of a replica that has come or gone.
    pub fn change(&mut self, place: usize, change: impl FnOnce(&mut Fill<'a>)) {
        for goal in [Goal::Bytes, Goal::Replicas] {
            self.order[goal as usize].remove(&(self.nodes[place].level(goal), place));
        }
        change(&mut self.nodes[place]);
        for goal in [Goal::Bytes, Goal::Replicas] {
            self.order[goal as usize].insert((self.nodes[place].level(goal), place));
        }
    }

    /// By how much two levels may differ and still be as good as equal.
    pub fn threshold(&self, goal: Goal) -> u128 {
        let weights: u128 = self.nodes.iter().map(|fill| u128::from(fill.weight)).sum::<u128>().max(1);
        let all: u128 = self.nodes.iter().map(|fill| u128::from(fill.of(goal))).sum();
        let close = all * PARTS / weights * CLOSE_PERCENT / 100;
        let pieces = u128::from(self.split_bytes) * CLOSE_PIECES * PARTS * self.nodes.len() as u128 / weights;
        match goal {
            Goal::Bytes => close.max(pieces),
            Goal::Replicas => close,
        }
    }

    /// Whether both nodes come nearer to each other if so much goes from one to the other. What does so cannot go round in circles.
    pub fn brings_nearer(&self, goal: Goal, source: usize, target: usize, part: u64) -> bool {
        let (from, to) = (&self.nodes[source], &self.nodes[target]);
        let (has, gets) = (u128::from(from.of(goal)) * 2, u128::from(to.of(goal)) * 2);
        let part = u128::from(part);
        has > part && (gets + part) * u128::from(from.weight) < (has - part) * u128::from(to.weight)
    }

    /// How far apart in bytes the fullest and the emptiest node would be at most for these two, if so much went from one to the other.
    pub fn spread_after(&self, source: usize, target: usize, bytes: u64) -> u128 {
        let (from, to) = (&self.nodes[source], &self.nodes[target]);
        let level = |bytes: u64, weight: u64| u128::from(bytes) * PARTS / u128::from(weight);
        let source_after = level(from.bytes.saturating_sub(bytes), from.weight);
        let target_after = level(to.bytes + bytes, to.weight);
        let order = &self.order[Goal::Bytes as usize];
        let emptiest = order.first().map_or(0, |(level, _)| *level).min(source_after);
        let fullest = order.last().map_or(0, |(level, _)| *level);
        target_after.saturating_sub(emptiest).max(fullest.saturating_sub(source_after))
    }
}
