//! The thread that owns the coordination group: requests of streams come in as letters, many of them share one log write.
//!
//! It is a lane without connections: streams live in the gRPC door (`shardine-ydb`), which hears of them through closures.

mod look;
mod room;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SendError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use shardine_model::{ErrorCode, NodeId, ShardId};
use shardine_router::{CoordLook, CoordStatus, Response};
use shardine_shard::coord::{Ask, NodeCall, NodeReply, Opening, Options, Replica, StreamId};
use shardine_store::{DataDir, LogStore};
use shardine_ydb::{Engine, Hear};

use self::room::Room;
use crate::clock::Clock;
use crate::exchange::refused;
use crate::log_thread::{self, LogNews, Synced};
use crate::{restore, snapshot_thread};

/// Coordination groups are numbered from here; shards of records stay below.
const FIRST_GROUP: u32 = 1 << 30;

/// The one group of today. Nodes are assigned to groups by their path, so more can come.
const GROUP: ShardId = ShardId(FIRST_GROUP);

pub(crate) fn is_group(shard: ShardId) -> bool {
    shard.0 >= FIRST_GROUP
}

pub(crate) type Done = Box<dyn FnOnce(NodeReply) + Send>;

pub(crate) enum Letter {
    Open {
        stream: StreamId,
        opening: Opening,
        hear: Hear,
    },
    Ask {
        stream: StreamId,
        ask: Ask,
    },
    Close(StreamId),
    Call {
        call: NodeCall,
        done: Done,
    },
    Look {
        look: CoordLook,
        done: Box<dyn FnOnce(Response) + Send>,
    },
    Status(Box<dyn FnOnce(CoordStatus) + Send>),
    Persisted(Synced),
    SnapshotSaved(u64),
    CutNow,
    /// End all streams and take no more; calls are still answered.
    CloseStreams,
    Stop,
}

/// The running thread.
pub(crate) struct Coordination {
    letters: Sender<Letter>,
    next_stream: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Coordination {
    /// Brings the group back from disk and lets it serve. A group that cannot be read refuses everybody; the rest of the
    /// node goes on.
    pub fn start(node: NodeId, log: Arc<dyn LogStore>, data: &DataDir, clock: Clock) -> anyhow::Result<Self> {
        let restored = restore::restore_coord(&*log, &data.snapshot_dir(), GROUP, node.0);
        let replica = restored.map_err(|error| format!("{error:#}")).map(|(coord, restored)| {
            let options = Options {
                incarnation: crate::clock::wall().0 & 0xffff_ffff,
                seed: rand::random(),
                ..Options::new(node, GROUP)
            };
            Replica::new(options, coord, restored)
        });
        if let Err(reason) = &replica {
            tracing::error!(%reason, "coordination cannot be read; everything else goes on");
        }
        let (letters, mailbox) = channel();
        let news = Mutex::new(letters.clone());
        let tell = move |what: LogNews| {
            let news = news.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let _ = match what {
                LogNews::Persisted(synced) => news.send(Letter::Persisted(synced)),
                LogNews::CutNow(GROUP) => news.send(Letter::CutNow),
                LogNews::CutNow(_) => Ok(()),
            };
        };
        let log_thread = log_thread::start("coord", log, data.snapshot_dir(), tell)?;
        let saved_letters = letters.clone();
        let saved = move |_, index| drop(saved_letters.send(Letter::SnapshotSaved(index)));
        let snapshots = snapshot_thread::start("coord", data.snapshot_dir(), saved, log_thread.tasks.clone())?;
        let room = Room::new(GROUP, replica, mailbox, log_thread, snapshots, clock);
        let thread = std::thread::Builder::new().name("coord".into()).spawn(move || room.run())?;
        Ok(Self { letters, next_stream: Arc::default(), thread })
    }

    /// The way in for doors.
    pub fn engine(&self) -> Arc<dyn Engine> {
        Arc::new(Desk { letters: self.letters.clone(), next_stream: Arc::clone(&self.next_stream) })
    }

    /// The way in for those who look.
    pub fn window(&self) -> Window {
        Window { letters: self.letters.clone() }
    }

    pub fn close_streams(&self) {
        let _ = self.letters.send(Letter::CloseStreams);
    }

    /// Ends when the last log write is on disk.
    pub fn stop(self) {
        let _ = self.letters.send(Letter::Stop);
        let _ = self.thread.join();
    }
}

/// Looks at the group. Whoever asks is answered, also when the thread has ended.
pub(crate) struct Window {
    letters: Sender<Letter>,
}

impl Window {
    pub fn look(&self, look: CoordLook, done: Box<dyn FnOnce(Response) + Send>) {
        if let Err(SendError(Letter::Look { done, .. })) = self.letters.send(Letter::Look { look, done }) {
            done(refused(ErrorCode::NoLeader));
        }
    }

    pub fn status(&self, done: Box<dyn FnOnce(CoordStatus) + Send>) {
        if let Err(SendError(Letter::Status(done))) = self.letters.send(Letter::Status(done)) {
            let stopped = Some("the node is stopping".to_owned());
            done(CoordStatus { group: GROUP.0, stopped, ..CoordStatus::default() });
        }
    }
}

struct Desk {
    letters: Sender<Letter>,
    next_stream: Arc<AtomicU64>,
}

impl Engine for Desk {
    fn open(&self, opening: Opening, hear: Hear) -> StreamId {
        let stream = StreamId(self.next_stream.fetch_add(1, Ordering::Relaxed) + 1);
        let _ = self.letters.send(Letter::Open { stream, opening, hear });
        stream
    }

    fn ask(&self, stream: StreamId, ask: Ask) {
        let _ = self.letters.send(Letter::Ask { stream, ask });
    }

    fn close(&self, stream: StreamId) {
        let _ = self.letters.send(Letter::Close(stream));
    }

    fn call(&self, call: NodeCall, done: Done) {
        let _ = self.letters.send(Letter::Call { call, done });
    }
}
