//! Messages to a lane, and the inbox they arrive in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use mio::Waker;
use mio::net::TcpStream;
use shardine_model::{Catalogue, ErrorCode, Position, ShardId, TableId};
use shardine_router::{DeadLetterLine, Response, RowCall, ShardStatus, TableWriteback, Ticket};

use crate::log_thread::Synced;
use crate::snapshot_thread::SnapshotNews;

pub(crate) type Respond = Box<dyn FnOnce(Response) + Send>;
pub(crate) type ShardDone = Box<dyn FnOnce(Result<u64, ErrorCode>) + Send>;

pub(crate) enum LaneMessage {
    /// The Redis door opens: this lane lets clients in from now on.
    Listen(std::net::TcpListener),
    /// A new Redis client.
    Connection(TcpStream),
    /// A call whose row lives on this lane.
    Call {
        call: RowCall,
        position: Position,
        done: Respond,
    },
    /// The response to a call that a connection of this lane made elsewhere.
    Response {
        ticket: Ticket,
        response: Response,
    },
    /// Something for one whole shard of this lane.
    ToShard {
        shard: ShardId,
        what: ShardCall,
        done: ShardDone,
    },
    /// A log write is on disk.
    Persisted(Synced),
    /// A snapshot is on disk, or could not be written.
    Snapshot(SnapshotNews),
    /// The log is large and this shard's entries are the oldest in it.
    SnapshotNow(ShardId),
    Sql(shardine_writeback::JobOutcome),
    Catalogue(Arc<Catalogue>),
    Status {
        done: Box<dyn FnOnce(LaneStatus) + Send>,
    },
    /// Take no more requests from Redis clients; those under way are answered.
    CloseDoor,
    Writeback {
        done: Box<dyn FnOnce(Vec<TableWriteback>) + Send>,
    },
    DeadLetters {
        table: Option<TableId>,
        done: Box<dyn FnOnce(Vec<DeadLetterLine>) + Send>,
    },
    Stop,
}

pub(crate) enum ShardCall {
    Count(Option<TableId>),
    Flush(Option<TableId>),
    RetryDeadLetters(Option<TableId>),
    /// An entry of the schema manager's making.
    Propose(Vec<u8>),
}

/// What one lane tells about itself.
pub(crate) struct LaneStatus {
    pub shards: Vec<ShardStatus>,
    pub connections: u64,
    pub counters: Vec<(&'static str, u64)>,
}

/// The sending side. Wakes the lane once for many messages.
#[derive(Clone)]
pub(crate) struct Inbox {
    sender: Sender<LaneMessage>,
    waker: Arc<Waker>,
    awake: Arc<AtomicBool>,
}

impl Inbox {
    pub fn new(waker: Waker) -> (Self, Mailbox) {
        let (sender, receiver) = std::sync::mpsc::channel();
        let awake = Arc::new(AtomicBool::new(false));
        let mailbox = Mailbox { receiver, awake: Arc::clone(&awake) };
        (Self { sender, waker: Arc::new(waker), awake }, mailbox)
    }

    /// A lane that is gone takes no messages; the process is stopping then.
    pub fn send(&self, message: LaneMessage) {
        let _ = self.sender.send(message);
        if !self.awake.swap(true, Ordering::AcqRel) {
            let _ = self.waker.wake();
        }
    }
}

/// The lane's side.
pub(crate) struct Mailbox {
    receiver: Receiver<LaneMessage>,
    awake: Arc<AtomicBool>,
}

impl Mailbox {
    /// Called before reading: a message sent from now on wakes the lane again.
    pub fn open(&self) {
        self.awake.store(false, Ordering::Release);
    }

    pub fn next(&self) -> Option<LaneMessage> {
        self.receiver.try_recv().ok()
    }
}
