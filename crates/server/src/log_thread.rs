//! Log writes, and the thread that syncs them: its lane goes on reading sockets and serving reads meanwhile.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use shardine_host::{Batch, Receipt};
use shardine_model::ShardId;
use shardine_model::codec::Reader;
use shardine_model::log::{HardState, Install, LogOp, LogWrite};
use shardine_store::{Error, LogStore, SnapshotWriter};

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
    log: Arc<dyn LogStore>,
    snapshots: PathBuf,
}

impl LogWriter {
    /// Returns when everything is on disk.
    pub fn write(&self, batch: Batch) -> Synced {
        let started = Instant::now();
        perform(&*self.log, &self.snapshots, batch.ops).unwrap_or_else(|error| give_up(&error));
        Synced { receipt: batch.receipt, took: started.elapsed() }
    }

    /// The shard to cut when the log has become large.
    pub fn too_large(&self) -> Option<ShardId> {
        if self.log.bytes_on_disk() > LOG_BYTES_SOFT_MAX { self.log.oldest_shard() } else { None }
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
    log: Arc<dyn LogStore>,
    snapshots: PathBuf,
    tell: impl Fn(LogNews) + Send + 'static,
) -> std::io::Result<LogThread> {
    let (tasks, receiver) = channel();
    let name = format!("log-{name}");
    let writer = LogWriter { log, snapshots };
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

/// Does everything in order. Writes that stand side by side share one sync.
fn perform(log: &dyn LogStore, snapshots: &Path, ops: Vec<LogOp>) -> Result<(), Error> {
    let mut writes: Vec<LogWrite> = Vec::with_capacity(ops.len());
    let mut truncated = Vec::new();
    for op in ops {
        match op {
            LogOp::Write(write) => writes.push(write),
            LogOp::Truncate { shard, below } => truncated.push((shard, below)),
            LogOp::Install(install) => {
                // What was asked for earlier must not come to stand behind the snapshot.
                log.write(&std::mem::take(&mut writes))?;
                writes.push(store_snapshot(log, snapshots, *install)?);
            }
            LogOp::Remove { shard, .. } => {
                log.write(&std::mem::take(&mut writes))?;
                log.reset(shard, HardState::default())?;
            }
        }
    }
    log.write(&writes)?;
    truncated.into_iter().try_for_each(|(shard, below)| log.truncate_before(shard, below))
}

/// Stores a peer's snapshot and begins the log anew behind it. Gives back what is still to be written there.
fn store_snapshot(log: &dyn LogStore, snapshots: &Path, install: Install) -> Result<LogWrite, Error> {
    let Install { meta, data, mut write } = install;
    let mut writer = SnapshotWriter::create(snapshots, write.shard, &meta)?;
    // It came in one piece of many chunks; on disk each is its own, as in a snapshot that was cut here.
    let mut chunks = Reader::new(&data);
    while !chunks.is_empty() {
        writer.push(chunks.bytes("snapshot chunk").expect("the replica has read it before it asked"))?;
    }
    writer.finish()?;
    let hard_state = write.hard_state.take().expect("a snapshot comes with the hard state that goes with it");
    log.reset(write.shard, hard_state)?;
    Ok(write)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use shardine_model::ReplicaId;
    use shardine_model::codec::put_bytes;
    use shardine_model::log::{LogEntry, LogEntryKind, Membership, SnapshotMeta};
    use shardine_store::{SegmentLog, SnapshotReader};

    use super::*;

    const SHARD: ShardId = ShardId(3);

    fn entries(indexes: std::ops::RangeInclusive<u64>) -> Vec<LogEntry> {
        let entry = |index| LogEntry { index, term: 1, kind: LogEntryKind::Normal, data: Bytes::from_static(b"entry") };
        indexes.map(entry).collect()
    }

    fn write(shard: ShardId, indexes: std::ops::RangeInclusive<u64>) -> LogWrite {
        LogWrite { shard, replica: ReplicaId(1), entries: entries(indexes), hard_state: None }
    }

    fn install(meta: SnapshotMeta, chunks: &[Vec<u8>], hard_state: HardState) -> LogOp {
        let next = meta.index + 1;
        let write = LogWrite { hard_state: Some(hard_state), ..write(SHARD, next..=next + 1) };
        LogOp::Install(Box::new(Install { meta, data: in_one_piece(chunks), write }))
    }

    /// As a leader sends it: all chunks in one piece.
    fn in_one_piece(chunks: &[Vec<u8>]) -> Bytes {
        let mut data = Vec::new();
        chunks.iter().for_each(|chunk| put_bytes(&mut data, chunk));
        data.into()
    }

    fn chunks_of(reader: &mut SnapshotReader) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| reader.next_chunk().unwrap()).collect()
    }

    #[test]
    fn a_snapshot_from_a_peer_is_stored_chunk_by_chunk_and_the_log_goes_on_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let (log_dir, snapshots) = (dir.path().join("log"), dir.path().join("snapshots"));
        let log = SegmentLog::open(&log_dir, Default::default()).unwrap();
        let before = vec![LogOp::Write(write(SHARD, 1..=4)), LogOp::Write(write(ShardId(4), 1..=2))];
        perform(&log, &snapshots, before).unwrap();
        let meta = SnapshotMeta {
            index: 90,
            term: 7,
            membership: Membership::of([1, 2].map(ReplicaId)),
            ..SnapshotMeta::default()
        };
        let chunks = vec![b"first".to_vec(), Vec::new(), vec![7; 300_000], b"last".to_vec()];
        let hard_state = HardState { term: 7, vote: ReplicaId(2), commit: 90 };

        let ops = vec![
            LogOp::Write(write(SHARD, 5..=6)),
            install(meta.clone(), &chunks, hard_state),
            LogOp::Write(write(ShardId(4), 3..=3)),
        ];
        perform(&log, &snapshots, ops).unwrap();

        let mut reader = SnapshotReader::newest(&snapshots, SHARD).unwrap().unwrap();
        assert_eq!(*reader.meta(), meta);
        assert_eq!(chunks_of(&mut reader), chunks);
        // Also to the process that comes next.
        drop(log);
        let log = SegmentLog::open(&log_dir, Default::default()).unwrap();
        let kept = log.load(SHARD).unwrap();
        assert_eq!(kept.hard_state, hard_state);
        assert_eq!(kept.entries, entries(91..=92), "what was before the snapshot is gone");
        assert_eq!(log.load(ShardId(4)).unwrap().entries, entries(1..=3), "another shard's log is left alone");
    }

    #[test]
    fn a_second_snapshot_from_a_peer_replaces_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let (log_dir, snapshots) = (dir.path().join("log"), dir.path().join("snapshots"));
        let log = SegmentLog::open(&log_dir, Default::default()).unwrap();

        for index in [50, 60] {
            let meta = SnapshotMeta { index, term: 1, ..SnapshotMeta::default() };
            let hard_state = HardState { term: 1, vote: ReplicaId(1), commit: index };
            let chunks = [index.to_le_bytes().to_vec()];
            perform(&log, &snapshots, vec![install(meta, &chunks, hard_state)]).unwrap();
        }

        let mut reader = SnapshotReader::newest(&snapshots, SHARD).unwrap().unwrap();
        assert_eq!(reader.meta().index, 60);
        assert_eq!(chunks_of(&mut reader), [60_u64.to_le_bytes().to_vec()]);
        assert_eq!(log.load(SHARD).unwrap().entries, entries(61..=62));
    }
}
