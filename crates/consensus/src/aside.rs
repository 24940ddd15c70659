//! Replicas that tell each other what they have found at a mark, and one that is set aside, because its state differs from the
//! others': it does not lead and does not stand for election, and asks for a snapshot in place of all it has. It goes on
//! voting, for its log is as good as anybody's; only what it has made of the log is not.
//!
//! The wish for a snapshot is raft-rs' own: while it lasts no entries are taken, so the snapshot is not older than the log.

use raft::{INVALID_INDEX, StateRole};
use shardine_model::ReplicaId;

use crate::group::{Group, Role};
use crate::message::{Body, Message, Told};

/// What others have told and nobody has taken yet: more than there are members is somebody's mistake.
const TOLD_MAX: usize = 64;

impl Group {
    /// Tells another replica what this one has found.
    pub fn tell_sum(&mut self, to: ReplicaId, index: u64, sum: u128) {
        self.outbox.push(Message(Body::Sum { from: self.id(), to, index, sum: sum.to_le_bytes() }));
    }

    /// What others have told since it was last asked.
    pub fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    pub(crate) fn hear_sum(&mut self, told: Told) {
        if self.told.len() < TOLD_MAX {
            self.told.push(told);
        }
    }

    /// This replica's state is not to be trusted: if it leads, it asks the best of those heirs that are named to do so; and it wants a
    /// snapshot. Over when one has come ([`Group::is_aside`]).
    pub fn set_aside(&mut self, may_lead: impl Fn(ReplicaId) -> bool) {
        self.stir();
        if self.role() == Role::Leader {
            let heir = self.heirs().into_iter().find(|heir| may_lead(*heir));
            self.resign(heir);
        }
        let raft = &mut self.node.raft;
        if raft.state != StateRole::Follower {
            raft.become_follower(raft.term, 0);
        }
        self.aside = Some(raft.term);
        self.settle_timeout();
    }

    #[must_use]
    pub fn is_aside(&self) -> bool {
        self.aside.is_some()
    }

    /// raft-rs stands for election when its time has come; whoever is set aside stays just before that. It does not count as one who
    /// has heard of a leader then, so that it gives others its vote.
    pub(crate) fn may_tick(&self) -> bool {
        let raft = &self.node.raft;
        self.aside.is_none() || raft.election_elapsed + 1 < raft.randomized_election_timeout()
    }

    /// Repeats the wish for a snapshot until one comes.
    pub(crate) fn ask_for_rebuilding(&mut self) {
        if self.aside.is_some() {
            // Refused while there is no leader, or none of its entries has come, or the wish was heard; the next tick asks again.
            let _ = self.node.request_snapshot();
        }
    }

    /// Somebody speaks of a later term. Its leader may have less of a log than this replica: that end goes first, and the wish begins
    /// anew behind it.
    pub(crate) fn renew_wish(&mut self, term: u64) {
        if self.aside.is_some_and(|since_term| term > since_term) {
            self.node.raft.pending_request_snapshot = INVALID_INDEX;
            self.aside = Some(term);
        }
    }
}
