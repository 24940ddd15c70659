//! Messages to a lane, and the inbox they arrive in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use mio::Waker;
use mio::net::TcpStream;
use shardine_model::{Descriptor, ErrorCode, NodeId, Position, ShardId, TableId};
use shardine_router::{
    DeadLetterLine, HistogramStatus, RemoteCall, Response, RowCall, ShardAsk, ShardStatus, TableCall, TableWriteback,
    Ticket,
};
use shardine_shard::{Caller, Message, Records};
use shardine_transport::LeaderNews;

use crate::atlas::Sheet;
use crate::failover::PeerNews;
use crate::lane::{Departure, Visit};
use crate::log_thread::Synced;
use crate::scripts_thread::ScriptNews;
use crate::snapshot_thread::SnapshotNews;

pub(crate) type Respond = Box<dyn FnOnce(Response) + Send>;
pub(crate) type ShardDone = Box<dyn FnOnce(Result<u64, ErrorCode>) + Send>;

pub(crate) enum LaneMessage {
    /// Shards of another lane were parted, and the map does not say so yet.
    Parted(Arc<[Descriptor]>),
    /// The Redis door opens: this lane lets clients in from now on.
    Listen(std::net::TcpListener),
    /// A new map.
    Map(Arc<Sheet>),
    /// The catalogues that came before this message hold every table that was there when the node started.
    TablesKnown,
    /// A new Redis client.
    Connection(TcpStream),
    /// A call whose row lives on this lane. Those of one source keep their order.
    Call {
        source: Option<u64>,
        call: RowCall,
        position: Position,
        done: Respond,
    },
    /// The same of a client that is told where to go if it does not belong here.
    Direct {
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
        what: ShardAsk,
        done: ShardDone,
    },
    /// A link that a peer has dialled, and what came on it behind the greeting.
    PeerLink {
        peer: NodeId,
        stream: TcpStream,
        rest: Vec<u8>,
    },
    /// What the other nodes say of themselves.
    Peer(PeerNews),
    /// Another node says who leads a shard.
    LeaderNews(LeaderNews),
    /// A peer's message for a shard of this lane, which came on another one's link.
    Raft {
        shard: ShardId,
        message: Message,
    },
    /// A leader's snapshot for a shard of this lane, with what its content was made into.
    Install {
        shard: ShardId,
        message: Message,
        records: Box<Records>,
    },
    /// A peer's request for a shard of this lane, which came on another one's link.
    Visit(Box<Visit>),
    /// What has become of one that came on a link of this lane.
    Depart(Box<Departure>),
    /// A link of another lane is gone, and nothing comes of what was asked on it.
    LinkGone(u64),
    /// What a group that has no links of its own tells its peers.
    Send(Vec<(ShardId, Message)>),
    /// The response to a call of this lane that was done elsewhere on the node.
    Respond {
        caller: Caller,
        response: Response,
    },
    /// A question to another node about itself.
    AskNode {
        node: NodeId,
        call: RemoteCall,
        done: Respond,
    },
    /// A change of definitions; this lane has their home.
    Table {
        call: TableCall,
        done: Respond,
    },
    /// Give every lead to somebody else: the node stops.
    HandOver,
    /// Give the lead of one shard of this lane to another node.
    Transfer {
        shard: ShardId,
        to: Option<NodeId>,
        done: Respond,
    },
    /// A log write is on disk.
    Persisted(Synced),
    /// From a program that runs beside the lane.
    Script {
        number: u64,
        news: ScriptNews,
    },
    /// A snapshot is on disk, or could not be written.
    Snapshot(SnapshotNews),
    /// The log is large and this shard's entries are the oldest in it.
    SnapshotNow(ShardId),
    Sql(shardine_writeback::JobOutcome),
    /// There are other definitions than before.
    Catalogue,
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

/// What one lane tells about itself.
pub(crate) struct LaneStatus {
    /// Groups that it leads and somebody else could lead.
    pub leads: usize,
    pub shards: Vec<ShardStatus>,
    pub connections: u64,
    pub counters: Vec<(&'static str, u64)>,
    pub histograms: Vec<HistogramStatus>,
    pub errors: Vec<(ErrorCode, u64)>,
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
