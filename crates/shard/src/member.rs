//! What every replica is made of, whichever state machine it holds: its part in the Raft group, the log writes that are not
//! confirmed, its own proposals on their way, snapshots, and how far it has applied (`docs/adr/0002-two-state-machines.md`).
//!
//! Knows nothing of requests and answers: what an entry means, and who is told of it, is each replica's own ([`turn::Turn`]).

mod machine;
mod same;
pub(crate) mod turn;
pub(crate) mod proposals;
mod writes;
pub(crate) mod deferred;
mod cutting;
mod checking;

pub(crate) use same::as_members_do;
use shardine_consensus::{Group, Keep, Message, Options as GroupOptions, Ready, Refused, Restored, Role, WhyRefused};
use shardine_model::log::LogEntry;
use shardine_model::{ReplicaId, ShardId};

use crate::actions::{Persist, SnapshotPart};
use checking::Checking;
pub use checking::Checks;
use cutting::Cutting;
use deferred::Deferred;
use machine::Machine;
use proposals::Proposals;
use writes::Writes;

/// Bytes of applied entries kept in memory for followers that are a little behind, however few they are: one of the largest
/// writes, or a second of many small ones. A follower that is further behind gets a snapshot.
const WINDOW_BYTES: u64 = 32 << 20;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub replica: ReplicaId,
    pub shard: ShardId,
    pub incarnation: u64,
    pub seed: u64,
    pub snapshot_log_bytes: u64,
    pub window_entries: u64,
}

/// A member of a group, with `T` for what is kept of each of its proposals. Invariant: `applied` is the last entry that its
/// machine has executed, and it stands still once the member has stopped.
pub(crate) struct Member<T> {
    pub group: Group,
    pub proposals: Proposals<T>,
    deferred: Deferred<T>,
    options: Options,
    applied: At,
    /// The last entry that it began with, and, once one of a later term is applied, the last one before that term.
    inherited: u64,
    writes: Writes,
    cutting: Cutting,
    checking: Checking,
    /// The term in which it took over what only a leader does; 0 while it has not.
    led_term: u64,
    stopped: bool,
}

/// An applied entry.
#[derive(Clone, Copy, Debug)]
struct At {
    index: u64,
    term: u64,
}

/// What has become of the lead since it was last asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    Taken,
    Lost,
    Unchanged,
}

/// Where a turn puts what the host does for any machine.
pub(crate) struct Outbox<'a> {
    pub persists: &'a mut Vec<Persist>,
    pub messages: &'a mut Vec<Message>,
}

impl<T> Member<T> {
    /// Begins with what the disk held, behind the snapshot that the machine was made from.
    pub fn new(options: Options, restored: Restored) -> Self {
        let group_options = GroupOptions {
            id: options.replica,
            shard: options.shard.0,
            incarnation: options.incarnation,
            seed: options.seed,
        };
        let applied = At { index: restored.snapshot.index, term: restored.snapshot.term };
        let inherited = restored.entries.last().map_or(applied.index, |entry| entry.index);
        let log_bytes = restored.entries.iter().map(|entry| entry.data.len() as u64).sum();
        Self {
            group: Group::new(group_options, restored),
            proposals: Proposals::default(),
            deferred: Deferred::default(),
            options,
            applied,
            inherited,
            writes: Writes::default(),
            cutting: Cutting::new(applied.index, log_bytes),
            checking: Checking::default(),
            led_term: 0,
            stopped: false,
        }
    }

    /// With the bug of this run, if it is one of the group's.
    #[cfg(feature = "mutants")]
    pub fn spoilt(mut self, mutant: Option<shardine_records::Mutant>) -> Self {
        use shardine_consensus::Mutant;
        let of_group = [
            (shardine_records::Mutant::CountsLearners, Mutant::CountsLearners),
            (shardine_records::Mutant::ForgetsVotes, Mutant::ForgetsVotes),
        ];
        self.group.spoil(of_group.into_iter().find(|(known, _)| mutant == Some(*known)).map(|(_, planted)| planted));
        self
    }

    pub fn applied(&self) -> u64 {
        self.applied.index
    }

    /// The last entry that a serving leader found in its log when it was elected: everything that was committed before it is
    /// in there. Of a member that has applied nothing yet, the last one that the disk held.
    pub fn inherited(&self) -> u64 {
        self.inherited
    }

    /// The newest snapshot on disk.
    pub fn saved(&self) -> u64 {
        self.cutting.saved_index()
    }

    pub fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// A leader serves once an entry of its own term is applied: before that it may not know what is committed
    /// (write-back 76).
    #[inline]
    pub fn is_serving(&self) -> bool {
        !self.stopped && self.applied.term == self.group.term() && self.leads()
    }

    #[inline]
    pub fn leads(&self) -> bool {
        self.group.role() == Role::Leader
    }

    /// Whether it has looked over what it leads, and not lost the lead since.
    pub fn has_taken_over(&self) -> bool {
        self.led_term != 0
    }

    /// Tells a change of the lead once.
    pub fn look_at_lead(&mut self) -> Lead {
        let term = self.group.term();
        if self.is_serving() && self.led_term != term {
            self.led_term = term;
            return Lead::Taken;
        }
        if self.has_taken_over() && !self.leads() {
            self.led_term = 0;
            return Lead::Lost;
        }
        Lead::Unchanged
    }

    /// Takes the lead for lost; where it is not, it is taken anew.
    pub fn let_go_of_lead(&mut self) {
        self.led_term = 0;
    }

    /// Proposes an entry, and remembers what belongs to it until it is applied. While the lead is being handed over the entry
    /// waits here for how that ends; given back is what belongs to it only if this member does not lead.
    pub fn propose(&mut self, bytes: Vec<u8>, now_ms: u64, load: T) -> Result<(), T> {
        match self.group.propose(bytes) {
            Ok(proposed) => self.proposals.push(proposed, now_ms, load),
            Err(Refused { why: WhyRefused::HandingOver, data }) => self.deferred.push(data, load),
            Err(Refused { why: WhyRefused::NotLeader, .. }) => return Err(load),
        }
        Ok(())
    }

    /// Whether what is proposed now would have to wait for how a hand-over ends.
    pub fn is_handing_over(&self) -> bool {
        self.group.transferee().is_some()
    }

    /// What belongs to proposals whose fate has stayed open for too long after the lead was lost (records 34). They
    /// stay on their way, for they may yet be applied.
    pub fn overdue(&mut self, now_ms: u64) -> impl Iterator<Item = &mut T> {
        let leads = self.leads();
        self.proposals.older_than(now_ms, IN_DOUBT_AFTER_MS).filter(move |_| !leads)
    }

    /// The host has this log write, and all before it, on disk.
    pub fn persisted(&mut self, number: u64, messages: &mut Vec<Message>) {
        self.writes.confirm(number, &mut self.group, messages);
    }

    /// Hands on what a `Ready` wants written, and sent after that.
    fn write(&mut self, ready: &mut Ready, out: &mut Outbox<'_>) {
        if ready.must_sync || ready.snapshot.is_some() {
            self.cutting.count_log(&ready.entries);
        }
        self.writes.take((self.options.shard, self.options.replica), ready, &mut self.group, out);
    }

    /// Makes a change of members count. What fails here is an entry that only a newer version of this program can read.
    fn change_members(&mut self, entry: &LogEntry) -> Result<(), String> {
        let changed = self.group.apply_membership(entry);
        changed.map_err(|error| format!("entry {} of term {}: {error}", entry.index, entry.term))
    }

    fn note_applied(&mut self, entry: &LogEntry) {
        if entry.term != self.applied.term {
            self.inherited = entry.index - 1;
        }
        self.applied = At { index: entry.index, term: entry.term };
        self.group.applied(entry.index);
    }

    /// Lets go of what it need not have in memory for its followers.
    fn trim(&mut self) {
        let keep = Keep { entries: self.options.window_entries, bytes: WINDOW_BYTES };
        self.group.trim(self.applied.index, keep);
    }

    /// Begins a snapshot when enough log has gathered behind the last one, or a follower needs one.
    pub fn cut_if_due(&mut self, machine: &mut impl Machine) {
        let log_bytes_max = self.options.snapshot_log_bytes;
        self.cutting.begin_if_due(machine, &mut self.group, self.applied, log_bytes_max);
    }

    /// Cuts now, so that the log behind this group can go: its oldest entries may hold back space that others share.
    pub fn snapshot_now(&mut self, machine: &mut impl Machine) {
        self.cutting.begin_now(machine, &self.group, self.applied);
    }

    pub fn is_cutting(&self) -> bool {
        self.cutting.is_running()
    }

    /// Gives up a running cut: what it is of is about to be another state.
    pub fn abandon_cut(&mut self, machine: &mut impl Machine) {
        self.cutting.abandon(machine);
    }

    /// The state that it began with is not on its own disk.
    pub fn lacks_snapshot(&mut self) {
        self.cutting.forget_saved();
    }

    /// Whether a snapshot is cut, or on its way to the disk.
    pub fn is_saving(&self) -> bool {
        self.cutting.is_saving()
    }

    /// Nothing is cut as long as another shard's beginning is only in this one's last snapshot and the log behind it.
    pub fn pin(&mut self, pinned: bool) {
        self.cutting.pin(pinned);
    }

    /// Hands out the next pieces of the running cut, about `bytes` of them.
    pub fn snapshot_step(&mut self, machine: &mut impl Machine, bytes: usize, parts: &mut Vec<SnapshotPart>) {
        if let Some((index, sum)) = self.cutting.give_some(machine, bytes, parts) {
            self.summed(machine, index, sum);
        }
    }

    /// The host has the snapshot at this index on disk.
    pub fn snapshot_saved(&mut self, index: u64) {
        self.cutting.saved(&mut self.group, index);
    }

    pub fn snapshot_failed(&mut self) {
        self.cutting.failed();
    }
}

/// How long a deposed leader's callers wait for news of their proposals.
const IN_DOUBT_AFTER_MS: u64 = 3_000;
