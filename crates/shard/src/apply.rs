//! Applying committed entries, and telling those who wait for them.

use std::collections::BTreeMap;

use shardine_model::log::{LogEntry, LogEntryKind};
use shardine_model::{AckAfter, Answer, ErrorCode, RowKey, RowKeyBuf};
use shardine_records::Sink;

use crate::actions::{Actions, Caller};
use crate::gather::{Flight, Then};
use crate::hold::{Hold, Wish};
use crate::replica::{Replica, fail};

/// A request that met rows no longer in memory.
struct Again {
    request: Box<[u8]>,
    missing: Vec<RowKeyBuf>,
    wish: Wish,
}

/// Hands each outcome to the caller whose request it was.
struct Outcomes<'a> {
    answers: &'a mut Vec<(Caller, Answer)>,
    callers: std::vec::IntoIter<Caller>,
    again: Vec<(Caller, Again)>,
    /// Which answers wait for SQL, by their place in the entry, and those that do so now.
    holds: BTreeMap<usize, Hold>,
    held: Vec<(Caller, Answer, Hold)>,
    place: usize,
    /// Rows for SQL, where this replica is the one that writes there.
    dirty: Option<Vec<RowKeyBuf>>,
}

impl Outcomes<'_> {
    #[inline]
    fn next_hold(&mut self) -> Option<Hold> {
        if self.holds.is_empty() {
            return None;
        }
        self.place += 1;
        self.holds.remove(&(self.place - 1))
    }
}

impl Sink for Outcomes<'_> {
    #[inline]
    fn answer(&mut self, answer: Answer) {
        let hold = self.next_hold();
        match (self.callers.next(), hold) {
            (Some(caller), None) => self.answers.push((caller, answer)),
            (Some(caller), Some(hold)) => self.held.push((caller, answer, hold)),
            (None, _) => {}
        }
    }

    fn not_resident(&mut self, request: &[u8], missing: Vec<RowKeyBuf>) {
        let wish = self.next_hold().map_or(Wish { after: AckAfter::Raft, until_ms: 0 }, |hold| hold.wish());
        if let Some(caller) = self.callers.next() {
            self.again.push((caller, Again { request: request.into(), missing, wish }));
        }
    }

    fn dirty(&mut self, row: RowKey<'_>) {
        if let Some(dirty) = &mut self.dirty {
            dirty.push(row.to_owned());
        }
    }
}

impl Replica {
    /// Applies one entry, the same way whoever proposed it (record-cache 75).
    pub(crate) fn apply(&mut self, entry: LogEntry, actions: &mut Actions) {
        assert_eq!(entry.index, self.applied + 1, "entries are applied without gaps");
        let flight = self.take_flight(&entry, actions);
        let (callers, holds, then) = match flight {
            Some(flight) => (flight.callers, flight.holds, Some(flight.then)),
            None => (Vec::new(), BTreeMap::new(), None),
        };
        let outcome = if entry.data.is_empty() || entry.kind == LogEntryKind::Membership {
            Ok(Default::default())
        } else {
            self.apply_to_records(&entry, callers, holds, actions)
        };
        (self.applied, self.applied_term) = (entry.index, entry.term);
        self.group.applied(entry.index);
        match outcome {
            Err(reason) => return self.stop(reason, actions),
            Ok(unserved) => self.finish_flight(then, unserved, actions),
        }
        self.group.trim(self.applied, self.options.window_entries);
        self.cut_if_due();
    }

    /// The callers that are left are those of entries without requests: loads, kicks, definitions.
    fn apply_to_records(
        &mut self,
        entry: &LogEntry,
        callers: Vec<Caller>,
        holds: BTreeMap<usize, Hold>,
        actions: &mut Actions,
    ) -> Result<Vec<Caller>, String> {
        let mut outcomes = Outcomes {
            answers: &mut actions.answers,
            callers: callers.into_iter(),
            again: Vec::new(),
            holds,
            held: Vec::new(),
            place: 0,
            dirty: self.has_taken_over().then(Vec::new),
        };
        let applied = self.records.apply(&entry.data, &mut outcomes);
        let Outcomes { callers, again, held, dirty, .. } = outcomes;
        if let Err(fatal) = applied {
            let callers: Vec<Caller> = callers.collect();
            fail(actions, callers, ErrorCode::InDoubt);
            actions.answers.extend(held.into_iter().map(|(caller, answer, _)| (caller, answer)));
            return Err(format!("entry {} of term {}: {fatal}", entry.index, entry.term));
        }
        for row in dirty.into_iter().flatten() {
            self.writeback.mark(row, self.time.monotonic_ms);
        }
        let unserved = callers.collect();
        for (caller, Again { request, missing, wish }) in again {
            self.park_again(caller, request, wish, &missing, actions);
        }
        self.hold_answers(held, actions);
        Ok(unserved)
    }

    /// This replica's own proposal at that place. Proposals of it that were certainly not executed are told so: those
    /// that another leader's entry has replaced, and those of older terms, wherever they stood, for terms never go back
    /// along the log.
    fn take_flight(&mut self, entry: &LogEntry, actions: &mut Actions) -> Option<Flight> {
        while let Some(flight) = self.flights.front() {
            let proposed = flight.proposed;
            let is_it = (proposed.index, proposed.term) == (entry.index, entry.term);
            if !is_it && proposed.index > entry.index && proposed.term >= entry.term {
                return None;
            }
            let flight = self.flights.pop_front().expect("just looked");
            if is_it {
                return Some(flight);
            }
            self.forget_flight(flight, actions);
        }
        None
    }

    fn forget_flight(&mut self, flight: Flight, actions: &mut Actions) {
        fail(actions, flight.callers, ErrorCode::NotLeader);
        self.upkeep.clear(&flight.then);
    }

    fn finish_flight(&mut self, then: Option<Then>, unserved: Vec<Caller>, actions: &mut Actions) {
        let Some(then) = then else { return };
        self.upkeep.clear(&then);
        match then {
            Then::Answer => {
                // A definition or an emptied table: done is all there is to say.
                actions.answers.extend(unserved.into_iter().map(|caller| (caller, Answer::Many(Vec::new()))));
            }
            Then::Loaded(rows) => self.release(&rows, actions),
            Then::Kicked(rows) => self.finish_kicks(&rows, unserved, actions),
            Then::Shed(rows) => {
                self.finish_kicks(&rows, Vec::new(), actions);
                self.shed_some();
            }
            Then::Leased { asked_ms } => {
                self.writeback.lease.granted(asked_ms);
                // Whoever waited for the right to write need not wait for the next tick as well.
                self.write_back(actions);
                self.try_kicks(actions);
            }
            Then::Written(rows) => self.finish_written(&rows, actions),
            Then::Refused(rows) => self.finish_refused(rows, actions),
            Then::Raised(rows) => self.finish_raised(rows, actions),
            Then::Settled(row) => self.finish_settled(&row, unserved, actions),
            Then::SqlPurged => self.finish_purge(actions),
            Then::Expired | Then::Purged | Then::Floored => {}
        }
    }
}
