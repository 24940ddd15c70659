//! The thread that syncs a lane's log writes: the lane goes on reading sockets and serving reads meanwhile.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use shardine_model::ShardId;
use shardine_model::codec::Reader;
use shardine_model::log::LogWrite;
use shardine_shard::Persist;
use shardine_store::{LogStore, SnapshotWriter};

use crate::letter::{Inbox, Letter};

/// Disk that the log may take before the shard with its oldest entry is cut out of turn: the log is shared, and one
/// quiet shard can hold back the space of all.
const LOG_BYTES_SOFT_MAX: u64 = 512 << 20;
/// Writes between two looks at the log's size.
const LOOK_EVERY: u64 = 1_024;

pub(crate) enum LogTask {
    /// Everything of one lane turn: (seat, what), in order.
    Write(Vec<(usize, Persist)>),
    Truncate {
        shard: ShardId,
        below: u64,
    },
}

pub(crate) struct LogThread {
    pub tasks: Sender<LogTask>,
    pub thread: JoinHandle<()>,
}

pub(crate) fn start(
    lane: usize,
    log: Arc<dyn LogStore>,
    snapshots: std::path::PathBuf,
    inbox: Inbox,
) -> std::io::Result<LogThread> {
    let (tasks, receiver) = channel();
    let name = format!("log-{lane}");
    let thread = std::thread::Builder::new().name(name).spawn(move || run(&receiver, &*log, &snapshots, &inbox))?;
    Ok(LogThread { tasks, thread })
}

/// Ends when the lane lets go of its side.
fn run(tasks: &Receiver<LogTask>, log: &dyn LogStore, snapshots: &std::path::Path, inbox: &Inbox) {
    let mut writes = 0u64;
    while let Ok(task) = tasks.recv() {
        writes += 1;
        if writes.is_multiple_of(LOOK_EVERY)
            && log.bytes_on_disk() > LOG_BYTES_SOFT_MAX
            && let Some(oldest) = log.oldest_shard()
        {
            inbox.send(Letter::CutNow(oldest));
        }
        let done = match task {
            LogTask::Write(persists) => write(log, snapshots, persists).map(|confirmed| {
                inbox.send(Letter::Persisted(confirmed));
            }),
            LogTask::Truncate { shard, below } => log.truncate_before(shard, below),
        };
        if let Err(error) = done {
            // What the disk holds is unknown now. Answering anything more could be a lie; starting again reads the truth.
            tracing::error!(%error, "the log cannot be written: stopping at once");
            std::process::exit(74);
        }
    }
}

fn write(
    log: &dyn LogStore,
    snapshots: &std::path::Path,
    persists: Vec<(usize, Persist)>,
) -> Result<Vec<(usize, u64)>, shardine_store::Error> {
    let mut confirmed = Vec::with_capacity(persists.len());
    let mut writes: Vec<LogWrite> = Vec::with_capacity(persists.len());
    for (seat, persist) in persists {
        confirmed.push((seat, persist.number));
        if let Some((meta, data)) = persist.install {
            let shard = persist.write.shard;
            let mut writer = SnapshotWriter::create(snapshots, shard, &meta)?;
            // It came in one piece of many chunks; on disk each is its own, as in a snapshot that was cut here.
            let mut chunks = Reader::new(&data);
            while !chunks.is_empty() {
                writer.push(chunks.bytes("snapshot chunk").expect("the replica has read it before it asked"))?;
            }
            writer.finish()?;
            log.reset(shard, persist.write.hard_state.unwrap_or_default())?;
        }
        writes.push(persist.write);
    }
    log.write(&writes)?;
    Ok(confirmed)
}
