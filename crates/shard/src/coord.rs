//! One replica of one coordination group, on the same core as a shard of records: the group, its log writes, its snapshots.
//! What is its own is how commands are gathered, applied and answered (`shardine-coord`).
//!
//! Requests of streams come in by [`Replica::start`], [`Replica::ask`], [`Replica::call`] and [`Replica::close`];
//! [`Replica::flush`] proposes what has gathered; the rest is as in [`crate::Replica`].

mod apply;

use std::collections::VecDeque;

use shardine_consensus::{Group, Message, Options as GroupOptions, Proposed, Restored, Role};
#[cfg(feature = "mutants")]
pub use shardine_coord::Mutant;
pub use shardine_coord::{
    Ask, ClaimLine, Config, Consistency, Coord, CountersMode, Message as StreamMessage, NodeCall, NodeLine, NodeNumber,
    NodeReply, Opening, Path, Range, Refusal, SemaphoreLine, SessionId, Status as StatusCode, StreamId, Ticket, Totals,
};
use shardine_coord::{Leader, Origin, Out};
use shardine_model::{NodeId, ShardId};

use crate::actions::{Persist, SnapshotPart};
use crate::cutting::{At, Cutting};
use crate::writes::Writes;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub node: NodeId,
    /// The group's number among all groups of the node.
    pub group: ShardId,
    /// Grows with every start of the process.
    pub incarnation: u64,
    pub seed: u64,
    /// Log bytes behind the last snapshot before the next one is cut.
    pub snapshot_log_bytes: u64,
    /// Applied entries kept in memory for followers that are a little behind.
    pub window_entries: u64,
    #[cfg(feature = "mutants")]
    pub mutant: Option<Mutant>,
}

impl Options {
    #[must_use]
    pub fn new(node: NodeId, group: ShardId) -> Self {
        Self {
            node,
            group,
            incarnation: 1,
            seed: 0,
            snapshot_log_bytes: 16 << 20,
            window_entries: 10_000,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }
}

/// Everything one turn left to do. Reused from turn to turn.
#[derive(Debug, Default)]
pub struct Actions {
    /// Log writes, in order; each is confirmed by [`Replica::persisted`].
    pub persists: Vec<Persist>,
    /// To peers, at once. They may be lost.
    pub messages: Vec<Message>,
    /// To streams, in order.
    pub streams: Vec<(StreamId, StreamMessage)>,
    pub replies: Vec<(Ticket, NodeReply)>,
    pub snapshot: Vec<SnapshotPart>,
    /// The replica has stopped and says why; it must not be used again.
    pub stop: Option<String>,
}

/// One replica. Invariant: `coord` is the state after exactly the entries up to `applied`.
pub struct Replica {
    options: Options,
    group: Group,
    coord: Coord,
    leader: Leader,
    out: Out,
    applied: At,
    now_ms: u64,
    flights: VecDeque<Flight>,
    writes: Writes,
    cutting: Cutting,
    led_term: u64,
    elected: Elected,
    stopped: bool,
}

/// When this replica last became a leader, and in which term.
#[derive(Clone, Copy, Debug, Default)]
struct Elected {
    term: u64,
    at_ms: u64,
}

/// A proposed entry of this replica, until it is applied or overtaken.
struct Flight {
    proposed: Proposed,
    since_ms: u64,
    origins: Vec<Origin>,
}

/// The replica in numbers, for `status`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    pub leader: Option<u64>,
    pub is_serving: bool,
    pub term: u64,
    pub applied: u64,
    pub snapshot: u64,
    pub totals: Totals,
    pub streams: u64,
    pub watches: u64,
    pub waiting: u64,
}

impl Replica {
    /// Begins with what the disk held: the state of the snapshot, and the log behind it.
    #[must_use]
    pub fn new(options: Options, coord: Coord, restored: Restored) -> Self {
        let group_options = GroupOptions {
            id: options.node.0,
            shard: options.group.0,
            incarnation: options.incarnation,
            seed: options.seed,
        };
        #[cfg(feature = "mutants")]
        let coord = coord.with_mutant(options.mutant);
        let applied = At { index: restored.snapshot.index, term: restored.snapshot.term };
        let log_bytes = restored.entries.iter().map(|entry| entry.data.len() as u64).sum();
        Self {
            options,
            group: Group::new(group_options, restored),
            coord,
            leader: Leader::new(),
            out: Out::default(),
            applied,
            now_ms: 0,
            flights: VecDeque::new(),
            writes: Writes::default(),
            cutting: Cutting::new(applied.index, log_bytes),
            led_term: 0,
            elected: Elected::default(),
            stopped: false,
        }
    }

    #[must_use]
    pub fn coord(&self) -> &Coord {
        &self.coord
    }

    #[must_use]
    pub fn role(&self) -> Role {
        self.group.role()
    }

    #[must_use]
    pub fn term(&self) -> u64 {
        self.group.term()
    }

    #[must_use]
    pub fn applied(&self) -> u64 {
        self.applied.index
    }

    #[must_use]
    pub fn committed(&self) -> u64 {
        self.group.commit()
    }

    #[must_use]
    pub fn status(&self) -> Status {
        let (streams, watches, waiting) = self.leader.counts();
        Status {
            leader: self.group.leader(),
            is_serving: self.is_serving(),
            term: self.group.term(),
            applied: self.applied.index,
            snapshot: self.cutting.saved_index(),
            totals: self.coord.totals(),
            streams: streams as u64,
            watches: watches as u64,
            waiting: waiting as u64,
        }
    }

    /// Whether a client is connected to the session here.
    #[must_use]
    pub fn is_attached(&self, node: NodeNumber, session: SessionId) -> bool {
        self.leader.is_attached(node, session)
    }

    /// A leader serves once an entry of its own term is applied: before that it may not know what is committed.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        !self.stopped && self.applied.term == self.group.term() && self.group.role() == Role::Leader
    }

    /// Tells the time, of a clock that only runs forward, without letting timers run.
    pub fn set_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.leader.set_time(&self.coord, now_ms, &mut self.out);
    }

    /// One step of the group's timers. The host calls it at a steady pace.
    pub fn tick(&mut self, now_ms: u64, actions: &mut Actions) {
        if self.stopped {
            return;
        }
        self.set_time(now_ms);
        self.group.tick();
        self.drain(actions);
        self.fail_overdue();
        self.cut_if_due();
        self.run_timers(actions);
    }

    /// Lets what is due happen: expiries, timeouts. As often as [`Replica::next_due_ms`] says.
    pub fn run_timers(&mut self, actions: &mut Actions) {
        self.leader.tick(&self.coord, &mut self.out);
        self.drain(actions);
    }

    /// When [`Replica::run_timers`] has something to do, besides the steady ticks.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        self.leader.next_due_ms()
    }

    /// Stands for election at once, for a group of one.
    pub fn campaign(&mut self, actions: &mut Actions) {
        self.group.campaign();
        self.drain(actions);
    }

    pub fn step(&mut self, message: Message, actions: &mut Actions) {
        if !self.stopped {
            self.group.step(message);
            self.drain(actions);
        }
    }

    /// The host has this log write, and all before it, on disk.
    pub fn persisted(&mut self, number: u64, actions: &mut Actions) {
        if !self.stopped {
            self.writes.confirm(number, &mut self.group, &mut actions.messages);
            self.drain(actions);
        }
    }

    /// The first message of a stream.
    pub fn start(&mut self, stream: StreamId, opening: &Opening, actions: &mut Actions) {
        self.leader.start(&self.coord, stream, opening, &mut self.out);
        self.hand_out(actions);
    }

    pub fn ask(&mut self, stream: StreamId, ask: &Ask, actions: &mut Actions) {
        self.leader.ask(&self.coord, stream, ask, &mut self.out);
        self.hand_out(actions);
    }

    /// The stream is lost, or its client has left.
    pub fn close(&mut self, stream: StreamId) {
        self.leader.close(&self.coord, stream);
    }

    /// A call about nodes; the reply comes under `ticket`.
    pub fn call(&mut self, ticket: Ticket, call: &NodeCall, actions: &mut Actions) {
        self.leader.call(&self.coord, ticket, call, &mut self.out);
        self.hand_out(actions);
    }

    /// Whoever made a call does not wait for its reply any longer.
    pub fn withdraw(&mut self, ticket: Ticket, actions: &mut Actions) {
        self.leader.withdraw(&self.coord, ticket, &mut self.out);
        self.hand_out(actions);
    }

    /// Whether there is something for [`Replica::flush`] to do.
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        self.out.wants_flush()
    }

    /// Proposes what has gathered. The host calls it when its log is free to take the next write.
    pub fn flush(&mut self, actions: &mut Actions) {
        while let Some(entry) = self.out.take_entry() {
            #[cfg(feature = "mutants")]
            if self.expires_without_the_log(&entry) {
                continue;
            }
            match self.group.propose(entry.bytes) {
                Some(proposed) => {
                    self.flights.push_back(Flight { proposed, since_ms: self.now_ms, origins: entry.origins });
                }
                None => {
                    // Streams and timers would wait for ever for what was not taken: they begin anew.
                    self.lose(entry.origins, StatusCode::Unavailable);
                    self.step_down();
                }
            }
        }
        self.drain(actions);
    }

    /// Cuts now, so that the log behind this group can go.
    pub fn cut_now(&mut self) {
        self.cutting.begin_now(&mut self.coord, &self.group, self.applied);
    }

    #[must_use]
    pub fn is_cutting(&self) -> bool {
        self.cutting.is_running()
    }

    /// Hands out the next pieces of the running cut, about `bytes` of them. The host calls it when its writer has room.
    pub fn cut_some(&mut self, bytes: usize, actions: &mut Actions) {
        self.cutting.give_some(&mut self.coord, &mut self.group, bytes, &mut actions.snapshot);
    }

    /// The host has the snapshot at this index on disk; the log up to it may go.
    pub fn snapshot_saved(&mut self, index: u64) {
        self.cutting.saved(index);
    }

    fn cut_if_due(&mut self) {
        let log_bytes_max = self.options.snapshot_log_bytes;
        self.cutting.begin_if_due(&mut self.coord, &mut self.group, self.applied, log_bytes_max);
    }

    /// Gives what is said to whom it is said.
    fn hand_out(&mut self, actions: &mut Actions) {
        actions.streams.append(&mut self.out.messages);
        actions.replies.append(&mut self.out.replies);
    }
}
