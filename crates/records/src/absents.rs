//! Rows that are known not to exist, and what else may leave memory because SQL has it.

use std::collections::{BTreeMap, BTreeSet};

use itertools::Itertools;
use shardine_model::{Position, RowKey, RowKeyBuf, RowView, TableId, Timestamp, Version};

use crate::state::Records;

/// Clean absent rows of tables with SQL behind them, by the time they became so (records 43, 45). Derived: a replica
/// made from a snapshot counts their age anew.
#[derive(Debug, Default)]
pub(crate) struct Absents {
    known: BTreeMap<RowKeyBuf, (Timestamp, Version)>,
    /// Rows that were never made, longest known first.
    never: BTreeSet<(Timestamp, RowKeyBuf)>,
    /// Rows that were deleted, by table.
    tombstones: BTreeMap<TableId, BTreeSet<(Timestamp, RowKeyBuf)>>,
}

impl Absents {
    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn insert(&mut self, row: RowKey<'_>, version: Version, since: Timestamp) {
        let row = row.to_owned();
        self.list(row.table, version).insert((since, row.clone()));
        self.known.insert(row, (since, version));
    }

    pub fn remove(&mut self, row: RowKey<'_>) {
        let row = row.to_owned();
        if let Some((since, version)) = self.known.remove(&row) {
            self.list(row.table, version).remove(&(since, row));
        }
    }

    pub fn append(&mut self, other: Self) {
        for (row, (since, version)) in other.known {
            self.insert(row.as_ref(), version, since);
        }
    }

    pub fn split_off(&mut self, is_behind: impl Fn(&RowKeyBuf) -> bool) -> Self {
        let mut behind = Self::default();
        let rows: Vec<RowKeyBuf> = self.known.keys().filter(|row| is_behind(row)).cloned().collect();
        for row in rows {
            let (since, version) = self.known[&row];
            self.remove(row.as_ref());
            behind.insert(row.as_ref(), version, since);
        }
        behind
    }

    fn list(&mut self, table: TableId, version: Version) -> &mut BTreeSet<(Timestamp, RowKeyBuf)> {
        if version == Version::NEVER { &mut self.never } else { self.tombstones.entry(table).or_default() }
    }
}

impl Records {
    /// Clean absent rows of tables with SQL behind them.
    #[must_use]
    pub fn absent_count(&self) -> u64 {
        self.totals.marks.absents as u64
    }

    /// Rows that SQL does not have, those longest known to be absent first.
    pub fn never_made(&self) -> impl Iterator<Item = (Timestamp, RowKey<'_>)> {
        let lists = self.absents().map(|absents| &absents.never).filter(|never| !never.is_empty());
        lists.kmerge().map(|(since, row)| (*since, row.as_ref()))
    }

    /// Tombstones of a table, or of all, that SQL has too; those of one table oldest first.
    pub fn clean_tombstones(&self, table: Option<TableId>) -> impl Iterator<Item = (Timestamp, RowKey<'_>, Version)> {
        let is_meant = move |id: &TableId| table.is_none_or(|table| table == *id);
        let lists = self.absents().flat_map(move |absents| {
            let tables = absents.tombstones.iter().filter(move |(id, rows)| is_meant(id) && !rows.is_empty());
            tables.map(move |(id, rows)| rows.iter().map(move |(since, row)| (*id, *since, row, absents.known[row].1)))
        });
        lists
            .kmerge_by(|one, other| (one.0, one.1) < (other.0, other.1))
            .map(|(_, since, row, version)| (since, row.as_ref(), version))
    }

    fn absents(&self) -> impl Iterator<Item = &Absents> {
        let segments = if self.totals.marks.absents == 0 { 0 } else { self.index.segment_count() };
        (0..segments).map(|segment| &self.index.segment(segment).derived.absents)
    }

    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.index.segment_count()
    }

    /// Walks the rows of a segment whose table has SQL behind it, in routing order. There may be fewer segments than there
    /// were.
    pub fn walk_sql_rows<'a>(&'a self, segment: usize, mut visit: impl FnMut(Position, RowKey<'a>, RowView<'a>)) {
        if segment >= self.index.segment_count() {
            return;
        }
        self.walk_segment(segment, |position, row, view| {
            if self.is_sql(row.table) {
                visit(position, row, view);
            }
        });
    }
}
