//! How the database is doing: for `status`, for metrics, for people.

use shardine_model::sql::{Class, FlushResult};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::job::{Found, JobOutcome};

/// A look at the counters. They only grow, from zero at the start of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether the last job reached the database.
    pub connected: bool,
    /// The newest failure of a whole job, and how long ago it was; also after it has passed.
    pub last_error: Option<(Error, Duration)>,
    pub jobs_failed: u64,
    pub rows_written: u64,
    pub rows_refused: u64,
    /// Times that a row was put off because SQL lacks the row of another table that it refers to.
    pub rows_orphaned: u64,
    /// Rows that SQL held at another version than ours (write-back 117).
    pub rows_newer: u64,
    /// Rows read, found or not.
    pub rows_read: u64,
    pub rows_quarantined: u64,
    /// Statements that read rows by key.
    pub statements_read: u64,
    /// Fields that were NULL in SQL (records 50).
    pub nulls: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    connected: AtomicBool,
    last_error: Mutex<Option<(Error, Instant)>>,
    jobs_failed: AtomicU64,
    rows_written: AtomicU64,
    rows_refused: AtomicU64,
    rows_orphaned: AtomicU64,
    rows_newer: AtomicU64,
    rows_read: AtomicU64,
    rows_quarantined: AtomicU64,
    statements_read: AtomicU64,
    nulls: AtomicU64,
}

impl Counters {
    pub(crate) fn connected(&self) {
        self.connected.store(true, Ordering::Relaxed);
    }

    pub(crate) fn count(&self, done: &JobOutcome) {
        match done {
            JobOutcome::Loaded { found, .. } | JobOutcome::Scanned { found, .. } => self.count_read(found),
            JobOutcome::Flushed { rows, .. } => rows.iter().for_each(|(_, result)| self.count_written(result)),
            JobOutcome::Purged { .. }
            | JobOutcome::Checked { .. }
            | JobOutcome::Created { .. }
            | JobOutcome::FieldAdded { .. }
            | JobOutcome::Dropped { .. } => {}
            JobOutcome::Failed { error, .. } => return self.failed(error),
        }
        self.connected();
    }

    pub(crate) fn count_statement(&self) {
        self.statements_read.fetch_add(1, Ordering::Relaxed);
    }

    fn count_read(&self, found: &Found) {
        let read = found.rows.len() + found.quarantined.len();
        self.rows_read.fetch_add(read as u64, Ordering::Relaxed);
        self.rows_quarantined.fetch_add(found.quarantined.len() as u64, Ordering::Relaxed);
        self.nulls.fetch_add(found.nulls, Ordering::Relaxed);
    }

    fn count_written(&self, result: &FlushResult) {
        let counter = match result {
            FlushResult::Written => &self.rows_written,
            FlushResult::Newer(_) => &self.rows_newer,
            FlushResult::Refused(_) => &self.rows_refused,
            FlushResult::Orphan(_) => &self.rows_orphaned,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self, error: &Error) {
        if error.class == Class::Busy {
            return;
        }
        self.jobs_failed.fetch_add(1, Ordering::Relaxed);
        let is_reached = matches!(error.class, Class::Definition | Class::Row | Class::ForeignKey);
        self.connected.store(is_reached, Ordering::Relaxed);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some((error.clone(), Instant::now()));
    }

    /// Whether the database was not reached, and that was so long ago. One that was there and would not do what it was told is
    /// asked less often.
    pub(crate) fn has_failed_before(&self, age: Duration) -> bool {
        let last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        let quiet = |(error, at): &(Error, Instant)| {
            at.elapsed() >= if error.class == Class::Retryable { age } else { age * 3 }
        };
        !self.connected.load(Ordering::Relaxed) && last.as_ref().is_some_and(quiet)
    }

    pub(crate) fn look(&self) -> Status {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let last_error = self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Status {
            connected: self.connected.load(Ordering::Relaxed),
            last_error: last_error.map(|(error, at)| (error, at.elapsed())),
            jobs_failed: read(&self.jobs_failed),
            rows_written: read(&self.rows_written),
            rows_refused: read(&self.rows_refused),
            rows_orphaned: read(&self.rows_orphaned),
            rows_newer: read(&self.rows_newer),
            rows_read: read(&self.rows_read),
            rows_quarantined: read(&self.rows_quarantined),
            statements_read: read(&self.statements_read),
            nulls: read(&self.nulls),
        }
    }
}
