//! One replica's part in a Raft group.

use std::collections::BTreeMap;

use bytes::Bytes;
use raft::eraftpb::{self, Entry, EntryType, HardState as RaftHardState};
use raft::{Config, ProgressState, RawNode, ReadOnlyOption, StateRole};
use shardine_model::ReplicaId;
use shardine_model::log::{HardState, LogEntry, LogEntryKind, SnapshotMeta};

use crate::membership::{Members, conf_state};
use crate::message::{Body, Kind, Message, RaftMessage, Stamps, Told};
use crate::rest::Rest;
use crate::window::{Keep, Window};

/// Ticks without a leader before a replica stands for election; the real number is drawn between this and twice it.
pub(crate) const ELECTION_TICKS: usize = 10;
pub(crate) const HEARTBEAT_TICKS: usize = 2;
/// Ticks without a word of a leader before one that has no vote asks whether it still belongs to the group.
const INQUIRY_TICKS: usize = 2 * ELECTION_TICKS;
/// Bytes of entries in one message to a follower.
const APPEND_BYTES_MAX: u64 = 1 << 20;
/// Messages on their way to one follower.
const INFLIGHT_MAX: usize = 256;
/// Bytes of committed entries handed out at once; the rest follows.
const APPLY_BYTES_MAX: u64 = 16 << 20;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub id: ReplicaId,
    pub shard: u32,
    /// Grows with every start of the process, so that two lives of a replica do not draw the same timeouts.
    pub incarnation: u64,
    /// Decides election timeouts together with the replica's own numbers.
    pub seed: u64,
}

/// What a replica comes back with: its snapshot's place, and the log behind it.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    pub snapshot: SnapshotMeta,
    pub hard_state: HardState,
    pub entries: Vec<LogEntry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Follower,
    Candidate,
    Leader,
}

/// Where a proposal stands in the log, if nothing overtakes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposed {
    pub index: u64,
    pub term: u64,
}

/// A proposal that was not taken, with its data. Certainly not in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub why: WhyRefused,
    pub data: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyRefused {
    NotLeader,
    /// The lead is being handed over. If that fails, the same proposal may be made again.
    HandingOver,
}

/// A read whose context a majority has confirmed: answer it once `index` is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadDone {
    pub context: u64,
    pub index: u64,
}

/// What one step left to do. The order of the fields is the order of doing.
#[derive(Debug, Default)]
pub struct Ready {
    /// Confirmed by [`Group::persisted`] once everything in it that must be on disk is.
    pub number: u64,
    /// May go out at once.
    pub messages: Vec<Message>,
    /// A snapshot from the leader: replaces the whole state.
    pub snapshot: Option<(SnapshotMeta, Bytes)>,
    pub entries: Vec<LogEntry>,
    /// To be written with the entries, never after them: beside a change of members it says how much of the log before it
    /// is committed, so that whoever comes back with the change knows the configurations before it (`membership.rs`). When the change
    /// itself is committed, that is written, too.
    pub hard_state: Option<HardState>,
    /// Whether `entries` or `hard_state` promise something that must survive a crash.
    pub must_sync: bool,
    /// May go out only when this and everything before it is on disk.
    pub persisted_messages: Vec<Message>,
    pub committed: Vec<LogEntry>,
    pub reads: Vec<ReadDone>,
}

pub struct Group {
    pub(crate) node: RawNode<Window>,
    options: Options,
    pub(crate) members: Members,
    /// A snapshot from the leader that is not on disk yet: the [`Ready`] that brought it, and its index.
    pub(crate) installing: Option<(u64, u64)>,
    /// The last snapshot that a message brought: its index, and the entry that made its membership.
    pub(crate) arriving: Option<(u64, u64)>,
    /// How many ticks a follower has been waiting for a snapshot that was sent to it, by id.
    pub(crate) snapshot_ticks: BTreeMap<u64, u32>,
    pub(crate) rest: Rest,
    /// Up to here the disk said at the start that the log is committed.
    known_at_start: u64,
    /// Messages that raft-rs does not know, for the next [`Ready`].
    pub(crate) outbox: Vec<Message>,
    /// What others have told of their states.
    pub(crate) told: Vec<Told>,
    /// What this replica has of the state is not to be trusted, and since which term it asks for another.
    pub(crate) aside: Option<u64>,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<crate::mutant::Mutant>,
}

impl Group {
    #[must_use]
    pub fn new(options: Options, restored: Restored) -> Self {
        let Restored { snapshot, hard_state, entries } = restored;
        // With nobody else to ask, what is on disk is committed. It need not wait for the election to be applied.
        let stays_alone = entries.iter().all(|entry| entry.kind == LogEntryKind::Normal);
        let is_alone = snapshot.membership.is_alone(options.id) && stays_alone;
        let mut window = Window::default();
        window.restart_at(snapshot.index, snapshot.term, conf_state(&snapshot.membership));
        window.append(&entries.into_iter().map(raft_entry).collect::<Vec<_>>());
        // The commit index is not synced on its own, and may lag or, after a lost tail, lead what is here.
        let known = if is_alone { window.last() } else { hard_state.commit };
        let commit = known.clamp(snapshot.index, window.last());
        window.hard_state.term = hard_state.term.max(snapshot.term);
        window.hard_state.vote = hard_state.vote.0;
        window.hard_state.commit = commit;
        let config = Config {
            id: options.id.0,
            election_tick: ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            applied: snapshot.index,
            max_size_per_msg: APPEND_BYTES_MAX,
            max_inflight_msgs: INFLIGHT_MAX,
            check_quorum: true,
            pre_vote: true,
            read_only_option: ReadOnlyOption::Safe,
            max_committed_size_per_ready: APPLY_BYTES_MAX,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&config, window, &logger).expect("the configuration is constant and checked by tests");
        let mut group = Self {
            node,
            options,
            members: Members::new(options.id, snapshot.membership, snapshot.conf_index),
            installing: None,
            arriving: None,
            snapshot_ticks: BTreeMap::new(),
            rest: Rest::default(),
            known_at_start: commit,
            outbox: Vec::new(),
            told: Vec::new(),
            aside: None,
            #[cfg(feature = "mutants")]
            mutant: None,
        };
        group.settle_timeout();
        group
    }

    /// Who has nothing of the log is given a snapshot from now on, and never the log from its beginning: what it began with was
    /// another state than a new replica's.
    pub fn begin_with_snapshots(&mut self) {
        self.node.mut_store().forget_to(1);
    }

    #[must_use]
    pub fn id(&self) -> ReplicaId {
        self.options.id
    }

    #[must_use]
    pub fn role(&self) -> Role {
        match self.node.raft.state {
            StateRole::Leader => Role::Leader,
            StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
            StateRole::Follower => Role::Follower,
        }
    }

    #[must_use]
    pub fn leader(&self) -> Option<ReplicaId> {
        Some(ReplicaId(self.node.raft.leader_id)).filter(|&id| id != ReplicaId(0))
    }

    #[must_use]
    pub fn term(&self) -> u64 {
        self.node.raft.term
    }

    #[must_use]
    pub fn commit(&self) -> u64 {
        self.node.raft.raft_log.committed
    }

    #[must_use]
    pub fn last_index(&self) -> u64 {
        self.node.raft.raft_log.last_index()
    }

    pub fn tick(&mut self) {
        // Until a snapshot is on disk, raft-rs does not count it as applied, and would look for entries that are gone
        // if it stood for election now.
        if self.installing.is_some() {
            return;
        }
        self.settle_down();
        if self.may_tick() {
            self.node.tick();
        }
        self.ask_for_rebuilding();
        self.give_up_on_snapshots();
        self.inquire();
        self.settle_timeout();
    }

    /// Takes a peer's message. One that makes no sense (another term, a stranger) is dropped, as the network might have.
    pub fn step(&mut self, message: Message) {
        if message.to() != self.options.id || message.from() == self.options.id {
            return;
        }
        match message.0 {
            Body::Raft(raft) => {
                self.stir_by(&raft);
                self.step_raft(raft);
            }
            Body::Inquiry { from, conf_index, .. } => {
                self.turn_away(from, conf_index);
            }
            Body::Excluded { conf_index, .. } => self.hear_removed(conf_index),
            Body::Sum { from, index, sum, .. } => {
                self.hear_sum(Told { by: from, index, sum: u128::from_le_bytes(sum) })
            }
        }
        self.settle_timeout();
    }

    fn step_raft(&mut self, message: RaftMessage) {
        let RaftMessage { kind, inner, conf_index, .. } = message;
        if !self.makes_sense(kind, &inner) {
            return;
        }
        // Whoever calls for votes knows at least the configurations up to what it calls committed.
        if kind.is_call_for_votes() && self.turn_away(ReplicaId(inner.from), inner.commit) {
            return;
        }
        if kind == Kind::Snapshot {
            self.arriving = Some((inner.get_snapshot().get_metadata().index, conf_index));
        }
        self.renew_wish(inner.term);
        let taken = (kind == Kind::AppendResponse && !inner.reject).then_some((inner.from, inner.index));
        let _ = self.node.step(inner);
        if let Some((from, index)) = taken {
            self.notice_installed(from, index);
        }
    }

    /// Whether raft-rs can take the message. It ends the process over some that no honest peer sends.
    fn makes_sense(&self, kind: Kind, message: &eraftpb::Message) -> bool {
        // What has no term counts as a replica's own word.
        let is_sound = match kind {
            // Without a membership of its own it could not make sense of the changes in the log.
            Kind::Append => message.index > 0 || !self.membership().voters.is_empty(),
            Kind::Heartbeat => message.commit <= self.last_index(),
            Kind::AppendResponse => message.index <= self.last_index() || self.role() != Role::Leader,
            // The invitation to take over would make it stand for election (see `tick`).
            Kind::TimeoutNow => self.installing.is_none() && self.aside.is_none(),
            Kind::Vote
            | Kind::VoteResponse
            | Kind::PreVote
            | Kind::PreVoteResponse
            | Kind::HeartbeatResponse
            | Kind::Snapshot => true,
        };
        message.term > 0 && is_sound
    }

    /// Tells somebody that a committed configuration is without it, if that is so: it knows those up to `known`, in one of which
    /// it took part, and a number that was removed does not come back.
    fn turn_away(&mut self, from: ReplicaId, known: u64) -> bool {
        let membership = self.membership();
        let is_removed = !membership.voters.is_empty() && !membership.contains(from) && self.conf_index() > known;
        if is_removed {
            let excluded = Body::Excluded { from: self.id(), to: from, conf_index: self.conf_index() };
            self.outbox.push(Message(excluded));
        }
        is_removed
    }

    /// One that has no vote never calls for votes, and would not hear that it was removed.
    fn inquire(&mut self) {
        let raft = &self.node.raft;
        let is_due = raft.election_elapsed > 0 && raft.election_elapsed.is_multiple_of(INQUIRY_TICKS);
        if !is_due || raft.state != StateRole::Follower || raft.promotable() || self.removed().is_some() {
            return;
        }
        let (from, conf_index) = (self.id(), self.conf_index());
        let voters = self.membership().voters.iter().filter(|voter| **voter != from);
        let inquiries: Vec<Message> = voters.map(|to| Message(Body::Inquiry { from, to: *to, conf_index })).collect();
        self.outbox.extend(inquiries);
    }

    /// Appends an entry, if this replica leads and means to go on leading.
    pub fn propose(&mut self, data: Vec<u8>) -> Result<Proposed, Refused> {
        if self.role() != Role::Leader {
            return Err(Refused { why: WhyRefused::NotLeader, data });
        }
        if self.transferee().is_some() {
            return Err(Refused { why: WhyRefused::HandingOver, data });
        }
        self.stir();
        self.node.propose(Vec::new(), data).expect("it leads, is a member, and hands over to nobody");
        Ok(self.last_proposed())
    }

    pub(crate) fn last_proposed(&self) -> Proposed {
        Proposed { index: self.last_index(), term: self.term() }
    }

    /// Asks a majority whether this replica still leads. Every context must be new for ever: raft-rs silently drops one
    /// that is pending, and a late answer to an old one would confirm too much. False if there is nobody to ask yet.
    pub fn read_index(&mut self, context: u64) -> bool {
        if self.role() != Role::Leader || !self.node.raft.commit_to_current_term() {
            return false;
        }
        self.stir();
        self.node.read_index(context.to_be_bytes().to_vec());
        true
    }

    /// Whether the leader's first entry of its term is committed: before that it does not know what is.
    #[must_use]
    pub fn is_settled_leader(&self) -> bool {
        self.role() == Role::Leader && self.node.raft.commit_to_current_term()
    }

    pub fn ready(&mut self) -> Option<Ready> {
        if !self.node.has_ready() && self.outbox.is_empty() {
            return None;
        }
        let mut ready = self.node.ready();
        let mut messages = self.spoken(ready.take_messages());
        messages.append(&mut self.outbox);
        let persisted_messages = self.spoken(ready.take_persisted_messages());
        let snapshot = self.arrived_snapshot(ready.snapshot());
        if let Some((meta, _)) = &snapshot {
            let state = conf_state(&meta.membership);
            self.node.mut_store().restart_at(meta.index, meta.term, state);
            self.members.note(self.options.id, meta.membership.clone(), meta.conf_index);
            self.installing = Some((ready.number(), meta.index));
            self.aside = None;
        }
        if let Some(hard_state) = ready.hs() {
            self.node.mut_store().hard_state = hard_state.clone();
        }
        let raft_entries = ready.take_entries();
        self.node.mut_store().append(&raft_entries);
        let changes_members = raft_entries.iter().any(|entry| entry.get_entry_type() != EntryType::EntryNormal);
        let is_change = |entry: &Entry| entry.get_entry_type() != EntryType::EntryNormal;
        // What the disk knew at the start needs no write, and nobody would confirm one: it is applied before there is a host.
        let known = self.known_at_start;
        let settles_members = ready.committed_entries().iter().any(|entry| entry.index > known && is_change(entry));
        if settles_members {
            self.members.recorded_by = Some(ready.number());
        }
        let is_with_state = changes_members || settles_members;
        let hard_state = if is_with_state { Some(&self.node.store().hard_state) } else { ready.hs() };
        let out = Ready {
            number: ready.number(),
            messages,
            snapshot,
            hard_state: hard_state.map(hard_state_of),
            entries: raft_entries.into_iter().map(log_entry).collect(),
            must_sync: ready.must_sync() || settles_members,
            persisted_messages,
            committed: ready.take_committed_entries().into_iter().map(log_entry).collect(),
            reads: ready.take_read_states().iter().filter_map(read_done).collect(),
        };
        self.node.advance_append_async(ready);
        self.settle_timeout();
        Some(out)
    }

    /// Messages of raft-rs, with what is added to them. A leader's carry its commit index as it is now, once it knows it: before
    /// its own first entry is committed it may lack what the leader before it had committed.
    fn spoken(&self, messages: Vec<eraftpb::Message>) -> Vec<Message> {
        if messages.is_empty() {
            return Vec::new();
        }
        let raft = &self.node.raft;
        let settled = self.is_settled_leader();
        let speak = |inner: eraftpb::Message| {
            let kind = Kind::of(inner.get_msg_type())?;
            let is_known = settled && kind.is_of_leader() && inner.term == raft.term;
            let committed = if is_known { raft.raft_log.committed } else { 0 };
            let conf_index = if kind == Kind::Snapshot { self.node.store().conf_index_of(&inner) } else { 0 };
            let stamps = Stamps::default();
            Some(Message(Body::Raft(RaftMessage { kind, inner, committed, conf_index, stamps })))
        };
        messages.into_iter().filter_map(speak).collect()
    }

    /// Everything up to this [`Ready`] is on disk.
    pub fn persisted(&mut self, number: u64) {
        self.node.on_persist_ready(number);
        self.members.recorded_by.take_if(|recorded_by| *recorded_by <= number);
        if let Some((_, index)) = self.installing.take_if(|(installed_by, _)| *installed_by <= number) {
            self.node.advance_apply_to(index);
        }
        self.settle_timeout();
    }

    /// Everything up to this index has been applied.
    pub fn applied(&mut self, index: u64) {
        self.node.advance_apply_to(index);
    }

    /// Lets go of entries in memory that are applied and that no follower is about to need.
    pub fn trim(&mut self, applied: u64, keep: Keep) {
        if self.is_alone() {
            return self.node.mut_store().forget_to(applied);
        }
        // A follower goes on behind the snapshot that is on its way to it; else it would need another one at once.
        let progress = self.node.raft.prs().iter().map(|(_, progress)| progress);
        let snapshots = progress.filter(|one| one.state == ProgressState::Snapshot).map(|one| one.pending_snapshot);
        let pinned = snapshots.min().unwrap_or(u64::MAX);
        self.node.mut_store().shrink(applied, pinned, keep);
    }

    /// The term of an applied entry that is still in memory.
    #[must_use]
    pub fn term_at(&self, index: u64) -> Option<u64> {
        raft::Storage::term(self.node.store(), index).ok()
    }

    /// raft-rs draws its election timeout from a thread's random numbers. Here it is a function of who, when and which.
    pub(crate) fn settle_timeout(&mut self) {
        let raft = &mut self.node.raft;
        let role = match raft.state {
            StateRole::Follower => 0u64,
            StateRole::Candidate => 1,
            StateRole::PreCandidate => 2,
            StateRole::Leader => 3,
        };
        let parts = [
            self.options.seed,
            self.options.id.0,
            u64::from(self.options.shard),
            self.options.incarnation,
            raft.term,
            role,
        ];
        if self.aside.is_some() {
            return raft.set_randomized_election_timeout(2 * ELECTION_TICKS - 1);
        }
        let draw = parts.iter().fold(0x9e37_79b9_7f4a_7c15, |mixed, part| mix(mixed ^ part));
        raft.set_randomized_election_timeout(ELECTION_TICKS + (draw % ELECTION_TICKS as u64) as usize);
    }
}

/// Spreads the bits of a number (the finishing steps of a well-known 64-bit mixer).
fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

fn hard_state_of(state: &RaftHardState) -> HardState {
    HardState { term: state.term, vote: ReplicaId(state.vote), commit: state.commit }
}

fn raft_entry(entry: LogEntry) -> Entry {
    let mut out = Entry { index: entry.index, term: entry.term, data: entry.data, ..Entry::default() };
    out.set_entry_type(match entry.kind {
        LogEntryKind::Normal => EntryType::EntryNormal,
        LogEntryKind::Membership => EntryType::EntryConfChangeV2,
    });
    out
}

fn log_entry(entry: Entry) -> LogEntry {
    let kind = match entry.get_entry_type() {
        EntryType::EntryNormal => LogEntryKind::Normal,
        EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => LogEntryKind::Membership,
    };
    LogEntry { index: entry.index, term: entry.term, kind, data: entry.data }
}

fn read_done(state: &raft::ReadState) -> Option<ReadDone> {
    let context = u64::from_be_bytes(state.request_ctx.as_slice().try_into().ok()?);
    Some(ReadDone { context, index: state.index })
}
