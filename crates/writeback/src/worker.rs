//! One thread with one connection: takes jobs in order and answers each exactly once, whatever happens to it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use shardine_model::limits;
use tracing::{info, warn};

use crate::database::{Connector, Database, Role};
use crate::error::{Class, Error};
use crate::flush;
use crate::job::{Change, Done, Found, Job, LoadJob, TableJob};
use crate::status::Counters;

pub(crate) type Notify = dyn Fn(Done) + Send + Sync;

pub(crate) struct Worker {
    pub(crate) role: Role,
    pub(crate) connector: Arc<dyn Connector>,
    /// None before the first job and after an error that may have broken it.
    pub(crate) connection: Option<Box<dyn Database>>,
    pub(crate) jobs: Receiver<Job>,
    pub(crate) stopping: Arc<AtomicBool>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) notify: Arc<Notify>,
}

impl Worker {
    /// Ends when the handle has let go of the queue and everything in it is answered.
    pub(crate) fn run(mut self) {
        while let Ok(job) = self.jobs.recv() {
            let done = self.answer(job);
            self.counters.count(&done);
            (self.notify)(done);
        }
    }

    fn answer(&mut self, job: Job) -> Done {
        let ticket = job.ticket();
        if self.stopping.load(Ordering::Relaxed) {
            return Done::Failed { ticket, error: Error::retryable("the node is stopping") };
        }
        // A panic must not leave the asker waiting for ever: a load that never ends blocks its key.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.perform(job)))
            .unwrap_or_else(|_| Err(Error::fatal("the SQL worker failed: see the log of this node")));
        outcome.unwrap_or_else(|error| {
            self.after(&error);
            Done::Failed { ticket, error }
        })
    }

    fn perform(&mut self, job: Job) -> Result<Done, Error> {
        if job.table().dynamic {
            return Err(Error::definition(format!("table {} is dynamic and has no SQL form", job.table().name)));
        }
        let database = self.connected()?;
        Ok(match job {
            Job::Load(job) => Done::Loaded { ticket: job.ticket, found: load_all(database, &job)? },
            Job::Flush(job) => {
                Done::Flushed { ticket: job.ticket, rows: flush::write_all(database, &job.table, &job.rows)? }
            }
            Job::Scan(job) => {
                let (found, next) = database.scan(&job)?;
                Done::Scanned { ticket: job.ticket, found, next }
            }
            Job::Table(job) => change(database, &job)?,
        })
    }

    fn connected(&mut self) -> Result<&mut dyn Database, Error> {
        if !self.connection.as_ref().is_some_and(|connection| connection.is_in_place()) {
            self.connection = None;
            self.connection = Some(self.connector.connect(self.role)?);
            info!(role = self.role.name(), "connected to SQL");
        }
        let connection = self.connection.as_mut().expect("it was just made");
        Ok(&mut **connection)
    }

    fn after(&mut self, error: &Error) {
        match error.class {
            Class::Retryable | Class::Fatal => self.connection = None,
            Class::Definition | Class::Row => {}
        }
        warn!(role = self.role.name(), class = error.class.name(), %error, "SQL job failed");
    }
}

fn load_all(database: &mut dyn Database, job: &LoadJob) -> Result<Found, Error> {
    let mut found = Found::default();
    for rows in job.rows.chunks(limits::LOAD_ROWS_MAX) {
        found.absorb(database.load(&job.table, rows)?);
    }
    Ok(found)
}

fn change(database: &mut dyn Database, job: &TableJob) -> Result<Done, Error> {
    let (ticket, table) = (job.ticket, &job.table);
    Ok(match job.change {
        Change::Check => Done::Checked { ticket, drift: database.check(table)? },
        Change::Create => {
            database.create(table)?;
            Done::Created { ticket }
        }
        Change::AddField(field) => {
            database.add_field(table, field)?;
            Done::FieldAdded { ticket }
        }
        Change::Drop => {
            database.drop_table(table)?;
            Done::Dropped { ticket }
        }
    })
}
