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
/// Writes between two looks at the log's size, or bytes of them: a single write may be as large as thousands of others.
pub(crate) const LOOK_EVERY: u64 = 1_024;
const LOOK_BYTES: u64 = 64 << 20;
/// Writes until the next look where the log was found too large: of many shards, one after the other is to be cut.
const LOOK_AGAIN: u64 = 16;

/// When to look at the log's size.
struct Looks {
    writes_left: u64,
    bytes_left: u64,
}

impl Default for Looks {
    fn default() -> Self {
        Self { writes_left: LOOK_EVERY, bytes_left: LOOK_BYTES }
    }
}

impl Looks {
    /// Counts a write, and says whether it is time to look.
    fn count(&mut self, bytes: usize) -> bool {
        self.writes_left = self.writes_left.saturating_sub(1);
        self.bytes_left = self.bytes_left.saturating_sub(bytes as u64);
        self.writes_left == 0 || self.bytes_left == 0
    }

    /// Notes what a look has shown.
    fn looked(&mut self, is_too_large: bool) {
        *self = Self { writes_left: if is_too_large { LOOK_AGAIN } else { LOOK_EVERY }, ..Self::default() };
    }
}

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
    let mut looks = Looks::default();
    while let Ok(batch) = tasks.recv() {
        if looks.count(batch.bytes()) {
            let oldest = writer.too_large();
            looks.looked(oldest.is_some());
            oldest.into_iter().for_each(|oldest| tell(LogNews::SnapshotNow(oldest)));
        }
        tell(LogNews::Persisted(writer.write(batch)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes_until_look(bytes: usize) -> u64 {
        let mut looks = Looks::default();
        (1..).find(|_| looks.count(bytes)).expect("a look comes")
    }

    #[test]
    fn the_log_is_looked_at_after_many_writes_or_few_large_ones() {
        assert_eq!(writes_until_look(100), LOOK_EVERY);
        assert_eq!(writes_until_look(25 << 20), 3);
    }

    #[test]
    fn a_log_that_is_too_large_is_looked_at_again_soon() {
        let mut looks = Looks::default();
        assert!(looks.count(LOOK_BYTES as usize));

        looks.looked(true);
        assert_eq!((1..).find(|_| looks.count(1)), Some(LOOK_AGAIN));

        looks.looked(false);
        assert_eq!((1..).find(|_| looks.count(1)), Some(LOOK_EVERY));
    }
}
