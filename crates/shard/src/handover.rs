//! Handing the lead over, with everything that belongs to it. Nothing new goes to SQL from the moment it begins; when what is
//! under way there has come back, the lease is given back by an entry, and whatever has gathered goes into the log before it.
//! Then the heir is asked to take over. If it does not, the lead goes on as if nothing had been tried.

use shardine_consensus::{ChangeRefused, MembershipChange, TransferRefused};
use shardine_model::{Entry, ReplicaId};

use crate::actions::Actions;
use crate::gather::Then;
use crate::member::turn;
use crate::replica::Replica;

/// How long SQL may take to come back with what is under way there before the lead is handed over without giving the lease
/// back. Whoever leads next then waits for its end.
const SQL_WAIT_MS: u64 = 500;

/// A hand-over that has begun, and for how long SQL is waited for before the heir is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandOver {
    to: ReplicaId,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// What is under way in SQL has to come back, at the latest by then.
    Sql { until_ms: u64 },
    /// The heir was asked.
    Asked,
}

impl Replica {
    /// Begins to hand the lead over, to the best heir if none is named. Says to whom. It is over when this replica no longer
    /// leads, or when [`Replica::is_handing_over`] says no.
    pub fn hand_over(&mut self, to: Option<ReplicaId>, actions: &mut Actions) -> Result<ReplicaId, TransferRefused> {
        if !self.is_serving() {
            return Err(TransferRefused::NotLeader);
        }
        let heirs = self.member.group.heirs();
        let own = self.options.replica;
        let to = to.or(heirs.first().copied()).ok_or(TransferRefused::NoHeir(own))?;
        if !heirs.contains(&to) {
            return Err(TransferRefused::NoHeir(to));
        }
        // Whoever is on the way to SQL may go on; nobody else may begin.
        self.writeback.lease.let_go();
        self.handover = Some(HandOver { to, stage: Stage::Sql { until_ms: self.time.monotonic_ms + SQL_WAIT_MS } });
        self.advance_hand_over(actions);
        Ok(to)
    }

    /// Whether a hand-over has begun of which it is not known how it ends.
    #[must_use]
    pub fn is_handing_over(&self) -> bool {
        self.handover.is_some()
    }

    /// Takes the next step of a hand-over, if it is time for it.
    pub(crate) fn advance_hand_over(&mut self, actions: &mut Actions) {
        let Some(HandOver { to, stage }) = self.handover else { return };
        match stage {
            Stage::Sql { until_ms } => {
                let is_back = !self.writeback.is_under_way();
                if is_back || self.time.monotonic_ms >= until_ms {
                    self.ask_heir(to, is_back, actions);
                }
            }
            // The heir did not take it in time; the lease is asked for again when there is something to write.
            Stage::Asked if !self.member.is_handing_over() => self.handover = None,
            Stage::Asked => {}
        }
    }

    fn ask_heir(&mut self, to: ReplicaId, gives_lease_back: bool, actions: &mut Actions) {
        let own = self.options.replica;
        if gives_lease_back && self.records.lease().is_some_and(|lease| lease.holder == own && lease.length_ms > 0) {
            let release = Entry::Lease { holder: own, term: self.term(), length_ms: 0 };
            self.propose(&release, Vec::new(), Then::Released);
        }
        self.propose_gathered(actions);
        // A change of members may have taken the heir's vote meanwhile.
        self.handover = match self.member.group.transfer_leader(to) {
            Ok(()) => Some(HandOver { to, stage: Stage::Asked }),
            Err(_) => None,
        };
        self.drain(actions);
    }

    /// Believes no longer that somebody leads: its node is suspected of being dead. Whoever calls for votes is heard then.
    pub fn forget_leader(&mut self, actions: &mut Actions) {
        self.member.group.forget_leader();
        self.drain(actions);
    }

    /// This replica was removed from its group and is about to go: tells everybody who still waits for something.
    pub fn retire(&mut self, actions: &mut Actions) {
        turn::retire(self, self.time.monotonic_ms, actions);
        actions.stop = None;
    }

    /// Proposes a change of members. It is done when [`Replica::group`] says so, here or on whoever leads then.
    pub fn change_members(&mut self, change: &MembershipChange, actions: &mut Actions) -> Result<(), ChangeRefused> {
        if !self.is_serving() {
            return Err(ChangeRefused::NotLeader);
        }
        self.member.group.propose_membership(change)?;
        self.drain(actions);
        Ok(())
    }
}
