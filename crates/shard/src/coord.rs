//! One replica of one coordination group, on the same core as a shard of records: the group, its log writes, its snapshots.
//! What is its own is how commands are gathered, applied and answered (`shardine-coord`).
//!
//! Requests of streams come in by [`Replica::start`], [`Replica::ask`], [`Replica::call`] and [`Replica::close`];
//! [`Replica::propose_gathered`] proposes what has gathered; the rest is as in [`crate::Replica`].

mod apply;

use shardine_consensus::{ChangeRefused, Group, MembershipChange, Message, Restored, Role, TransferRefused};
#[cfg(feature = "mutants")]
pub use shardine_coord::Mutant;
pub use shardine_coord::{
    Ask, ClaimLine, Config, Consistency, Coord, CountersMode, Message as StreamMessage, NodeCall, NodeLine, NodeNumber,
    NodeReply, Opening, Path, Range, Refusal, Restore, SemaphoreLine, SessionId, Status as StatusCode, StreamId,
    Ticket, Totals,
};
use shardine_coord::{Leader, Origin, Out};
use shardine_model::{ReplicaId, ShardId};

use crate::actions::{Persist, SnapshotPart};
use crate::member::{self, Checks, Member, as_members_do};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub replica: ReplicaId,
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
    pub fn new(replica: ReplicaId, group: ShardId) -> Self {
        Self {
            replica,
            group,
            incarnation: 1,
            seed: 0,
            snapshot_log_bytes: 16 << 20,
            window_entries: 10_000,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    fn of_member(&self) -> member::Options {
        member::Options {
            replica: self.replica,
            shard: self.group,
            incarnation: self.incarnation,
            seed: self.seed,
            snapshot_log_bytes: self.snapshot_log_bytes,
            window_entries: self.window_entries,
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

/// One replica. Invariant: `coord` is the state after exactly the entries that `member` calls applied.
pub struct Replica {
    options: Options,
    /// Of a proposal it keeps where each command came from.
    member: Member<Vec<Origin>>,
    coord: Coord,
    leader: Leader,
    out: Out,
    now_ms: u64,
    elected: Elected,
    /// What the snapshot that is being taken has been made into.
    prepared: Option<Coord>,
}

/// When this replica last became a leader, and in which term.
#[derive(Clone, Copy, Debug, Default)]
struct Elected {
    term: u64,
    at_ms: u64,
}

/// The replica in numbers, for `status`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Status {
    pub leader: Option<ReplicaId>,
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
    as_members_do!(coord: Coord);

    /// Begins with what the disk held: the state of the snapshot, and the log behind it.
    #[must_use]
    pub fn new(options: Options, coord: Coord, restored: Restored) -> Self {
        #[cfg(feature = "mutants")]
        let coord = coord.with_mutant(options.mutant);
        Self {
            options,
            member: Member::new(options.of_member(), restored),
            coord,
            leader: Leader::new(),
            out: Out::default(),
            now_ms: 0,
            elected: Elected::default(),
            prepared: None,
        }
    }

    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.options.group
    }

    #[must_use]
    pub fn coord(&self) -> &Coord {
        &self.coord
    }

    #[must_use]
    pub fn status(&self) -> Status {
        let (streams, watches, waiting) = self.leader.counts();
        Status {
            leader: self.member.group.leader(),
            is_serving: self.is_serving(),
            term: self.member.group.term(),
            applied: self.applied(),
            snapshot: self.member.saved(),
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

    /// Tells the time, of a clock that only runs forward, without letting timers run.
    pub fn set_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.leader.set_time(&self.coord, now_ms, &mut self.out);
    }

    /// One step of the group's timers. The host calls it at a steady pace.
    pub fn tick(&mut self, now_ms: u64, actions: &mut Actions) {
        if self.member.has_stopped() {
            return;
        }
        self.set_time(now_ms);
        self.member.group.tick();
        self.member.check(now_ms);
        self.drain(actions);
        self.fail_overdue();
        self.member.cut_if_due(&mut self.coord);
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

    /// The same about a path that has a place in the cluster's map, with its number.
    pub fn call_placed(&mut self, ticket: Ticket, call: &NodeCall, placed: u64, actions: &mut Actions) {
        self.leader.call_placed(&self.coord, ticket, call, placed, &mut self.out);
        self.hand_out(actions);
    }

    /// Lets the group make no more nodes for places of the map up to this number, so that those may be forgotten.
    pub fn give_up(&mut self, placed: u64) {
        self.leader.give_up(placed, &mut self.out);
    }

    /// Whoever made a call does not wait for its reply any longer.
    pub fn withdraw(&mut self, ticket: Ticket, actions: &mut Actions) {
        self.leader.withdraw(&self.coord, ticket, &mut self.out);
        self.hand_out(actions);
    }

    /// Whether there is something for [`Replica::propose_gathered`] to do.
    #[must_use]
    pub fn wants_proposal(&self) -> bool {
        self.out.wants_flush() && !self.member.is_handing_over()
    }

    /// Proposes what has gathered. The host calls it when its log is free to take the next write. While the lead is being handed
    /// over it stays gathered: if that fails it goes into the log, else it was certainly not executed.
    pub fn propose_gathered(&mut self, actions: &mut Actions) {
        if self.member.is_handing_over() {
            return;
        }
        while let Some(entry) = self.out.take_entry() {
            #[cfg(feature = "mutants")]
            if self.expires_without_the_log(&entry) {
                continue;
            }
            if let Err(refused) = self.member.propose(entry.bytes, self.now_ms, entry.origins) {
                // Streams and timers would wait for ever for what was not taken: they begin anew.
                self.tell_lost(refused, StatusCode::Unavailable);
                self.member.let_go_of_lead();
                self.step_down();
            }
        }
        self.drain(actions);
    }

    /// Gives what is said to whom it is said.
    fn hand_out(&mut self, actions: &mut Actions) {
        actions.streams.append(&mut self.out.messages);
        actions.replies.append(&mut self.out.replies);
    }
}
