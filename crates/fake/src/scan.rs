//! Pages of rows, as lanes make them: in routing order, or, inside one partition, in the order of sort keys.

use shardine_model::codec::Reader;
use shardine_model::{Position, Version};
use shardine_records::{Scan, ScanFrom};
use shardine_router::{Bound, ScanCall, ScanPage, ScannedRow, SortRange};

use crate::shard::FakeShard;

impl FakeShard {
    pub(crate) fn scan(&self, call: &ScanCall) -> ScanPage {
        let mut rows = self.rows(call);
        if call.descending {
            rows.reverse();
        }
        let begin = begin(&rows, call);
        let mut end = rows.len().min(begin.saturating_add(call.limit.min(self.page_rows_max)));
        let position = |index: usize| rows.get(index).map(|row| row.row.as_ref().position());
        while call.whole_positions && end > begin && end < rows.len() && position(end) == position(end - 1) {
            end += 1;
        }
        let next = position(end).map(|at| cursor(&rows, call, at, end));
        ScanPage { rows: rows.drain(begin..end).collect(), next }
    }

    fn rows(&self, call: &ScanCall) -> Vec<ScannedRow> {
        let mut rows = Vec::new();
        let all =
            Scan { table: None, from: ScanFrom::Position(Position(0)), limit: usize::MAX, whole_positions: false };
        self.records.scan_resident(&all, |_, row, view| {
            let is_asked = call.table.is_none_or(|table| table == row.table)
                && call.partition.as_ref().is_none_or(|partition| **partition == *row.key)
                && is_in(&call.range, row.sort);
            if is_asked && view.version > Version::NEVER {
                rows.push(ScannedRow {
                    row: row.to_owned(),
                    version: view.version,
                    sql_version: view.sql_version,
                    expires_at: view.expires_at,
                    fields: view.fields.to_image(),
                    in_memory: true,
                });
            }
        });
        rows.sort_by_key(|row| (row.row.as_ref().position(), row.row.key.clone(), row.row.table, row.row.sort.clone()));
        rows
    }
}

/// A cursor is a position, and behind it how many of its rows were given; backwards, how many rows were given at all.
fn cursor(rows: &[ScannedRow], call: &ScanCall, at: Position, end: usize) -> Vec<u8> {
    let given = if call.descending { end } else { end - first_at(rows, at) };
    let mut cursor = at.to_bytes().to_vec();
    if given > 0 {
        cursor.extend_from_slice(&(given as u64).to_le_bytes());
    }
    cursor
}

fn begin(rows: &[ScannedRow], call: &ScanCall) -> usize {
    let Some(cursor) = &call.cursor else { return 0 };
    let mut reader = Reader::new(cursor);
    let at = Position::decode(&mut reader).unwrap_or_default();
    let given = reader.fixed_u64("rows given").unwrap_or_default() as usize;
    let first = if call.descending { 0 } else { first_at(rows, at) };
    rows.len().min(first + given)
}

fn first_at(rows: &[ScannedRow], at: Position) -> usize {
    rows.partition_point(|row| row.row.as_ref().position() < at)
}

fn is_in(range: &SortRange, sort: &[u8]) -> bool {
    let is_behind = match &range.from {
        Bound::Open => true,
        Bound::Including(from) => sort >= &**from,
        Bound::Excluding(from) => sort > &**from && !sort.starts_with(from),
    };
    let is_before = match &range.to {
        Bound::Open => true,
        Bound::Including(to) => sort <= &**to || sort.starts_with(to),
        Bound::Excluding(to) => sort < &**to,
    };
    is_behind && is_before
}
