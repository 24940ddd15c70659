//! The turn of the thread: read all letters that are there, let timers run, hand one log write on, tell what came of it.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use shardine_model::ShardId;
use shardine_shard::Persist;
use shardine_shard::coord::{
    Actions, NodeReply, Opening, Refusal, Replica, StatusCode, StreamId, StreamMessage, Ticket,
};
use shardine_ydb::Hear;

use super::{Done, Letter, look};
use crate::clock::Clock;
use crate::journal::{Journal, Written};
use crate::log_thread::LogThread;
use crate::snapshot_thread::{Part, SnapshotThread};

/// One step of the group's timers.
const TICK_MS: u64 = 100;

/// Letters read before the turn goes on.
const LETTERS_MAX: usize = 1_024;

/// Snapshot bytes cut in one turn: about a millisecond's work.
const CUT_BYTES: usize = 256 << 10;

/// Ticks between two looks at the log: a group that writes little must not hold back the space of the others for ever.
const LOOK_TICKS: u64 = 100;

/// The reason has paths of this machine in it, which are for those who run it.
const STOPPED: &str = "coordination has stopped on this node; its log says why and what to do";
const STOPPING: &str = "the node is stopping";

/// The one seat of this thread, for the log and snapshot threads.
const SEAT: usize = 0;

pub(super) struct Room {
    group: ShardId,
    /// Or why there is none.
    replica: Result<Replica, String>,
    actions: Actions,
    letters: Receiver<Letter>,
    journal: Journal,
    queued: Vec<(usize, Persist)>,
    snapshots: SnapshotThread,
    log_thread: JoinHandle<()>,
    ears: BTreeMap<StreamId, Hear>,
    calls: BTreeMap<Ticket, Done>,
    next_ticket: u64,
    clock: Clock,
    next_tick_ms: u64,
    ticks: u64,
    is_closed: bool,
}

impl Room {
    pub fn new(
        group: ShardId,
        replica: Result<Replica, String>,
        letters: Receiver<Letter>,
        log: LogThread,
        snapshots: SnapshotThread,
        clock: Clock,
    ) -> Self {
        Self {
            group,
            replica,
            actions: Actions::default(),
            letters,
            journal: Journal::new(&log),
            queued: Vec::new(),
            snapshots,
            log_thread: log.thread,
            ears: BTreeMap::new(),
            calls: BTreeMap::new(),
            next_ticket: 0,
            clock,
            next_tick_ms: 0,
            ticks: 0,
            is_closed: false,
        }
    }

    pub fn run(mut self) {
        self.set_time();
        self.act(|replica, actions| replica.campaign(actions));
        self.settle();
        while self.turn() {}
        // What was handed to the log is written before the thread ends.
        self.journal.close();
        let _ = self.snapshots.close().join();
        let _ = self.log_thread.join();
    }

    /// False when it is time to end.
    fn turn(&mut self) -> bool {
        match self.letters.recv_timeout(self.patience()) {
            Ok(first) => {
                self.set_time();
                if !self.read(first) {
                    return false;
                }
                for _ in 0..LETTERS_MAX {
                    let Ok(letter) = self.letters.try_recv() else { break };
                    if !self.read(letter) {
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

    fn read(&mut self, letter: Letter) -> bool {
        match letter {
            Letter::Open { stream, opening, hear } => self.open(stream, &opening, hear),
            Letter::Ask { stream, ask } => self.act(|replica, actions| replica.ask(stream, &ask, actions)),
            Letter::Close(stream) => {
                self.ears.remove(&stream);
                self.act(|replica, _| replica.close(stream));
            }
            Letter::Call { call, done } => {
                self.next_ticket += 1;
                let ticket = Ticket(self.next_ticket);
                match &mut self.replica {
                    Ok(replica) => {
                        self.calls.insert(ticket, done);
                        replica.call(ticket, &call, &mut self.actions);
                    }
                    Err(_) => done(NodeReply::Refused(unavailable(STOPPED))),
                }
            }
            Letter::Look { look, done } => done(look::look(&self.replica, &look)),
            Letter::Status(done) => done(look::status(self.group, &self.replica)),
            Letter::Persisted(synced) => {
                self.journal.synced(synced.took);
                self.confirm(&synced.confirmed);
            }
            Letter::SnapshotSaved(index) => self.act(|replica, _| replica.snapshot_saved(index)),
            Letter::CutNow => self.act(|replica, _| replica.cut_now()),
            Letter::CloseStreams => {
                self.is_closed = true;
                for (stream, hear) in std::mem::take(&mut self.ears) {
                    hear(StreamMessage::Failure(unavailable(STOPPING)));
                    self.act(|replica, _| replica.close(stream));
                }
            }
            Letter::Stop => return false,
        }
        true
    }

    fn open(&mut self, stream: StreamId, opening: &Opening, hear: Hear) {
        let refusal = match &self.replica {
            Err(_) => Some(STOPPED),
            Ok(_) if self.is_closed => Some(STOPPING),
            Ok(_) => None,
        };
        if let Some(reason) = refusal {
            return hear(StreamMessage::Failure(unavailable(reason)));
        }
        self.ears.insert(stream, hear);
        self.act(|replica, actions| replica.start(stream, opening, actions));
    }

    fn act(&mut self, act: impl FnOnce(&mut Replica, &mut Actions)) {
        if let Ok(replica) = &mut self.replica {
            act(replica, &mut self.actions);
        }
    }

    fn set_time(&mut self) {
        let now_ms = self.clock.now().monotonic_ms;
        self.act(|replica, _| replica.set_time(now_ms));
    }

    fn run_timers(&mut self) {
        let now_ms = self.clock.now().monotonic_ms;
        if now_ms < self.next_tick_ms {
            return self.act(|replica, actions| {
                if replica.next_due_ms().is_some_and(|due_ms| due_ms <= now_ms) {
                    replica.run_timers(actions);
                }
            });
        }
        self.next_tick_ms = now_ms + TICK_MS;
        self.act(|replica, actions| replica.tick(now_ms, actions));
        self.ticks += 1;
        if self.ticks.is_multiple_of(LOOK_TICKS) && self.journal.too_large() == Some(self.group) {
            self.act(|replica, _| replica.cut_now());
        }
    }

    /// Does what the replica asks for, and proposes what has gathered as soon as the log is free.
    fn settle(&mut self) {
        loop {
            if self.replica.as_ref().is_ok_and(Replica::is_cutting) && self.snapshots.has_room() {
                self.act(|replica, actions| replica.cut_some(CUT_BYTES, actions));
            }
            self.perform();
            if self.journal.is_busy() {
                return;
            }
            self.act(|replica, actions| {
                if replica.wants_flush() {
                    replica.flush(actions);
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
        for &(_, number) in confirmed {
            self.act(|replica, actions| replica.persisted(number, actions));
        }
    }

    fn perform(&mut self) {
        self.queued.extend(self.actions.persists.drain(..).map(|persist| (SEAT, persist)));
        for part in self.actions.snapshot.drain(..) {
            self.snapshots.send(Part { seat: SEAT, shard: self.group, part });
        }
        // A group of one has nobody to write to.
        self.actions.messages.clear();
        for (stream, message) in self.actions.streams.drain(..) {
            let is_last = message.is_last();
            if let Some(hear) = self.ears.get(&stream) {
                hear(message);
            }
            if is_last {
                self.ears.remove(&stream);
            }
        }
        for (ticket, reply) in self.actions.replies.drain(..) {
            if let Some(done) = self.calls.remove(&ticket) {
                done(reply);
            }
        }
        if let Some(reason) = self.actions.stop.take() {
            tracing::error!(%reason, "coordination has stopped; everything else goes on");
            self.replica = Err(reason);
        }
    }

    /// Until the next tick, or what is due before it; not at all with work at hand.
    fn patience(&self) -> Duration {
        if self.replica.as_ref().is_ok_and(Replica::is_cutting) && self.snapshots.has_room() {
            return Duration::ZERO;
        }
        let due_ms = self.replica.as_ref().ok().and_then(Replica::next_due_ms).unwrap_or(u64::MAX);
        let now_ms = self.clock.now().monotonic_ms;
        Duration::from_millis(self.next_tick_ms.min(due_ms).saturating_sub(now_ms).max(1))
    }
}

fn unavailable(reason: &'static str) -> Refusal {
    Refusal::new(StatusCode::Unavailable, reason)
}
