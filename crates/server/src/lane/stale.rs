//! Reads that may be a little old (`eselect ro`): asked of whichever replica the weights choose, on this node or another one. They
//! keep no order, so they do not go through `router::Forwards`; what only the leader can tell goes to it after all.

use shardine_model::{NodeId, Position, RowKeyBuf};
use shardine_router::{Candidate, Draws, RemoteCall, Response, RowCall, choose};
use shardine_shard::Caller;
use shardine_shard::meta::Node;

use super::core::Core;
use super::forward::is_misdirected;

/// Such a read, from a connection of this lane or from outside.
pub(crate) struct StaleRead {
    pub caller: Caller,
    pub source: u64,
    pub position: Position,
    pub row: RowKeyBuf,
    pub max_age_ms: u64,
    /// Nodes that were asked and have not answered.
    tried: Vec<NodeId>,
}

impl StaleRead {
    pub fn new(caller: Caller, source: u64, position: Position, row: RowKeyBuf, max_age_ms: u64) -> Self {
        Self { caller, source, position, row, max_age_ms, tried: Vec::new() }
    }

    pub fn call(&self) -> RowCall {
        RowCall::ReadStale { row: self.row.clone(), max_age_ms: self.max_age_ms }
    }
}

impl Core {
    /// Asks a replica, if the call is such a read and this node is not alone. Gives any other call back.
    pub(super) fn read_anywhere(
        &mut self,
        caller: Caller,
        source: u64,
        position: Position,
        call: RowCall,
    ) -> Option<RowCall> {
        match call {
            RowCall::ReadStale { row, max_age_ms } if self.way.is_some() => {
                self.ask_replica(StaleRead::new(caller, source, position, row, max_age_ms));
                None
            }
            other => Some(other),
        }
    }

    fn ask_replica(&mut self, read: StaleRead) {
        let own = NodeId(self.exchange.node);
        match choose(&self.candidates(&read), self.draws.draw()) {
            Some(node) if node == own && !self.leads_at(read.position) => {
                // Without an answer it has begun to lead, and reads as a leader does.
                if let Some(response) = self.call_here(read.call(), read.position, read.caller) {
                    self.replica_answered(read, Some(response));
                }
            }
            Some(node) if node != own => self.ask_node_for(node, read),
            Some(_) | None => self.ask_leader(&read),
        }
    }

    /// Replicas of the shard whose nodes are not taken for dead and have not failed to answer.
    fn candidates(&self, read: &StaleRead) -> Vec<Candidate> {
        let (Some(sheet), Some(way)) = (&self.sheet, &self.way) else { return Vec::new() };
        let shard = self.places.find(read.position).shard;
        let (leader, group) = (way.routes.leader_of(shard), sheet.full.groups.get(&shard));
        let nodes = group.into_iter().flat_map(|group| group.members()).map(|member| member.node);
        let nodes = nodes.filter(|node| !way.routes.is_away(*node) && !read.tried.contains(node));
        let weight = |node: &Node| if node.is_draining() { 0 } else { node.weight };
        let weight = |node: NodeId| sheet.full.nodes.get(&node).map_or(0, weight);
        nodes.map(|node| Candidate { node, weight: weight(node), leads: leader == Some(node) }).collect()
    }

    /// A replica has answered, or none has: the next one is asked then.
    pub(super) fn replica_answered(&mut self, read: StaleRead, response: Option<Response>) {
        match response {
            Some(response) if is_misdirected(&response) => self.ask_leader(&read),
            Some(response) => self.respond_to(read.caller, response),
            None => self.ask_replica(read),
        }
    }

    /// Only the leader can tell: the row is not in memory, or the replicas are not in touch.
    fn ask_leader(&mut self, read: &StaleRead) {
        self.forward(read.caller, read.source, read.position, &RemoteCall::Row(read.call()));
    }

    /// The read that a node was asked for has got no answer from it.
    pub(super) fn replica_is_mute(&mut self, node: NodeId, mut read: StaleRead) {
        read.tried.push(node);
        self.replica_answered(read, None);
    }
}

/// What each lane begins to draw at.
pub(super) fn draws(node: u64, lane: usize) -> Draws {
    Draws::begin(node << 16 | lane as u64)
}
