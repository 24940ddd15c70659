//! Applying committed entries, and telling those who wait for them.

use std::collections::BTreeMap;

use shardine_consensus::ReadDone;
use shardine_model::entry::split_of;
use shardine_model::log::LogEntry;
use shardine_model::{AckAfter, Answer, ErrorCode, RequestEpoch, RowKey, RowKeyBuf};
use shardine_records::{Records, Sink};

use crate::actions::{Actions, Caller, Returned};
use crate::gather::{Proposal, Then};
use crate::hold::{Hold, Wish};
use crate::member::proposals::Fate;
use crate::member::turn::Turn;
use crate::member::{Member, Outbox};
use crate::replica::{Replica, fail};
use crate::writeback::Writeback;

/// A request that met rows no longer in memory.
struct Again {
    request: Box<[u8]>,
    missing: Vec<RowKeyBuf>,
    wish: Wish,
}

/// Hands each outcome to the caller whose request it was.
struct Outcomes<'a> {
    answers: &'a mut Vec<(Caller, Answer)>,
    returned: &'a mut Vec<Returned>,
    epoch: RequestEpoch,
    callers: std::vec::IntoIter<Caller>,
    again: Vec<(Caller, Again)>,
    /// Which answers wait for SQL, by their place in the entry, and those that do so now.
    holds: BTreeMap<usize, Hold>,
    held: Vec<(Caller, Answer, Hold)>,
    place: usize,
    /// Where rows for SQL are marked, and when, if this replica is the one that writes there.
    marks: Option<(&'a mut Writeback, u64)>,
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

    fn stray(&mut self, request: &[u8]) {
        self.next_hold();
        if let Some(caller) = self.callers.next() {
            let (request, catalogue, why) = (request.to_vec(), self.epoch.catalogue, ErrorCode::StaleRoute);
            self.returned.push(Returned { caller, request, catalogue, why });
        }
    }

    fn dirty(&mut self, row: RowKey<'_>) {
        if let Some((writeback, now_ms)) = &mut self.marks {
            writeback.mark(row, *now_ms);
        }
    }
}

impl Turn for Replica {
    type Machine = Records;
    type Actions = Actions;
    type Load = Proposal;
    /// What follows, and the callers that no request of the entry has answered.
    type Rest = (Option<Then>, Vec<Caller>);

    fn parts(&mut self) -> (&mut Member<Proposal>, &mut Records) {
        (&mut self.member, &mut self.records)
    }

    fn outbox(actions: &mut Actions) -> Outbox<'_> {
        Outbox { persists: &mut actions.persists, messages: &mut actions.messages }
    }

    fn empty_machine(&mut self) -> Records {
        let empty = Records::new(self.options.seed);
        #[cfg(feature = "mutants")]
        let empty = self.spoil(empty);
        empty
    }

    fn prepared(&mut self) -> Option<Records> {
        self.prepared.take()
    }

    fn execute(
        &mut self,
        entry: &LogEntry,
        own: Option<Proposal>,
        actions: &mut Actions,
    ) -> Result<Self::Rest, String> {
        let (callers, holds, epoch, then) = match own {
            Some(own) => (own.callers, own.holds, own.epoch, Some(own.then)),
            None => (Vec::new(), BTreeMap::new(), RequestEpoch::FIRST, None),
        };
        if let Some(split) = split_of(&entry.data).map_err(|error| self.unreadable(entry, &error))? {
            self.apply_split(split, actions);
            return Ok((then, callers));
        }
        Ok((then, self.apply_to_records(entry, callers, holds, epoch, actions)?))
    }

    fn finish(&mut self, (then, unserved): Self::Rest, actions: &mut Actions) {
        if let Some(then) = then {
            self.upkeep.clear(&then);
            self.follow_up(then, unserved, actions);
        }
    }

    fn lose(&mut self, proposal: Proposal, fate: Fate, actions: &mut Actions) {
        let code = match fate {
            Fate::NotExecuted => ErrorCode::NotLeader,
            Fate::InDoubt => ErrorCode::InDoubt,
        };
        fail(actions, proposal.callers, code);
        self.upkeep.clear(&proposal.then);
    }

    fn end_turn(&mut self, reads: Vec<ReadDone>, actions: &mut Actions) {
        for done in reads {
            self.reads.confirm(done);
        }
        self.answer_confirmed_reads(actions);
        self.notice_lead(actions);
        self.release_early(actions);
    }

    fn say_stopped(&mut self, reason: String, actions: &mut Actions) {
        self.step_down(actions);
        actions.stop = Some(format!("shard {} stopped: {reason}", self.options.shard));
    }

    #[cfg(feature = "mutants")]
    fn answers_before_sync(&self) -> bool {
        self.options.mutant == Some(shardine_records::Mutant::AnswerBeforeSync)
    }
}

impl Replica {
    /// Plants the bug of this run, and lets a snapshot be taken in on top of what is there if it is that one.
    #[cfg(feature = "mutants")]
    fn spoil(&mut self, empty: Records) -> Records {
        let mut empty = empty.with_mutant(self.options.mutant);
        if self.options.mutant == Some(shardine_records::Mutant::SnapshotDoesNotClear) {
            std::mem::swap(&mut empty, &mut self.records);
            empty.abandon_cut();
        }
        empty
    }

    fn unreadable(&self, entry: &LogEntry, error: &impl std::fmt::Display) -> String {
        format!("entry {} of term {} cannot be read: {error}", entry.index, entry.term)
    }

    /// The callers that are left are those of entries without requests: loads, kicks, definitions.
    fn apply_to_records(
        &mut self,
        entry: &LogEntry,
        callers: Vec<Caller>,
        holds: BTreeMap<usize, Hold>,
        epoch: RequestEpoch,
        actions: &mut Actions,
    ) -> Result<Vec<Caller>, String> {
        let mut outcomes = Outcomes {
            answers: &mut actions.answers,
            returned: &mut actions.returned,
            epoch,
            callers: callers.into_iter(),
            again: Vec::new(),
            holds,
            held: Vec::new(),
            place: 0,
            marks: self.member.has_taken_over().then_some((&mut self.writeback, self.time.monotonic_ms)),
        };
        let applied = self.records.apply(&entry.data, &mut outcomes);
        let Outcomes { callers, again, held, .. } = outcomes;
        if let Err(fatal) = applied {
            let callers: Vec<Caller> = callers.collect();
            fail(actions, callers, ErrorCode::InDoubt);
            actions.answers.extend(held.into_iter().map(|(caller, answer, _)| (caller, answer)));
            return Err(format!("entry {} of term {}: {fatal}", entry.index, entry.term));
        }
        let unserved = callers.collect();
        for (caller, Again { request, missing, wish }) in again {
            self.park_again(caller, request, epoch, wish, &missing, actions);
        }
        self.hold_answers(held, actions);
        Ok(unserved)
    }

    /// What the leader does when its entry has been applied.
    fn follow_up(&mut self, then: Then, unserved: Vec<Caller>, actions: &mut Actions) {
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
            // It is about to be given back, or a lead asked for it that is over: another one may hold it by now.
            Then::Leased { .. } if self.is_handing_over() || !self.is_serving() => {}
            Then::Leased { asked_ms } => {
                self.writeback.lease.granted(asked_ms);
                // Whoever waited for the right to write need not wait for the next tick as well.
                self.write_back(actions);
                self.try_kicks(actions);
            }
            Then::Released => self.writeback.lease.let_go(),
            Then::Written(rows) => self.finish_written(&rows, actions),
            Then::Refused(rows) => self.finish_refused(rows, actions),
            Then::Raised(rows) => self.finish_raised(rows, actions),
            Then::Settled(row) => self.finish_settled(&row, unserved, actions),
            Then::SqlPurged => self.finish_purge(actions),
            Then::Expired | Then::Purged | Then::Floored | Then::Split => {}
        }
    }
}
