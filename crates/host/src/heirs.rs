//! What followers do when the node of their leader is suspected of being dead: they believe in that leader no longer, and ask
//! for votes, one after the other, so that the best of them has asked before the next one does.
//!
//! A wrong suspicion costs an election and never a wrong answer: whoever asks is heard only by those who have lost their leader
//! too, and a leader that lives is believed again at its next word.
//!
//! Knows neither why a node is suspected nor for how long: whoever watches over nodes says when it begins and when it ends.

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::{NodeId, ReplicaId, ShardId};
use shardine_shard::Role;

use crate::host::Host;
use crate::replica::GroupReplica;
use crate::seat::SeatId;

/// How much later the next heir asks for votes: longer than a vote takes within a data centre.
const RANK_MS: u64 = 20;
/// An heir that nobody has heard asks again after this long: others may have lost their leader a little later.
const AGAIN_MS: u64 = 50;

/// Who leads after a replica, best first, as the leader has told it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranking {
    term: u64,
    heirs: Vec<ReplicaId>,
}

/// Suspicions that last, and who waits to ask for votes because of them. Invariant: `due` and `claims` hold the same seats.
#[derive(Debug, Default)]
pub(crate) struct Suspicions {
    nodes: BTreeSet<NodeId>,
    claims: BTreeMap<SeatId, Claim>,
    due: BTreeSet<(u64, SeatId)>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    against: Against,
    due_ms: u64,
}

/// Why somebody asks for votes.
#[derive(Clone, Copy, Debug)]
enum Against {
    /// The node of the replica that was believed to lead is suspected.
    Suspect { node: NodeId, leader: ReplicaId },
    /// Nobody is known to lead. After so many more tries it is left to the timers.
    Nobody { tries_left: u32 },
}

impl Claim {
    /// Whether there is nothing left to claim, given who is believed to lead now.
    fn is_settled(&self, leader: Option<ReplicaId>) -> bool {
        match self.against {
            Against::Suspect { leader: lost, .. } => leader.is_some_and(|leader| leader != lost),
            Against::Nobody { .. } => leader.is_some(),
        }
    }

    /// The same once more, if it is to be tried again.
    fn again(self, due_ms: u64) -> Option<Self> {
        let against = match self.against {
            suspect @ Against::Suspect { .. } => suspect,
            Against::Nobody { tries_left } => Against::Nobody { tries_left: tries_left.checked_sub(1)? },
        };
        Some(Self { against, due_ms })
    }
}

impl Suspicions {
    pub fn next_due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    fn put(&mut self, id: SeatId, claim: Claim) {
        self.forget(id);
        self.due.insert((claim.due_ms, id));
        self.claims.insert(id, claim);
    }

    pub fn forget(&mut self, id: SeatId) {
        if let Some(claim) = self.claims.remove(&id) {
            self.due.remove(&(claim.due_ms, id));
        }
    }

    fn take_due(&mut self, now_ms: u64) -> Option<(SeatId, Claim)> {
        let &(due_ms, id) = self.due.first()?;
        if due_ms > now_ms {
            return None;
        }
        self.due.pop_first();
        self.claims.remove(&id).map(|claim| (id, claim))
    }
}

impl<R: GroupReplica> Host<R> {
    /// A node is suspected of being dead: every replica here whose leader lives on it no longer believes in that leader, and
    /// asks for votes when its turn among the heirs comes. `leads_there` says whether a replica of a shard lives on that node.
    pub fn suspect(&mut self, node: NodeId, leads_there: impl Fn(ShardId, ReplicaId) -> bool) {
        self.suspicions.nodes.insert(node);
        let bereaved = |host: &Self, id: &SeatId| {
            let seat = host.seat(*id)?;
            let leader = seat.replica.as_ref().ok()?.leader()?;
            (leader != seat.replica_id && leads_there(seat.shard, leader)).then_some((*id, leader))
        };
        let ids: Vec<SeatId> = self.seat_ids().collect();
        for (id, leader) in ids.iter().filter_map(|id| bereaved(self, id)).collect::<Vec<_>>() {
            let due_ms = self.time().monotonic_ms + RANK_MS * self.rank(id, leader);
            self.suspicions.put(id, Claim { against: Against::Suspect { node, leader }, due_ms });
            self.act(id, R::forget_leader);
        }
    }

    /// This replica should lead if nobody does: asks for votes now, and so many times again, for the others may only be
    /// starting.
    pub fn stand(&mut self, id: SeatId, tries: u32) {
        let due_ms = self.time().monotonic_ms;
        self.suspicions.put(id, Claim { against: Against::Nobody { tries_left: tries }, due_ms });
    }

    /// The same for one that has just asked.
    pub(crate) fn stand_again(&mut self, id: SeatId, tries: u32) {
        let due_ms = self.time().monotonic_ms + AGAIN_MS;
        self.suspicions.put(id, Claim { against: Against::Nobody { tries_left: tries }, due_ms });
    }

    /// A suspicion is over: who has not found another leader meanwhile waits for one as ever.
    pub fn trust(&mut self, node: NodeId) {
        self.suspicions.nodes.remove(&node);
        let is_over = |(id, claim): (&SeatId, &Claim)| match claim.against {
            Against::Suspect { node: suspect, .. } if suspect == node => Some(*id),
            Against::Suspect { .. } | Against::Nobody { .. } => None,
        };
        let over: Vec<SeatId> = self.suspicions.claims.iter().filter_map(is_over).collect();
        over.into_iter().for_each(|id| self.suspicions.forget(id));
    }

    #[must_use]
    pub fn is_suspected(&self, node: NodeId) -> bool {
        self.suspicions.nodes.contains(&node)
    }

    /// Whether somebody here waits to ask for votes; then [`Host::next_due_ms`] says when.
    #[must_use]
    pub fn awaits_votes(&self) -> bool {
        self.suspicions.next_due_ms().is_some()
    }

    /// Replicas that lead here. Pulses of this node tell the others who may follow them.
    pub fn leaders(&self) -> impl Iterator<Item = &R> {
        self.replicas().filter(|replica| replica.role() == Role::Leader)
    }

    /// A leader has said who may lead after it. What was said in an earlier term does not count.
    pub fn hear_heirs(&mut self, shard: ShardId, term: u64, heirs: Vec<ReplicaId>) {
        let Some(seat) = self.seat_of(shard).and_then(|id| self.seat_mut(id)) else { return };
        if term >= seat.ranking.term {
            seat.ranking = Ranking { term, heirs };
        }
    }

    /// How many ask before this replica. Where the leader has not said, they go by their numbers.
    fn rank(&self, id: SeatId, leader: ReplicaId) -> u64 {
        let Some(seat) = self.seat(id) else { return 0 };
        let own = seat.replica_id;
        if let Some(rank) = seat.ranking.heirs.iter().position(|heir| *heir == own) {
            return rank as u64;
        }
        let voters = seat.replica.as_ref().map_or(&[][..], R::voters);
        voters.iter().filter(|voter| **voter < own && **voter != leader).count() as u64
    }

    /// Lets those ask for votes whose turn it is.
    pub(crate) fn run_claims(&mut self) {
        let now_ms = self.time().monotonic_ms;
        while let Some((id, claim)) = self.suspicions.take_due(now_ms) {
            let Some(replica) = self.replica(id) else { continue };
            // Somebody else leads, perhaps it does so itself.
            if replica.role() == Role::Leader || claim.is_settled(replica.leader()) {
                continue;
            }
            if !self.may_stand(replica) {
                self.suspicions.put(id, Claim { due_ms: now_ms + AGAIN_MS, ..claim });
                continue;
            }
            self.act(id, |replica, actions| {
                // A late word of the suspected leader may have been believed.
                replica.forget_leader(actions);
                replica.campaign(actions);
            });
            if let Some(claim) = claim.again(now_ms + AGAIN_MS) {
                self.suspicions.put(id, claim);
            }
        }
    }
}
