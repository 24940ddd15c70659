//! The replica: what it holds, how it begins, what happens to it, and what a change of the lead means.

use shardine_consensus::{Group, Message, Restored, Role};
use shardine_model::entry::stamp_of;
use shardine_model::key::Interval;
use shardine_model::{Answer, Bounds, ErrorCode, ReplicaId, RowKey, ShardId, TableId, Timestamp};
use shardine_records::Records;

use crate::actions::{Actions, Caller, Returned, Time};
use crate::clock::ShardClock;
use crate::early::Early;
use crate::evict::{Evictor, MemoryLimits};
use crate::freshness::Freshness;
use crate::gather::{Gathering, Proposal};
use crate::handover::HandOver;
use crate::loads::Loads;
use crate::member::{self, Checks, Lead, Member, deferred, turn};
use crate::reads::Reads;
use crate::split::Newborn;
use crate::upkeep::Upkeep;
use crate::writeback::{DirtyLimits, Writeback};

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub replica: ReplicaId,
    pub shard: ShardId,
    /// Grows with every start of the process.
    pub incarnation: u64,
    pub seed: u64,
    /// Log bytes behind the last snapshot before the next one is cut.
    pub snapshot_log_bytes: u64,
    /// Applied entries kept in memory for followers that are a little behind.
    pub window_entries: u64,
    /// Milliseconds that a tombstone of a table without SQL is kept.
    pub tombstone_keep_ms: u64,
    /// Milliseconds after which a statement that was given up on is certainly over. Longer than any statement may take.
    pub purge_quiet_ms: u64,
    pub dirty: DirtyLimits,
    pub memory: MemoryLimits,
    #[cfg(feature = "mutants")]
    pub mutant: Option<shardine_records::Mutant>,
}

impl Options {
    #[must_use]
    pub fn new(replica: ReplicaId, shard: ShardId) -> Self {
        Self {
            replica,
            shard,
            incarnation: 1,
            seed: 0,
            snapshot_log_bytes: 64 << 20,
            window_entries: 10_000,
            tombstone_keep_ms: 60_000,
            purge_quiet_ms: 20_000,
            dirty: DirtyLimits::default(),
            memory: MemoryLimits::default(),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    fn of_member(&self) -> member::Options {
        member::Options {
            replica: self.replica,
            shard: self.shard,
            incarnation: self.incarnation,
            seed: self.seed,
            snapshot_log_bytes: self.snapshot_log_bytes,
            window_entries: self.window_entries,
        }
    }
}

/// One replica of one shard. Invariant: `records` is the state after exactly the entries that `member` calls applied.
pub struct Replica {
    pub(crate) options: Options,
    pub(crate) member: Member<Proposal>,
    pub(crate) records: Records,
    pub(crate) time: Time,
    clock: ShardClock,
    pub(crate) early: Early,
    pub(crate) gathering: Gathering,
    pub(crate) reads: Reads,
    pub(crate) loads: Loads,
    pub(crate) writeback: Writeback,
    pub(crate) upkeep: Upkeep,
    pub(crate) freshness: Freshness,
    pub(crate) evictor: Evictor,
    pub(crate) handover: Option<HandOver>,
    pub(crate) left: Left,
    /// What the snapshot that is being taken has been made into.
    pub(crate) prepared: Option<Records>,
    /// Nothing that may grow is taken in.
    pub(crate) is_pushed_back: bool,
}

/// Records that this replica has asked to leave memory since it began, by the reason.
#[derive(Clone, Copy, Debug, Default)]
pub struct Left {
    pub memory: u64,
    pub kicked: u64,
    pub expired: u64,
}

/// The replica in numbers, for `status`.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub leader: Option<ReplicaId>,
    pub is_serving: bool,
    pub is_suspended: bool,
    pub term: u64,
    pub applied: u64,
    pub committed: u64,
    pub snapshot: u64,
    pub records: u64,
    pub bytes: u64,
    pub dirty: u64,
    /// Rows that this replica has queued for SQL; none on a follower.
    pub queued: u64,
}

impl Replica {
    #[must_use]
    pub fn left(&self) -> Left {
        self.left
    }

    /// Begins with what the disk held: the records of the snapshot, and the log behind it.
    #[must_use]
    pub fn new(options: Options, records: Records, restored: Restored) -> Self {
        #[cfg(feature = "mutants")]
        let records = records.with_mutant(options.mutant);
        let stamps = restored.entries.iter().filter_map(|entry| stamp_of(&entry.data));
        let newest_stamp = stamps.fold(records.clock(), Timestamp::max);
        let member = Member::new(options.of_member(), restored);
        #[cfg(feature = "mutants")]
        let member = member.spoilt(options.mutant);
        Self {
            options,
            member,
            records,
            time: Time::default(),
            clock: ShardClock::new(newest_stamp),
            early: Early::default(),
            gathering: Gathering::default(),
            reads: Reads::new(options.incarnation),
            loads: Loads::default(),
            writeback: Writeback::default(),
            upkeep: Upkeep::default(),
            freshness: Freshness::new(options.incarnation),
            evictor: Evictor::new(options.memory),
            left: Left::default(),
            handover: None,
            prepared: None,
            is_pushed_back: false,
        }
    }

    /// Applies what is known to be committed of the log that it began with. The first turn would do the same; here it needs
    /// nobody else, so that replicas can do it side by side. An error stops this replica.
    ///
    /// What is born meanwhile comes along.
    pub fn catch_up(mut self) -> Result<(Self, Vec<Newborn>), String> {
        let mut actions = Actions::default();
        self.drain(&mut actions);
        assert!(actions.persists.is_empty(), "nobody writes here, and nothing would be said until it is written");
        match actions.stop {
            Some(reason) => Err(reason),
            None => Ok((self, actions.newborn)),
        }
    }

    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.options.shard
    }

    #[must_use]
    pub fn id(&self) -> ReplicaId {
        self.options.replica
    }

    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        self.records.bounds()
    }

    /// The positions of which it owns rows.
    #[must_use]
    pub fn interval(&self) -> Interval {
        self.records.bounds().positions()
    }

    #[must_use]
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Has this replica, where it leads, look for others that have parted from it so often; 0 means never.
    pub fn compare_every(&mut self, every_ms: u64) {
        self.member.compare_every(every_ms);
    }

    /// What that has come to.
    #[must_use]
    pub fn checks(&self) -> Checks {
        self.member.checks()
    }

    #[must_use]
    pub fn applied(&self) -> u64 {
        self.member.applied()
    }

    #[must_use]
    pub fn committed(&self) -> u64 {
        self.member.group.commit()
    }

    /// Its part in the group, to be looked at: who takes part, how far they are, who may lead next.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.member.group
    }

    #[must_use]
    pub fn role(&self) -> Role {
        self.member.group.role()
    }

    #[must_use]
    pub fn term(&self) -> u64 {
        self.member.group.term()
    }

    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            leader: self.member.group.leader(),
            is_serving: self.is_serving(),
            is_suspended: self.records.is_suspended(),
            term: self.term(),
            applied: self.applied(),
            committed: self.member.group.commit(),
            snapshot: self.member.saved(),
            records: self.records.live_count(None),
            bytes: self.records.bytes(),
            dirty: self.records.dirty_count(),
            queued: self.writeback.queued(),
        }
    }

    /// A leader serves once an entry of its own term is applied: before that it may not know what is committed
    /// (write-back 76).
    #[inline]
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.member.is_serving()
    }

    /// Whether this replica has looked over what it leads. Only then does it queue rows for SQL: a follower would never
    /// empty that queue, and whoever takes over begins with all dirty rows anyway (write-back 84).
    pub(crate) fn has_taken_over(&self) -> bool {
        self.member.has_taken_over()
    }

    /// Records that a read would find, of one table or of all. Some whose time is over still wait to be expired.
    #[must_use]
    pub fn live_count(&self, table: Option<TableId>) -> u64 {
        let is_counted = |row: &RowKey<'_>| table.is_none_or(|table| table == row.table);
        let over = self.records.due_expiries(self.stamp()).filter(is_counted).count();
        self.records.live_count(table).saturating_sub(over as u64)
    }

    /// The time of the shard, and the stamp for what is proposed now: never below one that was applied, whatever clocks do.
    #[inline]
    #[must_use]
    pub fn stamp(&self) -> Timestamp {
        self.clock.read(self.time).max(self.records.clock())
    }

    /// Tells the time without letting timers run; cheap enough for every turn.
    pub fn set_time(&mut self, time: Time) {
        self.time = time;
    }

    /// One step of the group's timers, and upkeep.
    pub fn tick(&mut self, time: Time, actions: &mut Actions) {
        if self.member.has_stopped() {
            return;
        }
        self.time = time;
        self.clock.note(self.records.clock(), time);
        self.member.group.tick();
        self.member.check(time.monotonic_ms);
        self.drain(actions);
        self.fail_overdue(actions);
        self.fail_early(actions);
        self.end_overdue_waits(actions);
        // A follower may ask for a snapshot while nothing is written.
        self.member.cut_if_due(&mut self.records);
        self.run_upkeep();
        self.drain(actions);
        self.write_back(actions);
        self.purge_in_sql(actions);
        self.try_kicks(actions);
        self.drain(actions);
        self.advance_hand_over(actions);
    }

    /// Whether nothing happens that would need a tick soon: one of [`shardine_consensus::REST_PACE`] is enough.
    #[inline]
    #[must_use]
    pub fn rests(&self) -> bool {
        self.member.group.rests() && !self.is_handing_over()
    }

    /// Stands for election at once, for a group of one.
    pub fn campaign(&mut self, actions: &mut Actions) {
        self.member.group.campaign();
        self.drain(actions);
    }

    pub fn step(&mut self, message: Message, actions: &mut Actions) {
        // Its content has come on another way, or has not come.
        let lacks_content = message.is_snapshot() && !message.has_snapshot_data() && self.prepared.is_none();
        if self.member.has_stopped() || lacks_content {
            return;
        }
        self.step_group(message);
        self.drain(actions);
    }

    /// Takes a leader's snapshot, whose content was received beside the message and made into records. It is dropped if the group does
    /// not take it.
    pub fn step_snapshot(&mut self, message: Message, records: Records, actions: &mut Actions) {
        self.prepared = Some(records);
        self.step(message, actions);
        self.prepared = None;
    }

    /// The host has this log write, and all before it, on disk.
    pub fn persisted(&mut self, number: u64, actions: &mut Actions) {
        if self.member.has_stopped() {
            return;
        }
        self.member.persisted(number, &mut actions.messages);
        self.drain(actions);
    }

    /// Takes everything the group has ready: sends, writes, applies.
    pub(crate) fn drain(&mut self, actions: &mut Actions) {
        deferred::settle(self, self.time.monotonic_ms, actions);
        turn::drain(self, actions);
        // The lead may have been lost in this turn.
        deferred::settle(self, self.time.monotonic_ms, actions);
        self.stamp_messages(actions);
    }

    /// Cuts now, so that the log behind this shard can go.
    pub fn snapshot_now(&mut self) {
        self.member.snapshot_now(&mut self.records);
    }

    /// Its share of the memory has changed.
    pub fn set_memory_max(&mut self, bytes_max: u64) {
        self.options.memory.bytes_max = bytes_max;
    }

    /// The newest snapshot of it on disk; 0 if there is none.
    #[must_use]
    pub fn saved(&self) -> u64 {
        self.member.saved()
    }

    /// Whether a snapshot is cut, or on its way to the disk.
    #[must_use]
    pub fn is_saving(&self) -> bool {
        self.member.is_saving()
    }

    /// It grows faster than it can be split: whatever may make it larger is told to come again, until that is over (sharding B-25).
    pub fn push_back(&mut self, is_pushed_back: bool) {
        self.is_pushed_back = is_pushed_back;
    }

    /// Holds back snapshots of it, as long as what was born of it has none on disk.
    pub fn pin(&mut self, pinned: bool) {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(shardine_records::Mutant::ParentTrimmedEarly) {
            return;
        }
        self.member.pin(pinned);
    }

    #[must_use]
    pub fn is_cutting(&self) -> bool {
        self.member.is_cutting()
    }

    /// Hands out the next pieces of the running cut, about `bytes` of them. The host calls it when its writer has room.
    pub fn snapshot_step(&mut self, bytes: usize, actions: &mut Actions) {
        self.member.snapshot_step(&mut self.records, bytes, &mut actions.snapshot);
    }

    /// The host has the snapshot at this index on disk; the log up to it may go.
    pub fn snapshot_saved(&mut self, index: u64) {
        self.member.snapshot_saved(index);
    }

    /// The host could not write the snapshot; the log keeps everything, and the next one is tried later.
    pub fn snapshot_failed(&mut self) {
        self.member.snapshot_failed();
    }

    /// A new leader looks over what it has taken on; a deposed one lets go of what only a leader may do.
    pub(crate) fn notice_lead(&mut self, actions: &mut Actions) {
        match self.member.look_at_lead() {
            Lead::Taken => {
                let is_ours = self.records.lease().is_some_and(|lease| lease.holder == self.options.replica);
                let left = self.writeback.take_over(self.time.monotonic_ms, is_ours);
                fail(actions, left, ErrorCode::NotLeader);
                self.look_through_inherited();
                self.finish_waits(actions);
                self.loads.take_over();
            }
            Lead::Lost => self.step_down(actions),
            Lead::Unchanged => {}
        }
    }

    /// What was not yet proposed was certainly not executed; what was proposed may yet be applied, and is answered then.
    pub(crate) fn step_down(&mut self, actions: &mut Actions) {
        self.handover = None;
        self.upkeep.splitting = false;
        while let Some(entry) = self.gathering.take() {
            let (catalogue, why) = (entry.epoch.catalogue, ErrorCode::NotLeader);
            let requests = entry.give_back(false).into_iter();
            actions.returned.extend(requests.map(|(caller, request)| Returned { caller, request, catalogue, why }));
        }
        fail(actions, self.early.give_up(), ErrorCode::NotLeader);
        fail(actions, self.reads.give_up(), ErrorCode::NotLeader);
        // Those that gathered came before: whoever waits for a row is not passed by.
        let (catalogue, why) = (self.records.catalogue().version(), ErrorCode::NotLeader);
        for (caller, request) in self.loads.give_up() {
            match request {
                Some(request) => actions.returned.push(Returned { caller, request, catalogue, why }),
                None => fail(actions, vec![caller], ErrorCode::NotLeader),
            }
        }
        fail(actions, self.writeback.let_go(), ErrorCode::NotLeader);
        actions.answers.extend(self.writeback.waits.give_up());
    }

    /// A proposal whose fate stays open after the leadership is gone is in doubt (records 34).
    fn fail_overdue(&mut self, actions: &mut Actions) {
        for proposal in self.member.overdue(self.time.monotonic_ms) {
            fail(actions, std::mem::take(&mut proposal.callers), ErrorCode::InDoubt);
        }
    }
}

pub(crate) fn fail(actions: &mut Actions, callers: Vec<Caller>, code: ErrorCode) {
    actions.answers.extend(callers.into_iter().map(|caller| (caller, Answer::Failed(code))));
}
