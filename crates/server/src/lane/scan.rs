//! Pages of rows from this lane's shards. A page comes from one shard; its cursor leads into the next.

use std::ops::Bound as RangeBound;

use shardine_model::codec::{Reader, put_bytes, put_varint};
use shardine_model::{ErrorCode, Position, RowKey, TableId, Timestamp};
use shardine_records::{Page, Scan, ScanFrom};
use shardine_router::{Bound, Response, ScanCall, ScanPage, ScannedRow};

use super::core::Core;
use crate::exchange::refused;

impl Core {
    pub(super) fn scan(&self, seat: usize, call: &ScanCall) -> Response {
        let Ok(replica) = &self.seats[seat].replica else { return refused(ErrorCode::NoLeader) };
        if !replica.is_serving() {
            return refused(ErrorCode::NoLeader);
        }
        let page = match (&call.partition, call.table) {
            (Some(key), Some(table)) => self.scan_partition(seat, table, key, call),
            (Some(_), None) => return refused(ErrorCode::BadRequest),
            (None, _) => self.scan_table(seat, call),
        };
        page.map_or_else(|| refused(ErrorCode::BadRequest), Response::Page)
    }

    fn scan_table(&self, seat: usize, call: &ScanCall) -> Option<ScanPage> {
        let Ok(replica) = &self.seats[seat].replica else { return None };
        let cursor = call.cursor.as_deref().map(read_cursor).transpose().ok()?;
        let from = match cursor {
            None => ScanFrom::Position(self.seats[seat].lo),
            Some((position, None)) => ScanFrom::Position(position),
            Some((position, Some(row))) => ScanFrom::After { position, row },
        };
        let scan = Scan { table: call.table, from, limit: call.limit, whole_positions: call.whole_positions };
        let mut page = ScanPage::default();
        let mut last: Option<(Position, RowKey<'_>)> = None;
        let now = self.time().wall;
        let end = replica.records().scan(&scan, |position, row, view| {
            last = Some((position, row));
            if is_alive(view.expires_at, now) {
                page.rows.push(scanned(row, &view));
            }
        });
        page.next = match end {
            Page::Finished => self.seats[seat].hi.map(|hi| hi.to_bytes().to_vec()),
            Page::More => {
                let (position, row) = last?;
                if call.whole_positions {
                    // Behind every row of this position; nothing lies at a position that does not exist.
                    position.0.checked_add(1).map(|next| next.to_be_bytes().to_vec())
                } else {
                    Some(cursor_after(position, row))
                }
            }
        };
        Some(page)
    }

    fn scan_partition(&self, seat: usize, table: TableId, key: &[u8], call: &ScanCall) -> Option<ScanPage> {
        let Ok(replica) = &self.seats[seat].replica else { return None };
        let (mut from, mut to) = (bound(&call.range.from), upper(&call.range.to));
        if let Some(cursor) = call.cursor.as_deref() {
            let (_, Some(row)) = read_cursor(cursor).ok()? else { return None };
            let place = RangeBound::Excluded(row.sort.to_vec());
            if call.descending { to = place } else { from = place }
        }
        let range = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        let mut page = ScanPage::default();
        let now = self.time().wall;
        let mut last: Option<RowKey<'_>> = None;
        let end = replica.records().scan_partition(table, key, range, call.descending, call.limit, |row, view| {
            last = Some(row);
            if is_alive(view.expires_at, now) {
                page.rows.push(scanned(row, &view));
            }
        });
        if let (Page::More, Some(row)) = (end, last) {
            page.next = Some(cursor_after(Position::of_key(key), row));
        }
        Some(page)
    }
}

fn is_alive(expires_at: Option<Timestamp>, now: Timestamp) -> bool {
    expires_at.is_none_or(|at| at > now)
}

fn scanned(row: RowKey<'_>, view: &shardine_model::RowView<'_>) -> ScannedRow {
    ScannedRow {
        row: row.to_owned(),
        version: view.version,
        sql_version: view.sql_version,
        expires_at: view.expires_at,
        fields: view.fields.to_image(),
    }
}

/// Position, then, unless the page ended between positions, the last row given.
fn cursor_after(position: Position, row: RowKey<'_>) -> Vec<u8> {
    let mut cursor = position.to_bytes().to_vec();
    put_varint(&mut cursor, u64::from(row.table.0));
    put_bytes(&mut cursor, row.key);
    put_bytes(&mut cursor, row.sort);
    cursor
}

fn read_cursor(cursor: &[u8]) -> Result<(Position, Option<RowKey<'_>>), shardine_model::codec::DecodeError> {
    let mut reader = Reader::new(cursor);
    let bytes = reader.take(8, "cursor")?;
    let position = Position(u64::from_be_bytes(bytes.try_into().expect("eight bytes were taken")));
    if reader.is_empty() {
        return Ok((position, None));
    }
    let table = TableId(u32::try_from(reader.varint("cursor table")?).unwrap_or(u32::MAX));
    let (key, sort) = (reader.bytes("cursor key")?, reader.bytes("cursor sort")?);
    reader.finish("cursor")?;
    Ok((position, Some(RowKey { table, key, sort })))
}

fn bound(bound: &Bound) -> RangeBound<Vec<u8>> {
    match bound {
        Bound::Open => RangeBound::Unbounded,
        Bound::Including(bytes) => RangeBound::Included(bytes.to_vec()),
        // Everything that begins with a prefix lies below the prefix with its last byte raised.
        Bound::Excluding(bytes) => {
            after_prefix(bytes).map_or(RangeBound::Excluded(bytes.to_vec()), RangeBound::Included)
        }
    }
}

fn upper(bound: &Bound) -> RangeBound<Vec<u8>> {
    match bound {
        Bound::Open => RangeBound::Unbounded,
        Bound::Including(bytes) => after_prefix(bytes).map_or(RangeBound::Unbounded, RangeBound::Excluded),
        Bound::Excluding(bytes) => RangeBound::Excluded(bytes.to_vec()),
    }
}

/// The first byte string behind all that begin with `prefix`; `None` if there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut after = prefix.to_vec();
    while let Some(last) = after.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return Some(after);
        }
        after.pop();
    }
    None
}
