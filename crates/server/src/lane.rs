//! The turn of a lane: read what ready connections brought, execute, hand one log write to the log thread, go on
//! reading while it syncs, then commit, apply, and write all replies.

// In the order in which a newcomer should read them.
mod connections;
mod core;
mod calls;
mod numbered;
mod programs;

mod peers;
mod leaders;
mod forward;
mod visits;
mod questions;
mod stale;
mod definitions;
mod members;
mod parted;

mod load;
mod memory;
mod looks;
mod scan;
mod verify;
mod sql;
mod stopwatch;
mod tally;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use shardine_model::{Catalogue, ShardId, limits};
use shardine_router::Names;

pub(crate) use self::connections::{Connections, Population};
pub(crate) use self::core::{Core, CoreParts};
pub(crate) use self::forward::Departure;
use self::load::Load;
pub(crate) use self::members::Nursery;
use self::memory::Memory;
pub(crate) use self::peers::{Links, Neighbours};
pub(crate) use self::programs::lookup;
pub(crate) use self::sql::lane_of as sql_lane;
pub(crate) use self::tally::PASSED_KEEP_MS;
pub(crate) use self::visits::Visit;
use crate::clock::Clock;
use crate::exchange::Exchange;
use crate::failover::{self, PeerNews};
use crate::lane_message::{LaneMessage, Mailbox};

const WAKER: Token = Token(usize::MAX);
const LISTENER: Token = Token(usize::MAX - 1);

/// One step of the groups' timers. An election takes ten to twenty of them; where nobody stands for one, half as many do.
const TICK_MS: u64 = 50;
const LONE_TICK_MS: u64 = 100;

/// How long a lane stays awake after work: about what falling asleep and being woken costs, most of it to the client that
/// has to wake it. An idle lane sleeps.
const AWAKE: Duration = Duration::from_micros(16);

/// How long requests are held at the start of a node until it is known what they name.
const NAMES_HOLD_MS: u64 = 1_500;

/// Events taken from the kernel at once. More than connections that are usually ready, less than a turn should handle.
const EVENTS_MAX: usize = 1_024;

/// Bytes of records that are copied for callers of other threads in one turn, and then those callers get them. Twice the largest
/// record: what a door cannot hold is refused there, when it comes.
const COPIED_BYTES_MAX: usize = 2 * limits::RECORD_BYTES_MAX;

pub(crate) struct Lane {
    poll: Poll,
    mailbox: Mailbox,
    core: Core,
    connections: Connections,
    listener: Option<TcpListener>,
    /// On a node that is alone, clients wait in it until the tables are known. In a cluster that takes others, so they are let in,
    /// and what needs no tables is answered.
    closed_door: Option<std::net::TcpListener>,
    /// Since when nobody is known to lead the map's group, while its tables are not known.
    unled_since_ms: Option<u64>,
    /// Absent on a node that is alone.
    links: Option<Links>,
    exchange: Arc<Exchange>,
    clock: Clock,
    next_tick_ms: u64,
    load: Load,
    memory: Memory,
    /// Whether the last turn has answered a client of this lane.
    has_served: bool,
    /// Messages were left for the next turn.
    has_more: bool,
    stopping: bool,
}

impl Lane {
    pub fn new(
        poll: Poll,
        mailbox: Mailbox,
        core: Core,
        connections: Connections,
        links: Option<Links>,
        exchange: Arc<Exchange>,
        clock: Clock,
    ) -> Self {
        Self {
            poll,
            mailbox,
            core,
            connections,
            listener: None,
            closed_door: None,
            unled_since_ms: None,
            links,
            exchange,
            clock,
            next_tick_ms: 0,
            load: Load::begin(),
            memory: Memory::default(),
            has_served: false,
            has_more: false,
            stopping: false,
        }
    }

    /// Turns until every shard of the lane serves: what the disk held is applied by then. In a cluster that takes others, who are
    /// not waited for.
    pub fn bring_up(&mut self) {
        self.core.look_at(&self.clock);
        self.core.campaign();
        self.settle();
        if self.links.is_some() {
            self.core.make_moves();
            self.settle();
            return;
        }
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.core.is_serving() {
            if let Err(error) = self.poll.poll(&mut events, Some(self.patience())) {
                tracing::warn!(%error, "waiting for the log was interrupted");
            }
            self.turn(&events);
        }
    }

    pub fn catalogues(&self) -> Vec<(ShardId, usize, Catalogue)> {
        self.core.catalogues()
    }

    /// Serves new Redis connections from now on, dealing them out to all lanes. A name is a table's or else the beginning of a key
    /// of `kv`, so nobody is served before the tables are known.
    fn open_door(&mut self) -> std::io::Result<()> {
        let may_open = self.core.names == Names::Known || self.links.is_some();
        let Some(listener) = self.closed_door.take_if(|_| may_open) else { return Ok(()) };
        let mut listener = TcpListener::from_std(listener);
        self.poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        self.listener = Some(listener);
        Ok(())
    }

    fn open_door_or_stop(&mut self) {
        if let Err(error) = self.open_door() {
            tracing::error!(%error, "the Redis door cannot be opened: stopping");
            std::process::exit(71);
        }
    }

    pub fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.stopping {
            if let Err(error) = self.wait(&mut events) {
                if error.kind() == std::io::ErrorKind::Interrupted {
                    continue;
                }
                tracing::error!(%error, "a lane cannot wait for events: stopping at once");
                std::process::exit(71);
            }
            self.turn(&events);
        }
        self.core.close();
    }

    /// Waits for the next events. Whoever was just served is about to ask again, so it looks a little longer before it sleeps. A lane
    /// that waits for its disk or for other nodes would only take the processor from them.
    fn wait(&mut self, events: &mut Events) -> std::io::Result<()> {
        let patience = self.patience();
        if self.has_served && !patience.is_zero() {
            let since = Instant::now();
            while since.elapsed() < AWAKE {
                self.poll.poll(events, Some(Duration::ZERO))?;
                if !events.is_empty() {
                    return Ok(());
                }
            }
        }
        self.load.sleep(|| self.poll.poll(events, Some(patience)))
    }

    fn turn(&mut self, events: &Events) {
        self.core.look_at(&self.clock);
        self.core.stopwatch.begin_turn(self.clock.micros());
        let mut messages = std::mem::take(&mut self.has_more);
        for event in events {
            match event.token() {
                WAKER => messages = true,
                LISTENER => self.accept(),
                Token(token) if peers::is_link(token) => {
                    if let Some(links) = &mut self.links {
                        links.ready(token, event, self.poll.registry(), &mut self.core);
                    }
                }
                Token(key) => self.connections.ready(key, event, &mut self.core),
            }
        }
        if messages {
            self.mailbox.open();
            while let Some(message) = self.mailbox.next() {
                self.read_message(message);
                // Those who asked get what was copied for them before more is copied, and others have their turn.
                if self.core.copied_bytes >= COPIED_BYTES_MAX {
                    self.has_more = true;
                    break;
                }
            }
        }
        if let Some(links) = &mut self.links {
            links.resume(self.poll.registry(), &mut self.core);
        }
        self.connections.resume(&mut self.core);
        self.tick_if_due();
        self.settle();
        self.has_served = self.connections.has_replies();
        while self.connections.write_all(&mut self.core) {
            self.settle();
        }
        let answered = self.core.counters.hits + self.core.counters.absents;
        self.core.stopwatch.end_turn(self.clock.micros(), answered);
        for source in self.connections.take_gone() {
            self.core.forget_source(source);
        }
        if let Some(links) = &mut self.links {
            links.flush(self.poll.registry());
        }
    }

    /// Performs actions until there are none, proposing what has gathered as soon as the log is free.
    fn settle(&mut self) {
        loop {
            self.core.perform();
            self.send();
            self.deliver();
            if !self.core.write_if_free() && !self.core.has_work() {
                return;
            }
        }
    }

    /// What the groups say to their peers. The leader's entries leave beside its own disk write, in the same turn.
    fn send(&mut self) {
        let messages = self.core.take_messages();
        let kin = self.core.take_kin();
        let Some(links) = &mut self.links else { return };
        kin.into_iter().for_each(|member| links.know(member));
        messages.into_iter().for_each(|(shard, message)| links.send(shard, message));
        for departure in self.core.take_departures() {
            links.depart(departure, self.poll.registry(), &mut self.core);
        }
        for lost in links.take_lost() {
            self.core.lost(lost);
        }
    }

    /// Hands finished answers to the connections that wait for them.
    fn deliver(&mut self) {
        for (ticket, response) in self.core.take_answers() {
            self.connections.complete(ticket, response, &mut self.core);
        }
    }

    fn read_message(&mut self, message: LaneMessage) {
        match message {
            LaneMessage::Listen(listener) => {
                self.closed_door = Some(listener);
                self.open_door_or_stop();
            }
            LaneMessage::Map(sheet) => {
                if let Some(links) = &mut self.links {
                    links.turn_to(&sheet, self.poll.registry());
                }
                self.core.turn_to(&sheet);
            }
            LaneMessage::TablesKnown => {
                self.core.names = Names::Known;
                self.open_door_or_stop();
                self.connections.go_on();
            }
            LaneMessage::Connection(stream) => self.connections.add(stream, self.poll.registry()),
            LaneMessage::Response { ticket, response } => self.connections.complete(ticket, response, &mut self.core),
            LaneMessage::Status { done } => done(self.core.status(self.connections.count())),
            LaneMessage::DeadLetters { table, done } => done(self.core.dead_letters(table)),
            LaneMessage::Writeback { done } => done(self.core.writeback()),
            LaneMessage::CloseDoor => {
                (self.listener, self.closed_door) = (None, None);
                self.connections.close_door();
            }
            LaneMessage::Stop => self.stopping = true,
            LaneMessage::HandOver => failover::hand_over(&mut self.core.host),
            LaneMessage::Transfer { shard, to, done } => done(self.core.transfer(shard, to)),
            LaneMessage::Visit(visit) => self.core.receive(*visit),
            LaneMessage::Depart(departure) => self.core.depart_for_other(*departure),
            LaneMessage::LinkGone(link) => self.core.forget_link(link),
            LaneMessage::Raft { shard, message } => self.core.step(shard, message),
            LaneMessage::Install { shard, message, records } => self.core.host.step_snapshot(shard, message, *records),
            LaneMessage::LeaderNews(news) => {
                self.core.reroute(|routes| routes.hear(news.shard, news.term, Some(news.leader)));
            }
            LaneMessage::PeerLink { peer, stream, rest } => {
                if let Some(links) = &mut self.links {
                    links.add(peer, stream, &rest, self.poll.registry(), &mut self.core);
                }
            }
            LaneMessage::Peer(news) => {
                if let (PeerNews::Life(change), Some(links)) = (&news, &mut self.links) {
                    links.change(*change, self.poll.registry());
                }
                self.core.hear_of_peers(&news);
            }
            LaneMessage::Send(messages) => {
                if let Some(links) = &mut self.links {
                    messages.into_iter().for_each(|(shard, message)| links.send(shard, message));
                }
            }
            LaneMessage::Direct { call, position, done } => self.core.call_directly(call, position, done),
            LaneMessage::Call { source, call, position, done } => {
                self.core.call_from_outside(source, call, position, done);
            }
            LaneMessage::Respond { caller, response } => self.core.respond_to(caller, response),
            LaneMessage::AskNode { node, call, done } => self.core.ask_node(node, &call, done),
            LaneMessage::Table { call, done } => self.core.table_call(call, done),
            LaneMessage::ToShard { shard, what, done } => self.core.ask_shard(shard, what, done),
            LaneMessage::Persisted(synced) => self.core.persisted(synced),
            LaneMessage::Script { number, news } => self.core.script_news(number, news),
            LaneMessage::Snapshot(news) => self.core.snapshot_news(news),
            LaneMessage::SnapshotNow(shard) => self.core.snapshot_now(shard),
            LaneMessage::Parted(descriptors) => self.core.hear_parted(&descriptors),
            LaneMessage::Sql(done) => self.core.sql_done(done),
            LaneMessage::Catalogue => self.core.see_definitions(),
        }
    }

    /// Requests are held for a while, as those are that wait for a leader; after that they are told at once that there is none.
    fn hold_names(&mut self, now_ms: u64) {
        if self.core.names == Names::Known {
            return;
        }
        let board = self.exchange.cluster.as_ref().map(|cluster| &cluster.board);
        if board.is_none_or(|board| board.leader(ShardId::META).is_some()) {
            (self.core.names, self.unled_since_ms) = (Names::NotYet, None);
            return;
        }
        let since_ms = *self.unled_since_ms.get_or_insert(now_ms);
        if self.core.names == Names::NotYet && now_ms.saturating_sub(since_ms) >= NAMES_HOLD_MS {
            self.core.names = Names::Unknown;
            self.connections.go_on();
        }
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        loop {
            match listener.accept() {
                Ok((mut stream, _)) => match self.connections.population().deal() {
                    None => connections::refuse(&mut stream),
                    Some(lane) if lane == self.core.number() => self.connections.add(stream, self.poll.registry()),
                    Some(lane) => self.exchange.inboxes[lane].send(LaneMessage::Connection(stream)),
                },
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Out of descriptors, or a client that left already: the door stays open (reliability I78).
                    tracing::warn!(%error, "a Redis client could not be let in");
                    return;
                }
            }
        }
    }

    fn tick_if_due(&mut self) {
        let now = self.core.time().monotonic_ms;
        self.core.host.run_due();
        if now < self.next_tick_ms {
            return;
        }
        self.next_tick_ms = now + if self.links.is_some() { TICK_MS } else { LONE_TICK_MS };
        self.core.tick();
        self.hold_names(now);
        self.core.tick_forwards();
        self.core.tick_questions();
        self.core.teach();
        self.core.work_for_map();
        self.core.look_for_tables();
        if let Some(links) = &mut self.links {
            links.dial_missing(now, self.poll.registry());
        }
        if self.load.was_busy(self.core.requests()) {
            self.core.note_busy();
        }
        self.memory.give_back(now, self.core.requests());
        self.connections.close_idle(now);
        self.connections.look_whether_paused();
        // A client that could not be let in for want of descriptors is still waiting outside.
        self.accept();
    }

    /// How long to wait for the next event: not at all with work at hand, else until the next tick.
    fn patience(&self) -> Duration {
        let links_ready = self.links.as_ref().is_some_and(Links::has_ready);
        if self.connections.has_ready() || links_ready || self.core.is_cutting() || self.has_more {
            return Duration::ZERO;
        }
        let now = self.clock.now().monotonic_ms;
        let due = self.core.host.next_due_ms().unwrap_or(u64::MAX).min(self.next_tick_ms);
        Duration::from_millis(due.saturating_sub(now).max(1))
    }
}

/// The token of the waker, for whoever makes the lane's poll.
pub(crate) fn waker_token() -> Token {
    WAKER
}
