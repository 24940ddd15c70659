//! Who leads the groups of a lane, as the rest of the node should know it, and what becomes of a group whose leader's node is
//! silent: its followers no longer believe in it, and stand for election one after the other. A wrong suspicion costs an
//! election, never a wrong answer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shardine_host::SeatId;
use shardine_model::{NodeId, ReplicaId, ShardId};
use shardine_shard::Replica;
use shardine_transport::Change;

use super::core::Core;
use crate::peers::news;

/// How much later each heir begins than the one before it.
const RANK_MS: u64 = 20;
/// How often an heir that nobody heard asks again while the suspicion lasts.
const AGAIN_MS: u64 = 50;

#[derive(Default)]
pub(crate) struct Campaigns {
    suspected: BTreeSet<NodeId>,
    due: BTreeSet<(u64, SeatId)>,
    /// What was last told of each seat: term and leader.
    told: BTreeMap<SeatId, (u64, ReplicaId)>,
}

impl Core {
    /// Where a replica lives.
    pub(super) fn node_of(&self, shard: ShardId, replica: ReplicaId) -> Option<NodeId> {
        match &self.exchange.cluster {
            None => Some(NodeId(self.exchange.node)),
            Some(_) => self.way.as_ref()?.routes.map().node_of(shard, replica),
        }
    }

    /// Tells the node who leads a group, if that is news.
    pub(super) fn note_leader(&mut self, seat: SeatId) {
        let Some(cluster) = &self.exchange.cluster else { return };
        let Some(replica) = self.host.replica(seat) else { return };
        let Some(leader) = replica.group().leader() else { return };
        let now = (replica.term(), leader);
        if self.campaigns.told.get(&seat) == Some(&now) {
            return;
        }
        let shard = replica.shard();
        // Of a member that the map does not show yet there is more to tell when it does.
        if let Some(node) = self.node_of(shard, leader) {
            self.campaigns.told.insert(seat, now);
            cluster.lead(NodeId(self.exchange.node), news(shard, now.0, leader, node));
            if node == NodeId(self.exchange.node) {
                self.definitions.owe(seat);
            }
        }
        self.reroute(|routes| routes.hear(shard, now.0, Some(leader)));
    }

    /// Groups that this lane leads and somebody else could lead.
    pub(super) fn leads(&self) -> usize {
        self.host.replicas().filter(|replica| replica.is_serving() && !replica.group().is_alone()).count()
    }

    pub(super) fn campaign_where_preferred(&mut self) {
        let Some(map) = self.way.as_ref().map(|way| Arc::clone(way.routes.map())) else { return };
        let own = NodeId(self.exchange.node);
        let is_ours = |replica: &&Replica| {
            let voters = map.group(replica.shard()).map_or(&[][..], |group| &group.voters);
            let turn = (replica.shard().0 as usize).checked_rem(voters.len());
            replica.group().is_alone() || turn.is_some_and(|turn| voters[turn].node == own)
        };
        let shards: Vec<ShardId> = self.host.replicas().filter(is_ours).map(Replica::shard).collect();
        let now_ms = self.time().monotonic_ms;
        for shard in shards {
            let Some(seat) = self.host.seat_of(shard) else { continue };
            if self.host.replica(seat).is_some_and(|replica| replica.group().is_alone()) {
                self.host.act(seat, Replica::campaign);
            } else {
                // The others are still starting: ask a few times before leaving it to the timers.
                self.campaigns.due.extend((0..8).map(|turn| (now_ms + turn * AGAIN_MS, seat)));
            }
        }
    }

    /// A node is silent, or there again.
    pub fn peer_changed(&mut self, change: Change) {
        match change {
            Change::Cleared(node) => {
                self.campaigns.suspected.remove(&node);
                self.reroute(|routes| routes.trust(node));
            }
            Change::Suspected(node) => {
                self.campaigns.suspected.insert(node);
                self.reroute(|routes| routes.suspect(node));
                self.disown(node);
            }
        }
    }

    /// Believes in no leader on this node any longer, and puts the heirs in line.
    fn disown(&mut self, node: NodeId) {
        let now_ms = self.time().monotonic_ms;
        let led = self.host.replicas().filter_map(|replica| {
            let leader = replica.group().leader()?;
            let is_there = leader != replica.id() && self.node_of(replica.shard(), leader) == Some(node);
            is_there.then(|| (replica.shard(), rank(replica, leader)))
        });
        for (shard, rank) in led.collect::<Vec<_>>() {
            let Some(seat) = self.host.seat_of(shard) else { continue };
            self.host.act(seat, Replica::forget_leader);
            if let Some(rank) = rank {
                self.campaigns.due.insert((now_ms + rank * RANK_MS, seat));
            }
        }
    }

    pub fn next_campaign_ms(&self) -> Option<u64> {
        self.campaigns.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// Lets those stand for election whose turn it is.
    pub fn run_campaigns(&mut self) {
        let now_ms = self.time().monotonic_ms;
        while let Some(&(due_ms, seat)) = self.campaigns.due.first()
            && due_ms <= now_ms
        {
            self.campaigns.due.pop_first();
            let has_leader = self.host.replica(seat).is_none_or(|replica| replica.group().leader().is_some());
            if has_leader {
                continue;
            }
            self.host.act(seat, Replica::campaign);
            if !self.campaigns.suspected.is_empty() {
                self.campaigns.due.insert((now_ms + AGAIN_MS, seat));
            }
        }
    }

    /// Gives every lead to somebody else, all of them at once.
    pub fn hand_over(&mut self) {
        let shards: Vec<ShardId> = self.host.replicas().map(Replica::shard).collect();
        for seat in shards.into_iter().filter_map(|shard| self.host.seat_of(shard)).collect::<Vec<_>>() {
            self.host.act(seat, |replica, actions| {
                if replica.is_serving() && !replica.group().is_alone() && !replica.is_handing_over() {
                    // Refused where nobody may follow; then whoever is left finds out by the silence.
                    let _ = replica.hand_over(None, actions);
                }
            });
        }
    }
}

/// The place of a replica among the heirs of a leader: the one behind it in the ring is the first.
fn rank(replica: &Replica, leader: ReplicaId) -> Option<u64> {
    let mut voters = replica.group().membership().voters.clone();
    voters.sort_unstable();
    let behind = voters.iter().filter(|voter| **voter > leader);
    let before = voters.iter().filter(|voter| **voter < leader);
    let place = behind.chain(before).position(|voter| *voter == replica.id())?;
    Some(place as u64)
}
