//! Who leads the groups of a lane, as the rest of the node should know it. What becomes of a group whose leader's node is silent is
//! decided by the host ([`crate::failover`]).

use std::sync::Arc;

use shardine_host::SeatId;
use shardine_model::{NodeId, ReplicaId, ShardId};
use shardine_shard::Replica;
use shardine_transport::Change;

use super::core::Core;
use crate::failover::{self, PeerNews};
use crate::peers::news;

/// How often the node that should lead a group asks for votes at its start: the others are starting too.
const FIRST_TRIES: u32 = 8;

impl Core {
    /// Where a replica lives.
    pub(super) fn node_of(&self, shard: ShardId, replica: ReplicaId) -> Option<NodeId> {
        match &self.exchange.cluster {
            None => Some(NodeId(self.exchange.node)),
            Some(_) => self.way.as_ref()?.routes.node_of(shard, replica),
        }
    }

    /// Tells the node who leads a group, if that is news.
    pub(super) fn note_leader(&mut self, seat: SeatId) {
        let Some(cluster) = &self.exchange.cluster else { return };
        let Some(replica) = self.host.replica(seat) else { return };
        let Some(leader) = replica.group().leader() else { return };
        // Whoever came before it serves would be sent away again.
        if leader == replica.id() && !replica.is_serving() {
            return;
        }
        let now = (replica.term(), leader);
        if self.told.get(&seat) == Some(&now) {
            return;
        }
        let shard = replica.shard();
        // Of a member that the map does not show yet there is more to tell when it does.
        if let Some(node) = self.node_of(shard, leader) {
            self.told.insert(seat, now);
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
        for seat in shards.into_iter().filter_map(|shard| self.host.seat_of(shard)).collect::<Vec<_>>() {
            if self.host.replica(seat).is_some_and(|replica| replica.group().is_alone()) {
                self.host.act(seat, Replica::campaign);
            } else {
                self.host.stand(seat, FIRST_TRIES);
            }
        }
    }

    /// What the other nodes say of themselves.
    pub fn hear_of_peers(&mut self, news: &PeerNews) {
        let Some(map) = self.way.as_ref().map(|way| Arc::clone(way.routes.map())) else { return };
        match news {
            PeerNews::Life(Change::Cleared(node)) => self.reroute(|routes| routes.trust(*node)),
            PeerNews::Life(Change::Suspected(node)) => self.reroute(|routes| routes.suspect(*node)),
            PeerNews::Heirs(_) => {}
        }
        failover::hear(&mut self.host, news, &map);
    }
}
