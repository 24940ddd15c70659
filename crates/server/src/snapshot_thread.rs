//! The thread that writes a lane's snapshots to disk, piece by piece as they are cut.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use shardine_host::{Part, SeatId};
use shardine_shard::SnapshotPart;
use shardine_store::{SnapshotWriter, Storage};

use crate::owner_thread;

/// Bytes that may wait for the disk; above, the lane cuts no further for now.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// The lane's side.
pub(crate) struct SnapshotThread {
    parts: Sender<Part>,
    waiting: Arc<AtomicUsize>,
    pub thread: JoinHandle<()>,
}

impl SnapshotThread {
    pub fn send(&self, part: Part) {
        self.waiting.fetch_add(size(&part.part), Ordering::Relaxed);
        let _ = self.parts.send(part);
    }

    pub fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < WAITING_BYTES_MAX
    }

    /// Lets the thread end, and gives it back to be waited for.
    pub fn close(self) -> JoinHandle<()> {
        self.thread
    }
}

fn size(part: &SnapshotPart) -> usize {
    match part {
        SnapshotPart::Chunk(chunk) => chunk.len(),
        SnapshotPart::Begin(_) | SnapshotPart::End | SnapshotPart::Abandon => 0,
    }
}

/// What becomes of a snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SnapshotNews {
    /// It is on disk: the log up to this index may go.
    Saved(SeatId, u64),
    /// The log keeps what it would have held.
    Failed(SeatId),
}
pub(crate) fn start(
    name: &str,
    storage: Arc<Storage>,
    tell: impl Fn(SnapshotNews) + Send + 'static,
) -> std::io::Result<SnapshotThread> {
    let (parts, receiver) = channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let room = Arc::clone(&waiting);
    let name = format!("snapshot-{name}");
    let thread = owner_thread::spawn(name, move || run(&receiver, &storage, &tell, &room))?;
    Ok(SnapshotThread { parts, waiting, thread })
}

fn run(parts: &Receiver<Part>, storage: &Storage, tell: &impl Fn(SnapshotNews), waiting: &AtomicUsize) {
    let mut open: BTreeMap<SeatId, (u64, SnapshotWriter)> = BTreeMap::new();
    while let Ok(part) = parts.recv() {
        waiting.fetch_sub(size(&part.part), Ordering::Relaxed);
        let (seat, shard) = (part.seat, part.shard);
        match write(&mut open, storage, part) {
            Ok(None) => {}
            Ok(Some(index)) => tell(SnapshotNews::Saved(seat, index)),
            Err(error) => {
                open.remove(&seat);
                tracing::warn!(%shard, %error, "snapshot failed, the log is kept instead");
                tell(SnapshotNews::Failed(seat));
            }
        }
    }
}

/// Says the index of a snapshot that is complete on disk.
fn write(
    open: &mut BTreeMap<SeatId, (u64, SnapshotWriter)>,
    storage: &Storage,
    part: Part,
) -> Result<Option<u64>, shardine_store::Error> {
    match part.part {
        SnapshotPart::Begin(meta) => {
            open.insert(part.seat, (meta.index, storage.cut_snapshot(part.shard, part.replica, &meta)?));
            Ok(None)
        }
        SnapshotPart::Chunk(chunk) => {
            if let Some((_, writer)) = open.get_mut(&part.seat) {
                writer.push(&chunk)?;
            }
            Ok(None)
        }
        // What is written of it goes with the writer.
        SnapshotPart::Abandon => {
            open.remove(&part.seat);
            Ok(None)
        }
        SnapshotPart::End => match open.remove(&part.seat) {
            None => Ok(None),
            Some((index, writer)) => {
                writer.finish()?;
                Ok(Some(index))
            }
        },
    }
}
