//! The turn of the thread: read all messages that are there, let timers run, hand one log write on for all groups, tell what
//! came of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use shardine_host::{Host, Move, SeatId};
use shardine_model::{ErrorCode, GroupKind, NodeId, ReplicaId, ShardId};
use shardine_router::Response;
use shardine_shard::coord::{
    NodeLine, NodeReply, Opening, Refusal, Replica, StatusCode, StreamId, StreamMessage, Ticket,
};
use shardine_ydb::Hear;

use super::places::{Asked, Call, Given};
use super::{CoordMessage, group, look};
use crate::atlas::Sheet;
use crate::clock::Clock;
use crate::exchange::{Exchange, refused, transfer};
use crate::failover::{self, Owner};
use crate::journal::{Journal, Written};
use crate::lane_message::LaneMessage;
use crate::log_thread::LogThread;
use crate::peers::news;
use crate::snapshot_thread::{SnapshotNews, SnapshotThread};

/// One step of the group's timers; where nobody stands for election, half as many do.
const TICK_MS: u64 = 50;
const LONE_TICK_MS: u64 = 100;

/// Messages read before the turn goes on.
const MESSAGES_MAX: usize = 1_024;

/// Ticks between two looks at the log: a group that writes little must not hold back the space of the others for ever.
const LOOK_TICKS: u64 = 100;

/// Ticks between two looks at places without nodes.
const TIDY_TICKS: u64 = 20;

/// The reason has paths of this machine in it, which are for those who run it.
pub(super) const STOPPED: &str = "coordination has stopped on this node; its log says why and what to do";
/// A node that has no replica passes everything on to whoever leads, if anybody does.
pub(super) const ELSEWHERE: &str = "nobody is known to lead coordination at the moment; try again";
const STOPPING: &str = "the node is stopping";

pub(super) struct CoordThread {
    pub host: Host<Replica>,
    /// One for each group that is here, in the order of their numbers.
    pub seats: Vec<SeatId>,
    incarnation: u64,
    /// Absent on a node that is alone.
    pub sheet: Option<Arc<Sheet>>,
    /// The way to itself, for answers from elsewhere.
    pub back: Sender<CoordMessage>,
    messages: Receiver<CoordMessage>,
    journal: Journal,
    snapshots: SnapshotThread,
    log_thread: JoinHandle<()>,
    sinks: BTreeMap<StreamId, StreamSink>,
    pub calls: BTreeMap<Ticket, Given>,
    pub asked: Asked,
    pub exchange: Arc<Exchange>,
    clock: Clock,
    next_tick_ms: u64,
    ticks: u64,
    /// What was last told of each seat: term and leader.
    told: BTreeMap<SeatId, (u64, ReplicaId)>,
    is_closed: bool,
}

/// A stream: whose group it belongs to, and how it hears.
struct StreamSink {
    seat: SeatId,
    hear: Hear,
}

impl CoordThread {
    pub fn new(
        host: Host<Replica>,
        (back, messages): (Sender<CoordMessage>, Receiver<CoordMessage>),
        log: LogThread,
        snapshots: SnapshotThread,
        clock: Clock,
        exchange: Arc<Exchange>,
        incarnation: u64,
    ) -> Self {
        let sheet = exchange.cluster.as_ref().map(|cluster| cluster.atlas.sheet());
        Self {
            incarnation,
            sheet,
            seats: host.seats().filter_map(|seat| host.seat_of(seat.shard)).collect(),
            host,
            back,
            messages,
            journal: Journal::new(&log),
            exchange,
            snapshots,
            log_thread: log.thread,
            sinks: BTreeMap::new(),
            calls: BTreeMap::new(),
            asked: Asked::default(),
            clock,
            next_tick_ms: 0,
            ticks: 0,
            told: BTreeMap::new(),
            is_closed: false,
        }
    }

    pub fn run(mut self) {
        self.set_time();
        if self.exchange.cluster.is_none() {
            self.host.campaign();
        }
        self.settle();
        while self.turn() {}
        // What was handed to the log is written before the thread ends.
        self.journal.close();
        let _ = self.snapshots.close().join();
        let _ = self.log_thread.join();
    }

    /// False when it is time to end.
    fn turn(&mut self) -> bool {
        match self.messages.recv_timeout(self.patience()) {
            Ok(first) => {
                self.set_time();
                if !self.read(first) {
                    return false;
                }
                for _ in 0..MESSAGES_MAX {
                    let Ok(message) = self.messages.try_recv() else { break };
                    if !self.read(message) {
                        return false;
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => self.set_time(),
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        self.run_timers();
        self.settle();
        true
    }

    fn read(&mut self, message: CoordMessage) -> bool {
        match message {
            CoordMessage::Open { stream, opening, hear } => self.open(stream, opening, hear),
            CoordMessage::Ask { stream, ask } => {
                if let Some(sink) = self.sinks.get(&stream) {
                    self.host.act(sink.seat, |replica, actions| replica.ask(stream, &ask, actions));
                }
            }
            CoordMessage::Close(stream) => {
                self.asked.forget_stream(stream);
                if let Some(sink) = self.sinks.remove(&stream) {
                    self.host.act(sink.seat, |replica, _| replica.close(stream));
                }
            }
            CoordMessage::Call { ticket, call, done } => self.call(Call { ticket, call, done }),
            CoordMessage::Placed { number, reply } => self.hear_place(number, reply),
            CoordMessage::Withdraw(ticket) => {
                self.asked.forget_call(ticket);
                if let Some(given) = self.calls.remove(&ticket) {
                    self.host.act(given.seat, |replica, actions| replica.withdraw(ticket, actions));
                }
            }
            CoordMessage::Look { look, done } => {
                done(look::look(&self.host, &look, |path| self.host.seat_of(self.place_of(path)?.group)))
            }
            CoordMessage::Status(done) => done(self.host.seats().map(look::status).collect()),
            CoordMessage::Persisted(synced) => {
                self.journal.synced(synced.took);
                self.host.finish_batch(synced.receipt);
            }
            CoordMessage::Snapshot(SnapshotNews::Saved(seat, index)) => self.host.snapshot_saved(seat, index),
            CoordMessage::Snapshot(SnapshotNews::Failed(seat)) => self.host.snapshot_failed(seat),
            CoordMessage::SnapshotNow(group) => self.snapshot_now(group),
            CoordMessage::Step(group, message) => self.host.step(group, message),
            CoordMessage::Install(group, message, coord) => self.host.step_snapshot(group, message, *coord),
            CoordMessage::Peer(news) => {
                if let Some(sheet) = &self.sheet {
                    failover::hear(&mut self.host, &news, &sheet.cluster);
                }
            }
            CoordMessage::Map(sheet) => self.turn_to(sheet),
            CoordMessage::HandOver => failover::hand_over(&mut self.host),
            CoordMessage::Transfer { group, to, done } => done(self.transfer(group, to)),
            CoordMessage::CloseStreams => {
                self.is_closed = true;
                for (stream, sink) in std::mem::take(&mut self.sinks) {
                    (sink.hear)(StreamMessage::Failure(unavailable(STOPPING)));
                    self.host.act(sink.seat, |replica, _| replica.close(stream));
                }
            }
            CoordMessage::Stop => return false,
        }
        true
    }

    pub fn start(&mut self, group: ShardId, stream: StreamId, opening: &Opening, hear: Hear) {
        let Some(seat) = self.host.seat_of(group) else {
            return hear(StreamMessage::Failure(unavailable(ELSEWHERE)));
        };
        let refusal = match self.host.replica(seat) {
            None => Some(STOPPED),
            Some(_) if self.is_closed => Some(STOPPING),
            Some(_) => None,
        };
        if let Some(reason) = refusal {
            return hear(StreamMessage::Failure(unavailable(reason)));
        }
        self.sinks.insert(stream, StreamSink { seat, hear });
        self.host.act(seat, |replica, actions| replica.start(stream, opening, actions));
    }

    /// The nodes of all groups that are here, by their paths.
    pub fn list(&self) -> NodeReply {
        if self.seats.is_empty() {
            return NodeReply::Refused(unavailable(ELSEWHERE));
        }
        let mut lines: Vec<NodeLine> = Vec::new();
        for seat in self.host.seats() {
            match &seat.replica {
                Ok(replica) => lines.extend(replica.coord().list_nodes()),
                Err(_) => return NodeReply::Refused(unavailable(STOPPED)),
            }
        }
        lines.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        NodeReply::List(lines)
    }

    /// Cuts a snapshot of a group out of turn; the group that holds the shared log back may be a lane's.
    fn snapshot_now(&mut self, group: ShardId) {
        if !self.host.snapshot_now(group) {
            self.exchange.snapshot_now(group);
        }
    }

    fn set_time(&mut self) {
        self.host.set_time(self.clock.now());
        self.host.set_blind(self.clock.is_blind());
    }

    fn run_timers(&mut self) {
        let now_ms = self.host.time().monotonic_ms;
        if now_ms < self.next_tick_ms {
            return self.host.run_due();
        }
        self.next_tick_ms = now_ms + if self.exchange.cluster.is_some() { TICK_MS } else { LONE_TICK_MS };
        self.host.tick();
        self.host.run_due();
        self.ticks += 1;
        failover::watch(&mut self.host, &self.exchange, Owner::Coordination, self.ticks);
        self.exchange.differences.look(&self.host, self.ticks);
        self.work_for_map();
        if self.ticks.is_multiple_of(TIDY_TICKS) {
            self.tidy_places();
        }
        if self.ticks.is_multiple_of(LOOK_TICKS)
            && let Some(group) = self.journal.too_large()
        {
            self.snapshot_now(group);
        }
    }

    /// Does what the replicas ask for, and proposes what has gathered as soon as the log is free.
    fn settle(&mut self) {
        loop {
            if self.snapshots.has_room() {
                self.host.cut_some();
            }
            self.perform();
            let Some(batch) = self.host.begin_batch() else { return };
            self.perform();
            // Nearly everything that is asked here goes through the log: nobody is kept waiting by waiting for the disk.
            let reads = 0;
            if let Written::Synced { receipt, .. } = self.journal.write(batch, reads, self.exchange.cluster.is_some()) {
                self.host.finish_batch(receipt);
            }
        }
    }

    fn perform(&mut self) {
        self.host.end_turn();
        let (mut acted, mut replies) = (Vec::new(), Vec::new());
        while let Some((seat, actions)) = self.host.next_acted() {
            acted.push(seat);
            for (stream, message) in actions.streams.drain(..) {
                let is_last = message.is_last();
                if let Some(sink) = self.sinks.get(&stream) {
                    (sink.hear)(message);
                }
                if is_last {
                    self.sinks.remove(&stream);
                }
            }
            replies.append(&mut actions.replies);
        }
        replies.into_iter().for_each(|(ticket, reply)| self.finish(ticket, reply));
        acted.into_iter().for_each(|seat| self.note_leader(seat));
        self.send();
        self.host.parts.drain(..).for_each(|part| self.snapshots.send(part));
        for seat in std::mem::take(&mut self.host.stopped) {
            let Some(seat) = self.host.seat(seat) else { continue };
            let reason = seat.replica.as_ref().err();
            tracing::error!(group = %seat.shard, reason, "a coordination group has stopped; everything else goes on");
        }
    }

    /// Tells the node who leads a group, if that is news.
    fn note_leader(&mut self, seat: SeatId) {
        let (Some(cluster), Some(sheet)) = (&self.exchange.cluster, &self.sheet) else { return };
        let Some(replica) = self.host.replica(seat) else { return };
        let Some(leader) = replica.group().leader() else { return };
        let now = (replica.term(), leader);
        if self.told.get(&seat) != Some(&now)
            && let Some(node) = sheet.cluster.node_of(replica.shard(), leader)
        {
            self.told.insert(seat, now);
            cluster.lead(NodeId(self.exchange.node), news(replica.shard(), now.0, leader, node));
        }
    }

    /// A lane sends for it: what is asked here waits for a disk anyway. A group of one has nobody to write to.
    fn send(&mut self) {
        let messages = std::mem::take(&mut self.host.messages);
        if self.exchange.cluster.is_some() && !messages.is_empty() {
            self.exchange.inboxes[0].send(LaneMessage::Send(messages));
        }
    }

    /// There is a new map: makes room for replicas that this node is to have, and lets go of those that were removed.
    fn turn_to(&mut self, sheet: Arc<Sheet>) {
        let own = NodeId(self.exchange.node);
        let known: Vec<ShardId> = sheet.cluster.groups_of(GroupKind::Coordination).map(|group| group.shard).collect();
        for Move { shard, leaves, arrives } in self.host.moves(&sheet.cluster, own, known) {
            if let Some(seat) = leaves {
                self.leave(seat);
            }
            if let Some(replica) = arrives {
                self.host.add(shard, replica, Ok(group::newborn(shard, replica, self.incarnation)));
            }
        }
        self.seats = self.host.seats().filter_map(|seat| self.host.seat_of(seat.shard)).collect();
        self.sheet = Some(sheet);
    }

    /// A committed configuration is without the replica: its streams look for whoever leads now.
    fn leave(&mut self, seat: SeatId) {
        self.host.remove(seat);
        for (_, sink) in self.sinks.extract_if(.., |_, sink| sink.seat == seat) {
            (sink.hear)(StreamMessage::Failure(unavailable(ELSEWHERE)));
        }
        for (_, given) in self.calls.extract_if(.., |_, given| given.seat == seat) {
            (given.done)(NodeReply::Refused(unavailable(ELSEWHERE)));
        }
    }

    /// Does what operations of the map ask of the groups that are led here, and tells meta what has become of it.
    fn work_for_map(&mut self) {
        let Some(sheet) = self.sheet.clone() else { return };
        for command in self.host.work_for_map(&sheet.full, NodeId(self.exchange.node), self.ticks) {
            self.exchange.report(command);
        }
    }

    fn transfer(&mut self, group: ShardId, to: Option<NodeId>) -> Response {
        let Some(sheet) = self.sheet.clone() else { return refused(ErrorCode::Unsupported) };
        let Some(seat) = self.host.seat_of(group) else { return refused(ErrorCode::NotLeader) };
        let heir = match transfer::heir(&sheet.cluster, group, to) {
            Ok(heir) => heir,
            Err(refusal) => return Response::Refused(refusal),
        };
        let begun = self.host.act(seat, |replica, actions| replica.hand_over(heir, actions));
        transfer::told(&sheet.cluster, group, begun)
    }

    /// Until the next tick, or what is due before it; not at all with work at hand.
    fn patience(&self) -> Duration {
        if self.host.is_cutting() && self.snapshots.has_room() {
            return Duration::ZERO;
        }
        let due_ms = self.host.next_due_ms().unwrap_or(u64::MAX);
        let now_ms = self.clock.now().monotonic_ms;
        Duration::from_millis(self.next_tick_ms.min(due_ms).saturating_sub(now_ms).max(1))
    }
}

pub(super) fn unavailable(reason: &'static str) -> Refusal {
    Refusal::new(StatusCode::Unavailable, reason)
}
