//! The turn of the thread: read all messages that are there, let timers run, hand one log write on for all groups, tell what
//! came of it.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use shardine_model::ShardId;
use shardine_shard::Persist;
use shardine_shard::coord::{
    Actions, NodeCall, NodeLine, NodeReply, Opening, Refusal, Replica, StatusCode, StreamId, StreamMessage, Ticket,
};
use shardine_ydb::Hear;

use super::seat::Seat;
use super::{CoordMessage, RespondNode, groups, look};
use crate::clock::Clock;
use crate::journal::{Journal, Written};
use crate::log_thread::LogThread;
use crate::snapshot_thread::{Part, SnapshotThread};

/// One step of the group's timers.
const TICK_MS: u64 = 100;

/// Letters read before the turn goes on.
const MESSAGES_MAX: usize = 1_024;

/// Snapshot bytes cut in one turn: about a millisecond's work.
const CUT_BYTES: usize = 256 << 10;

/// Ticks between two looks at the log: a group that writes little must not hold back the space of the others for ever.
const LOOK_TICKS: u64 = 100;

/// The reason has paths of this machine in it, which are for those who run it.
const STOPPED: &str = "coordination has stopped on this node; its log says why and what to do";
const STOPPING: &str = "the node is stopping";

pub(super) struct CoordThread {
    /// One for each group, in the order of their numbers.
    seats: Vec<Seat>,
    messages: Receiver<CoordMessage>,
    journal: Journal,
    queued: Vec<(usize, Persist)>,
    snapshots: SnapshotThread,
    log_thread: JoinHandle<()>,
    sinks: BTreeMap<StreamId, StreamSink>,
    calls: BTreeMap<Ticket, (usize, RespondNode)>,
    clock: Clock,
    next_tick_ms: u64,
    ticks: u64,
    is_closed: bool,
}

/// A stream: whose group it belongs to, and how it hears.
struct StreamSink {
    seat: usize,
    hear: Hear,
}

impl CoordThread {
    pub fn new(
        seats: Vec<Seat>,
        messages: Receiver<CoordMessage>,
        log: LogThread,
        snapshots: SnapshotThread,
        clock: Clock,
    ) -> Self {
        Self {
            seats,
            messages,
            journal: Journal::new(&log),
            queued: Vec::new(),
            snapshots,
            log_thread: log.thread,
            sinks: BTreeMap::new(),
            calls: BTreeMap::new(),
            clock,
            next_tick_ms: 0,
            ticks: 0,
            is_closed: false,
        }
    }

    pub fn run(mut self) {
        self.set_time();
        self.each(|replica, actions| replica.campaign(actions));
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
            CoordMessage::Open { stream, opening, hear } => self.open(stream, &opening, hear),
            CoordMessage::Ask { stream, ask } => {
                if let Some(sink) = self.sinks.get(&stream) {
                    self.seats[sink.seat].act(|replica, actions| replica.ask(stream, &ask, actions));
                }
            }
            CoordMessage::Close(stream) => {
                if let Some(sink) = self.sinks.remove(&stream) {
                    self.seats[sink.seat].act(|replica, _| replica.close(stream));
                }
            }
            CoordMessage::Call { ticket, call, done } => self.call(ticket, &call, done),
            CoordMessage::Withdraw(ticket) => {
                if let Some((seat, _)) = self.calls.remove(&ticket) {
                    self.seats[seat].act(|replica, actions| replica.withdraw(ticket, actions));
                }
            }
            CoordMessage::Look { look, done } => done(look::look(&self.seats, &look)),
            CoordMessage::Status(done) => done(self.seats.iter().map(look::status).collect()),
            CoordMessage::Persisted(synced) => {
                self.journal.synced(synced.took);
                self.confirm(&synced.confirmed);
            }
            CoordMessage::SnapshotSaved { seat, index } => {
                self.seats[seat].act(|replica, _| replica.snapshot_saved(index))
            }
            CoordMessage::SnapshotNow(group) => self.snapshot_now(group),
            CoordMessage::CloseStreams => {
                self.is_closed = true;
                for (stream, sink) in std::mem::take(&mut self.sinks) {
                    (sink.hear)(StreamMessage::Failure(unavailable(STOPPING)));
                    self.seats[sink.seat].act(|replica, _| replica.close(stream));
                }
            }
            CoordMessage::Stop => return false,
        }
        true
    }

    fn open(&mut self, stream: StreamId, opening: &Opening, hear: Hear) {
        let seat = groups::place_of(&opening.path, self.seats.len());
        let refusal = match &self.seats[seat].replica {
            Err(_) => Some(STOPPED),
            Ok(_) if self.is_closed => Some(STOPPING),
            Ok(_) => None,
        };
        if let Some(reason) = refusal {
            return hear(StreamMessage::Failure(unavailable(reason)));
        }
        self.sinks.insert(stream, StreamSink { seat, hear });
        self.seats[seat].act(|replica, actions| replica.start(stream, opening, actions));
    }

    fn call(&mut self, ticket: Ticket, call: &NodeCall, done: RespondNode) {
        let Some(place) = groups::place_of_call(call, self.seats.len()) else { return done(self.list()) };
        let seat = &mut self.seats[place];
        match &mut seat.replica {
            Ok(replica) => {
                self.calls.insert(ticket, (place, done));
                replica.call(ticket, call, &mut seat.actions);
            }
            Err(_) => done(NodeReply::Refused(unavailable(STOPPED))),
        }
    }

    /// The nodes of all groups, by their paths.
    fn list(&self) -> NodeReply {
        let mut lines: Vec<NodeLine> = Vec::new();
        for seat in &self.seats {
            match &seat.replica {
                Ok(replica) => lines.extend(replica.coord().list_nodes()),
                Err(_) => return NodeReply::Refused(unavailable(STOPPED)),
            }
        }
        lines.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        NodeReply::List(lines)
    }

    fn each(&mut self, mut act: impl FnMut(&mut Replica, &mut Actions)) {
        for seat in &mut self.seats {
            seat.act(&mut act);
        }
    }

    fn snapshot_now(&mut self, group: ShardId) {
        if let Some(seat) = self.seats.iter_mut().find(|seat| seat.group == group) {
            seat.act(|replica, _| replica.snapshot_now());
        }
    }

    fn set_time(&mut self) {
        let now_ms = self.clock.now().monotonic_ms;
        self.each(|replica, _| replica.set_time(now_ms));
    }

    fn run_timers(&mut self) {
        let now_ms = self.clock.now().monotonic_ms;
        if now_ms < self.next_tick_ms {
            return self.each(|replica, actions| {
                if replica.next_due_ms().is_some_and(|due_ms| due_ms <= now_ms) {
                    replica.run_timers(actions);
                }
            });
        }
        self.next_tick_ms = now_ms + TICK_MS;
        self.each(|replica, actions| replica.tick(now_ms, actions));
        self.ticks += 1;
        if self.ticks.is_multiple_of(LOOK_TICKS)
            && let Some(group) = self.journal.too_large()
        {
            self.snapshot_now(group);
        }
    }

    /// Does what the replicas ask for, and proposes what has gathered as soon as the log is free.
    fn settle(&mut self) {
        loop {
            for seat in self.seats.iter_mut().filter(|seat| seat.is_cutting()) {
                if self.snapshots.has_room() {
                    seat.act(|replica, actions| replica.snapshot_step(CUT_BYTES, actions));
                }
            }
            self.perform();
            if self.journal.is_busy() {
                return;
            }
            self.each(|replica, actions| {
                if replica.wants_flush() {
                    replica.propose_gathered(actions);
                }
            });
            self.perform();
            if self.queued.is_empty() {
                return;
            }
            // Nearly everything that is asked here goes through the log: nobody is kept waiting by waiting for the disk.
            let reads = 0;
            if let Written::Synced { confirmed, .. } = self.journal.write(std::mem::take(&mut self.queued), reads) {
                self.confirm(&confirmed);
            }
        }
    }

    fn confirm(&mut self, confirmed: &[(usize, u64)]) {
        for &(seat, number) in confirmed {
            self.seats[seat].act(|replica, actions| replica.persisted(number, actions));
        }
    }

    fn perform(&mut self) {
        for place in 0..self.seats.len() {
            self.perform_for(place);
        }
    }

    fn perform_for(&mut self, place: usize) {
        let seat = &mut self.seats[place];
        self.queued.extend(seat.actions.persists.drain(..).map(|persist| (place, persist)));
        for part in seat.actions.snapshot.drain(..) {
            self.snapshots.send(Part { seat: place, shard: seat.group, part });
        }
        // A group of one has nobody to write to.
        seat.actions.messages.clear();
        for (stream, message) in seat.actions.streams.drain(..) {
            let is_last = message.is_last();
            if let Some(sink) = self.sinks.get(&stream) {
                (sink.hear)(message);
            }
            if is_last {
                self.sinks.remove(&stream);
            }
        }
        for (ticket, reply) in seat.actions.replies.drain(..) {
            if let Some((_, done)) = self.calls.remove(&ticket) {
                done(reply);
            }
        }
        if let Some(reason) = seat.actions.stop.take() {
            tracing::error!(group = %seat.group, %reason, "a coordination group has stopped; everything else goes on");
            seat.replica = Err(reason);
        }
    }

    /// Until the next tick, or what is due before it; not at all with work at hand.
    fn patience(&self) -> Duration {
        if self.seats.iter().any(Seat::is_cutting) && self.snapshots.has_room() {
            return Duration::ZERO;
        }
        let due_ms = self.seats.iter().filter_map(Seat::next_due_ms).min().unwrap_or(u64::MAX);
        let now_ms = self.clock.now().monotonic_ms;
        Duration::from_millis(self.next_tick_ms.min(due_ms).saturating_sub(now_ms).max(1))
    }
}

fn unavailable(reason: &'static str) -> Refusal {
    Refusal::new(StatusCode::Unavailable, reason)
}
