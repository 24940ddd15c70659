//! Jobs for SQL that this lane's shards asked for, and their outcomes on the way back.

use std::collections::BTreeMap;
use std::sync::Arc;

use shardine_host::SeatId;
use shardine_model::sql::{Class, FlushResult};
use shardine_model::{ErrorCode, Refusal, RowKeyBuf, ShardId, Table, TableId, Version};
use shardine_router::Response;
use shardine_shard::{LoadedRow, LogProgress, Question, SqlLoad, SqlPurge, SqlWrite, Trouble};
use shardine_writeback::{FlushJob, Job, JobId, JobOutcome, LoadJob, PurgeJob, Why};

use super::core::Core;
use super::scan;
use super::tally::Tallies;
use super::verify;
use crate::clock::Clock;

/// JobKind is known of a job that is under way.
struct PendingJob {
    seat: SeatId,
    what: JobKind,
    rows: Vec<RowKeyBuf>,
}

#[derive(Clone, Copy)]
enum JobKind {
    Load(Question),
    Write { term: u64 },
    Purge { term: u64 },
}

pub(crate) struct SqlJobs {
    clock: Clock,
    next: u64,
    underway: BTreeMap<JobId, PendingJob>,
    /// Pages of scans that wait for SQL, with their seats.
    pages: BTreeMap<JobId, (SeatId, scan::PendingPage)>,
    comparisons: BTreeMap<JobId, (SeatId, verify::PendingComparison)>,
    pub(super) tallies: Tallies,
    /// The tombstones of purges that are under way.
    purges: BTreeMap<JobId, Vec<(RowKeyBuf, Version)>>,
}

impl SqlJobs {
    pub fn new(lane: usize, clock: Clock) -> Self {
        Self {
            clock,
            next: (lane as u64) << LANE_SHIFT,
            underway: BTreeMap::new(),
            pages: BTreeMap::new(),
            comparisons: BTreeMap::new(),
            tallies: Tallies::default(),
            purges: BTreeMap::new(),
        }
    }

    fn begin(&mut self, underway: PendingJob) -> JobId {
        let id = self.next_id();
        self.underway.insert(id, underway);
        id
    }

    pub fn begin_page(&mut self, seat: SeatId, page: scan::PendingPage) -> JobId {
        let id = self.next_id();
        self.pages.insert(id, (seat, page));
        id
    }

    pub fn end_page(&mut self, id: JobId) -> Option<(SeatId, scan::PendingPage)> {
        self.pages.remove(&id)
    }

    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    pub fn begin_comparison(&mut self, seat: SeatId, comparison: verify::PendingComparison) -> JobId {
        let id = self.next_id();
        self.comparisons.insert(id, (seat, comparison));
        id
    }

    pub fn end_comparison(&mut self, id: JobId) -> Option<(SeatId, verify::PendingComparison)> {
        self.comparisons.remove(&id)
    }

    pub fn comparisons(&self) -> usize {
        self.comparisons.len()
    }

    fn next_id(&mut self) -> JobId {
        self.next += 1;
        JobId(self.next)
    }
}

const LANE_SHIFT: u32 = 48;

/// The lane that a job came from.
pub(crate) fn lane_of(job: JobId) -> usize {
    (job.0 >> LANE_SHIFT) as usize
}

impl Core {
    pub(super) fn start_sql(&mut self, seat: SeatId, loads: Vec<SqlLoad>, writes: Vec<SqlWrite>) {
        for load in loads {
            self.counters.loads += 1;
            let underway = PendingJob { seat, what: JobKind::Load(load.question), rows: load.rows.clone() };
            let ticket = self.sql.begin(underway);
            let table = self.table_at(seat, load.table);
            let job = table.map(|table| Job::Load(LoadJob { ticket, table, rows: load.rows }));
            self.submit_sql(ticket, job);
        }
        for write in writes {
            self.counters.flushes += 1;
            let names = write.rows.iter().map(|flush| flush.row.clone()).collect();
            let ticket = self.sql.begin(PendingJob { seat, what: JobKind::Write { term: write.term }, rows: names });
            let table = self.table_at(seat, write.table);
            let begin_by = Some(self.sql.clock.moment(write.begin_by_ms));
            let progress = self.progress(seat, write.table, write.progress);
            let (rows, is_awaited) = (write.rows, write.is_awaited);
            let job = table.map(|table| Job::Flush(FlushJob { ticket, table, rows, begin_by, is_awaited, progress }));
            self.submit_sql(ticket, job);
        }
    }

    /// How far the shard's log has come, as SQL is to compare it with what it has seen.
    fn progress(&self, seat: SeatId, table: TableId, progress: LogProgress) -> shardine_writeback::LogProgress {
        let shard = self.host.seat(seat).map_or(ShardId(0), |seat| seat.shard);
        let inherited =
            self.exchange.baseline.of(shard, table).map_or(progress.inherited, |end| end.min(progress.inherited));
        shardine_writeback::LogProgress { shard, applied: progress.applied, inherited }
    }

    /// A definition as the shard has it.
    fn table_at(&self, seat: SeatId, table: TableId) -> Option<Arc<Table>> {
        self.host.replica(seat)?.records().catalogue().get(table).cloned()
    }

    pub(super) fn start_purges(&mut self, seat: SeatId, purges: Vec<SqlPurge>) {
        for purge in purges {
            let names = purge.rows.iter().map(|(row, _)| row.clone()).collect();
            let ticket = self.sql.begin(PendingJob { seat, what: JobKind::Purge { term: purge.term }, rows: names });
            self.sql.purges.insert(ticket, purge.rows.clone());
            let table = self.table_at(seat, purge.table);
            let begin_by = Some(self.sql.clock.moment(purge.begin_by_ms));
            let job = table.map(|table| Job::Purge(PurgeJob { ticket, table, rows: purge.rows, begin_by }));
            self.submit_sql(ticket, job);
        }
    }

    /// A job that cannot be started fails at once, by the way of one that SQL has failed: the shard tries again later.
    pub(super) fn submit_sql(&mut self, ticket: JobId, job: Option<Job>) {
        if let Some(job) = &job {
            self.stopwatch.begin_sql(job);
        }
        let sql = self.exchange.sql.clone();
        let trouble = match (job, sql) {
            (Some(job), Some(sql)) => match sql.submit(job) {
                Ok(()) => return,
                Err(rejected) => not_taken(rejected.why),
            },
            (None, _) => trouble(Class::Definition, "the table is not known here"),
            (_, None) => trouble(Class::Fatal, "there is no SQL database"),
        };
        self.stopwatch.end_sql(ticket);
        self.sql_failed(ticket, &trouble);
    }

    pub fn sql_done(&mut self, done: JobOutcome) {
        self.stopwatch.end_sql(done.ticket());
        match done {
            JobOutcome::Loaded { ticket, found } if self.sql.comparisons.contains_key(&ticket) => {
                self.verified_rows(ticket, found);
            }
            JobOutcome::Scanned { ticket, found, next } if self.sql.comparisons.contains_key(&ticket) => {
                self.verified_range(ticket, found, next);
            }
            JobOutcome::Loaded { ticket, found } => {
                let Some(job) = self.sql.underway.remove(&ticket) else { return };
                let JobKind::Load(question) = job.what else { return };
                let rows = found.rows.into_iter();
                let rows: Vec<LoadedRow> =
                    rows.map(|row| LoadedRow { row: row.row, version: row.version, fields: row.fields }).collect();
                if let Some(row) = job.rows.first() {
                    self.sql.tallies.worked(row.table, self.host.time().monotonic_ms);
                }
                let bad: Vec<RowKeyBuf> = found.quarantined.into_iter().map(|row| row.row).collect();
                self.host.act(job.seat, |replica, actions| {
                    replica.loaded(question, rows, actions);
                    if !bad.is_empty() {
                        let trouble = trouble(Class::Row, "the row in SQL does not fit the definition");
                        replica.load_failed(question, &bad, &trouble, actions);
                    }
                });
            }
            JobOutcome::Flushed { ticket, rows } => {
                let Some(job) = self.sql.underway.remove(&ticket) else { return };
                let JobKind::Write { term } = job.what else { return };
                self.tally(&rows);
                self.host.act(job.seat, |replica, actions| replica.flushed(term, &rows, actions));
            }
            JobOutcome::Purged { ticket, kept } => {
                let Some(job) = self.sql.underway.remove(&ticket) else { return };
                let rows = self.sql.purges.remove(&ticket).unwrap_or_default();
                let JobKind::Purge { term } = job.what else { return };
                self.host.act(job.seat, |replica, actions| {
                    replica.purge_kept(term, &kept);
                    replica.purged(term, &rows, actions);
                });
            }
            JobOutcome::Failed { ticket, error } => {
                tracing::warn!(%error, "SQL failed, will try again");
                self.sql_failed(ticket, &Trouble { class: error.class, message: error.message });
            }
            JobOutcome::Scanned { ticket, found, next } => self.scanned(ticket, found, next),
            JobOutcome::Checked { .. }
            | JobOutcome::Created { .. }
            | JobOutcome::FieldAdded { .. }
            | JobOutcome::Dropped { .. } => {}
        }
    }

    /// Counts what SQL said to the rows of one batch, which are all of one table.
    fn tally(&mut self, rows: &[(RowKeyBuf, FlushResult)]) {
        let Some((first, _)) = rows.first() else { return };
        let now = self.time().monotonic_ms;
        let is_written = |result: &FlushResult| *result == FlushResult::Written;
        let written = rows.iter().filter(|(_, result)| is_written(result)).count() as u64;
        self.sql.tallies.written(first.table, written, now);
        if written > 0 {
            self.sql.tallies.worked(first.table, now);
        }
        for (row, result) in rows {
            let key = || String::from_utf8_lossy(&row.key);
            let why = match result {
                FlushResult::Written => continue,
                FlushResult::Newer(version) => {
                    format!("SQL holds {} in version {version}, changed by somebody else", key())
                }
                FlushResult::Refused(message) => format!("SQL refused {}: {message}", key()),
                FlushResult::Orphan(message) => {
                    format!("{} waits for the row of another table that it refers to: {message}", key())
                }
            };
            self.sql.tallies.failed(row.table, &why, now);
        }
    }

    fn sql_failed(&mut self, ticket: JobId, trouble: &Trouble) {
        if let Some((_, page)) = self.sql.end_page(ticket) {
            return self.scan_failed(&page, trouble);
        }
        if let Some((_, comparison)) = self.sql.end_comparison(ticket) {
            return self.verify_failed(&comparison, trouble);
        }
        let Some(job) = self.sql.underway.remove(&ticket) else { return };
        if let Some(row) = job.rows.first()
            && trouble.class != Class::Busy
        {
            self.sql.tallies.failed(row.table, &trouble.message, self.host.time().monotonic_ms);
        }
        self.sql.purges.remove(&ticket);
        self.host.act(job.seat, |replica, actions| match job.what {
            JobKind::Load(question) => replica.load_failed(question, &job.rows, trouble, actions),
            JobKind::Write { term } => replica.flush_failed(term, &job.rows, trouble),
            JobKind::Purge { term } => replica.purge_failed(term),
        });
    }
}

/// A full queue is no outage: SQL works, and there is more of it to do than it can (records 48).
fn not_taken(why: Why) -> Trouble {
    match why {
        Why::Full => trouble(Class::Busy, "too many jobs wait for SQL"),
        Why::Stopped => trouble(Class::Retryable, "the node is stopping"),
    }
}

/// JobKind whoever asked for a page hears of it.
pub(super) fn refusal(trouble: &Trouble, message: String) -> Response {
    let code = match trouble.class {
        Class::Busy => ErrorCode::Busy,
        Class::Retryable | Class::Definition | Class::Row | Class::ForeignKey | Class::Fatal | Class::Foreign => {
            ErrorCode::BackendUnavailable
        }
    };
    Response::Refused(Refusal::new(code, message))
}

fn trouble(class: Class, message: &str) -> Trouble {
    Trouble { class, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// records 48: a queue that is full is no outage, and one that takes nothing more is.
    #[test]
    fn records_48_a_full_queue_of_sql_is_busy_and_not_an_outage() {
        let code = |why| match refusal(&not_taken(why), String::new()) {
            Response::Refused(refusal) => refusal.code,
            other => panic!("{other:?}"),
        };

        assert_eq!((not_taken(Why::Full).class, code(Why::Full)), (Class::Busy, ErrorCode::Busy));
        let stopped = (not_taken(Why::Stopped).class, code(Why::Stopped));
        assert_eq!(stopped, (Class::Retryable, ErrorCode::BackendUnavailable));
    }
}
