//! Standing for election, handing the lead over, and no longer believing in a leader.

use raft::StateRole;
use shardine_model::ReplicaId;
use thiserror::Error;

use crate::group::{Group, Role};

/// Why the lead is not handed over. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TransferRefused {
    #[error("this replica does not lead")]
    NotLeader,
    #[error("replica {0} is none that may lead")]
    NoHeir(ReplicaId),
}

/// What a leader tells its followers, by every message of its own or, for a group that sleeps, by the pulses of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    pub leader: ReplicaId,
    pub term: u64,
    /// The newest entry that it knows to be committed.
    pub committed: u64,
}

impl Group {
    /// Stands for election at once: a group of one needs no patience, and an heir of a leader that is suspected of being
    /// dead has none. May be repeated while the votes are only asked for; one that is counting them waits.
    pub fn campaign(&mut self) {
        self.stir();
        // Refused also while a membership change is to be applied; then the next timeout does it. raft-rs asks only its own timer
        // whether it has a vote: others would vote for one that learns, and one that has nothing is a majority of nobody.
        let raft = &self.node.raft;
        if self.installing.is_none() && self.aside.is_none() && raft.promotable() && raft.state != StateRole::Candidate
        {
            let _ = self.node.campaign();
        }
        self.settle_timeout();
    }

    /// Begins to hand the lead over. Nothing is proposed meanwhile ([`Group::propose`]). It ends with the loss of the lead,
    /// or, if the heir does not take it within an election timeout, with [`Group::transferee`] none again.
    pub fn transfer_leader(&mut self, to: ReplicaId) -> Result<(), TransferRefused> {
        if self.role() != Role::Leader {
            return Err(TransferRefused::NotLeader);
        }
        if to == self.id() || !self.membership().voters.contains(&to) {
            return Err(TransferRefused::NoHeir(to));
        }
        self.stir();
        self.node.transfer_leader(to.0);
        Ok(())
    }

    /// To whom the lead is being handed over.
    #[must_use]
    pub fn transferee(&self) -> Option<ReplicaId> {
        self.node.raft.lead_transferee.map(ReplicaId)
    }

    /// Believes no longer that somebody leads, so that others are heard who ask for votes. If the leader lives, its next word
    /// is enough to be believed again.
    pub fn forget_leader(&mut self) {
        self.stir();
        let raft = &mut self.node.raft;
        if raft.state == StateRole::Follower && raft.leader_id != 0 {
            // Of the same term, so that the vote given in it stays given.
            raft.become_follower(raft.term, 0);
            #[cfg(feature = "mutants")]
            if self.mutant == Some(crate::mutant::Mutant::ForgetsVotes) {
                raft.vote = 0;
            }
        }
        self.settle_timeout();
    }

    /// What this leader has to tell.
    #[must_use]
    pub fn pulse(&self) -> Option<Pulse> {
        let pulse = || Pulse { leader: self.id(), term: self.term(), committed: self.commit() };
        (self.role() == Role::Leader).then(pulse)
    }

    /// This leader has no vote any more. raft-rs would let it lead on, and end the process over the next entry that it writes.
    pub(crate) fn leave_lead(&mut self) {
        self.resign(self.heirs().first().copied());
    }

    /// Leads no more, at once, and asks somebody to stand for election.
    pub(crate) fn resign(&mut self, heir: Option<ReplicaId>) {
        let raft = &mut self.node.raft;
        if let Some(heir) = heir {
            raft.send_timeout_now(heir.0);
        }
        raft.become_follower(raft.term, 0);
    }
}
