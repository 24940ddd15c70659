//! The backend as the rest of the house sees it: started with options, spoken to through a handle, answering by a call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::database::{Connector, Nothing, Role};
use crate::error::{Class, Error};
use crate::job::{Change, Done, Job};
use crate::mysql::Mysql;
use crate::postgres::Postgres;
use crate::sqlite::Sqlite;
use crate::status::{Counters, Status};
use crate::url::Url;
use crate::worker::{Notify, Worker};
use tracing::warn;

#[derive(Clone, Debug)]
pub struct Options {
    pub url: Url,
    /// How long a statement waits for a lock that somebody else holds before it fails as retryable.
    pub busy_timeout: Duration,
    /// How long one statement may take before it fails as retryable. With the time that a leader trusts its lease it must
    /// stay below the length of the lease, so that an old leader's last statement ends before a new one's first
    /// (record-cache 81).
    pub statement_timeout: Duration,
    /// Jobs waiting for each worker. Each shard has a few under way at a time; more is a sign that SQL cannot keep up,
    /// and then it is better to join rows into larger jobs than to queue small ones.
    pub queue_jobs_max: usize,
}

impl Options {
    #[must_use]
    pub fn new(url: Url) -> Self {
        Self {
            url,
            busy_timeout: Duration::from_secs(4),
            statement_timeout: Duration::from_secs(4),
            queue_jobs_max: 1_024,
        }
    }
}

/// Starts what a handle speaks to: one thread that writes and one that reads, each with its own connection.
pub struct Backend;

impl Backend {
    /// Connects once before it returns, so that a wrong path or password is told to the one who typed it. A server that
    /// is down at the moment is no reason not to start: what is in memory can be served without it. `notify` is called
    /// on the workers' threads with the outcome of every accepted job; it should hand it over and return.
    pub fn start(options: &Options, notify: impl Fn(Done) + Send + Sync + 'static) -> Result<Handle, Error> {
        let connector = connector(options);
        connector.prepare()?;
        let shared = Arc::new(Shared::default());
        let notify: Arc<Notify> = Arc::new(notify);
        let start = |role: Role| {
            let (sender, jobs) = sync_channel(options.queue_jobs_max);
            let connection = match connector.connect(role) {
                _ if options.url.is_none() => None,
                Ok(connection) => Some(connection),
                Err(error) if options.url.is_server() && error.class == Class::Retryable => {
                    shared.counters.failed(&error);
                    warn!(%error, "SQL cannot be reached and will be tried again");
                    None
                }
                Err(error) => return Err(error),
            };
            let worker = Worker {
                role,
                connector: Arc::clone(&connector),
                connection,
                jobs,
                stopping: Arc::clone(&shared.stopping),
                counters: Arc::clone(&shared.counters),
                notify: Arc::clone(&notify),
            };
            let thread = std::thread::Builder::new().name(role.name().into()).spawn(move || worker.run());
            let thread = thread.map_err(|error| Error::fatal(format!("cannot start a thread for SQL: {error}")))?;
            shared.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
            Ok::<_, Error>(sender)
        };
        let queues = Queues { writer: start(Role::Writer)?, reader: start(Role::Reader)? };
        *shared.queues.write().unwrap_or_else(PoisonError::into_inner) = Some(queues);
        if !options.url.is_none() && shared.counters.look().last_error.is_none() {
            shared.counters.connected();
        }
        Ok(Handle { shared })
    }
}

fn connector(options: &Options) -> Arc<dyn Connector> {
    match &options.url {
        Url::None => Arc::new(Nothing),
        Url::Postgres(server) => {
            Arc::new(Postgres { config: (*server.config).clone(), statement_timeout: options.statement_timeout })
        }
        Url::Mysql(server) => {
            Arc::new(Mysql { config: (*server.config).clone(), statement_timeout: options.statement_timeout })
        }
        Url::Sqlite(path) => Arc::new(Sqlite { path: path.clone(), busy_timeout: options.busy_timeout }),
    }
}

/// Speaks to the backend from any thread. Never waits for SQL, except in `stop`.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// None once stopped; letting go of the senders is what ends the workers.
    queues: RwLock<Option<Queues>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stopping: Arc<AtomicBool>,
    counters: Arc<Counters>,
}

struct Queues {
    writer: SyncSender<Job>,
    reader: SyncSender<Job>,
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
        let queues = self.shared.queues.read().unwrap_or_else(PoisonError::into_inner);
        let Some(queues) = queues.as_ref() else {
            return Err(Rejected { job: Box::new(job), why: Why::Stopped });
        };
        queues.of(&job).try_send(job).map_err(|refused| match refused {
            TrySendError::Full(job) => Rejected { job: Box::new(job), why: Why::Full },
            TrySendError::Disconnected(job) => Rejected { job: Box::new(job), why: Why::Stopped },
        })
    }

    /// Takes no more jobs, lets those under way finish, answers the waiting ones as failed, and returns when the threads
    /// have ended. Whoever wants rows written first waits for their outcomes first. Not to be called from `notify`.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        drop(self.shared.queues.write().unwrap_or_else(PoisonError::into_inner).take());
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
    fn of(&self, job: &Job) -> &SyncSender<Job> {
        match job {
            Job::Load(_) | Job::Scan(_) => &self.reader,
            Job::Flush(_) | Job::Purge(_) => &self.writer,
            Job::Table(job) => match job.change {
                Change::Check => &self.reader,
                Change::Create | Change::AddField(_) | Change::Drop => &self.writer,
            },
        }
    }
}
