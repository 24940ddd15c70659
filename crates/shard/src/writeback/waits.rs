//! Who waits for SQL: flushes, and kicks of rows that SQL must have first.

use std::collections::{BTreeMap, BTreeSet};

use shardine_consensus::Role;
use shardine_model::{Answer, Entry, ErrorCode, RowKey, RowKeyBuf, TableId, Version};
use shardine_records::{Lookup, Records};

use super::send::dirty_version;
use crate::actions::{Actions, Caller};
use crate::gather::Then;
use crate::replica::{Replica, fail};

#[derive(Debug, Default)]
pub(crate) struct Waits {
    flushes: Vec<FlushWait>,
    kicks: Vec<(Caller, RowKeyBuf)>,
    /// Those whose row SQL did not take: told at the next look (record-cache 29).
    failed: Vec<Caller>,
    kicking: BTreeSet<RowKeyBuf>,
}

#[derive(Debug)]
pub(crate) struct FlushWait {
    caller: Caller,
    remaining: BTreeMap<RowKeyBuf, Version>,
}

impl Waits {
    #[inline]
    pub fn is_kicking(&self, row: RowKey<'_>) -> bool {
        !self.kicking.is_empty() && self.kicking.contains(&row.to_owned())
    }

    /// A row is on its way out; `false` if it was already.
    pub fn begin_kick(&mut self, row: RowKeyBuf) -> bool {
        self.kicking.insert(row)
    }

    pub fn has_kicks(&self) -> bool {
        !self.kicks.is_empty()
    }

    pub fn take_flushes(&mut self) -> Vec<FlushWait> {
        std::mem::take(&mut self.flushes)
    }

    pub fn put_flushes(&mut self, flushes: Vec<FlushWait>) {
        self.flushes = flushes;
    }

    pub fn give_up(&mut self) -> Vec<Caller> {
        self.kicking.clear();
        let flushes = self.flushes.drain(..).map(|flush| flush.caller);
        let kicks = self.kicks.drain(..).map(|(caller, _)| caller);
        flushes.chain(kicks).chain(self.failed.drain(..)).collect()
    }

    /// SQL did not take the row: it stays, dirty, and whoever waits to kick it hears so.
    pub fn fail_kicks(&mut self, row: &RowKeyBuf) {
        let failed = self.kicks.extract_if(.., |(_, kicked)| kicked == row);
        self.failed.extend(failed.map(|(caller, _)| caller));
    }

    /// SQL will not take this version of the row: nobody waits for it any longer.
    pub fn fail_refused(&mut self, row: &RowKeyBuf, version: Version) {
        self.fail_kicks(row);
        let waits_for = |flush: &mut FlushWait| {
            flush.remaining.get(row).is_some_and(|wanted| wanted.magnitude() <= version.magnitude())
        };
        let failed = self.flushes.extract_if(.., waits_for);
        self.failed.extend(failed.map(|flush| flush.caller));
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
        let rows = row.map_or_else(|| self.records.dirty_rows(), |row| vec![row]);
        let wanted = rows.into_iter().filter(|row| table.is_none_or(|table| row.table == table)).collect();
        self.write_now(caller, wanted, actions);
    }

    /// Writes these rows as soon as possible, refused ones too, and answers when SQL has them, or has refused one.
    pub(crate) fn write_now(&mut self, caller: Caller, rows: Vec<RowKeyBuf>, actions: &mut Actions) {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(shardine_records::Mutant::AckBeforeSql) {
            return actions.answers.push((caller, Answer::Many(Vec::new())));
        }
        let mut wanted = Vec::with_capacity(rows.len());
        for row in rows {
            if let Some(version) = dirty_version(&self.records, &row) {
                self.writeback.hurry(row.clone(), self.time.monotonic_ms);
                wanted.push((row, version));
            }
        }
        self.writeback.waits.flushes.push(FlushWait { caller, remaining: wanted.into_iter().collect() });
        self.answer_flushes(actions);
        self.pursue_lease();
        self.drain(actions);
        self.write_back(actions);
    }

    /// SQL holds these rows as far as the records now say. Only they are looked at: a flush may wait for a million others.
    pub(crate) fn finish_written(&mut self, rows: &[RowKeyBuf], actions: &mut Actions) {
        let records = &self.records;
        for flush in &mut self.writeback.waits.flushes {
            if flush.remaining.len() <= rows.len() {
                flush.remaining.retain(|row, version| !is_in_sql(records, row, *version));
                continue;
            }
            for row in rows {
                if flush.remaining.get(row).is_some_and(|version| is_in_sql(records, row, *version)) {
                    flush.remaining.remove(row);
                }
            }
        }
        self.answer_flushes(actions);
    }

    /// The same where it is not known which rows changed.
    pub(crate) fn finish_flushes(&mut self, actions: &mut Actions) {
        let records = &self.records;
        for flush in &mut self.writeback.waits.flushes {
            flush.remaining.retain(|row, version| !is_in_sql(records, row, *version));
        }
        self.answer_flushes(actions);
    }

    fn answer_flushes(&mut self, actions: &mut Actions) {
        let done = self.writeback.waits.flushes.extract_if(.., |flush| flush.remaining.is_empty());
        actions.answers.extend(done.map(|flush| (flush.caller, Answer::Many(Vec::new()))));
        self.try_kicks(actions);
    }

    /// Drops a record from memory once SQL has it. Not in memory is done already, without a load (record-cache 27-29).
    pub fn kick(&mut self, caller: Caller, row: RowKey<'_>, nowait: bool, actions: &mut Actions) {
        if !self.is_serving() {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
        }
        let is_dirty = match self.records.get(row.position(), row) {
            Lookup::NotResident => return actions.answers.push((caller, Answer::Many(Vec::new()))),
            Lookup::UnknownTable => return actions.answers.push((caller, Answer::Failed(ErrorCode::UnknownTable))),
            Lookup::Live(view) => view.version != view.sql_version || view.expires_at.is_some(),
            Lookup::Absent { version, sql_version } => version != sql_version,
        };
        if !self.records.is_sql_table(row.table) {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::Unsupported)));
        }
        if is_dirty && nowait {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::Busy)));
        }
        if is_dirty {
            self.writeback.hurry(row.to_owned(), self.time.monotonic_ms);
        }
        self.writeback.waits.kicks.push((caller, row.to_owned()));
        self.pursue_lease();
        self.drain(actions);
        self.write_back(actions);
        self.try_kicks(actions);
        // Else what was proposed would lie until something else happens to the group.
        self.drain(actions);
    }

    /// Proposes kicks of rows that are clean now. Locked until the lease is held: only then are all dirty rows queued
    /// and known (record-cache 83). A row with a command on its way is not kicked from under it: the command would have
    /// to load it and start again, and those that came after it would have gone ahead by then (record-cache 52).
    pub(crate) fn try_kicks(&mut self, actions: &mut Actions) {
        fail(actions, std::mem::take(&mut self.writeback.waits.failed), ErrorCode::BackendUnavailable);
        if self.writeback.waits.kicks.is_empty() || !self.writeback.lease.is_held(self.time.monotonic_ms) {
            return;
        }
        let mut still_waiting = Vec::new();
        for (caller, row) in std::mem::take(&mut self.writeback.waits.kicks) {
            let clean = match self.records.get(row.as_ref().position(), row.as_ref()) {
                #[cfg(feature = "mutants")]
                Lookup::Live(view) if self.options.mutant == Some(shardine_records::Mutant::KickDirty) => {
                    Some(view.version)
                }
                Lookup::Live(_) | Lookup::Absent { .. } if self.is_touched(row.as_ref()) => None,
                Lookup::Absent { .. } if self.writeback.is_purging(row.as_ref()) => None,
                Lookup::Live(view) if view.version == view.sql_version && view.expires_at.is_none() => {
                    Some(view.version)
                }
                Lookup::Absent { version, sql_version } if version == sql_version => Some(version),
                Lookup::Live(_) | Lookup::Absent { .. } => None,
                Lookup::NotResident | Lookup::UnknownTable => {
                    actions.answers.push((caller, Answer::Many(Vec::new())));
                    continue;
                }
            };
            let Some(version) = clean.filter(|_| self.writeback.waits.kicking.insert(row.clone())) else {
                still_waiting.push((caller, row));
                continue;
            };
            let entry = Entry::Kick(vec![(row.as_ref(), version)]);
            let then = Then::Kicked(vec![(row.clone(), version)]);
            if !self.propose(&entry, vec![caller], then) {
                actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
            }
        }
        self.writeback.waits.kicks.extend(still_waiting);
    }

    pub(crate) fn finish_kicks(&mut self, rows: &[(RowKeyBuf, Version)], callers: Vec<Caller>, actions: &mut Actions) {
        for (row, _) in rows {
            self.writeback.waits.kicking.remove(row);
            let stayed = !matches!(self.records.get(row.as_ref().position(), row.as_ref()), Lookup::NotResident);
            for &caller in &callers {
                if !stayed {
                    actions.answers.push((caller, Answer::Many(Vec::new())));
                } else if self.group.role() == Role::Leader {
                    // A change came between; the kick waits for SQL again.
                    self.writeback.hurry(row.clone(), self.time.monotonic_ms);
                    self.writeback.waits.kicks.push((caller, row.clone()));
                } else {
                    actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
                }
            }
            self.release(std::slice::from_ref(row), actions);
        }
        self.try_kicks(actions);
    }
}

/// Whether SQL has the row in this version or a later one. A row that left memory was written before.
fn is_in_sql(records: &Records, row: &RowKeyBuf, version: Version) -> bool {
    match records.get(row.as_ref().position(), row.as_ref()) {
        Lookup::Live(view) => view.sql_version.magnitude() >= version.magnitude(),
        Lookup::Absent { sql_version, .. } => sql_version.magnitude() >= version.magnitude(),
        Lookup::NotResident | Lookup::UnknownTable => true,
    }
}
