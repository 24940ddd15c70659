//! The replicas of a node as its process has them: seated in hosts, one for each lane, as in the server.

use std::ops::Index;

use shardine_host::{GroupReplica, Host, Seat, SeatId};
use shardine_model::{ReplicaId, ShardId};

/// Bytes of a snapshot that are cut in one go: little, so that changes come between.
const CUT_BYTES: usize = 64;

/// By group. A node that is down has no lanes, and one that is up need not hold every group.
pub struct Replicas<R: GroupReplica> {
    pub hosts: Vec<Host<R>>,
    shards: Vec<ShardId>,
    /// By group: the one that it was parted off in the end. Groups are dealt out to lanes in turn, and what is born stays on the lane.
    pub roots: Vec<usize>,
}

impl<R: GroupReplica> Replicas<R> {
    /// A process that has not started, or has ended.
    #[must_use]
    pub fn none() -> Self {
        Self { hosts: Vec::new(), shards: Vec::new(), roots: Vec::new() }
    }

    #[must_use]
    pub fn seated(
        lanes: usize,
        compare_every_ms: u64,
        shards: Vec<ShardId>,
        roots: Vec<usize>,
        replicas: Vec<Option<R>>,
    ) -> Self {
        let host = || Host::default().with_cut_bytes(CUT_BYTES).comparing_every(compare_every_ms);
        let hosts = (0..lanes).map(|_| host()).collect();
        let mut seated = Self { hosts, shards, roots };
        for (group, replica) in replicas.into_iter().enumerate() {
            if let Some(replica) = replica {
                seated.seat(group, replica);
            }
        }
        seated
    }

    pub fn seat(&mut self, group: usize, replica: R) {
        let (shard, id): (ShardId, ReplicaId) = (replica.shard(), replica.id());
        let lane = self.lane_of(group);
        self.hosts[lane].add(shard, id, Ok(replica));
    }

    /// A replica leaves; its last actions come with it.
    pub fn leave(&mut self, group: usize) -> Option<Seat<R>> {
        let lane = self.lane_of(group);
        let seat = self.seat_of(group)?;
        self.hosts[lane].remove(seat)
    }

    /// Whether there is a process at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    #[must_use]
    pub fn lane_of(&self, group: usize) -> usize {
        self.roots[group] % self.hosts.len()
    }

    #[must_use]
    pub fn seat_of(&self, group: usize) -> Option<SeatId> {
        let shard = self.shards.get(group)?;
        self.hosts[self.lane_of(group)].seat_of(*shard)
    }

    /// The group that a seat belongs to. Seats of different lanes may have the same id.
    #[must_use]
    pub fn group_at(&self, lane: usize, seat: SeatId) -> Option<usize> {
        let shard = self.hosts[lane].seat(seat)?.shard;
        self.shards.iter().position(|known| *known == shard)
    }

    #[must_use]
    pub fn get(&self, group: usize) -> Option<&R> {
        let seat = self.seat_of(group)?;
        self.hosts[self.lane_of(group)].replica(seat)
    }

    #[must_use]
    pub fn first(&self) -> Option<&R> {
        self.get(0)
    }
}

impl<R: GroupReplica> Index<usize> for Replicas<R> {
    type Output = R;

    fn index(&self, group: usize) -> &R {
        self.get(group).expect("the node is up and its replica has not stopped")
    }
}
