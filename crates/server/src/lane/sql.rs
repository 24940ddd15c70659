//! Jobs for SQL that this lane's shards asked for, and their outcomes on the way back.

use std::collections::BTreeMap;

use shardine_model::RowKeyBuf;
use shardine_shard::{FlushResult, LoadedRow, SqlLoad, SqlWrite};
use shardine_writeback::{Done, FlushJob, FlushRow, Job, JobId, LoadJob};

use super::core::Core;

/// What is known of a job that is under way.
struct Underway {
    seat: usize,
    term: u64,
    rows: Vec<RowKeyBuf>,
    is_load: bool,
}

pub(crate) struct SqlJobs {
    next: u64,
    underway: BTreeMap<JobId, Underway>,
}

impl SqlJobs {
    pub fn new(lane: usize) -> Self {
        Self { next: (lane as u64) << LANE_SHIFT, underway: BTreeMap::new() }
    }

    fn begin(&mut self, underway: Underway) -> JobId {
        self.next += 1;
        let id = JobId(self.next);
        self.underway.insert(id, underway);
        id
    }
}

const LANE_SHIFT: u32 = 48;

/// The lane that a job came from.
pub(crate) fn lane_of(job: JobId) -> usize {
    (job.0 >> LANE_SHIFT) as usize
}

impl Core {
    pub(super) fn start_sql(&mut self, seat: usize, loads: Vec<SqlLoad>, writes: Vec<SqlWrite>) {
        for load in loads {
            self.counters.loads += 1;
            let underway = Underway { seat, term: load.term, rows: load.rows.clone(), is_load: true };
            let ticket = self.sql.begin(underway);
            let table = self.seats[seat]
                .replica
                .as_ref()
                .ok()
                .and_then(|replica| replica.records().catalogue().get(load.table).cloned());
            let job = table.map(|table| Job::Load(LoadJob { ticket, table, rows: load.rows }));
            self.submit_sql(ticket, job);
        }
        for write in writes {
            self.counters.flushes += 1;
            let names = write.rows.iter().map(|flush| flush.row.clone()).collect();
            let ticket = self.sql.begin(Underway { seat, term: write.term, rows: names, is_load: false });
            let table = self.seats[seat]
                .replica
                .as_ref()
                .ok()
                .and_then(|replica| replica.records().catalogue().get(write.table).cloned());
            let rows = write.rows.into_iter();
            let rows =
                rows.map(|flush| FlushRow { row: flush.row, version: flush.version, fields: flush.fields }).collect();
            let job = table.map(|table| Job::Flush(FlushJob { ticket, table, rows }));
            self.submit_sql(ticket, job);
        }
    }

    /// A job that cannot be started fails like one that SQL refused: the shard tries again later.
    fn submit_sql(&mut self, ticket: JobId, job: Option<Job>) {
        let sql = self.exchange.sql.clone();
        let accepted = match (job, sql) {
            (Some(job), Some(sql)) => sql.submit(job).is_ok(),
            (None, _) | (_, None) => false,
        };
        if !accepted {
            self.sql_failed(ticket);
        }
    }

    pub fn sql_done(&mut self, done: Done) {
        match done {
            Done::Loaded { ticket, found } => {
                let Some(job) = self.sql.underway.remove(&ticket) else { return };
                let rows = found.rows.into_iter();
                let rows: Vec<LoadedRow> =
                    rows.map(|row| LoadedRow { row: row.row, version: row.version, fields: row.fields }).collect();
                let bad: Vec<RowKeyBuf> = found.quarantined.into_iter().map(|row| row.row).collect();
                self.with_replica(job.seat, |replica, actions| {
                    replica.loaded(job.term, &rows, actions);
                    replica.load_failed(job.term, &bad, actions);
                });
            }
            Done::Flushed { ticket, rows } => {
                let Some(job) = self.sql.underway.remove(&ticket) else { return };
                let results: Vec<(RowKeyBuf, FlushResult)> =
                    rows.into_iter().map(|(row, result)| (row, flush_result(result))).collect();
                self.with_replica(job.seat, |replica, actions| replica.flushed(job.term, &results, actions));
            }
            Done::Failed { ticket, error } => {
                tracing::warn!(%error, "SQL failed, will try again");
                self.sql_failed(ticket);
            }
            Done::Scanned { .. }
            | Done::Checked { .. }
            | Done::Created { .. }
            | Done::FieldAdded { .. }
            | Done::Dropped { .. } => {}
        }
    }

    fn sql_failed(&mut self, ticket: JobId) {
        let Some(job) = self.sql.underway.remove(&ticket) else { return };
        self.with_replica(job.seat, |replica, actions| {
            if job.is_load {
                replica.load_failed(job.term, &job.rows, actions);
            } else {
                replica.flush_failed(job.term, &job.rows);
            }
        });
    }
}

fn flush_result(result: shardine_writeback::FlushResult) -> FlushResult {
    match result {
        shardine_writeback::FlushResult::Written => FlushResult::Written,
        shardine_writeback::FlushResult::Newer(version) => FlushResult::Newer(version),
        shardine_writeback::FlushResult::Refused(message) => FlushResult::Refused(message),
    }
}
