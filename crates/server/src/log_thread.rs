//! Log writes, and the thread that syncs them: its lane goes on reading sockets and serving reads meanwhile.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use shardine_host::{Batch, Receipt};
use shardine_model::ShardId;
use shardine_store::{Error, Storage};

use crate::owner_thread;

/// Disk that the log may take before the shard with its oldest entry is cut out of turn: the log is shared, and one
/// quiet shard can hold back the space of all.
const LOG_BYTES_SOFT_MAX: u64 = 512 << 20;
/// Writes between two looks at the log's size.
pub(crate) const LOOK_EVERY: u64 = 1_024;

pub(crate) struct LogThread {
    pub tasks: Sender<Batch>,
    pub thread: JoinHandle<()>,
    /// For an owner that can spare the time to write himself.
    pub writer: LogWriter,
}

/// What was written.
pub(crate) struct Synced {
    pub receipt: Receipt,
    pub took: Duration,
}

/// Writes turns to the log. Whoever holds one takes care that the turns of a lane are written one after the other.
#[derive(Clone)]
pub(crate) struct LogWriter {
    storage: Arc<Storage>,
}

impl LogWriter {
    /// Returns when everything is on disk.
    pub fn write(&self, batch: Batch) -> Synced {
        let started = Instant::now();
        self.storage.perform(batch.ops).unwrap_or_else(|error| give_up(&error));
        Synced { receipt: batch.receipt, took: started.elapsed() }
    }

    /// The shard to cut when the log has become large.
    pub fn too_large(&self) -> Option<ShardId> {
        if self.storage.log_bytes() > LOG_BYTES_SOFT_MAX { self.storage.oldest_shard() } else { None }
    }
}

/// What the disk holds is unknown now. Answering anything more could be a lie; starting again reads the truth.
fn give_up(error: &Error) -> ! {
    tracing::error!(%error, "the log cannot be written: stopping at once");
    std::process::exit(74)
}

/// What the thread has to tell whoever it writes for.
pub(crate) enum LogNews {
    Persisted(Synced),
    /// The log is large and this shard's entries are the oldest in it.
    SnapshotNow(ShardId),
}

pub(crate) fn start(
    name: &str,
    storage: Arc<Storage>,
    tell: impl Fn(LogNews) + Send + 'static,
) -> std::io::Result<LogThread> {
    let (tasks, receiver) = channel();
    let name = format!("log-{name}");
    let writer = LogWriter { storage };
    let own = writer.clone();
    let thread = owner_thread::spawn(name, move || run(&receiver, &own, &tell))?;
    Ok(LogThread { tasks, thread, writer })
}

/// Ends when the lane lets go of its side.
fn run(tasks: &Receiver<Batch>, writer: &LogWriter, tell: &impl Fn(LogNews)) {
    let mut writes = 0u64;
    while let Ok(batch) = tasks.recv() {
        writes += 1;
        if writes.is_multiple_of(LOOK_EVERY)
            && let Some(oldest) = writer.too_large()
        {
            tell(LogNews::SnapshotNow(oldest));
        }
        tell(LogNews::Persisted(writer.write(batch)));
    }
}
