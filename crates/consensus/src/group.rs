//! One replica's part in a Raft group.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use raft::eraftpb::{ConfState, Entry, EntryType, HardState as RaftHardState, MessageType, Snapshot};
use raft::{Config, ProgressState, RawNode, ReadOnlyOption, StateRole};
use shardine_model::ReplicaId;
use shardine_model::log::{HardState, LogEntry, LogEntryKind, Membership, SnapshotMeta};

use crate::message::Message;
use crate::window::Window;

/// Ticks without a leader before a replica stands for election; the real number is drawn between this and twice it.
const ELECTION_TICKS: usize = 10;
const HEARTBEAT_TICKS: usize = 2;
/// Ticks that a follower may take over a snapshot before it is sent again. Sending it twice is harmless; a transport that
/// knows better says so ([`Group::report_snapshot`]).
const SNAPSHOT_TICKS_MAX: u32 = 100;
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
    pub hard_state: Option<HardState>,
    /// Whether `entries` or `hard_state` promise something that must survive a crash.
    pub must_sync: bool,
    /// May go out only when this and everything before it is on disk.
    pub persisted_messages: Vec<Message>,
    pub committed: Vec<LogEntry>,
    pub reads: Vec<ReadDone>,
}

pub struct Group {
    node: RawNode<Window>,
    options: Options,
    /// A snapshot from the leader that is not on disk yet: the [`Ready`] that brought it, and its index.
    installing: Option<(u64, u64)>,
    /// How many ticks a follower has been waiting for a snapshot that was sent to it, by id.
    snapshot_ticks: BTreeMap<u64, u32>,
}

impl Group {
    #[must_use]
    pub fn new(options: Options, restored: Restored) -> Self {
        let Restored { snapshot, hard_state, entries } = restored;
        let mut window = Window::default();
        window.restart_at(snapshot.index, snapshot.term, conf_state(&snapshot.membership));
        window.append(&entries.into_iter().map(raft_entry).collect::<Vec<_>>());
        // The commit index is not synced on its own, and may lag or, after a lost tail, lead what is here.
        let commit = hard_state.commit.clamp(snapshot.index, window.last());
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
        let mut group = Self { node, options, installing: None, snapshot_ticks: BTreeMap::new() };
        group.settle_timeout();
        group
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

    /// Whether this replica alone is the majority, so that its own disk decides.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.membership().is_alone(self.options.id)
    }

    #[must_use]
    pub fn membership(&self) -> Membership {
        membership(&self.node.store().conf_state)
    }

    pub fn tick(&mut self) {
        // Until a snapshot is on disk, raft-rs does not count it as applied, and would look for entries that are gone
        // if it stood for election now.
        if self.installing.is_some() {
            return;
        }
        self.node.tick();
        self.give_up_on_snapshots();
        self.settle_timeout();
    }

    /// A message may be lost, and raft-rs sends nothing else to a follower that it believes to be busy with a snapshot.
    fn give_up_on_snapshots(&mut self) {
        if self.role() != Role::Leader {
            return self.snapshot_ticks.clear();
        }
        let progress = self.node.raft.prs().iter();
        let waiting: BTreeSet<u64> =
            progress.filter(|(_, one)| one.state == ProgressState::Snapshot).map(|(id, _)| *id).collect();
        self.snapshot_ticks.retain(|id, _| waiting.contains(id));
        for id in waiting {
            let ticks = self.snapshot_ticks.entry(id).or_insert(0);
            *ticks += 1;
            if *ticks > SNAPSHOT_TICKS_MAX {
                self.snapshot_ticks.remove(&id);
                self.report_snapshot(ReplicaId(id), false);
            }
        }
    }

    /// Stands for election at once. A group of one needs no patience.
    pub fn campaign(&mut self) {
        // Refused only while a membership change is applied; then the next timeout does it.
        if self.installing.is_none() {
            let _ = self.node.campaign();
        }
        self.settle_timeout();
    }

    /// Takes a peer's message. One that makes no sense (another term, a stranger) is dropped, as the network might have.
    pub fn step(&mut self, message: Message) {
        // The invitation to take over would make it stand for election (see `tick`).
        if self.installing.is_some() && message.0.get_msg_type() == MessageType::MsgTimeoutNow {
            return;
        }
        let _ = self.node.step(message.0);
        self.settle_timeout();
    }

    /// Appends an entry if this replica leads.
    pub fn propose(&mut self, data: Vec<u8>) -> Option<Proposed> {
        if self.role() != Role::Leader {
            return None;
        }
        self.node.propose(Vec::new(), data).ok()?;
        Some(Proposed { index: self.last_index(), term: self.term() })
    }

    /// Asks a majority whether this replica still leads. Every context must be new for ever: raft-rs silently drops one
    /// that is pending, and a late answer to an old one would confirm too much. False if there is nobody to ask yet.
    pub fn read_index(&mut self, context: u64) -> bool {
        if self.role() != Role::Leader || !self.node.raft.commit_to_current_term() {
            return false;
        }
        self.node.read_index(context.to_be_bytes().to_vec());
        true
    }

    /// Whether the leader's first entry of its term is committed: before that it does not know what is.
    #[must_use]
    pub fn is_settled_leader(&self) -> bool {
        self.role() == Role::Leader && self.node.raft.commit_to_current_term()
    }

    pub fn transfer_leader(&mut self, to: ReplicaId) {
        self.node.transfer_leader(to.0);
    }

    pub fn ready(&mut self) -> Option<Ready> {
        if !self.node.has_ready() {
            return None;
        }
        let mut ready = self.node.ready();
        let messages = ready.take_messages().into_iter().map(Message).collect();
        let persisted_messages = ready.take_persisted_messages().into_iter().map(Message).collect();
        let snapshot = Some(ready.snapshot()).filter(|snapshot| !snapshot.is_empty()).map(snapshot_parts);
        if let Some((meta, _)) = &snapshot {
            let state = conf_state(&meta.membership);
            self.node.mut_store().restart_at(meta.index, meta.term, state);
            self.installing = Some((ready.number(), meta.index));
        }
        if let Some(hard_state) = ready.hs() {
            self.node.mut_store().hard_state = hard_state.clone();
        }
        let raft_entries = ready.take_entries();
        self.node.mut_store().append(&raft_entries);
        let out = Ready {
            number: ready.number(),
            messages,
            snapshot,
            entries: raft_entries.into_iter().map(log_entry).collect(),
            hard_state: ready.hs().map(hard_state),
            must_sync: ready.must_sync(),
            persisted_messages,
            committed: ready.take_committed_entries().into_iter().map(log_entry).collect(),
            reads: ready.take_read_states().iter().filter_map(read_done).collect(),
        };
        self.node.advance_append_async(ready);
        self.settle_timeout();
        Some(out)
    }

    /// Everything up to this [`Ready`] is on disk.
    pub fn persisted(&mut self, number: u64) {
        self.node.on_persist_ready(number);
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
    pub fn trim(&mut self, applied: u64, keep: u64) {
        let mut to = applied.saturating_sub(keep);
        if self.is_alone() {
            to = applied;
        }
        self.node.mut_store().forget_to(to);
    }

    /// Whether a follower is so far behind that it needs a snapshot; asking takes the mark away.
    pub fn take_snapshot_wish(&mut self) -> bool {
        self.node.store().snapshot_wanted.take()
    }

    /// Gives a snapshot to be sent to whoever needs it.
    pub fn offer_snapshot(&mut self, meta: &SnapshotMeta, data: Bytes) {
        let mut snapshot = Snapshot::default();
        let state = conf_state(&meta.membership);
        snapshot.mut_metadata().index = meta.index;
        snapshot.mut_metadata().term = meta.term;
        snapshot.mut_metadata().set_conf_state(state);
        snapshot.data = data;
        self.node.mut_store().snapshot = Some(snapshot);
    }

    /// Tells how sending a snapshot to a follower went.
    pub fn report_snapshot(&mut self, to: ReplicaId, arrived: bool) {
        let status = if arrived { raft::SnapshotStatus::Finish } else { raft::SnapshotStatus::Failure };
        self.node.report_snapshot(to.0, status);
    }

    /// The term of an applied entry that is still in memory.
    #[must_use]
    pub fn term_at(&self, index: u64) -> Option<u64> {
        raft::Storage::term(self.node.store(), index).ok()
    }

    /// raft-rs draws its election timeout from a thread's random numbers. Here it is a function of who, when and which.
    fn settle_timeout(&mut self) {
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

fn conf_state(membership: &Membership) -> ConfState {
    let mut state = ConfState::default();
    let numbers = |replicas: &[ReplicaId]| replicas.iter().map(|replica| replica.0).collect::<Vec<_>>();
    state.set_voters(numbers(&membership.voters));
    state.set_learners(numbers(&membership.learners));
    state.set_voters_outgoing(numbers(&membership.outgoing));
    state.set_learners_next(numbers(&membership.learners_next));
    state.auto_leave = membership.auto_leave;
    state
}

fn membership(state: &ConfState) -> Membership {
    let replicas = |numbers: &[u64]| numbers.iter().copied().map(ReplicaId).collect();
    Membership {
        voters: replicas(state.get_voters()),
        learners: replicas(state.get_learners()),
        outgoing: replicas(state.get_voters_outgoing()),
        learners_next: replicas(state.get_learners_next()),
        auto_leave: state.auto_leave,
    }
}

fn hard_state(state: &RaftHardState) -> HardState {
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

fn snapshot_parts(snapshot: &Snapshot) -> (SnapshotMeta, Bytes) {
    let meta = snapshot.get_metadata();
    let membership = membership(meta.get_conf_state());
    (SnapshotMeta { index: meta.index, term: meta.term, membership, conf_index: 0 }, snapshot.data.clone())
}

fn read_done(state: &raft::ReadState) -> Option<ReadDone> {
    let context = u64::from_be_bytes(state.request_ctx.as_slice().try_into().ok()?);
    Some(ReadDone { context, index: state.index })
}
