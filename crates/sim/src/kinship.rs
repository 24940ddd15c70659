//! Groups that are born of others in a run: which there are, of whom, and what nodes, disks and the view from above make of it when one is.

use std::collections::BTreeMap;

use shardine_host::{GroupReplica, Parted};
use shardine_model::split::{BIRTH_INDEX, BIRTH_TERM};
use shardine_model::{ShardId, Split};

use crate::ground::Ground;
use crate::tenant::Tenant;
use crate::world::World;

/// Of all groups that there are or may be.
#[derive(Clone, Debug)]
pub struct Kinship {
    /// By group: the one of the beginning that it was parted off, in the end.
    pub roots: Vec<usize>,
    /// Whether it has been born: the entry that did it was applied somewhere.
    born: Vec<bool>,
    /// The parent of each that was, and that entry.
    births: BTreeMap<usize, (usize, u64)>,
}

impl Kinship {
    #[must_use]
    pub fn of<F>(ground: &Ground<F>) -> Self {
        let roots = (0..ground.groups).collect();
        let born = (0..ground.groups).map(|group| group < ground.founded).collect();
        Self { roots, born, births: BTreeMap::new() }
    }
}

impl<T: Tenant> World<T> {
    #[must_use]
    pub fn group_of(&self, shard: ShardId) -> Option<usize> {
        (0..self.ground.groups).find(|group| T::shard(*group) == shard)
    }

    /// Groups that there are by now, as seen from above.
    #[must_use]
    pub fn living(&self) -> Vec<usize> {
        (0..self.ground.groups).filter(|group| self.kinship.born[*group]).collect()
    }

    /// Meta has given a number for what is to be parted off a group.
    pub fn expect_child(&mut self, parent: usize, child: usize) {
        self.kinship.roots[child] = self.kinship.roots[parent];
        for node in self.nodes.iter_mut().filter(|node| node.is_up()) {
            node.replicas.roots[child] = self.kinship.roots[child];
        }
    }

    /// A split is applied for the first time anywhere: what comes to the child from here on is watched.
    pub fn born(&mut self, parent: usize, index: u64, split: &Split) {
        let Some(child) = self.group_of(split.child) else { return };
        self.note(&[41, parent as u64, child as u64], || format!("group {parent} is parted: group {child} is born"));
        self.counters.births += 1;
        self.kinship.born[child] = true;
        self.kinship.births.insert(child, (parent, index));
        self.watch.begin_at_birth(parent, child, split);
        for member in &split.members {
            let verdict = self.watch.numbers[child].comes(member.child, member.node);
            self.demand(verdict);
        }
    }

    /// A replica of the node has applied a split.
    pub fn note_parted(&mut self, node: usize, parted: &Parted) {
        for (shard, replica, of) in parted.kin() {
            self.nodes[node].kin.insert((shard, replica), of);
        }
        if let Some(child) = self.group_of(parted.split.child) {
            self.note(&[42, node as u64, child as u64], || format!("node {} has parted group {child} off", node + 1));
            self.compare_birth(node, child);
            T::parted(self, node, parted);
        }
    }

    /// A start has found a replica without a snapshot: what it was born of must be there still (sharding P-7).
    pub fn check_base(&self, node: usize, group: usize) -> Result<(), String> {
        let Some(&(parent, index)) = self.kinship.births.get(&group) else { return Ok(()) };
        let snapshot = self.nodes[node].disk.stored(parent).snapshot.index;
        match snapshot < index {
            true => Ok(()),
            false => Err(format!(
                "group {group} has no snapshot of its birth, and the parent's snapshot {snapshot} is behind that, at {index}"
            )),
        }
    }

    /// What a child was born with is the same everywhere.
    fn compare_birth(&mut self, node: usize, group: usize) {
        let is_young = |replica: &T::Replica| replica.applied() == BIRTH_INDEX;
        if self.nodes[node].replicas.get(group).is_some_and(is_young) {
            let verdict = self.compare_state(node, group);
            self.demand(verdict);
        }
    }
}

/// Where the log of a child begins.
pub const BIRTH: (u64, u64) = (BIRTH_INDEX, BIRTH_TERM);
