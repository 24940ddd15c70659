//! One replica of the group that holds the cluster's map, on the same core as a shard of records: the group, its log writes, its
//! snapshots. What is its own is how commands are gathered, applied and answered (`shardine-meta`).
//!
//! Commands come in by [`Replica::submit`]; [`Replica::propose_gathered`] proposes what has gathered; the rest is as in
//! [`crate::Replica`]. What leaders of all groups do for operations of the map is in [`work_of`].

mod apply;
mod work;

use shardine_consensus::{ChangeRefused, Group, MembershipChange, Message, Restored, Role, TransferRefused};
pub use shardine_meta::{
    BALANCER, BALANCER_LEADS_AFTER, BALANCER_SPEED, BALANCER_WINDOW, BadDelta, Change, Command, Delta, Event, Feed,
    Followers, Held, Joiner, Keyspace, LeadMove, Left, Libraries, Load, Map, Meta, Mode, Move, NODE_GONE_AFTER, Node,
    NodeState, OLD_COPY, Operation, OperationId, Place, Replace, Replaced, Reply, Settings, Sight, Stage, Todo, audit,
    left_on, no_library, plan_leads, plan_with_reasons, with_libraries,
};
use shardine_model::{ErrorCode, Refusal, ReplicaId, ShardId, Timestamp, limits};
pub use work::{Work, work_of};

use crate::actions::{Persist, SnapshotPart};
use crate::member::{self, Checks, Member, as_members_do};

/// Who waits for an answer. 0 means nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

impl Ticket {
    /// For commands whose outcome shows in the map.
    pub const NOBODY: Self = Self(0);
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub replica: ReplicaId,
    /// Grows with every start of the process.
    pub incarnation: u64,
    pub seed: u64,
    /// Log bytes behind the last snapshot before the next one is cut.
    pub snapshot_log_bytes: u64,
    /// Applied entries kept in memory for followers that are a little behind.
    pub window_entries: u64,
}

impl Options {
    #[must_use]
    pub fn new(replica: ReplicaId) -> Self {
        Self { replica, incarnation: 1, seed: 0, snapshot_log_bytes: 4 << 20, window_entries: 10_000 }
    }

    fn of_member(&self) -> member::Options {
        member::Options {
            replica: self.replica,
            shard: ShardId::META,
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
    pub replies: Vec<(Ticket, Result<Reply, Refusal>)>,
    pub snapshot: Vec<SnapshotPart>,
    /// The replica has stopped and says why; it must not be used again.
    pub stop: Option<String>,
}

/// One replica. Invariant: `meta` is the state after exactly the entries that `member` calls applied.
pub struct Replica {
    options: Options,
    /// Of a proposal it keeps who waits for each of its commands.
    member: Member<Vec<Ticket>>,
    meta: Meta,
    /// The entry that is being gathered, and who waits for its commands; no bytes while there are none.
    gathered: Vec<u8>,
    waiting: Vec<Ticket>,
    now_ms: u64,
    /// What the snapshot that is being taken has been made into.
    prepared: Option<Meta>,
}

impl Replica {
    as_members_do!(meta: Meta);

    /// Begins with what the disk held: the state of the snapshot, and the log behind it.
    #[must_use]
    pub fn new(options: Options, meta: Meta, restored: Restored) -> Self {
        let member = Member::new(options.of_member(), restored);
        Self { options, member, meta, gathered: Vec::new(), waiting: Vec::new(), now_ms: 0, prepared: None }
    }

    #[must_use]
    pub fn shard(&self) -> ShardId {
        ShardId::META
    }

    /// The map, as far as entries are applied here. A leader that serves has all that was ever decided.
    #[must_use]
    pub fn map(&self) -> &Map {
        self.meta.map()
    }

    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The newest snapshot on disk.
    #[must_use]
    pub fn saved(&self) -> u64 {
        self.member.saved()
    }

    /// Tells the time, of a clock that only runs forward.
    pub fn set_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
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
        self.fail_overdue(actions);
        self.member.cut_if_due(&mut self.meta);
    }

    /// Asks for a change of the map. It is answered under the ticket when it is applied, or at once if this is not the place.
    pub fn submit(&mut self, ticket: Ticket, command: &Command, actions: &mut Actions) {
        if !self.is_serving() {
            let refusal = Refusal::new(ErrorCode::NotLeader, "another node leads the group of the map");
            return answer(actions, ticket, Err(refusal));
        }
        if self.gathered.len() > limits::ENTRY_BYTES_MAX {
            let refusal = Refusal::new(ErrorCode::Busy, "too many changes of the map wait for the log");
            return answer(actions, ticket, Err(refusal));
        }
        if self.gathered.is_empty() {
            self.gathered = shardine_meta::open_entry();
        }
        command.encode(&mut self.gathered);
        self.waiting.push(ticket);
    }

    /// Lets the planner look at the map, if this replica serves and nothing is on its way that could change it. Gives what it wants
    /// done, and has just submitted; the time is for the history.
    pub fn plan(&mut self, sight: &Sight, at: Timestamp, actions: &mut Actions) -> Vec<Move> {
        if !self.is_serving() || !self.waiting.is_empty() || self.member.proposals.iter().next().is_some() {
            return Vec::new();
        }
        let moves = plan_with_reasons(self.meta.map(), sight);
        for planned in &moves {
            self.submit(Ticket::NOBODY, &planned.command.clone().dated(at, planned.why.clone()), actions);
        }
        moves
    }

    /// Whether there is something for [`Replica::propose_gathered`] to do.
    #[must_use]
    pub fn wants_proposal(&self) -> bool {
        !self.waiting.is_empty() && !self.member.is_handing_over()
    }

    /// Proposes what has gathered. The host calls it when its log is free to take the next write. While the lead is being handed
    /// over it stays gathered: if that fails it goes into the log, else it was certainly not executed.
    pub fn propose_gathered(&mut self, actions: &mut Actions) {
        if !self.wants_proposal() {
            return;
        }
        let (entry, waiting) = (std::mem::take(&mut self.gathered), std::mem::take(&mut self.waiting));
        if let Err(lost) = self.member.propose(entry, self.now_ms, waiting) {
            apply::tell_lost(lost, member::proposals::Fate::NotExecuted, actions);
        }
        self.drain(actions);
    }
}

fn answer(actions: &mut Actions, ticket: Ticket, reply: Result<Reply, Refusal>) {
    if ticket != Ticket::NOBODY {
        actions.replies.push((ticket, reply));
    }
}
