//! One thread with one connection: takes jobs in order and answers each exactly once, whatever happens to it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use shardine_model::sql::Class;
use shardine_model::{RowKeyBuf, Table, limits};
use tracing::{info, warn};

use crate::columns;
use crate::database::{Connector, Database, Role};
use crate::drift::Family;
use crate::error::Error;
use crate::flush;
use crate::job::{Change, Drift, Found, Job, JobId, JobOutcome, LoadJob, TableJob};
use crate::key;
use crate::owner::Guard;
use crate::pace::{self, Pace};
use crate::queue::Queue;
use crate::status::Counters;

pub(crate) type Notify = dyn Fn(JobOutcome) + Send + Sync;

pub(crate) struct Worker {
    pub(crate) role: Role,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) guard: Option<Arc<Guard>>,
    /// None before the first job and after an error that may have broken it.
    pub(crate) connection: Option<Box<dyn Database>>,
    pub(crate) jobs: Arc<Queue>,
    pub(crate) stopping: Arc<AtomicBool>,
    /// How long nothing may have been asked of a database that failed before it is looked whether it is there again.
    pub(crate) recheck: Duration,
    pub(crate) pace: Arc<Pace>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) notify: Arc<Notify>,
}

impl Worker {
    /// Ends when the queue is closed and everything in it is answered.
    pub(crate) fn run(mut self) {
        let jobs = Arc::clone(&self.jobs);
        if self.role == Role::Writer {
            pace::step_back();
        }
        while let Some(taken) = jobs.take(is_joined, self.recheck, || self.recheck()) {
            let (began, may_rest) = (Instant::now(), !taken.iter().any(pace::is_awaited));
            match <[Job; 1]>::try_from(taken) {
                Ok([job]) => {
                    let done = self.answer(&job);
                    self.finish(done);
                }
                Err(loads) => self.answer_loads(loads.into_iter().filter_map(Job::into_load).collect()),
            }
            if may_rest {
                jobs.rest(pace::rest_after(began.elapsed()), |waiting| match waiting {
                    Some(job) => pace::is_pressing(job, Instant::now()),
                    None => !self.pace.is_busy(),
                });
            }
        }
    }

    /// Whoever has nothing to ask of SQL, as a node that leads nothing, would never hear that it is back. The failures of those who ask
    /// are newer than that, for they try again sooner.
    fn recheck(&mut self) {
        if self.role != Role::Scanner || !self.counters.has_failed_before(self.recheck) {
            return;
        }
        self.connection = None;
        if self.connected().is_ok() {
            self.counters.connected();
        }
    }

    fn finish(&self, done: JobOutcome) {
        self.counters.count(&done);
        (self.notify)(done);
    }

    /// One question to SQL, one answer to each job.
    fn answer_loads(&mut self, loads: Vec<LoadJob>) {
        let parts: Vec<(JobId, usize)> = loads.iter().map(|load| (load.ticket, load.rows.len())).collect();
        let (ticket, table) = (loads[0].ticket, Arc::clone(&loads[0].table));
        let rows: Vec<RowKeyBuf> = loads.into_iter().flat_map(|load| load.rows).collect();
        let joined = Job::Load(LoadJob { ticket, table, rows });
        match (self.answer(&joined), joined.as_load()) {
            (JobOutcome::Loaded { found, .. }, Some(joined)) => {
                for (ticket, found) in found.deal(&joined.rows, &parts) {
                    self.finish(JobOutcome::Loaded { ticket, found });
                }
            }
            (JobOutcome::Failed { error, .. }, _) => {
                parts
                    .iter()
                    .for_each(|(ticket, _)| self.finish(JobOutcome::Failed { ticket: *ticket, error: error.clone() }));
            }
            (other, _) => unreachable!("a load was answered with {other:?}"),
        }
    }

    fn answer(&mut self, job: &Job) -> JobOutcome {
        let ticket = job.ticket();
        if self.stopping.load(Ordering::Relaxed) {
            return JobOutcome::Failed { ticket, error: Error::retryable("the node is stopping") };
        }
        // A panic must not leave the asker waiting for ever: a load that never ends blocks its key.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.perform(job)))
            .unwrap_or_else(|_| Err(Error::fatal("the SQL worker failed: see the log of this node")));
        outcome.unwrap_or_else(|error| {
            let error = self.explained(job, error);
            self.after(&error);
            JobOutcome::Failed { ticket, error }
        })
    }

    fn perform(&mut self, job: &Job) -> Result<JobOutcome, Error> {
        if job.table().dynamic {
            return Err(Error::definition(format!("table {} is dynamic and has no SQL form", job.table().name)));
        }
        let guard = self.guard.clone();
        let database = self.connected()?;
        Ok(match job {
            Job::Load(job) => {
                let found = load_all(database, job)?;
                self.counters.count_statement();
                JobOutcome::Loaded { ticket: job.ticket, found }
            }
            Job::Flush(job) => {
                let mark = guard.map(|guard| guard.mark(job.table.id, &job.progress));
                JobOutcome::Flushed { ticket: job.ticket, rows: flush::write_all(database, job, mark.as_ref())? }
            }
            Job::Purge(job) => JobOutcome::Purged { ticket: job.ticket, kept: flush::purge_all(database, job)? },
            Job::Scan(job) => {
                let (found, next) = database.scan(job)?;
                JobOutcome::Scanned { ticket: job.ticket, found, next }
            }
            Job::Table(job) => change(database, job)?,
        })
    }

    fn connected(&mut self) -> Result<&mut dyn Database, Error> {
        if !self.connection.as_mut().is_some_and(|connection| connection.is_in_place()) {
            self.connection = None;
            let mut connection = self.connector.connect(self.role)?;
            if let Some(guard) = &self.guard {
                guard.let_in(&mut *connection, self.role)?;
            }
            self.connection = Some(connection);
            info!(role = self.role.name(), "connected to SQL");
        }
        let connection = self.connection.as_mut().expect("it was just made");
        Ok(&mut **connection)
    }

    /// Where a table is not what its definition says, the database complains of a statement. What is wrong with the table, and
    /// what to do about it, is said instead.
    fn explained(&mut self, job: &Job, error: Error) -> Error {
        let (Class::Definition, Some(connection), false) =
            (error.class, self.connection.as_mut(), matches!(job, Job::Table(_)))
        else {
            return error;
        };
        let drift = connection.check(job.table(), Family::NONE).unwrap_or_default();
        // Nobody has said here which foreign keys it may have.
        let is_known = |drift: &&Drift| !matches!(drift, Drift::ForeignKey { .. } | Drift::Cascade { .. });
        let told: Vec<String> = drift.iter().filter(is_known).map(Drift::to_string).collect();
        if told.is_empty() { error } else { Error::definition(told.join("; ")) }
    }

    fn after(&mut self, error: &Error) {
        match error.class {
            Class::Retryable | Class::Fatal | Class::Foreign => self.connection = None,
            Class::Definition | Class::Row | Class::ForeignKey | Class::Busy => {}
        }
        warn!(role = self.role.name(), class = error.class.name(), %error, "SQL job failed");
    }
}

impl Drop for Worker {
    /// Where the one who is told of outcomes fails, nobody is left to answer: better to say so than to keep jobs for ever.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.jobs.close();
        }
    }
}

/// Loads of the same table that wait behind one another are read together, as far as one statement can carry them
/// (records 39): while it runs, the next ones gather.
fn is_joined(taken: &[Job], next: &Job) -> bool {
    let (Some(Job::Load(first)), Job::Load(next)) = (taken.first(), next) else { return false };
    let rows: usize = taken.iter().filter_map(|job| job.as_load()).map(|load| load.rows.len()).sum();
    (Arc::ptr_eq(&first.table, &next.table) || first.table == next.table)
        && rows + next.rows.len() <= limits::LOAD_ROWS_MAX
}

fn load_all(database: &mut dyn Database, job: &LoadJob) -> Result<Found, Error> {
    if !columns::is_mapped(&job.table) {
        return load_in_order(database, &job.table, &job.rows);
    }
    // A key that the column cannot hold is not there.
    let possible = job.rows.iter().filter(|row| key::to_sql(&job.table, &row.key).is_some());
    let found = load_in_order(database, &job.table, &possible.cloned().collect::<Vec<_>>())?;
    Ok(found.in_order(&job.rows))
}

fn load_in_order(database: &mut dyn Database, table: &Table, rows: &[RowKeyBuf]) -> Result<Found, Error> {
    let mut found = Found::default();
    for rows in rows.chunks(limits::LOAD_ROWS_MAX) {
        found.absorb(database.load(table, rows)?);
    }
    Ok(found)
}

fn change(database: &mut dyn Database, job: &TableJob) -> Result<JobOutcome, Error> {
    let (ticket, table) = (job.ticket, &job.table);
    Ok(match job.change {
        Change::Check => {
            let family = Family { parents: &job.parents, mapped: &job.mapped };
            JobOutcome::Checked { ticket, drift: database.check(table, family)? }
        }
        Change::Create => {
            database.create(table)?;
            JobOutcome::Created { ticket }
        }
        Change::AddField(field) => {
            database.add_field(table, field)?;
            JobOutcome::FieldAdded { ticket }
        }
        Change::Drop => {
            database.drop_table(table)?;
            JobOutcome::Dropped { ticket }
        }
    })
}
