//! Tombstones that are old enough leave SQL, and then memory (write-back 102).
//!
//! First an entry raises the floor of their table, so that a record made anew begins above them whatever happens after it.
//! Then SQL deletes each one that it holds at just that version; then an entry forgets them. While a statement may still be
//! under way of which nobody knows the outcome, nothing is deleted: without its tombstone a row has no fence.

use std::collections::BTreeMap;

use shardine_model::{Backing, Entry, RowKey, RowKeyBuf, Table, TableId, Version, limits};

use crate::actions::{Actions, SqlPurge};
use crate::gather::Then;
use crate::replica::Replica;

/// How long after a failure the next purge is tried.
const RETRY_MS: u64 = 10_000;

/// How long a tombstone is left alone to which rows of other tables refer: they may live for years.
const KEPT_MS: u64 = 10 * 60 * 1_000;

#[derive(Debug, Default)]
pub(crate) struct Purges {
    /// Rows that SQL is deleting, or whose end is on its way through the log.
    under_way: BTreeMap<RowKeyBuf, Version>,
    not_before_ms: u64,
    /// Rows to which others in SQL refer, and until when they are left alone.
    kept: BTreeMap<RowKeyBuf, u64>,
    /// When a statement was last given up on.
    unknown_ms: u64,
}

impl Purges {
    pub fn holds(&self, row: RowKey<'_>) -> bool {
        !self.under_way.is_empty() && self.under_way.contains_key(&row.to_owned())
    }

    pub fn are_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    fn keeps(&self, row: RowKey<'_>, now_ms: u64) -> bool {
        !self.kept.is_empty() && self.kept.get(&row.to_owned()).is_some_and(|until| now_ms < *until)
    }

    pub fn lost_sight(&mut self, now_ms: u64) {
        self.unknown_ms = now_ms;
    }
}

impl Replica {
    /// Whether every statement that could bring an old row back is over: those of older leaders, and those of this one
    /// whose outcome is not known.
    pub(super) fn is_quiet(&self) -> bool {
        self.time.monotonic_ms >= self.quiet_from_ms()
    }

    fn quiet_from_ms(&self) -> u64 {
        let Some(held_since) = self.writeback.lease.held_since_ms() else { return u64::MAX };
        held_since.max(self.writeback.purges.unknown_ms) + self.options.purge_quiet_ms
    }

    /// From when on rows of a table may be deleted in SQL. Where a tombstone stays as a fence, at once; else not before it is
    /// quiet, for a late statement could bring the row back.
    pub(super) fn deletes_from_ms(&self, definition: &Table) -> u64 {
        if definition.sql.is_guest() { self.quiet_from_ms() } else { 0 }
    }

    /// Tombstones of a table whose time is over, oldest first.
    fn due_tombstones(&self, table: TableId, keep_ms: u64) -> impl Iterator<Item = (RowKey<'_>, Version)> {
        let now = self.stamp();
        let tombstones = self.records.clean_tombstones(Some(table));
        let due = tombstones.take_while(move |(since, ..)| since.plus_ms(keep_ms) <= now);
        let (purges, now_ms) = (&self.writeback.purges, self.time.monotonic_ms);
        due.map(|(_, row, version)| (row, version)).filter(move |(row, _)| !purges.keeps(*row, now_ms))
    }

    fn purgeable_tables(&self) -> impl Iterator<Item = (TableId, u64)> {
        let tables = self.records.catalogue().tables();
        let written = tables.filter(|table| table.backing == Backing::Sql && !table.sql.is_read_only());
        written.map(|table| (table.id, table.sql.tombstone_keep_ms))
    }

    pub(super) fn wants_to_purge(&self) -> bool {
        self.purgeable_tables().any(|(table, keep_ms)| self.due_tombstones(table, keep_ms).next().is_some())
    }

    /// Raises the floor for the next tombstones, or, where that is done, has them deleted.
    pub(crate) fn purge_in_sql(&mut self, actions: &mut Actions) {
        let (now, purges) = (self.time.monotonic_ms, &self.writeback.purges);
        let is_free = purges.under_way.is_empty() && now >= purges.not_before_ms && !self.upkeep.raising_floor;
        if !is_free || !self.is_serving() || !self.writeback.lease.is_held(now) || !self.is_quiet() {
            return;
        }
        let Some((table, rows)) = self.next_purge() else { return };
        let highest = rows.iter().map(|(_, version)| version.magnitude()).max().unwrap_or(0);
        if self.must_raise_floor(table, highest) {
            self.upkeep.raising_floor =
                self.propose(&Entry::Floor { table, floor: highest }, Vec::new(), Then::Floored);
            return;
        }
        self.writeback.purges.under_way = rows.iter().cloned().collect();
        let begin_by_ms = self.writeback.lease.trusted_until_ms();
        actions.purges.push(SqlPurge { term: self.term(), table, rows, begin_by_ms });
    }

    fn must_raise_floor(&self, table: TableId, highest: u64) -> bool {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(shardine_records::Mutant::PurgeWithoutFloor) {
            return false;
        }
        self.records.floor(table).magnitude() < highest
    }

    fn next_purge(&self) -> Option<(TableId, Vec<(RowKeyBuf, Version)>)> {
        self.purgeable_tables().find_map(|(table, keep_ms)| {
            let due = self.due_tombstones(table, keep_ms).filter(|(row, _)| self.may_leave(*row));
            let rows: Vec<(RowKeyBuf, Version)> =
                due.take(limits::EXPIRE_ROWS_MAX).map(|(row, version)| (row.to_owned(), version)).collect();
            (!rows.is_empty()).then_some((table, rows))
        })
    }

    /// SQL holds these tombstones no longer. A row that lives again meanwhile stays: its version is another.
    pub fn purged(&mut self, term: u64, rows: &[(RowKeyBuf, Version)], actions: &mut Actions) {
        if term != self.term() || !self.is_serving() {
            return;
        }
        let known = |(row, version): &&(RowKeyBuf, Version)| self.writeback.purges.under_way.get(row) == Some(version);
        let gone: Vec<_> = rows.iter().filter(known).map(|(row, version)| (row.as_ref(), *version)).collect();
        if gone.is_empty() {
            return;
        }
        if !self.propose(&Entry::Purge(gone), Vec::new(), Then::SqlPurged) {
            self.writeback.purges.under_way.clear();
        }
        self.drain(actions);
        self.advance_hand_over(actions);
    }

    /// Rows of other tables refer to these, so SQL keeps them: children go before their parents (write-back 107).
    pub fn purge_kept(&mut self, term: u64, rows: &[RowKeyBuf]) {
        if term != self.term() || rows.is_empty() {
            return;
        }
        let (now, purges) = (self.time.monotonic_ms, &mut self.writeback.purges);
        purges.kept.retain(|_, until| now < *until);
        for row in rows.iter().filter(|row| purges.under_way.remove(*row).is_some()) {
            purges.kept.insert(row.clone(), now + KEPT_MS);
        }
    }

    /// SQL could not delete them, or nobody knows: tried again later, which is harmless.
    pub fn purge_failed(&mut self, term: u64) {
        if term == self.term() && self.is_serving() {
            self.writeback.purges.under_way.clear();
            self.writeback.purges.not_before_ms = self.time.monotonic_ms + RETRY_MS;
        }
    }

    pub(crate) fn finish_purge(&mut self, actions: &mut Actions) {
        let rows: Vec<RowKeyBuf> = std::mem::take(&mut self.writeback.purges.under_way).into_keys().collect();
        self.release(&rows, actions);
    }
}
