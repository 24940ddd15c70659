//! Coordination's part in the turn of its group: commands are executed, and whoever waits is told; what a change of the lead
//! means for those.

use shardine_consensus::ReadDone;
use shardine_coord::{Coord, Origin};
use shardine_model::log::LogEntry;

use super::{Actions, Elected, Refusal, Replica, StatusCode};
use crate::member::proposals::Fate;
use crate::member::turn::{self, Turn};
use crate::member::{Lead, Member, Outbox, deferred};

impl Turn for Replica {
    type Machine = Coord;
    type Actions = Actions;
    type Load = Vec<Origin>;
    type Rest = ();

    fn parts(&mut self) -> (&mut Member<Vec<Origin>>, &mut Coord) {
        (&mut self.member, &mut self.coord)
    }

    fn outbox(actions: &mut Actions) -> Outbox<'_> {
        Outbox { persists: &mut actions.persists, messages: &mut actions.messages }
    }

    fn empty_machine(&mut self) -> Coord {
        let empty = Coord::new();
        #[cfg(feature = "mutants")]
        let empty = empty.with_mutant(self.options.mutant);
        empty
    }

    fn prepared(&mut self) -> Option<Coord> {
        self.prepared.take()
    }

    fn execute(&mut self, entry: &LogEntry, own: Option<Vec<Origin>>, _: &mut Actions) -> Result<(), String> {
        let (leader, out) = (&mut self.leader, &mut self.out);
        let mut origins = own.unwrap_or_default().into_iter();
        let applied = self.coord.apply(&entry.data, |coord, notices, outcome| {
            leader.applied(coord, notices, origins.next(), outcome, out);
        });
        applied.map_err(|fatal| format!("entry {} of term {}: {fatal}", entry.index, entry.term))
    }

    fn finish(&mut self, (): (), _: &mut Actions) {}

    fn lose(&mut self, origins: Vec<Origin>, fate: Fate, _: &mut Actions) {
        let status = match fate {
            Fate::NotExecuted => StatusCode::Unavailable,
            Fate::InDoubt => StatusCode::Undetermined,
        };
        self.tell_lost(origins, status);
    }

    /// There are no reads to confirm: a strict one is an entry, as in YDB.
    fn end_turn(&mut self, _: Vec<ReadDone>, _: &mut Actions) {
        self.notice_lead();
    }

    fn say_stopped(&mut self, reason: String, actions: &mut Actions) {
        self.step_down();
        self.hand_out(actions);
        actions.stop = Some(format!("coordination group {} stopped: {reason}", self.options.group));
    }

    #[cfg(feature = "mutants")]
    fn answers_before_sync(&self) -> bool {
        self.options.mutant == Some(super::Mutant::AnswerBeforeSync)
    }
}

impl Replica {
    /// Takes everything the group has ready: sends, writes, applies.
    pub(super) fn drain(&mut self, actions: &mut Actions) {
        deferred::settle(self, self.now_ms, actions);
        turn::drain(self, actions);
        // The lead may have been lost in this turn.
        deferred::settle(self, self.now_ms, actions);
        self.hand_out(actions);
    }

    /// This replica was removed from its group and is about to go: tells everybody who still waits for something.
    pub fn retire(&mut self, actions: &mut Actions) {
        turn::retire(self, self.now_ms, actions);
        self.hand_out(actions);
        actions.stop = None;
    }

    pub(super) fn tell_lost(&mut self, origins: Vec<Origin>, status: StatusCode) {
        for origin in origins {
            let refusal = Refusal::new(status, "the leader has changed");
            self.leader.lost(origin, refusal, &mut self.out);
        }
    }

    /// A new leader looks over what it has taken on; a deposed one lets go of what only a leader may do.
    fn notice_lead(&mut self) {
        let term = self.term();
        if self.member.leads() && self.elected.term != term {
            self.elected = Elected { term, at_ms: self.now_ms };
        }
        match self.member.look_at_lead() {
            Lead::Taken => {
                self.step_down();
                self.leader.take_over(&self.coord, self.elected.at_ms);
            }
            Lead::Lost => self.step_down(),
            Lead::Unchanged => {}
        }
    }

    /// What was not yet proposed was certainly not executed; what was proposed may yet be applied, and is answered then.
    pub(super) fn step_down(&mut self) {
        while let Some(entry) = self.out.take_entry() {
            self.tell_lost(entry.origins, StatusCode::Unavailable);
        }
        #[cfg(feature = "mutants")]
        let said = self.out.messages.len();
        self.leader.step_down(&mut self.out);
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(super::Mutant::SilentStepDown) {
            self.out.messages.truncate(said);
        }
    }

    /// Whether this entry, of expiries only, was done here and now.
    #[cfg(feature = "mutants")]
    pub(super) fn expires_without_the_log(&mut self, entry: &shardine_coord::Gathered) -> bool {
        let only_expiries = entry.origins.iter().all(|origin| *origin == Origin::Expire);
        if self.options.mutant != Some(super::Mutant::ExpiresWithoutTheLog) || !only_expiries {
            return false;
        }
        let (leader, out) = (&mut self.leader, &mut self.out);
        let applied = self.coord.apply(&entry.bytes, |coord, notices, outcome| {
            leader.applied(coord, notices, None, outcome, out);
        });
        applied.is_ok()
    }

    /// A proposal whose fate stays open after the leadership is gone is in doubt.
    pub(super) fn fail_overdue(&mut self) {
        let lost: Vec<Origin> = self.member.overdue(self.now_ms).flat_map(std::mem::take).collect();
        self.tell_lost(lost, StatusCode::Undetermined);
    }
}
