//! What a node does with its map, as the server does: finds the others by it, makes room for replicas that it is to have, lets go
//! of those that were removed, and, where it leads, does what operations ask of it.

use std::rc::Rc;

use shardine_host::{Host, Move};
use shardine_model::log::{Membership, SnapshotMeta};
use shardine_model::{ClusterMap, NodeId, ReplicaId, ShardId};
use shardine_shard::Restored;
use shardine_shard::meta::{BadDelta, Delta, Map, Operation};

use crate::check::replica_numbers_are_used_once;
use crate::council::Petition;
use crate::ground::Planted;
use crate::tenant::{Seat, Tenant};
use crate::world::World;

/// Ticks between two looks at replicas that should come or go and could not when the map said so.
const MOVE_TICKS: u64 = 10;

/// One version of the map, and the part of it that links need.
#[derive(Debug)]
pub struct Chart {
    pub full: Map,
    pub cluster: ClusterMap,
}

impl Chart {
    #[must_use]
    pub fn new(full: Map) -> Rc<Self> {
        let cluster = full.cluster_map();
        Rc::new(Self { full, cluster })
    }
}

/// The node of a replica, as far as one knows who has this map. Where members never change, replicas have their nodes' numbers.
#[must_use]
pub fn node_of(chart: Option<&Chart>, shard: ShardId, replica: ReplicaId) -> Option<NodeId> {
    chart.map_or(Some(NodeId(replica.0)), |chart| chart.cluster.node_of(shard, replica))
}

impl<T: Tenant> World<T> {
    /// The machine on which a node believes a replica to live.
    #[must_use]
    pub fn machine_of(&self, believer: usize, group: usize, replica: ReplicaId) -> Option<usize> {
        let (shard, node) = (T::shard(group), &self.nodes[believer]);
        let found = match &node.chart {
            None => node_of(None, shard, replica),
            Some(chart) => {
                let found = node.speakers.find(&chart.cluster, shard, replica);
                found.or_else(|| node.kin.get(&(shard, replica)).copied())
            }
        };
        self.machine(found?)
    }

    /// The machine that is a node now.
    #[must_use]
    pub fn machine(&self, node: NodeId) -> Option<usize> {
        self.nodes.iter().position(|other| other.id == node && !other.is_blank)
    }

    /// The replica of a group that a node is to have.
    #[must_use]
    pub fn wanted(&self, node: usize, group: usize) -> Option<ReplicaId> {
        let id = self.nodes[node].id;
        match &self.nodes[node].chart {
            None => Some(ReplicaId(id.0)),
            Some(chart) => chart.cluster.replica_on(T::shard(group), id),
        }
    }

    /// Whether a node's map has a group.
    #[must_use]
    pub fn is_mapped(&self, node: usize, group: usize) -> bool {
        self.nodes[node].chart.as_ref().is_none_or(|chart| chart.cluster.group(T::shard(group)).is_some())
    }

    /// Who founded a group together with a replica, if it did.
    #[must_use]
    pub fn founders(&self, group: usize, replica: ReplicaId) -> Membership {
        let founders = 1..=self.ground.voters;
        if group < self.ground.founded && founders.contains(&replica.0) {
            Membership::of(founders.map(ReplicaId))
        } else {
            Membership::default()
        }
    }

    /// A change of the map reaches a node.
    pub fn hear_map(&mut self, node: usize, change: &[u8]) {
        if self.now < self.nodes[node].map_deaf_until {
            return;
        }
        let Some(chart) = &self.nodes[node].chart else { return };
        let mut map = chart.full.clone();
        match Delta::decode(change).map_err(BadDelta::from).and_then(|delta| map.take(&delta)) {
            Ok(()) => self.adopt(node, Chart::new(map)),
            // It has come another way, or what is before it is still on its way.
            Err(BadDelta::Older { .. } | BadDelta::NotNext { .. }) => {}
            Err(error) => panic!("a change of the map is not taken: {error}"),
        }
    }

    /// A newer map, on this node's disk.
    fn adopt(&mut self, node: usize, chart: Rc<Chart>) {
        self.note(&[20, node as u64, chart.full.version], || {
            format!("node {} has version {} of the map", node + 1, chart.full.version)
        });
        self.nodes[node].chart = Some(Rc::clone(&chart));
        self.nodes[node].speakers.turn_to(&chart.cluster);
        self.make_moves(node);
        T::map_changed(self, node);
    }

    /// Replicas come and go, as the newest map has them. One that cannot yet is looked at again at ticks.
    pub fn make_moves(&mut self, node: usize) {
        let Some(chart) = self.nodes[node].chart.clone() else { return };
        let own = self.nodes[node].id;
        if self.ground.planted == Some(Planted::BornBeforeApplied) {
            self.bear_early(node, &chart);
        }
        for lane in 0..self.ground.lanes {
            let groups = (0..self.ground.groups).filter(|group| self.nodes[node].replicas.lane_of(*group) == lane);
            let shards: Vec<ShardId> = groups.map(T::shard).collect();
            let moves = self.nodes[node].replicas.hosts[lane].moves(&chart.cluster, own, shards);
            for Move { shard, leaves, arrives } in moves {
                let group = self.group_of(shard).expect("one of these");
                if leaves.is_some() {
                    self.unseat(node, group);
                }
                if let Some(replica) = arrives {
                    self.arrive(node, group, replica);
                }
            }
            self.turn(node, lane, |_| {});
        }
    }

    /// The planted bug: what is to be born sits down with nothing, among the members that it will have.
    fn bear_early(&mut self, node: usize, chart: &Chart) {
        let own = self.nodes[node].id;
        for operation in chart.full.operations.values() {
            let Operation::Split(_, split) = operation else { continue };
            let Some(group) = self.group_of(split.child) else { continue };
            let own = split.members.iter().find(|member| member.node == own).map(|member| member.child);
            let (Some(replica), None) = (own, self.nodes[node].replicas.get(group)) else { continue };
            let seat = Seat { node, group, replica, life: self.nodes[node].life };
            let membership = Membership::of(split.members.iter().map(|member| member.child));
            let snapshot = SnapshotMeta { membership, ..SnapshotMeta::default() };
            if let Ok((newborn, _)) = T::restore(self, seat, &[], Restored { snapshot, ..Restored::default() }) {
                for member in &split.members {
                    self.nodes[node].kin.insert((split.child, member.child), member.node);
                }
                self.nodes[node].replicas.seat(group, newborn);
            }
        }
    }

    /// A replica goes, and with it what the disk has of it.
    fn unseat(&mut self, node: usize, group: usize) {
        self.counters.replicas_left += 1;
        if let Some(unfinished) = self.nodes[node].cuts[group].take() {
            self.nodes[node].disk.drop_cut(unfinished);
        }
        let Some(mut seat) = self.nodes[node].replicas.leave(group) else { return };
        self.note(&[21, node as u64, group as u64, seat.replica_id.0], || {
            format!("node {} group {group}: replica {} goes", node + 1, seat.replica_id)
        });
        T::perform(self, node, group, &mut seat.actions);
        self.watch.forget_replica(node, group);
        T::reseated(self, node, group);
    }

    /// Room is made for a replica that has nothing yet.
    fn arrive(&mut self, node: usize, group: usize, replica: ReplicaId) {
        self.note(&[22, node as u64, group as u64, replica.0], || {
            format!("node {} group {group}: room for replica {replica}", node + 1)
        });
        self.counters.replicas_come += 1;
        let id = self.nodes[node].id;
        let verdict = self.watch.numbers[group].comes(replica, id);
        self.demand(verdict);
        let seat = Seat { node, group, replica, life: self.nodes[node].life };
        match T::restore(self, seat, &[], Restored::default()) {
            Ok((newborn, _)) => self.nodes[node].replicas.seat(group, newborn),
            Err(reason) => panic!("{}: {reason}", replica_numbers_are_used_once::NAME),
        }
        self.watch.forget_replica(node, group);
        T::reseated(self, node, group);
    }

    /// At a tick: what operations ask of the groups that are led here.
    pub fn work_for_map(&mut self, node: usize) {
        let Some(chart) = self.nodes[node].chart.clone() else { return };
        let (own, ticks) = (self.nodes[node].id, self.nodes[node].ticks);
        if ticks.is_multiple_of(MOVE_TICKS) {
            self.make_moves(node);
        }
        for lane in 0..self.ground.lanes {
            let mut reports = Vec::new();
            self.turn(node, lane, |host: &mut Host<T::Replica>| reports = host.work_for_map(&chart.full, own, ticks));
            for command in reports {
                self.petition(node, &Petition::Command(Box::new(command)));
            }
        }
    }
}
