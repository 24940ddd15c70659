//! The backend as the rest of the project sees it: started with options, spoken to through a handle, answering by a call.

use shardine_model::sql::Class;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::database::{Connector, Database, Nothing, Role};
use crate::error::Error;
use crate::job::{Change, Job, JobOutcome};
use crate::mysql::Mysql;
use crate::owner::{Guard, OnClaim, Owner};
use crate::pace::Pace;
use crate::postgres::Postgres;
use crate::queue::Queue;
use crate::sqlite::Sqlite;
use crate::status::{Counters, Status};
use crate::url::Url;
use crate::worker::{Notify, Worker};
use tracing::warn;

/// Two keep a server busy while one of them encodes or waits for a sync; more cost it a process each.
const SERVER_WRITERS: usize = 2;

#[derive(Clone, Debug)]
pub struct Options {
    pub url: Url,
    /// How long a statement waits for a lock that somebody else holds before it fails as retryable.
    pub busy_timeout: Duration,
    /// How long one statement may take before it fails as retryable. With the time that a leader trusts its lease it must
    /// stay below the length of the lease, so that an old leader's last statement ends before a new one's first
    /// (write-back 81).
    pub statement_timeout: Duration,
    /// Connections that write. A server works for several at once, and batches of different shards share no row. A file has
    /// one writer at a time, and a second connection would only wait for the first.
    pub writers: usize,
    /// Jobs waiting for the workers of each kind. Each shard has a few under way at a time; more is a sign that SQL cannot keep up,
    /// and then it is better to join rows into larger jobs than to queue small ones.
    pub queue_jobs_max: usize,
    /// How long nothing may have been asked of a database that could not be reached before it is looked whether it is there again.
    /// Above the pause of a leader that has rows for it, whose own tries tell more.
    pub recheck: Duration,
    /// Who writes, to be kept in SQL and compared with what is found there. Without one nobody asks whose the database is.
    pub owner: Option<Owner>,
    /// Called once, when the database was found to be the owner's, before anything is written.
    pub on_claim: OnClaim,
}

impl Options {
    #[must_use]
    pub fn new(url: Url) -> Self {
        let writers = if url.is_server() { SERVER_WRITERS } else { 1 };
        Self {
            url,
            writers,
            busy_timeout: Duration::from_secs(4),
            statement_timeout: Duration::from_secs(4),
            queue_jobs_max: 1_024,
            recheck: Duration::from_secs(15),
            owner: None,
            on_claim: OnClaim::default(),
        }
    }
}

/// Starts what a handle speaks to: threads that write, one that loads and one that scans, each with its own connection.
pub struct Backend;

impl Backend {
    /// Connects once before it returns, so that a wrong path or password is told to the one who typed it, and so that a
    /// database is not used that is another's ([`Class::Foreign`]). A server that is down at the moment is no reason not to
    /// start: what is in memory can be served without it. `notify` is called on the workers' threads with the outcome of
    /// every accepted job; it should hand it over and return.
    pub fn start(options: &Options, notify: impl Fn(JobOutcome) + Send + Sync + 'static) -> Result<Handle, Error> {
        let connector = connector(options);
        connector.prepare()?;
        let queue = || Arc::new(Queue::new(options.queue_jobs_max));
        let queues = Queues { writes: queue(), loads: queue(), scans: queue() };
        let guard = options.owner.clone().map(|owner| Arc::new(Guard::new(owner, options.on_claim.clone())));
        let shared = Shared {
            queues,
            threads: Mutex::default(),
            stopping: Arc::default(),
            pace: Arc::default(),
            counters: Arc::default(),
            guard,
        };
        let handle = Handle { shared: Arc::new(shared) };
        let notify: Arc<Notify> = Arc::new(notify);
        let writers = std::iter::repeat_n(Role::Writer, options.writers.max(1));
        for role in writers.chain([Role::Loader, Role::Scanner]) {
            // Whoever began already ends with the handle.
            handle.start_worker(role, options, &connector, &notify).inspect_err(|_| handle.stop())?;
        }
        let counters = &handle.shared.counters;
        if !options.url.is_none() && counters.look().last_error.is_none() {
            counters.connected();
        }
        Ok(handle)
    }
}

impl Handle {
    fn start_worker(
        &self,
        role: Role,
        options: &Options,
        connector: &Arc<dyn Connector>,
        notify: &Arc<Notify>,
    ) -> Result<(), Error> {
        let shared = &self.shared;
        let connection = match connector.connect(role) {
            _ if options.url.is_none() => None,
            Ok(connection) => self.let_in(role, connection)?,
            Err(error) if options.url.is_server() && error.class == Class::Retryable => self.without(&error),
            Err(error) => return Err(error),
        };
        let worker = Worker {
            role,
            connector: Arc::clone(connector),
            guard: shared.guard.clone(),
            connection,
            jobs: Arc::clone(shared.queues.of(role)),
            stopping: Arc::clone(&shared.stopping),
            recheck: options.recheck,
            pace: Arc::clone(&shared.pace),
            counters: Arc::clone(&shared.counters),
            notify: Arc::clone(notify),
        };
        let thread = std::thread::Builder::new().name(role.name().into()).spawn(move || worker.run());
        let thread = thread.map_err(|error| Error::fatal(format!("cannot start a thread for SQL: {error}")))?;
        shared.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// A database that is another's is not used. One that cannot be asked or claimed at the moment, because it is locked, full,
    /// or only to be read, is like one that is down: the worker tries again with its first job.
    fn let_in(&self, role: Role, mut connection: Box<dyn Database>) -> Result<Option<Box<dyn Database>>, Error> {
        let Some(guard) = &self.shared.guard else { return Ok(Some(connection)) };
        match guard.let_in(&mut *connection, role) {
            Ok(()) => Ok(Some(connection)),
            Err(error) if error.class == Class::Foreign => Err(error),
            Err(error) => Ok(self.without(&error)),
        }
    }

    fn without(&self, error: &Error) -> Option<Box<dyn Database>> {
        self.shared.counters.failed(error);
        warn!(%error, "SQL cannot be used and will be tried again");
        None
    }
}

pub(crate) fn connector(options: &Options) -> Arc<dyn Connector> {
    match &options.url {
        Url::None => Arc::new(Nothing),
        Url::Postgres(server) => {
            let (config, tls) = ((*server.config).clone(), server.tls.clone());
            Arc::new(Postgres { config, tls, statement_timeout: options.statement_timeout })
        }
        Url::Mysql(server) => {
            let (config, tls) = ((*server.config).clone(), server.tls.clone());
            Arc::new(Mysql { config, tls, statement_timeout: options.statement_timeout })
        }
        Url::Sqlite(path) => Arc::new(Sqlite { path: path.clone(), busy_timeout: options.busy_timeout }),
    }
}

/// Speaks to the backend from any thread. Never waits for SQL, except in `stop`.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

struct Shared {
    queues: Queues,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stopping: Arc<AtomicBool>,
    pace: Arc<Pace>,
    counters: Arc<Counters>,
    guard: Option<Arc<Guard>>,
}

struct Queues {
    writes: Arc<Queue>,
    loads: Arc<Queue>,
    scans: Arc<Queue>,
}

/// A job that was not taken, given back whole.
#[derive(Debug)]
pub struct Rejected {
    pub job: Box<Job>,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Too many jobs are waiting. Try again after the next outcome.
    Full,
    Stopped,
}

impl Handle {
    /// Queues a job. If it is accepted, `notify` will be called with its outcome exactly once.
    pub fn submit(&self, job: Job) -> Result<(), Rejected> {
        self.shared.queues.of(role_for(&job)).put(job)
    }

    /// Tells writers that those who answer requests have little time to spare. Holds for a quarter of a second.
    pub fn note_busy(&self) {
        self.shared.pace.note_busy();
    }

    /// Takes no more jobs, lets those under way finish, answers the waiting ones as failed, and returns when the threads
    /// have ended. Whoever wants rows written first waits for their outcomes first. Not to be called from `notify`.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shared.queues.close();
        let threads = std::mem::take(&mut *self.shared.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A panic outside of a job can only come from `notify`, which has been heard of by then.
            let _ = thread.join();
        }
    }

    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.counters.look()
    }
}

impl Queues {
    fn of(&self, role: Role) -> &Arc<Queue> {
        match role {
            Role::Writer => &self.writes,
            Role::Loader => &self.loads,
            Role::Scanner => &self.scans,
        }
    }

    fn close(&self) {
        [&self.writes, &self.loads, &self.scans].into_iter().for_each(|queue| queue.close());
    }
}

fn role_for(job: &Job) -> Role {
    match job {
        Job::Load(_) => Role::Loader,
        Job::Scan(_) => Role::Scanner,
        Job::Flush(_) | Job::Purge(_) => Role::Writer,
        Job::Table(job) => match job.change {
            Change::Check => Role::Scanner,
            Change::Create | Change::AddField(_) | Change::Drop => Role::Writer,
        },
    }
}
