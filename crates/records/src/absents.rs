//! Rows that are known not to exist, and what else may leave memory because SQL has it.

use std::collections::{BTreeMap, BTreeSet};

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
    pub fn insert(&mut self, row: RowKey<'_>, version: Version, now: Timestamp) {
        let row = row.to_owned();
        self.list(row.table, version).insert((now, row.clone()));
        self.known.insert(row, (now, version));
    }

    pub fn remove(&mut self, row: RowKey<'_>) {
        let row = row.to_owned();
        if let Some((since, version)) = self.known.remove(&row) {
            self.list(row.table, version).remove(&(since, row));
        }
    }

    fn list(&mut self, table: TableId, version: Version) -> &mut BTreeSet<(Timestamp, RowKeyBuf)> {
        if version == Version::NEVER { &mut self.never } else { self.tombstones.entry(table).or_default() }
    }
}

impl Records {
    /// Clean absent rows of tables with SQL behind them.
    #[must_use]
    pub fn absent_count(&self) -> u64 {
        self.derived.absents.known.len() as u64
    }

    /// Rows that SQL does not have, those longest known to be absent first.
    pub fn never_made(&self) -> impl Iterator<Item = (Timestamp, RowKey<'_>)> {
        self.derived.absents.never.iter().map(|(since, row)| (*since, row.as_ref()))
    }

    /// Tombstones of a table, or of all, that SQL has too; those of one table oldest first.
    pub fn clean_tombstones(&self, table: Option<TableId>) -> impl Iterator<Item = (Timestamp, RowKey<'_>, Version)> {
        let absents = &self.derived.absents;
        let tables = absents.tombstones.iter().filter(move |(id, _)| table.is_none_or(|table| table == **id));
        tables.flat_map(|(_, rows)| rows).map(|(since, row)| (*since, row.as_ref(), absents.known[row].1))
    }

    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.index.segment_count()
    }

    /// Walks the rows of a segment whose table has SQL behind it, in routing order.
    pub fn walk_sql_rows<'a>(&'a self, segment: usize, mut visit: impl FnMut(Position, RowKey<'a>, RowView<'a>)) {
        self.walk_segment(segment, |position, row, view| {
            if self.is_sql(row.table) {
                visit(position, row, view);
            }
        });
    }
}
