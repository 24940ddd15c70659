//! Who waits for SQL to have a version of a row: flushes, changes whose answer is held back, and those who come back later
//! with the version that they were told (records 31, 32).

use shardine_model::{Answer, Backing, ErrorCode, RowKey, RowKeyBuf, TableId, Version};
use shardine_records::{DirtyRow, Lookup};

use super::send::dirty_version;
use crate::actions::{Actions, Caller};
use crate::hold::HeldAnswer;
use crate::reads::Token;
use crate::replica::Replica;
use crate::row_map::RowMap;

#[derive(Debug, Default)]
pub(crate) struct Waits {
    open: Vec<Wait>,
    /// Those whose row SQL has refused: told when the dead letter is there to be looked at.
    refused: Vec<(Caller, Answer)>,
}

#[derive(Debug)]
struct Wait {
    caller: Caller,
    /// Invariant: never empty between two turns.
    remaining: RowMap<Version>,
    /// What a change came to. Without one, done is all there is to say.
    held: Option<HeldAnswer>,
    until_ms: u64,
}

/// How a row stands that somebody waits for.
enum Progress {
    NotYet,
    InSql,
    /// Its table is gone: there is nothing left to write.
    Gone,
}

impl Wait {
    /// SQL has what was waited for, as far as it is still wanted there.
    fn done(self) -> (Caller, Answer) {
        (self.caller, self.held.map_or(Answer::Many(Vec::new()), |held| held.answer))
    }

    /// The wait ends without SQL. A change was made all the same (records 32).
    fn ended(self, code: ErrorCode) -> (Caller, Answer) {
        (self.caller, self.held.map_or(Answer::Failed(code), |held| held.answer))
    }
}

impl Waits {
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Nobody is made to wait by one who does not lead.
    pub fn give_up(&mut self) -> Vec<(Caller, Answer)> {
        let open = self.open.drain(..).map(|wait| wait.ended(ErrorCode::NotLeader));
        open.chain(self.refused.drain(..)).collect()
    }

    /// Those whose change was made, and whose rows are another shard's now; who waits for a flush is sent away, to ask again.
    pub fn part(&mut self, is_other: impl Fn(RowKey<'_>) -> bool) -> (Self, Vec<Caller>) {
        let asked = self.open.extract_if(.., |wait| wait.held.is_none()).map(|wait| wait.caller).collect();
        let is_others = |wait: &mut Wait| wait.remaining.sorted_rows().iter().any(|row| is_other(row.as_ref()));
        let open = self.open.extract_if(.., is_others).collect();
        (Self { open, refused: Vec::new() }, asked)
    }

    /// The rows that somebody waits for.
    pub fn rows(&self) -> Vec<&RowKeyBuf> {
        self.open.iter().flat_map(|wait| wait.remaining.sorted_rows()).collect()
    }

    /// Ends the waits for which something holds.
    fn end(&mut self, code: ErrorCode, ends: impl FnMut(&mut Wait) -> bool) -> Vec<(Caller, Answer)> {
        self.open.extract_if(.., ends).map(|wait| wait.ended(code)).collect()
    }

    /// SQL will not take this version of the row: nobody waits for it any longer.
    pub fn refuse(&mut self, row: &RowKeyBuf, version: Version) {
        let waits_for =
            |wait: &mut Wait| wait.remaining.get(row).is_some_and(|wanted| wanted.magnitude() <= version.magnitude());
        let refused = self.end(ErrorCode::SqlRefused, waits_for);
        self.refused.extend(refused);
    }

    pub fn take_refused(&mut self) -> Vec<(Caller, Answer)> {
        std::mem::take(&mut self.refused)
    }
}

impl Replica {
    /// Notes what SQL must hold before a flush is answered. The next turn of the group and the next batch carry it on.
    pub(crate) fn begin_flush(
        &mut self,
        caller: Caller,
        row: Option<RowKeyBuf>,
        table: Option<TableId>,
        actions: &mut Actions,
    ) {
        match row {
            Some(row) => self.write_now(caller, vec![row], actions),
            None => self.flush_all(caller, table, actions),
        }
    }

    /// There may be a million of them: each is looked at once, and those that wait in line for SQL anyway stay there.
    fn flush_all(&mut self, caller: Caller, table: Option<TableId>, actions: &mut Actions) {
        if self.acks_before_sql() {
            return actions.answers.push((caller, Answer::Many(Vec::new())));
        }
        let now = self.time.monotonic_ms;
        let dirty = self.records.dirty_versions(table);
        for DirtyRow { row, version, .. } in &dirty {
            match self.records.is_dead(row, *version) {
                true => self.writeback.hurry_version(row.clone(), *version, now),
                false => self.writeback.call_version(row, *version, now),
            }
        }
        let is_to_come = |dirty: &DirtyRow| dirty.sql_version.magnitude() < dirty.version.magnitude();
        let remaining: RowMap<Version> =
            dirty.into_iter().filter(is_to_come).map(|dirty| (dirty.row, dirty.version)).collect();
        let wait = Wait { caller, remaining, held: None, until_ms: u64::MAX };
        match wait.remaining.is_empty() {
            true => actions.answers.push(wait.done()),
            false => self.writeback.waits.open.push(wait),
        }
        self.pursue_lease();
        self.drain(actions);
        self.write_back(actions);
    }

    #[cfg(feature = "mutants")]
    fn acks_before_sql(&self) -> bool {
        self.options.mutant == Some(shardine_records::Mutant::AckBeforeSql)
    }

    #[cfg(not(feature = "mutants"))]
    #[expect(clippy::unused_self, reason = "a mutant looks at it")]
    fn acks_before_sql(&self) -> bool {
        false
    }

    /// Writes these rows as soon as possible, refused ones too, and answers when SQL has them, or has refused one.
    pub(crate) fn write_now(&mut self, caller: Caller, rows: Vec<RowKeyBuf>, actions: &mut Actions) {
        if self.acks_before_sql() {
            return actions.answers.push((caller, Answer::Many(Vec::new())));
        }
        let dirty = rows.into_iter().filter_map(|row| dirty_version(&self.records, &row).map(|version| (row, version)));
        let wanted = dirty.collect();
        self.wait_for_sql(caller, wanted, None, u64::MAX, actions);
        self.pursue_lease();
        self.drain(actions);
        self.write_back(actions);
    }

    /// Notes a version that SQL must hold before somebody is answered who was told of it before.
    pub(crate) fn begin_wait(&mut self, caller: Caller, token: Token, actions: &mut Actions) {
        let Token { row, version, until_ms } = token;
        let newest = match self.records.get(row.as_ref().position(), row.as_ref()) {
            Lookup::Live(view) => Some(view.version),
            Lookup::Absent { version, .. } => Some(version),
            Lookup::NotResident | Lookup::UnknownTable => None,
        };
        let refusal = match self.records.catalogue().get(row.table) {
            None => Some(ErrorCode::UnknownTable),
            Some(table) if table.backing == Backing::None => Some(ErrorCode::Unsupported),
            // Nobody can have been told of it: waiting would never end.
            Some(_) if newest.is_some_and(|newest| newest.magnitude() < version.magnitude()) => {
                Some(ErrorCode::VersionMismatch)
            }
            Some(_) => None,
        };
        if let Some(code) = refusal {
            return actions.answers.push((caller, Answer::Failed(code)));
        }
        self.wait_for_sql(caller, RowMap::from_iter([(row, version)]), None, until_ms, actions);
        self.pursue_lease();
        self.drain(actions);
        self.write_back(actions);
    }

    /// Lets somebody wait for these versions, and hurries their rows.
    pub(crate) fn wait_for_sql(
        &mut self,
        caller: Caller,
        remaining: RowMap<Version>,
        held: Option<HeldAnswer>,
        until_ms: u64,
        actions: &mut Actions,
    ) {
        let mut wait = Wait { caller, remaining, held, until_ms };
        if self.has_all(&mut wait) {
            return actions.answers.push(wait.done());
        }
        for row in wait.remaining.sorted_rows() {
            if let Some(version) = dirty_version(&self.records, row) {
                self.writeback.hurry_version(row.clone(), version, self.time.monotonic_ms);
            }
        }
        self.writeback.waits.open.push(wait);
    }

    /// SQL has something new: answers those who need wait no longer.
    pub(crate) fn finish_waits(&mut self, actions: &mut Actions) {
        self.answer_waits(actions, Self::has_all);
    }

    /// The same where it is known which rows SQL has. Only they are looked at: a flush may wait for a million others.
    pub(crate) fn finish_written(&mut self, rows: &[RowKeyBuf], actions: &mut Actions) {
        self.answer_waits(actions, |replica, wait| {
            if wait.remaining.len() <= rows.len() {
                return replica.has_all(wait);
            }
            rows.iter().for_each(|row| replica.look(wait, row));
            wait.remaining.is_empty()
        });
    }

    fn answer_waits(&mut self, actions: &mut Actions, has_all: impl Fn(&Self, &mut Wait) -> bool) {
        for mut wait in std::mem::take(&mut self.writeback.waits.open) {
            match has_all(self, &mut wait) {
                true => actions.answers.push(wait.done()),
                false => self.writeback.waits.open.push(wait),
            }
        }
        self.try_kicks(actions);
    }

    /// Looks whether one row still is to come.
    fn look(&self, wait: &mut Wait, row: &RowKeyBuf) {
        let Wait { remaining, held, .. } = wait;
        remaining.remove_if(row, |version| self.is_through(row, *version, held));
    }

    /// Looks which rows still are to come, and whether none is.
    fn has_all(&self, wait: &mut Wait) -> bool {
        let Wait { remaining, held, .. } = wait;
        remaining.retain(|row, version| !self.is_through(row, *version, held));
        remaining.is_empty()
    }

    /// Whether the row need not be waited for. An answer that is held back for it is told what SQL has.
    fn is_through(&self, row: &RowKeyBuf, version: Version, held: &mut Option<HeldAnswer>) -> bool {
        match self.progress(row.as_ref(), version) {
            Progress::NotYet => false,
            Progress::Gone => true,
            Progress::InSql => {
                held.iter_mut().for_each(|held| held.confirm(row));
                true
            }
        }
    }

    /// A record that is not in memory was in SQL when it left.
    fn progress(&self, row: RowKey<'_>, version: Version) -> Progress {
        let held = match self.records.get(row.position(), row) {
            Lookup::Live(view) => view.sql_version,
            Lookup::Absent { sql_version, .. } => sql_version,
            Lookup::NotResident => return Progress::InSql,
            Lookup::UnknownTable => return Progress::Gone,
        };
        if held.magnitude() >= version.magnitude() { Progress::InSql } else { Progress::NotYet }
    }

    /// Nobody waits longer than he said (records 32).
    pub(crate) fn end_overdue_waits(&mut self, actions: &mut Actions) {
        let now = self.time.monotonic_ms;
        let ended = self.writeback.waits.end(ErrorCode::Expired, |wait| wait.until_ms <= now);
        actions.answers.extend(ended);
    }
}
