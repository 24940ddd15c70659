//! Compares memory with SQL while both go on (`verify`). A page comes from one shard, like a page of a scan.
//!
//! A row that looks wrong at first sight may only have changed between the two looks. It is looked at again: memory, SQL,
//! memory. If memory said the same before and after, it did so all the time between, and what SQL said is a difference.

mod sides;

use std::collections::BTreeMap;
use std::sync::Arc;

use shardine_host::SeatId;
use shardine_model::key::Interval;
use shardine_model::{Backing, ErrorCode, Position, RowKeyBuf, Table, TableId};
use shardine_records::{Lookup, Page, Records, Scan, ScanFrom};
use shardine_router::{Difference, Response, VerifiedPage, VerifyCall};
use shardine_shard::{Caller, Trouble};
use shardine_writeback::{Found, Job, JobId, LoadJob, ScanJob, Scope};

use self::sides::{Comparison, MemoryRow, Stored, judge};
use super::core::Core;
use super::scan::Cursor;
use super::sql;
use crate::exchange::refused;

/// Looks at one row before it is said to change all the time.
const LOOKS_MAX: u32 = 5;

/// Comparisons of one lane that wait for SQL. Each holds a page of both sides.
const PAGES_MAX: usize = 16;

/// A comparison that waits for SQL.
pub(super) struct PendingComparison {
    caller: Caller,
    table: Arc<Table>,
    page: VerifiedPage,
    step: Step,
}

enum Step {
    /// The rows of a range, as memory had them when SQL was asked.
    Range(Memory),
    /// Rows that looked wrong.
    Again { held: Vec<(RowKeyBuf, Option<MemoryRow>)>, look: u32 },
}

/// What memory holds of a table from a place on, and how far that reaches: `None` if there is no more in the shard.
#[derive(Default)]
struct Memory {
    held: BTreeMap<RoutingOrder, MemoryRow>,
    reach: Option<RoutingOrder>,
}

/// Routing order inside one table.
type RoutingOrder = (Position, Box<[u8]>, Box<[u8]>);

impl Core {
    pub(super) fn verify(&mut self, seat: SeatId, call: &VerifyCall, caller: Caller) -> Option<Response> {
        let Some(replica) = self.host.replica(seat) else { return Some(refused(ErrorCode::NoLeader)) };
        if !replica.is_serving() {
            return Some(refused(ErrorCode::NoLeader));
        }
        let table = replica.records().catalogue().get(call.table).cloned();
        let Some(table) = table else { return Some(refused(ErrorCode::UnknownTable)) };
        if table.backing != Backing::Sql {
            return Some(refused(ErrorCode::Unsupported));
        }
        if self.sql.comparisons() >= PAGES_MAX {
            return Some(refused(ErrorCode::Busy));
        }
        let cursor = call.cursor.as_deref().map(Cursor::read).transpose();
        let Ok(cursor) = cursor else { return Some(refused(ErrorCode::BadRequest)) };
        let cursor = cursor.unwrap_or_else(|| Cursor::at(self.interval(seat).lo));
        let memory = Memory::look(replica.records(), table.id, &cursor, call.limit);
        if table.sql.mapping.is_some() {
            return self.compare_by_key(seat, caller, table, memory);
        }
        self.read_range(seat, caller, table, memory, cursor, call.limit);
        None
    }

    /// Asks SQL for the range that memory was looked at in.
    fn read_range(
        &mut self,
        seat: SeatId,
        caller: Caller,
        table: Arc<Table>,
        memory: Memory,
        from: Cursor,
        rows_max: usize,
    ) {
        let hi = memory.reach.as_ref().and_then(|(position, ..)| position.0.checked_add(1).map(Position));
        let hi = match (hi, self.interval(seat).hi) {
            (Some(near), Some(far)) => Some(near.min(far)),
            (near, far) => near.or(far),
        };
        let (page, step) = (VerifiedPage::default(), Step::Range(memory));
        let ticket =
            self.sql.begin_comparison(seat, PendingComparison { caller, table: Arc::clone(&table), page, step });
        let scope = Scope::Positions(Interval { lo: from.position, hi });
        let job = ScanJob { ticket, table, scope, after: from.row, rows_max };
        self.submit_sql(ticket, Some(Job::Scan(Box::new(job))));
    }

    /// A mapped table keeps no positions, so SQL cannot be walked beside memory: it is asked for the rows that memory holds.
    fn compare_by_key(&mut self, seat: SeatId, caller: Caller, table: Arc<Table>, memory: Memory) -> Option<Response> {
        let page = VerifiedPage { next: self.behind(seat, table.id, memory.reach), ..VerifiedPage::default() };
        if memory.held.is_empty() {
            return Some(Response::Verified(Box::new(page)));
        }
        let row = |(_, key, sort)| RowKeyBuf { table: table.id, key, sort };
        let rows = memory.held.into_keys().map(row).collect();
        let step = Step::Again { held: Vec::new(), look: 0 };
        self.look_again(seat, PendingComparison { caller, table, page, step }, rows, 1);
        None
    }

    /// Where the next page begins, in this shard or in the next one.
    fn behind(&self, seat: SeatId, table: TableId, reach: Option<RoutingOrder>) -> Option<Vec<u8>> {
        match reach {
            Some((_, key, sort)) => Some(Cursor::behind(RowKeyBuf { table, key, sort }).write()),
            None => self.interval(seat).hi.map(|hi| Cursor::at(hi).write()),
        }
    }

    /// SQL has read the range: what agrees is counted, what does not is looked at again.
    pub(super) fn verified_range(&mut self, ticket: JobId, found: Found, next: Option<RowKeyBuf>) {
        let Some((seat, mut underway)) = self.sql.end_comparison(ticket) else { return };
        let Step::Range(memory) = &mut underway.step else { return };
        let Memory { mut held, reach } = std::mem::take(memory);
        let sql_reach = next.as_ref().map(place);
        let reach = match (reach, sql_reach) {
            (Some(memory), Some(sql)) => Some(memory.min(sql)),
            (memory, sql) => memory.or(sql),
        };
        held.retain(|place, _| reach.as_ref().is_none_or(|reach| place <= reach));
        let mut doubtful = Vec::new();
        for (row, stored) in Stored::all(found) {
            let place = place(&row);
            if reach.as_ref().is_some_and(|reach| place > *reach) {
                continue;
            }
            let verdict = judge(&underway.table, held.remove(&place).as_ref(), Some(&stored));
            if !count(&mut underway.page, &verdict) {
                doubtful.push(row);
            }
        }
        for ((_, key, sort), held) in held {
            let verdict = judge(&underway.table, Some(&held), None);
            if !count(&mut underway.page, &verdict) {
                doubtful.push(RowKeyBuf { table: underway.table.id, key, sort });
            }
        }
        underway.page.next = self.behind(seat, underway.table.id, reach);
        self.look_again(seat, underway, doubtful, 1);
    }

    fn look_again(&mut self, seat: SeatId, mut underway: PendingComparison, rows: Vec<RowKeyBuf>, look: u32) {
        if rows.is_empty() || look > LOOKS_MAX {
            underway.page.changing += rows.len() as u64;
            return self.respond_to(underway.caller, Response::Verified(Box::new(underway.page)));
        }
        let held = rows.iter().map(|row| (row.clone(), self.held(seat, row))).collect();
        underway.step = Step::Again { held, look };
        let table = Arc::clone(&underway.table);
        let ticket = self.sql.begin_comparison(seat, underway);
        self.submit_sql(ticket, Some(Job::Load(LoadJob { ticket, table, rows })));
    }

    pub(super) fn verified_rows(&mut self, ticket: JobId, found: Found) {
        let Some((seat, mut underway)) = self.sql.end_comparison(ticket) else { return };
        let Step::Again { held, look } = &mut underway.step else { return };
        let (held, look) = (std::mem::take(held), *look);
        let stored: BTreeMap<RowKeyBuf, Stored> = Stored::all(found).collect();
        let mut moving = Vec::new();
        for (row, before) in held {
            if self.held(seat, &row) != before {
                moving.push(row);
                continue;
            }
            let verdict = judge(&underway.table, before.as_ref(), stored.get(&row));
            if let Comparison::Differs(kind) = &verdict {
                let memory = before.map_or_else(Default::default, |held| held.version);
                let sql = stored.get(&row).map_or_else(Default::default, Stored::version);
                underway.page.differences.push(Difference { row, kind: kind.clone(), memory, sql });
            }
            count(&mut underway.page, &verdict);
        }
        self.look_again(seat, underway, moving, look + 1);
    }

    pub(super) fn verify_failed(&mut self, underway: &PendingComparison, trouble: &Trouble) {
        let message = format!("SQL cannot be read: {}", trouble.message);
        self.respond_to(underway.caller, sql::refusal(trouble, message));
    }

    fn held(&self, seat: SeatId, row: &RowKeyBuf) -> Option<MemoryRow> {
        let replica = self.host.replica(seat)?;
        match replica.records().get(row.as_ref().position(), row.as_ref()) {
            Lookup::Live(view) => Some(MemoryRow::of(&view)),
            Lookup::Absent { version, sql_version } => Some(MemoryRow::absent(version, sql_version)),
            Lookup::NotResident | Lookup::UnknownTable => None,
        }
    }
}

impl Memory {
    fn look(records: &Records, table: TableId, from: &Cursor, limit: usize) -> Self {
        let position = from.position;
        let from = match &from.row {
            None => ScanFrom::Position(position),
            Some(row) => ScanFrom::After { position, row: row.as_ref() },
        };
        let scan = Scan { table: Some(table), from, limit, whole_positions: false };
        let (mut held, mut last) = (BTreeMap::new(), None);
        let end = records.scan_resident(&scan, |_, row, view| {
            last = Some(row);
            held.insert(place(&row.to_owned()), MemoryRow::of(&view));
        });
        let reach = last.filter(|_| end == Page::More).map(|row| place(&row.to_owned()));
        Self { held, reach }
    }
}

fn place(row: &RowKeyBuf) -> RoutingOrder {
    (row.as_ref().position(), row.key.clone(), row.sort.clone())
}

/// Counts a row that needs no second look. Says whether it was one.
fn count(page: &mut VerifiedPage, verdict: &Comparison) -> bool {
    match verdict {
        Comparison::Equal => page.equal += 1,
        Comparison::Dirty => page.dirty += 1,
        Comparison::NotInMemory => page.not_in_memory += 1,
        Comparison::Nothing => {}
        Comparison::Differs(_) => return false,
    }
    true
}
