//! The turn of the group: what is written, sent and applied, and what a change of leader means for those who wait.

use bytes::Bytes;
use shardine_consensus::Role;
use shardine_coord::{Coord, Origin};
use shardine_model::log::{LogEntry, LogEntryKind, SnapshotMeta};

use super::{Actions, Elected, Flight, Refusal, Replica, StatusCode};
use crate::cutting::At;

/// How long those who called a deposed leader wait for news of their proposals.
const IN_DOUBT_AFTER_MS: u64 = 3_000;

impl Replica {
    /// Takes everything the group has ready: sends, writes, applies.
    pub(super) fn drain(&mut self, actions: &mut Actions) {
        while !self.stopped {
            let Some(mut ready) = self.group.ready() else { break };
            actions.messages.append(&mut ready.messages);
            if let Some((meta, data)) = &ready.snapshot {
                self.install(meta, data, actions);
            }
            if ready.must_sync || ready.snapshot.is_some() {
                self.cutting.count_log(&ready.entries);
            }
            let group = self.options.group;
            self.writes.take(group, &mut ready, &mut self.group, &mut actions.persists, &mut actions.messages);
            #[cfg(feature = "mutants")]
            if self.options.mutant == Some(super::Mutant::AnswerBeforeSync) {
                self.writes.confirm_newest_too_early(ready.number, &mut self.group, &mut actions.messages);
            }
            for entry in ready.committed {
                self.apply(&entry, actions);
                if self.stopped {
                    return;
                }
            }
            self.notice_role();
        }
        self.hand_out(actions);
    }

    fn apply(&mut self, entry: &LogEntry, actions: &mut Actions) {
        assert_eq!(entry.index, self.applied.index + 1, "entries are applied without gaps");
        let origins = self.take_flight(entry).unwrap_or_default();
        let mut applied = Ok(());
        if !entry.data.is_empty() && entry.kind == LogEntryKind::Normal {
            let (leader, out) = (&mut self.leader, &mut self.out);
            let mut origins = origins.into_iter();
            applied = self.coord.apply(&entry.data, |coord, notices, outcome| {
                leader.applied(coord, notices, origins.next(), outcome, out);
            });
        }
        self.applied = At { index: entry.index, term: entry.term };
        self.group.applied(entry.index);
        if let Err(fatal) = applied {
            return self.stop(format!("entry {} of term {}: {fatal}", entry.index, entry.term), actions);
        }
        self.group.trim(self.applied.index, self.options.window_entries);
        self.cut_if_due();
    }

    /// This replica's own proposal at that place. Those that were certainly not executed are told so: what another
    /// leader's entry has replaced, and what is of older terms, for terms never go back along the log.
    fn take_flight(&mut self, entry: &LogEntry) -> Option<Vec<Origin>> {
        while let Some(flight) = self.flights.front() {
            let proposed = flight.proposed;
            let is_it = (proposed.index, proposed.term) == (entry.index, entry.term);
            if !is_it && proposed.index > entry.index && proposed.term >= entry.term {
                return None;
            }
            let flight = self.flights.pop_front().expect("just looked");
            if is_it {
                return Some(flight.origins);
            }
            self.lose(flight.origins, StatusCode::Unavailable);
        }
        None
    }

    pub(super) fn lose(&mut self, origins: Vec<Origin>, status: StatusCode) {
        for origin in origins {
            let refusal = Refusal::new(status, "the leader has changed");
            self.leader.lost(origin, refusal, &mut self.out);
        }
    }

    /// A new leader looks over what it has taken on; a deposed one lets go of what only a leader may do.
    fn notice_role(&mut self) {
        let (term, leads) = (self.group.term(), self.group.role() == Role::Leader);
        if leads && self.elected.term != term {
            self.elected = Elected { term, at_ms: self.now_ms };
        }
        if self.is_serving() {
            if self.led_term != term {
                self.step_down();
                self.led_term = term;
                self.leader.take_over(&self.coord, self.elected.at_ms);
            }
        } else if self.led_term != 0 && !leads {
            self.step_down();
        }
    }

    /// What was not yet proposed was certainly not executed; what was proposed may yet be applied, and is answered then.
    pub(super) fn step_down(&mut self) {
        self.led_term = 0;
        while let Some(entry) = self.out.take_entry() {
            self.lose(entry.origins, StatusCode::Unavailable);
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
        if self.group.role() == Role::Leader {
            return;
        }
        let overdue = |flight: &Flight| self.now_ms.saturating_sub(flight.since_ms) > IN_DOUBT_AFTER_MS;
        let lost: Vec<Origin> = self
            .flights
            .iter_mut()
            .filter(|flight| overdue(flight))
            .flat_map(|flight| std::mem::take(&mut flight.origins))
            .collect();
        self.lose(lost, StatusCode::Undetermined);
    }

    /// Takes the leader's snapshot in place of everything this replica has applied.
    fn install(&mut self, meta: &SnapshotMeta, data: &Bytes, actions: &mut Actions) {
        let empty = Coord::new();
        #[cfg(feature = "mutants")]
        let empty = empty.with_mutant(self.options.mutant);
        match self.cutting.restore(empty, meta, data) {
            Ok(coord) => {
                self.coord = coord;
                self.applied = At { index: meta.index, term: meta.term };
                // It does not tell whether it holds what this replica had proposed at the places that it covers.
                while self.flights.front().is_some_and(|flight| flight.proposed.index <= meta.index) {
                    let flight = self.flights.pop_front().expect("just looked");
                    self.lose(flight.origins, StatusCode::Undetermined);
                }
            }
            Err(error) => self.stop(format!("a snapshot from the leader cannot be read: {error}"), actions),
        }
    }

    fn stop(&mut self, reason: String, actions: &mut Actions) {
        self.stopped = true;
        for flight in std::mem::take(&mut self.flights) {
            self.lose(flight.origins, StatusCode::Undetermined);
        }
        self.step_down();
        self.hand_out(actions);
        actions.stop = Some(format!("coordination group {} stopped: {reason}", self.options.group));
    }
}
