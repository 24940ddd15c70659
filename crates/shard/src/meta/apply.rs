//! The map's part in the turn of its group: commands are executed, and whoever waits is told.

use shardine_consensus::ReadDone;
use shardine_meta::Meta;
use shardine_model::log::LogEntry;
use shardine_model::{ErrorCode, Refusal};

use super::{Actions, Replica, Ticket, answer};
use crate::member::proposals::Fate;
use crate::member::turn::{self, Turn};
use crate::member::{Member, Outbox, deferred};

impl Turn for Replica {
    type Machine = Meta;
    type Actions = Actions;
    type Load = Vec<Ticket>;
    type Rest = ();

    fn parts(&mut self) -> (&mut Member<Vec<Ticket>>, &mut Meta) {
        (&mut self.member, &mut self.meta)
    }

    fn outbox(actions: &mut Actions) -> Outbox<'_> {
        Outbox { persists: &mut actions.persists, messages: &mut actions.messages }
    }

    fn empty_machine(&mut self) -> Meta {
        Meta::new()
    }

    fn prepared(&mut self) -> Option<Meta> {
        self.prepared.take()
    }

    fn execute(&mut self, entry: &LogEntry, own: Option<Vec<Ticket>>, actions: &mut Actions) -> Result<(), String> {
        let mut waiting = own.unwrap_or_default().into_iter();
        let applied = self.meta.apply(&entry.data, |reply| {
            answer(actions, waiting.next().unwrap_or(Ticket::NOBODY), reply);
        });
        applied.map_err(|fatal| format!("entry {} of term {}: {fatal}", entry.index, entry.term))
    }

    fn finish(&mut self, (): (), _: &mut Actions) {}

    fn lose(&mut self, waiting: Vec<Ticket>, fate: Fate, actions: &mut Actions) {
        tell_lost(waiting, fate, actions);
    }

    /// There are no reads to confirm: one that must be exact is an entry ([`shardine_meta::Command::Mark`]). What was gathered by
    /// a leader that is none any more was certainly not executed.
    fn end_turn(&mut self, _: Vec<ReadDone>, actions: &mut Actions) {
        if !self.member.leads() {
            self.gathered.clear();
            tell_lost(std::mem::take(&mut self.waiting), Fate::NotExecuted, actions);
        }
    }

    fn say_stopped(&mut self, reason: String, actions: &mut Actions) {
        tell_lost(std::mem::take(&mut self.waiting), Fate::NotExecuted, actions);
        actions.stop = Some(format!("the group of the map stopped: {reason}"));
    }

    #[cfg(feature = "mutants")]
    fn answers_before_sync(&self) -> bool {
        false
    }
}

impl Replica {
    /// Takes everything the group has ready: sends, writes, applies.
    pub(super) fn drain(&mut self, actions: &mut Actions) {
        deferred::settle(self, self.now_ms, actions);
        turn::drain(self, actions);
        // The lead may have been lost in this turn.
        deferred::settle(self, self.now_ms, actions);
    }

    /// This replica was removed from its group and is about to go: tells everybody who still waits for something.
    pub fn retire(&mut self, actions: &mut Actions) {
        turn::retire(self, self.now_ms, actions);
        actions.stop = None;
    }

    /// A proposal whose fate stays open after the leadership is gone is in doubt.
    pub(super) fn fail_overdue(&mut self, actions: &mut Actions) {
        let lost: Vec<Ticket> = self.member.overdue(self.now_ms).flat_map(std::mem::take).collect();
        tell_lost(lost, Fate::InDoubt, actions);
    }
}

pub(super) fn tell_lost(waiting: Vec<Ticket>, fate: Fate, actions: &mut Actions) {
    let code = match fate {
        Fate::NotExecuted => ErrorCode::NotLeader,
        Fate::InDoubt => ErrorCode::InDoubt,
    };
    for ticket in waiting {
        answer(actions, ticket, Err(Refusal::new(code, "the leader of the group of the map has changed")));
    }
}
