//! The turn of the thread: read all messages that are there, let timers run, hand one log write on, take a new map to disk and
//! tell everybody.

mod commands;
mod load;
mod map;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use shardine_host::{Host, SeatId};
use shardine_model::{NodeId, ReplicaId, ShardId};
use shardine_shard::meta::{Followers, Joiner, Replica, Ticket};
use shardine_store::DataDir;

use super::MetaMessage;
use super::asked::{Asked, Open, Waiter};
use crate::atlas::Sheet;
use crate::clock::Clock;
use crate::exchange::{Exchange, Neighbourhood};
use crate::failover::{self, Owner};
use crate::journal::{Journal, Written};
use crate::lane_message::LaneMessage;
use crate::log_thread::LogThread;
use crate::peers::{Book, BulkSender, MapNews, news};
use crate::snapshot_thread::{SnapshotNews, SnapshotThread};

const TICK_MS: u64 = 50;
/// Ticks between two tries to announce this start of the node.
const ANNOUNCE_TICKS: u64 = 20;
/// The lane on whose links other nodes are asked.
const ASKING_LANE: usize = 0;

/// What the thread is made from.
pub(super) struct Parts {
    pub node: NodeId,
    /// What this start of the node says of itself.
    pub joiner: Joiner,
    pub host: Host<Replica>,
    pub mailbox: Receiver<MetaMessage>,
    /// The way to itself, for answers from elsewhere.
    pub back: Sender<MetaMessage>,
    pub snapshots: SnapshotThread,
    pub clock: Clock,
    pub exchange: Arc<Exchange>,
    pub book: Arc<Book>,
    pub bulk: BulkSender,
    pub data: Arc<DataDir>,
}

pub(super) struct MetaThread {
    parts: Parts,
    journal: Journal,
    log_thread: JoinHandle<()>,
    sheet: Arc<Sheet>,
    /// Which version each node was last heard to have; what a leader begins with.
    heard: BTreeMap<NodeId, u64>,
    /// Of a leader.
    followers: Option<Followers>,
    asked: Asked,
    reports: load::Reports,
    waiting: BTreeMap<Ticket, Waiter>,
    tickets: u64,
    /// What was last told: term and leader.
    told: Option<(u64, ReplicaId)>,
    announced: Announced,
    /// Whether this node was ever as far as whoever leads.
    has_caught_up: bool,
    next_tick_ms: u64,
    ticks: u64,
}

#[derive(PartialEq, Eq)]
enum Announced {
    Not,
    Asked,
    Done,
}

impl MetaThread {
    pub fn new(parts: Parts, log: LogThread) -> Self {
        let sheet = neighbourhood(&parts.exchange).atlas.sheet();
        Self {
            parts,
            journal: Journal::new(&log),
            log_thread: log.thread,
            sheet,
            heard: BTreeMap::new(),
            followers: None,
            asked: Asked::default(),
            reports: load::Reports::default(),
            waiting: BTreeMap::new(),
            tickets: 0,
            told: None,
            announced: Announced::Not,
            has_caught_up: false,
            next_tick_ms: 0,
            ticks: 0,
        }
    }

    pub fn run(mut self) {
        self.set_time();
        let is_alone = |replica: &Replica| replica.group().is_alone();
        if self.replica().is_some_and(is_alone) {
            self.parts.host.campaign();
        }
        self.settle();
        while self.turn() {}
        // What was handed to the log is written before the thread ends.
        self.journal.close();
        let _ = self.parts.snapshots.close().join();
        let _ = self.log_thread.join();
    }

    fn cluster(&self) -> &Neighbourhood {
        neighbourhood(&self.parts.exchange)
    }

    fn seat(&self) -> Option<SeatId> {
        self.parts.host.seat_of(ShardId::META)
    }

    fn replica(&self) -> Option<&Replica> {
        self.parts.host.replica(self.seat()?)
    }

    fn is_serving(&self) -> bool {
        self.replica().is_some_and(Replica::is_serving)
    }

    /// Whether it leads, and the map has begun: before that there is nothing to change or to tell.
    fn is_ready(&self) -> bool {
        self.replica().is_some_and(|replica| replica.is_serving() && replica.map().is_formed())
    }

    fn now_ms(&self) -> u64 {
        self.parts.host.time().monotonic_ms
    }

    fn set_time(&mut self) {
        self.parts.host.set_time(self.parts.clock.now());
        self.parts.host.set_blind(self.parts.clock.is_blind());
    }

    /// False when it is time to end.
    fn turn(&mut self) -> bool {
        match self.parts.mailbox.recv_timeout(self.patience()) {
            Ok(first) => {
                self.set_time();
                let mut next = Some(first);
                while let Some(message) = next {
                    if !self.read(message) {
                        return false;
                    }
                    next = self.parts.mailbox.try_recv().ok();
                }
            }
            Err(RecvTimeoutError::Timeout) => self.set_time(),
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        self.run_timers();
        self.settle();
        true
    }

    fn patience(&self) -> Duration {
        if self.parts.host.is_cutting() && self.parts.snapshots.has_room() {
            return Duration::ZERO;
        }
        let due_ms = self.parts.host.next_due_ms().unwrap_or(u64::MAX);
        let now_ms = self.parts.clock.now().monotonic_ms;
        Duration::from_millis(self.next_tick_ms.min(due_ms).saturating_sub(now_ms).max(1))
    }

    fn read(&mut self, message: MetaMessage) -> bool {
        match message {
            MetaMessage::Step(message) => self.parts.host.step(ShardId::META, message),
            MetaMessage::Install(message, meta) => self.parts.host.step_snapshot(ShardId::META, message, *meta),
            MetaMessage::Persisted(synced) => {
                self.journal.synced(synced.took);
                self.parts.host.finish_batch(synced.receipt);
            }
            MetaMessage::Snapshot(SnapshotNews::Saved(seat, index)) => self.parts.host.snapshot_saved(seat, index),
            MetaMessage::Snapshot(SnapshotNews::Failed(seat)) => self.parts.host.snapshot_failed(seat),
            MetaMessage::SnapshotNow => drop(self.parts.host.snapshot_now(ShardId::META)),
            MetaMessage::Peer(news) => failover::hear(&mut self.parts.host, &news, &self.sheet.cluster),
            MetaMessage::News(MapNews::Has(node, version)) => self.hear_version(node, version),
            MetaMessage::News(MapNews::Delta(bytes)) => self.hear_delta(&bytes),
            MetaMessage::Ask { command, done } => self.asked.add(Open::new(command, done, self.now_ms())),
            MetaMessage::Submit { command, done } => self.submit(&command, Waiter::Foreign(done)),
            MetaMessage::Answered { number, response } => self.asked.hear(number, response, self.now_ms()),
            MetaMessage::Load(status) => self.hear_load(&status),
            MetaMessage::Announced(reply) => self.hear_announced(reply),
            MetaMessage::HandOver => failover::hand_over(&mut self.parts.host),
            MetaMessage::Transfer { to, done } => done(self.transfer(to)),
            MetaMessage::Stop => return false,
        }
        true
    }

    fn run_timers(&mut self) {
        self.pursue();
        if self.now_ms() < self.next_tick_ms {
            return self.parts.host.run_due();
        }
        self.next_tick_ms = self.now_ms() + TICK_MS;
        self.ticks += 1;
        self.parts.host.tick();
        self.parts.host.run_due();
        failover::watch(&mut self.parts.host, &self.parts.exchange, Owner::Meta, self.ticks);
        self.parts.exchange.differences.look(&self.parts.host, self.ticks);
        if self.is_serving() {
            self.lead();
        } else {
            self.followers = None;
        }
        if self.announced == Announced::Not && self.ticks % ANNOUNCE_TICKS == 1 {
            self.announce();
        }
        self.note_caught_up();
    }

    /// Does what the replica asks for, and proposes what has gathered as soon as the log is free.
    fn settle(&mut self) {
        loop {
            if self.parts.snapshots.has_room() {
                self.parts.host.cut_some();
            }
            self.perform();
            let Some(batch) = self.parts.host.begin_batch() else { return };
            self.perform();
            if let Written::Synced { receipt, .. } = self.journal.write(batch, 0, true) {
                self.parts.host.finish_batch(receipt);
            }
        }
    }

    fn perform(&mut self) {
        self.parts.host.end_turn();
        let mut replies = Vec::new();
        while let Some((_, actions)) = self.parts.host.next_acted() {
            replies.append(&mut actions.replies);
        }
        // Whoever hears that something was done finds it done on this node.
        self.look_at_map();
        replies.into_iter().for_each(|(ticket, reply)| self.answer(ticket, reply));
        self.note_leader();
        let messages = std::mem::take(&mut self.parts.host.messages);
        if !messages.is_empty() {
            self.parts.exchange.inboxes[ASKING_LANE].send(LaneMessage::Send(messages));
        }
        let snapshots = &self.parts.snapshots;
        self.parts.host.parts.drain(..).for_each(|part| snapshots.send(part));
        for seat in std::mem::take(&mut self.parts.host.stopped) {
            let reason = self.parts.host.seat(seat).and_then(|seat| seat.replica.as_ref().err());
            tracing::error!(?reason, "this node's replica of the map's group has stopped; everything else goes on");
        }
    }

    /// Tells the node who leads the group, if that is news.
    fn note_leader(&mut self) {
        let Some(replica) = self.replica() else { return };
        let Some(leader) = replica.group().leader() else { return };
        let now = (replica.term(), leader);
        if self.told == Some(now) {
            return;
        }
        if let Some(node) = self.sheet.cluster.node_of(ShardId::META, leader) {
            self.cluster().lead(self.parts.node, news(ShardId::META, now.0, leader, node));
            self.told = Some(now);
        }
    }
}

fn neighbourhood(exchange: &Exchange) -> &Neighbourhood {
    exchange.cluster.as_ref().expect("only a node of a cluster keeps a map")
}
