//! Which rows must go to SQL, who may send them, and who waits for it. Knows no SQL.
//!
//! A row is dirty while its version differs from the one SQL is known to hold; both are replicated. The queue here only
//! remembers which rows to look at. The leader writes under a lease, one batch per table at a time; `Written` entries
//! report back through the log, so a new leader writes only what is really dirty.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shardine_consensus::Role;
use shardine_model::{Answer, Entry, ErrorCode, NodeId, RowKey, RowKeyBuf, TableId, Version, limits};
use shardine_records::Lookup;

use crate::actions::{Actions, Caller, FlushResult, FlushRow, SqlWrite};
use crate::gather::Then;
use crate::replica::{Replica, fail};

/// How long others wait after applying a lease, and how long its holder trusts it, counted from before it asked.
const LEASE_LENGTH_MS: u64 = 10_000;
const LEASE_TRUST_MS: u64 = 5_000;
/// How long after a failure the next batch is tried, at first and at most.
const RETRY_FIRST_MS: u64 = 100;
const RETRY_LAST_MS: u64 = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Writeback {
    queue: VecDeque<RowKeyBuf>,
    queued: BTreeSet<RowKeyBuf>,
    /// Rows that SQL is being asked to write.
    in_flight: BTreeMap<RowKeyBuf, Version>,
    trusted_until_ms: u64,
    /// When another's lease was first seen by this replica's clock.
    foreign_lease_since: Option<(NodeId, u64, u64)>,
    retry_at_ms: u64,
    retry_pause_ms: u64,
    flushes: Vec<FlushWait>,
    kicks: Vec<(Caller, RowKeyBuf)>,
    /// Kicks whose row SQL could not take: told at the next look (record-cache 29).
    failed_kicks: Vec<Caller>,
    kicking: BTreeSet<RowKeyBuf>,
}

#[derive(Debug)]
struct FlushWait {
    caller: Caller,
    remaining: BTreeMap<RowKeyBuf, Version>,
}

impl Writeback {
    /// Marks a row for a look; at most one mark per row (record-cache 88).
    pub fn mark(&mut self, row: RowKeyBuf) {
        if self.queued.insert(row.clone()) {
            self.queue.push_back(row);
        }
    }

    /// A new leader begins with every dirty row (record-cache 84).
    pub fn take_over(&mut self, dirty: Vec<RowKeyBuf>) {
        let flushes = std::mem::take(&mut self.flushes);
        *self = Self { flushes, foreign_lease_since: self.foreign_lease_since, ..Self::default() };
        dirty.into_iter().for_each(|row| self.mark(row));
    }

    pub fn give_up(&mut self) -> Vec<Caller> {
        self.trusted_until_ms = 0;
        self.kicking.clear();
        let flushes = self.flushes.drain(..).map(|flush| flush.caller);
        let kicks = self.kicks.drain(..).map(|(caller, _)| caller);
        flushes.chain(kicks).chain(self.failed_kicks.drain(..)).collect()
    }

    /// SQL did not take the row: it stays dirty and is tried again, and whoever waits to kick it hears so.
    fn put_back(&mut self, row: &RowKeyBuf) {
        let failed = self.kicks.extract_if(.., |(_, kicked)| kicked == row);
        self.failed_kicks.extend(failed.map(|(caller, _)| caller));
        self.mark(row.clone());
    }

    pub fn leased(&mut self, asked_ms: u64) {
        self.trusted_until_ms = asked_ms + LEASE_TRUST_MS;
    }

    /// Whether a kick of the row is on its way through the log.
    #[inline]
    pub fn is_kicking(&self, row: RowKey<'_>) -> bool {
        !self.kicking.is_empty() && self.kicking.contains(&row.to_owned())
    }

    fn is_leased(&self, now_ms: u64) -> bool {
        now_ms < self.trusted_until_ms
    }

    fn wants_lease(&self) -> bool {
        !self.queue.is_empty() || !self.kicks.is_empty()
    }
}

impl Replica {
    /// Asks for the lease when there is something to write and the old one is over (record-cache 77-80).
    pub(crate) fn pursue_lease(&mut self) {
        let now = self.time.monotonic_ms;
        if !self.is_serving() || !self.writeback.wants_lease() || self.upkeep.leasing {
            return;
        }
        // Renewed when half of the trust is used up, so that writing never pauses.
        if self.writeback.is_leased(now + LEASE_TRUST_MS / 2) || !self.lease_is_free(now) {
            return;
        }
        let (holder, term) = (self.options.node, self.group.term());
        let entry = Entry::Lease { holder, term, length_ms: LEASE_LENGTH_MS };
        self.upkeep.leasing = self.propose(&entry, Vec::new(), Then::Leased { asked_ms: now });
    }

    fn lease_is_free(&mut self, now: u64) -> bool {
        let Some(lease) = self.records.lease().filter(|lease| lease.holder != self.options.node) else { return true };
        let seen = match self.writeback.foreign_lease_since {
            Some((holder, term, since)) if (holder, term) == (lease.holder, lease.term) => since,
            _ => {
                self.writeback.foreign_lease_since = Some((lease.holder, lease.term, now));
                now
            }
        };
        now >= seen + lease.length_ms
    }

    /// Sends the next batch of dirty rows, if the lease is held and none is on its way.
    pub(crate) fn write_back(&mut self, actions: &mut Actions) {
        let now = self.time.monotonic_ms;
        let may = self.is_serving() && self.writeback.is_leased(now) && self.writeback.in_flight.is_empty();
        if !may || now < self.writeback.retry_at_ms {
            return;
        }
        let mut batches: BTreeMap<TableId, Vec<FlushRow>> = BTreeMap::new();
        for _ in 0..limits::FLUSH_ROWS_MAX {
            let Some(row) = self.writeback.queue.pop_front() else { break };
            self.writeback.queued.remove(&row);
            let Some(flush) = self.dirty_image(row) else { continue };
            self.writeback.in_flight.insert(flush.row.clone(), flush.version);
            batches.entry(flush.row.table).or_default().push(flush);
        }
        let term = self.group.term();
        actions.writes.extend(batches.into_iter().map(|(table, rows)| SqlWrite { term, table, rows }));
    }

    /// The newest state of a row that SQL does not have.
    fn dirty_image(&self, row: RowKeyBuf) -> Option<FlushRow> {
        if !self.records.is_sql_table(row.table) {
            return None;
        }
        match self.records.get(row.as_ref().position(), row.as_ref()) {
            Lookup::Live(view) if view.version != view.sql_version => {
                Some(FlushRow { version: view.version, fields: view.fields.to_image(), row })
            }
            Lookup::Absent { version, sql_version } if version != sql_version => {
                Some(FlushRow { version, fields: Default::default(), row })
            }
            Lookup::Live(_) | Lookup::Absent { .. } | Lookup::NotResident | Lookup::UnknownTable => None,
        }
    }

    /// SQL has answered for these rows. Confirmed ones are told to all replicas; the others are tried again.
    pub fn flushed(&mut self, term: u64, results: &[(RowKeyBuf, FlushResult)], actions: &mut Actions) {
        if term != self.group.term() || !self.is_serving() {
            return;
        }
        let mut written: Vec<(RowKey<'_>, Version)> = Vec::new();
        let mut failed = false;
        for (row, result) in results {
            let Some(version) = self.writeback.in_flight.remove(row) else { continue };
            match result {
                FlushResult::Written => written.push((row.as_ref(), version)),
                FlushResult::Newer(_) | FlushResult::Refused(_) => {
                    failed = true;
                    self.writeback.put_back(row);
                }
            }
        }
        self.pause_or_resume(failed);
        if !written.is_empty() {
            self.propose(&Entry::Written(written), Vec::new(), Then::Written);
        }
        self.drain(actions);
        self.write_back(actions);
    }

    /// The whole batch failed, or nobody knows whether it did: it is written again, which is harmless (record-cache 93).
    pub fn flush_failed(&mut self, term: u64, rows: &[RowKeyBuf]) {
        if term != self.group.term() {
            return;
        }
        for row in rows {
            self.writeback.in_flight.remove(row);
            self.writeback.put_back(row);
        }
        self.pause_or_resume(true);
    }

    fn pause_or_resume(&mut self, failed: bool) {
        if !failed {
            self.writeback.retry_pause_ms = 0;
            return;
        }
        let pause = (self.writeback.retry_pause_ms * 2).clamp(RETRY_FIRST_MS, RETRY_LAST_MS);
        self.writeback.retry_pause_ms = pause;
        self.writeback.retry_at_ms = self.time.monotonic_ms + pause;
    }

    /// Notes what SQL must hold before a flush is answered. The next turn of the group and the next batch carry it on.
    pub(crate) fn begin_flush(
        &mut self,
        caller: Caller,
        row: Option<RowKeyBuf>,
        table: Option<TableId>,
        actions: &mut Actions,
    ) {
        let rows = row.map_or_else(|| self.records.dirty_rows(), |row| vec![row]);
        let wanted = rows.into_iter().filter(|row| table.is_none_or(|table| row.table == table));
        let mut remaining = BTreeMap::new();
        for row in wanted {
            if let Some(flush) = self.dirty_image(row) {
                self.writeback.mark(flush.row.clone());
                remaining.insert(flush.row, flush.version);
            }
        }
        self.writeback.flushes.push(FlushWait { caller, remaining });
        self.writeback.retry_at_ms = 0;
        self.finish_flushes(actions);
        self.pursue_lease();
        self.write_back(actions);
    }

    pub(crate) fn finish_flushes(&mut self, actions: &mut Actions) {
        let mut flushes = std::mem::take(&mut self.writeback.flushes);
        flushes.retain_mut(|flush| {
            flush.remaining.retain(|row, version| match self.records.get(row.as_ref().position(), row.as_ref()) {
                Lookup::Live(view) => view.sql_version.magnitude() < version.magnitude(),
                Lookup::Absent { sql_version, .. } => sql_version.magnitude() < version.magnitude(),
                Lookup::NotResident | Lookup::UnknownTable => false,
            });
            if flush.remaining.is_empty() {
                actions.answers.push((flush.caller, Answer::Many(Vec::new())));
            }
            !flush.remaining.is_empty()
        });
        self.writeback.flushes = flushes;
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
            self.writeback.mark(row.to_owned());
        }
        self.writeback.kicks.push((caller, row.to_owned()));
        self.pursue_lease();
        self.drain(actions);
        self.write_back(actions);
        self.try_kicks(actions);
    }

    /// Proposes kicks of rows that are clean now. Locked until the lease is held: only then are all dirty rows queued
    /// and known (record-cache 83). A row with a command on its way is not kicked from under it: the command would have
    /// to load it and start again, and those that came after it would have gone ahead by then (record-cache 52).
    pub(crate) fn try_kicks(&mut self, actions: &mut Actions) {
        fail(actions, std::mem::take(&mut self.writeback.failed_kicks), ErrorCode::BackendUnavailable);
        if self.writeback.kicks.is_empty() || !self.writeback.is_leased(self.time.monotonic_ms) {
            return;
        }
        let mut still_waiting = Vec::new();
        for (caller, row) in std::mem::take(&mut self.writeback.kicks) {
            let clean = match self.records.get(row.as_ref().position(), row.as_ref()) {
                #[cfg(feature = "mutants")]
                Lookup::Live(view) if self.options.mutant == Some(shardine_records::Mutant::KickDirty) => {
                    Some(view.version)
                }
                Lookup::Live(_) | Lookup::Absent { .. } if self.is_touched(row.as_ref()) => None,
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
            let Some(version) = clean.filter(|_| self.writeback.kicking.insert(row.clone())) else {
                still_waiting.push((caller, row));
                continue;
            };
            let entry = Entry::Kick(vec![(row.as_ref(), version)]);
            let then = Then::Kicked(vec![(row.clone(), version)]);
            if !self.propose(&entry, vec![caller], then) {
                actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
            }
        }
        self.writeback.kicks.extend(still_waiting);
    }

    pub(crate) fn finish_kicks(&mut self, rows: &[(RowKeyBuf, Version)], callers: Vec<Caller>, actions: &mut Actions) {
        for (row, _) in rows {
            self.writeback.kicking.remove(row);
            let stayed = !matches!(self.records.get(row.as_ref().position(), row.as_ref()), Lookup::NotResident);
            for &caller in &callers {
                if !stayed {
                    actions.answers.push((caller, Answer::Many(Vec::new())));
                } else if self.group.role() == Role::Leader {
                    // A change came between; the kick waits for SQL again.
                    self.writeback.mark(row.clone());
                    self.writeback.kicks.push((caller, row.clone()));
                } else {
                    actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
                }
            }
            self.release(std::slice::from_ref(row), actions);
        }
        self.try_kicks(actions);
    }
}
