//! Pages of rows from this lane's shards. A page comes from one shard; its cursor leads into the next.
//!
//! Rows of a table with SQL behind it may be in memory, in SQL or in both, and move between the two while a page is made.
//! A page takes what memory knows first and asks SQL afterwards, never the other way round (records 132):
//!
//! - what was in memory is given, or hidden, as it was there, whatever SQL says later;
//! - what was not in memory was in SQL in its newest version, because a dirty row is never kicked. SQL never goes back,
//!   so what it says later is that version or a newer one.
//!
//! So a row that is kicked, loaded, written or deleted in between is neither lost nor given twice, and nothing has to be
//! locked or read again. The lane serves on while SQL is read.

mod cursor;
mod page;
mod range;

use std::sync::Arc;

use shardine_host::SeatId;
use shardine_model::key::Interval;
use shardine_model::{Backing, ErrorCode, Position, Refusal, RowKeyBuf, Table, TableId, Timestamp};
use shardine_records::{Page, Scan, ScanFrom};
use shardine_router::{Response, ScanCall, ScannedRow};
use shardine_shard::{Caller, Trouble};
use shardine_writeback::{Found, Job, JobId, ScanJob, Scope};

pub(super) use self::cursor::Cursor;
use self::page::{Draft, Reach};
use self::range::Range;
use super::core::Core;
use super::sql;
use crate::exchange::refused;

/// Pages of one lane that wait for SQL. Each holds what memory knew, at most `limits::SCAN_BYTES_MAX` of it.
const PAGES_MAX: usize = 128;

/// A page that waits for SQL.
pub(super) struct PendingPage {
    caller: Caller,
    draft: Draft,
    shard: Interval,
    /// Tables that SQL is still to be asked for; the last one is being read.
    tables: Vec<Arc<Table>>,
    what: SqlRange,
}

/// SqlRange SQL is asked for.
enum SqlRange {
    Positions { from: Position, after: Option<RowKeyBuf> },
    Partition { key: Box<[u8]>, range: Range, descending: bool },
}

impl Core {
    /// Makes a page, or begins to: `None` if SQL has to be asked.
    pub(super) fn scan(&mut self, seat: SeatId, call: &ScanCall, caller: Caller) -> Option<Response> {
        let Some(replica) = self.host.replica(seat) else { return Some(refused(ErrorCode::NoLeader)) };
        if !replica.is_serving() {
            return Some(refused(ErrorCode::NoLeader));
        }
        if replica.records().is_suspended() {
            return Some(refused(ErrorCode::Suspended));
        }
        let tables = self.sql_tables(seat, call);
        if let (None, [table]) = (&call.partition, &tables[..])
            && table.sql.mapping.is_some()
        {
            return Some(no_order(table));
        }
        let looked = match (&call.partition, call.table) {
            (Some(key), Some(table)) => self.look_at_partition(seat, table, key, call),
            (Some(_), None) => None,
            (None, _) => self.look_at_positions(seat, call),
        };
        let Some((draft, what)) = looked else { return Some(bad_cursor()) };
        let shard = self.interval(seat);
        let underway = PendingPage { caller, draft, shard, tables, what };
        if underway.tables.is_empty() {
            return Some(underway.finish());
        }
        if self.sql.pages() >= PAGES_MAX {
            return Some(refused(ErrorCode::Busy));
        }
        self.read_on(seat, underway);
        None
    }

    /// Tables whose rows may be in SQL only. A mapped one cannot be read in routing order: asked for by name it is refused,
    /// but it does not spoil a scan of all tables, which gives what memory holds of it.
    fn sql_tables(&self, seat: SeatId, call: &ScanCall) -> Vec<Arc<Table>> {
        let Some(replica) = self.host.replica(seat) else { return Vec::new() };
        let records = replica.records();
        if !records.has_sql_tables() {
            return Vec::new();
        }
        let tables = records.catalogue().tables().filter(|table| table.backing == Backing::Sql);
        let is_meant = |table: &&Arc<Table>| match call.table {
            Some(wanted) => wanted == table.id,
            None => table.sql.mapping.is_none(),
        };
        tables.filter(is_meant).cloned().collect()
    }

    fn look_at_positions(&self, seat: SeatId, call: &ScanCall) -> Option<(Draft, SqlRange)> {
        let replica = self.host.replica(seat)?;
        // Pages of all tables end between positions: behind a row, each table would have to go on from a place of its own.
        let whole = call.whole_positions || call.table.is_none();
        let cursor = call.cursor.as_deref().map(Cursor::read).transpose().ok()?;
        let (from, after) = match &cursor {
            None => (self.interval(seat).lo, None),
            Some(Cursor { position, row }) => (*position, row.as_ref()),
        };
        if whole && after.is_some() {
            return None;
        }
        let scan_from =
            after.map_or(ScanFrom::Position(from), |row| ScanFrom::After { position: from, row: row.as_ref() });
        let scan = Scan { table: call.table, from: scan_from, limit: call.limit, whole_positions: whole };
        let mut draft = Draft::new(call.limit, whole, false);
        let now = replica.stamp();
        let mut last = None;
        let end = replica.records().scan_resident(&scan, |_, row, view| {
            last = Some(row);
            draft.in_memory(row, is_alive(&view, now).then(|| scanned(row, &view)));
        });
        if let (Page::More, Some(row)) = (end, last) {
            draft.reaches(if whole { Reach::Position(row.position()) } else { Reach::Row(row.to_owned()) });
        }
        let after = after.cloned();
        Some((draft, SqlRange::Positions { from, after }))
    }

    fn look_at_partition(
        &self,
        seat: SeatId,
        table: TableId,
        key: &[u8],
        call: &ScanCall,
    ) -> Option<(Draft, SqlRange)> {
        let replica = self.host.replica(seat)?;
        let mut range = Range::of(&call.range);
        if let Some(cursor) = call.cursor.as_deref() {
            let row = Cursor::read(cursor).ok()?.row?;
            range.go_on_behind(&row.sort, call.descending);
        }
        let mut draft = Draft::new(call.limit, false, call.descending);
        let now = replica.stamp();
        let mut last = None;
        let (records, bounds) = (replica.records(), range.bounds());
        let end = records.scan_partition_resident(table, key, bounds, call.descending, call.limit, |row, view| {
            last = Some(row);
            draft.in_memory(row, is_alive(&view, now).then(|| scanned(row, &view)));
        });
        if let (Page::More, Some(row)) = (end, last) {
            draft.reaches(Reach::Row(row.to_owned()));
        }
        Some((draft, SqlRange::Partition { key: key.into(), range, descending: call.descending }))
    }

    /// Asks SQL for the rows of the next table, or for more of this one.
    fn read_on(&mut self, seat: SeatId, underway: PendingPage) {
        let Some(table) = underway.tables.last().cloned() else { return };
        let (scope, after) = underway.question();
        let rows_max = underway.draft.rows_max();
        let ticket = self.sql.begin_page(seat, underway);
        let job = Job::Scan(Box::new(ScanJob { ticket, table, scope, after, rows_max }));
        self.submit_sql(ticket, Some(job));
    }

    pub(super) fn scanned(&mut self, ticket: JobId, found: Found, next: Option<RowKeyBuf>) {
        let Some((seat, mut underway)) = self.sql.end_page(ticket) else { return };
        for row in &found.quarantined {
            let key = String::from_utf8_lossy(&row.row.key);
            tracing::warn!(%key, message = %row.message, "a row in SQL does not fit and is left out of a scan");
        }
        underway.take(found, next);
        if underway.tables.is_empty() {
            let caller = underway.caller;
            let response = underway.finish();
            return self.respond_to(caller, response);
        }
        self.read_on(seat, underway);
    }

    /// Without SQL nobody knows what a page lacks: it is refused whole.
    pub(super) fn scan_failed(&mut self, underway: &PendingPage, trouble: &Trouble) {
        let message = format!("SQL cannot be read, and without it a scan would miss rows: {}", trouble.message);
        self.respond_to(underway.caller, sql::refusal(trouble, message));
    }
}

impl PendingPage {
    /// SqlRange to ask for the table that is being read.
    fn question(&self) -> (Scope, Option<RowKeyBuf>) {
        match &self.what {
            SqlRange::Positions { from, after } => {
                let end = self.draft.reach().and_then(Reach::position).and_then(|last| last.0.checked_add(1));
                let hi = match (end.map(Position), self.shard.hi) {
                    (Some(end), Some(hi)) => Some(end.min(hi)),
                    (end, hi) => end.or(hi),
                };
                (Scope::Positions(Interval { lo: *from, hi }), after.clone())
            }
            SqlRange::Partition { key, range, descending } => {
                let (from, to) = range.edges();
                (Scope::Partition { key: key.clone(), from, to, descending: *descending }, None)
            }
        }
    }

    /// Lays memory over a page of SQL, and goes on to the next table if this one is read as far as needed.
    fn take(&mut self, found: Found, next: Option<RowKeyBuf>) {
        for loaded in found.rows {
            let (version, sql_version) = (loaded.version, loaded.version);
            let row = ScannedRow {
                row: loaded.row,
                version,
                sql_version,
                expires_at: None,
                fields: loaded.fields,
                in_memory: false,
            };
            self.draft.in_sql(row);
        }
        let Some(last) = next else { return self.next_table() };
        let SqlRange::Positions { from, after } = &mut self.what else {
            self.draft.reaches(Reach::Row(last));
            return self.next_table();
        };
        let position = last.as_ref().position();
        match self.draft.ends_between_positions() {
            false => self.draft.reaches(Reach::Row(last)),
            // The last position may go on in SQL; those before it are whole.
            true if position > *from => self.draft.reaches(Reach::Position(Position(position.0 - 1))),
            true => {
                *after = Some(last);
                return;
            }
        }
        self.next_table();
    }

    fn next_table(&mut self) {
        self.tables.pop();
        if let SqlRange::Positions { after, .. } = &mut self.what {
            // Only a page of one table begins behind a row.
            *after = None;
        }
    }

    fn finish(self) -> Response {
        let is_partition = matches!(self.what, SqlRange::Partition { .. });
        let end = if is_partition { None } else { self.shard.hi };
        Response::Page(self.draft.finish(end))
    }
}

fn is_alive(view: &shardine_model::RowView<'_>, now: Timestamp) -> bool {
    view.version.is_live() && view.expires_at.is_none_or(|at| at > now)
}

fn scanned(row: shardine_model::RowKey<'_>, view: &shardine_model::RowView<'_>) -> ScannedRow {
    ScannedRow {
        row: row.to_owned(),
        version: view.version,
        sql_version: view.sql_version,
        expires_at: view.expires_at,
        fields: view.fields.to_image(),
        in_memory: true,
    }
}

/// Said before SQL is asked: it is well, and asking again will not help.
fn no_order(table: &Table) -> Response {
    let message = format!(
        "table {} is mapped to an SQL table that keeps no positions, so it cannot be scanned as a whole: read it by key, or \
         ask SQL itself",
        table.name
    );
    Response::Refused(Refusal::new(ErrorCode::Unsupported, message))
}

fn bad_cursor() -> Response {
    let message = "the cursor is not one that a page of this scan has given";
    Response::Refused(Refusal::new(ErrorCode::BadRequest, message))
}
