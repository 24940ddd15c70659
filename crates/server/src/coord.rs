//! The thread that owns the coordination groups: requests of streams come in as messages, many of them share one log write.
//!
//! It is a lane without connections: streams live in the gRPC door (`shardine-ydb`), which hears of them through closures.
//! All groups sit in one owner, so that a turn has one log write however many of them took part in it.

mod groups;
mod look;
mod group;
mod places;
mod thread;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SendError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use shardine_model::{ErrorCode, NodeId, Refusal as MapRefusal, ShardId};
use shardine_router::{CoordLook, CoordStatus, Response};
use shardine_shard::Message;
use shardine_shard::coord::{Ask, Coord, NodeCall, NodeReply, Opening, Path, StreamId, Ticket};
use shardine_shard::meta::{Command, Reply};
use shardine_store::Storage;
use shardine_ydb::{CoordEngine, Hear, Purpose};

pub(crate) use self::groups::groups;
pub(crate) use self::places::{only_group, place_in};
use self::thread::CoordThread;
use crate::atlas::Sheet;
use crate::clock::Clock;
use crate::exchange::{Exchange, refused};
use crate::failover::PeerNews;
use crate::log_thread::{self, LogNews, Synced};
use crate::owner_thread;
use crate::snapshot_thread::{self, SnapshotNews};
use crate::topology::Topology;

pub(crate) type RespondNode = Box<dyn FnOnce(NodeReply) + Send>;

pub(crate) enum CoordMessage {
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
        ticket: Ticket,
        call: NodeCall,
        done: RespondNode,
    },
    /// Whoever called has left.
    Withdraw(Ticket),
    /// What whoever keeps the map has answered to a question of this thread's.
    Placed {
        number: u64,
        reply: Result<Reply, MapRefusal>,
    },
    Look {
        look: CoordLook,
        done: Box<dyn FnOnce(Response) + Send>,
    },
    Status(Box<dyn FnOnce(Vec<CoordStatus>) + Send>),
    Persisted(Synced),
    Snapshot(SnapshotNews),
    SnapshotNow(ShardId),
    /// A peer's message for a group.
    Step(ShardId, Message),
    /// A leader's snapshot for a group, with what its content was made into.
    Install(ShardId, Message, Box<Coord>),
    /// What the other nodes say of themselves.
    Peer(PeerNews),
    /// A new map.
    Map(Arc<Sheet>),
    /// Give every lead to somebody else: the node stops.
    HandOver,
    /// Give the lead of one group to another node.
    Transfer {
        group: ShardId,
        to: Option<NodeId>,
        done: Box<dyn FnOnce(Response) + Send>,
    },
    /// End all streams and take no more; calls are still answered.
    CloseStreams,
    Stop,
}

/// The running thread.
pub(crate) struct Coordination {
    messages: Sender<CoordMessage>,
    next: Arc<AtomicU64>,
    groups: Arc<[ShardId]>,
    exchange: Arc<Exchange>,
    thread: JoinHandle<()>,
}

impl Coordination {
    /// Brings the groups back from disk and lets them serve.
    pub fn start(
        groups: Vec<ShardId>,
        topology: &Topology,
        storage: Arc<Storage>,
        incarnation: u64,
        clock: Clock,
        exchange: Arc<Exchange>,
    ) -> anyhow::Result<Self> {
        let mut host = exchange.differences.host();
        for local in groups.iter().filter_map(|&group| topology.local(group)) {
            host.add(local.shard, local.replica, group::restore(&local, &storage, incarnation));
        }
        let (messages, mailbox) = channel();
        let news = Mutex::new(messages.clone());
        let tell = move |what: LogNews| {
            let news = news.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let _ = news.send(match what {
                LogNews::Persisted(synced) => CoordMessage::Persisted(synced),
                LogNews::SnapshotNow(group) => CoordMessage::SnapshotNow(group),
            });
        };
        let log_thread = log_thread::start("coord", Arc::clone(&storage), tell)?;
        let news = messages.clone();
        let tell = move |what| drop(news.send(CoordMessage::Snapshot(what)));
        let snapshots = snapshot_thread::start("coord", storage, tell)?;
        let boxes = (messages.clone(), mailbox);
        let owner = CoordThread::new(host, boxes, log_thread, snapshots, clock, Arc::clone(&exchange), incarnation);
        let thread = owner_thread::spawn("coord", move || owner.run())?;
        Ok(Self { messages, next: Arc::default(), groups: groups.into(), exchange, thread })
    }

    /// The way in for doors.
    pub fn engine(&self) -> Arc<dyn CoordEngine> {
        let (messages, next) = (self.messages.clone(), Arc::clone(&self.next));
        Arc::new(CoordHandle { messages, next, exchange: Arc::clone(&self.exchange) })
    }

    /// The way in for those who look.
    pub fn window(&self) -> Window {
        Window { messages: self.messages.clone(), groups: Arc::clone(&self.groups) }
    }

    /// Whom the control links tell which nodes live.
    pub fn hear_of_peers(&self) -> Box<dyn Fn(PeerNews) + Send> {
        let messages = self.messages.clone();
        Box::new(move |news| drop(messages.send(CoordMessage::Peer(news))))
    }

    pub fn close_streams(&self) {
        let _ = self.messages.send(CoordMessage::CloseStreams);
    }

    /// Ends when the last log write is on disk.
    pub fn stop(self) {
        let _ = self.messages.send(CoordMessage::Stop);
        let _ = self.thread.join();
    }
}

/// Looks at the groups. Whoever asks is answered, also when the thread has ended.
pub(crate) struct Window {
    messages: Sender<CoordMessage>,
    groups: Arc<[ShardId]>,
}

impl Window {
    pub fn look(&self, look: CoordLook, done: Box<dyn FnOnce(Response) + Send>) {
        if let Err(SendError(CoordMessage::Look { done, .. })) = self.messages.send(CoordMessage::Look { look, done }) {
            done(refused(ErrorCode::NoLeader));
        }
    }

    pub fn transfer(&self, group: ShardId, to: Option<NodeId>, done: Box<dyn FnOnce(Response) + Send>) {
        let transfer = CoordMessage::Transfer { group, to, done };
        if let Err(SendError(CoordMessage::Transfer { done, .. })) = self.messages.send(transfer) {
            done(refused(ErrorCode::NoLeader));
        }
    }

    pub fn step(&self, group: ShardId, message: Message) {
        let _ = self.messages.send(CoordMessage::Step(group, message));
    }

    pub fn step_snapshot(&self, group: ShardId, message: Message, coord: Box<Coord>) {
        let _ = self.messages.send(CoordMessage::Install(group, message, coord));
    }

    pub fn turn_to(&self, sheet: Arc<Sheet>) {
        let _ = self.messages.send(CoordMessage::Map(sheet));
    }

    pub fn snapshot_now(&self, group: ShardId) {
        let _ = self.messages.send(CoordMessage::SnapshotNow(group));
    }

    pub fn hand_over(&self) {
        let _ = self.messages.send(CoordMessage::HandOver);
    }

    pub fn status(&self, done: Box<dyn FnOnce(Vec<CoordStatus>) + Send>) {
        if let Err(SendError(CoordMessage::Status(done))) = self.messages.send(CoordMessage::Status(done)) {
            let stopped = Some("the node is stopping".to_owned());
            let each =
                |group: &ShardId| CoordStatus { group: group.0, stopped: stopped.clone(), ..CoordStatus::default() };
            done(self.groups.iter().map(each).collect());
        }
    }
}

struct CoordHandle {
    messages: Sender<CoordMessage>,
    /// Numbers streams and calls.
    next: Arc<AtomicU64>,
    exchange: Arc<Exchange>,
}

impl CoordHandle {
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl CoordEngine for CoordHandle {
    fn open(&self, opening: Opening, hear: Hear) -> StreamId {
        let stream = StreamId(self.number());
        let _ = self.messages.send(CoordMessage::Open { stream, opening, hear });
        stream
    }

    fn ask(&self, stream: StreamId, ask: Ask) {
        let _ = self.messages.send(CoordMessage::Ask { stream, ask });
    }

    fn close(&self, stream: StreamId) {
        let _ = self.messages.send(CoordMessage::Close(stream));
    }

    fn call(&self, call: NodeCall, done: RespondNode) -> Ticket {
        let ticket = Ticket(self.number());
        let _ = self.messages.send(CoordMessage::Call { ticket, call, done });
        ticket
    }

    fn has_many_groups(&self) -> bool {
        let sheet = self.exchange.cluster.as_ref().map(|cluster| cluster.atlas.sheet());
        sheet.is_some_and(|sheet| places::only_group(&sheet).is_none())
    }

    fn elsewhere(&self, path: &str, purpose: Purpose, tell: Box<dyn FnOnce(Option<String>) + Send>) {
        let Some(cluster) = &self.exchange.cluster else { return tell(None) };
        if let Some(place) = places::place_in(&cluster.atlas.sheet(), path) {
            return tell(self.exchange.door_of_leader(place.group));
        }
        let Some(path) = Path::parse(path).map(|path| path.to_string()) else { return tell(None) };
        let command = match purpose {
            Purpose::Use => Command::FindPath { path },
            Purpose::Make => Command::PlacePath { path, instead_of: 0, group: None },
        };
        let exchange = Arc::clone(&self.exchange);
        let done = move |reply| match reply {
            Ok(Reply::Place(place)) => tell(exchange.door_of_leader(place.group)),
            // Whoever serves the request here finds out why, and says it.
            Ok(_) | Err(_) => tell(None),
        };
        self.exchange.ask_meta_then(command, Box::new(done));
    }

    fn withdraw(&self, ticket: Ticket) {
        let _ = self.messages.send(CoordMessage::Withdraw(ticket));
    }
}
