//! The thread that keeps the map: it hosts this node's replica of the map's group, if it has one, takes every new version of the
//! map to disk and then to the rest of the node, and, where it leads, gives numbers, plans and tells the other nodes.
//!
//! What is decided is decided in `shardine-meta` and `shardine_shard::meta`; here it meets threads, disks and links.

mod asked;
mod thread;

use std::sync::mpsc::{SendError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use shardine_model::{ErrorCode, NodeId, Refusal, ShardId};
use shardine_router::{EngineStatus, Response};
use shardine_shard::Message;
use shardine_shard::meta::{Command, Joiner, Meta, Reply};
use shardine_store::{DataDir, Storage};

use self::asked::to_response;
use self::thread::{MetaThread, Parts};
use crate::clock::Clock;
use crate::exchange::Exchange;
use crate::failover::PeerNews;
use crate::lane_message::Respond;
use crate::log_thread::{self, LogNews, Synced};
use crate::peers::{Book, BulkSender, MapNews};
use crate::snapshot_thread::{self, SnapshotNews};
use crate::topology::Topology;
use crate::{owner_thread, restore};

/// What has become of a command.
pub(crate) type OnReply = Box<dyn FnOnce(Result<Reply, Refusal>) + Send>;

/// How long whoever waits for an answer here waits for it.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) enum MetaMessage {
    /// A peer's message for the group.
    Step(Message),
    /// A leader's snapshot, with what its content was made into.
    Install(Message, Box<Meta>),
    Persisted(Synced),
    Snapshot(SnapshotNews),
    SnapshotNow,
    /// What the other nodes say of themselves.
    Peer(PeerNews),
    News(MapNews),
    /// A command for whoever leads the group.
    Ask {
        command: Box<Command>,
        done: OnReply,
    },
    /// One that another node has for this one. It is not passed on.
    Submit {
        command: Box<Command>,
        done: Respond,
    },
    /// What came of this node's announcement.
    Announced(Result<Reply, Refusal>),
    /// What all nodes have said of the sizes of what they lead.
    Load(Box<EngineStatus>),
    /// What another node has answered.
    Answered {
        number: u64,
        response: Response,
    },
    /// Give the lead to somebody else: the node stops.
    HandOver,
    /// Give the lead to another node.
    Transfer {
        to: Option<NodeId>,
        done: Respond,
    },
    Stop,
}

/// The way in.
#[derive(Clone)]
pub(crate) struct MetaHandle {
    messages: Sender<MetaMessage>,
}

impl MetaHandle {
    pub fn step(&self, message: Message) {
        let _ = self.messages.send(MetaMessage::Step(message));
    }

    pub fn step_snapshot(&self, message: Message, meta: Box<Meta>) {
        let _ = self.messages.send(MetaMessage::Install(message, meta));
    }

    pub fn snapshot_now(&self) {
        let _ = self.messages.send(MetaMessage::SnapshotNow);
    }

    pub fn peer(&self, news: PeerNews) {
        let _ = self.messages.send(MetaMessage::Peer(news));
    }

    pub fn hear(&self, news: MapNews) {
        let _ = self.messages.send(MetaMessage::News(news));
    }

    /// Has the leader of the map's group execute a command, wherever it is.
    pub fn ask(&self, command: Command, done: OnReply) {
        let ask = MetaMessage::Ask { command: Box::new(command), done };
        if let Err(SendError(MetaMessage::Ask { done, .. })) = self.messages.send(ask) {
            done(Err(stopping()));
        }
    }

    /// The same for what shows in the map if it was done, and is said again if it was not.
    pub fn report(&self, command: Command) {
        self.ask(command, Box::new(|_| {}));
    }

    /// The same for whoever can wait.
    pub fn ask_and_wait(&self, command: Command) -> Result<Reply, Refusal> {
        let (give, take) = channel();
        self.ask(command, Box::new(move |reply| drop(give.send(reply))));
        take.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            Err(Refusal::new(ErrorCode::InDoubt, "the group of the map does not answer; look before you try again"))
        })
    }

    /// Executes what another node asks, if this one leads.
    pub fn submit(&self, command: Command, done: Respond) {
        let submit = MetaMessage::Submit { command: Box::new(command), done };
        if let Err(SendError(MetaMessage::Submit { done, .. })) = self.messages.send(submit) {
            done(to_response(Err(stopping())));
        }
    }

    pub fn transfer(&self, to: Option<NodeId>, done: Respond) {
        if let Err(SendError(MetaMessage::Transfer { done, .. })) =
            self.messages.send(MetaMessage::Transfer { to, done })
        {
            done(to_response(Err(stopping())));
        }
    }

    pub fn hand_over(&self) {
        let _ = self.messages.send(MetaMessage::HandOver);
    }
}

fn stopping() -> Refusal {
    Refusal::new(ErrorCode::NotLeader, "the node is stopping")
}

/// The running thread.
pub(crate) struct MetaKeeper {
    pub handle: MetaHandle,
    thread: JoinHandle<()>,
}

impl MetaKeeper {
    /// Brings the replica back from disk and lets it take part.
    pub fn start(
        topology: &Topology,
        storage: &Arc<Storage>,
        joiner: Joiner,
        clock: Clock,
        exchange: &Arc<Exchange>,
        neighbours: (Arc<Book>, BulkSender, Arc<DataDir>),
    ) -> anyhow::Result<Self> {
        let mut host = exchange.differences.host();
        if let Some(local) = topology.local(ShardId::META) {
            host.add(ShardId::META, local.replica, restore::meta_replica(storage, &local, joiner.incarnation));
        }
        let (messages, mailbox) = channel();
        let news = Mutex::new(messages.clone());
        let tell = move |what: LogNews| {
            let message = match what {
                LogNews::Persisted(synced) => MetaMessage::Persisted(synced),
                LogNews::SnapshotNow(ShardId::META) => MetaMessage::SnapshotNow,
                // Of another one; whoever writes more has it cut.
                LogNews::SnapshotNow(_) => return,
            };
            let _ = news.lock().unwrap_or_else(PoisonError::into_inner).send(message);
        };
        let log = log_thread::start("meta", Arc::clone(storage), tell)?;
        let news = messages.clone();
        let tell = move |what| drop(news.send(MetaMessage::Snapshot(what)));
        let snapshots = snapshot_thread::start("meta", Arc::clone(storage), tell)?;
        let handle = MetaHandle { messages };
        let (book, bulk, data) = neighbours;
        let (exchange, back) = (Arc::clone(exchange), handle.messages.clone());
        let node = topology.node;
        let parts = Parts { node, joiner, host, mailbox, back, snapshots, clock, exchange, book, bulk, data };
        let owner = MetaThread::new(parts, log);
        let thread = owner_thread::spawn("meta", move || owner.run())?;
        Ok(Self { handle, thread })
    }

    /// Ends when the last log write is on disk.
    pub fn stop(self) {
        let _ = self.handle.messages.send(MetaMessage::Stop);
        let _ = self.thread.join();
    }
}
