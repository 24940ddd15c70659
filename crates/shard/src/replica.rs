//! The replica: what it holds, how it begins, and the turn of its group.

use std::collections::VecDeque;

use bytes::Bytes;
use shardine_consensus::{Group, Message, Options as GroupOptions, Restored, Role};
use shardine_model::key::Interval;
use shardine_model::{Ack, Answer, Entry, ErrorCode, NodeId, Request, ShardId, Timestamp, limits};
use shardine_records::Records;

use crate::actions::{Actions, Caller, Time};
use crate::cutting::Cutting;
use crate::evict::{Evictor, MemoryLimits};
use crate::gather::{Flight, Gathering, Then};
use crate::hold::Wish;
use crate::loads::Loads;
use crate::reads::Reads;
use crate::stale::Touch;
use crate::upkeep::Upkeep;
use crate::writeback::{DirtyLimits, Writeback};
use crate::writes::Writes;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub node: NodeId,
    pub shard: ShardId,
    pub interval: Interval,
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
    pub fn new(node: NodeId, shard: ShardId, interval: Interval) -> Self {
        Self {
            node,
            shard,
            interval,
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
}

/// One replica of one shard. Invariant: `records` is the state after exactly the entries up to `applied`.
pub struct Replica {
    pub(crate) options: Options,
    pub(crate) group: Group,
    pub(crate) records: Records,
    pub(crate) applied: u64,
    pub(crate) applied_term: u64,
    pub(crate) time: Time,
    pub(crate) gathering: Gathering,
    pub(crate) flights: VecDeque<Flight>,
    pub(crate) reads: Reads,
    pub(crate) loads: Loads,
    pub(crate) writeback: Writeback,
    pub(crate) cutting: Cutting,
    pub(crate) upkeep: Upkeep,
    pub(crate) touch: Touch,
    pub(crate) evictor: Evictor,
    writes: Writes,
    led_term: u64,
    stopped: bool,
}

/// The replica in numbers, for `status`.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub leader: Option<u64>,
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
    /// Begins with what the disk held: the records of the snapshot, and the log behind it.
    #[must_use]
    pub fn new(options: Options, records: Records, restored: Restored) -> Self {
        let group_options = GroupOptions {
            id: options.node.0,
            shard: options.shard.0,
            incarnation: options.incarnation,
            seed: options.seed,
        };
        let (applied, applied_term) = (restored.snapshot.index, restored.snapshot.term);
        let log_bytes = restored.entries.iter().map(|entry| entry.data.len() as u64).sum();
        #[cfg(feature = "mutants")]
        let records = records.with_mutant(options.mutant);
        Self {
            options,
            group: Group::new(group_options, restored),
            records,
            applied,
            applied_term,
            time: Time::default(),
            gathering: Gathering::default(),
            flights: VecDeque::new(),
            reads: Reads::new(options.incarnation),
            loads: Loads::default(),
            writeback: Writeback::default(),
            cutting: Cutting::new(applied, log_bytes),
            upkeep: Upkeep::default(),
            touch: Touch::default(),
            evictor: Evictor::new(options.memory),
            writes: Writes::default(),
            led_term: 0,
            stopped: false,
        }
    }

    #[must_use]
    pub fn shard(&self) -> ShardId {
        self.options.shard
    }

    #[must_use]
    pub fn interval(&self) -> Interval {
        self.options.interval
    }

    #[must_use]
    pub fn records(&self) -> &Records {
        &self.records
    }

    #[must_use]
    pub fn applied(&self) -> u64 {
        self.applied
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
    pub fn status(&self) -> Status {
        Status {
            leader: self.group.leader(),
            is_serving: self.is_serving(),
            is_suspended: self.records.is_suspended(),
            term: self.group.term(),
            applied: self.applied,
            committed: self.group.commit(),
            snapshot: self.cutting.saved_index(),
            records: self.records.live_count(None),
            bytes: self.records.bytes(),
            dirty: self.records.dirty_count(),
            queued: self.writeback.queued(),
        }
    }

    /// A leader serves once an entry of its own term is applied: before that it may not know what is committed
    /// (record-cache 76).
    #[inline]
    #[must_use]
    pub fn is_serving(&self) -> bool {
        !self.stopped && self.applied_term == self.group.term() && self.group.role() == Role::Leader
    }

    /// Whether this replica has looked over what it leads. Only then does it queue rows for SQL: a follower would never
    /// empty that queue, and whoever takes over begins with all dirty rows anyway (record-cache 84).
    pub(crate) fn has_taken_over(&self) -> bool {
        self.led_term != 0
    }

    /// The stamp for what is proposed now: never below one that was applied, whatever the wall clock does.
    pub(crate) fn stamp(&self) -> Timestamp {
        self.time.wall.max(self.records.clock())
    }

    /// Tells the time without letting timers run; cheap enough for every turn.
    pub fn set_time(&mut self, time: Time) {
        self.time = time;
    }

    /// One step of the group's timers, and upkeep.
    pub fn tick(&mut self, time: Time, actions: &mut Actions) {
        if self.stopped {
            return;
        }
        self.time = time;
        self.group.tick();
        self.drain(actions);
        self.fail_overdue(actions);
        self.end_overdue_waits(actions);
        // A follower may ask for a snapshot while nothing is written.
        self.cut_if_due();
        self.run_upkeep();
        self.drain(actions);
        self.write_back(actions);
        self.purge_in_sql(actions);
        self.try_kicks(actions);
        self.drain(actions);
    }

    /// Stands for election at once, for a group of one.
    pub fn campaign(&mut self, actions: &mut Actions) {
        self.group.campaign();
        self.drain(actions);
    }

    pub fn step(&mut self, message: Message, actions: &mut Actions) {
        if self.stopped {
            return;
        }
        self.step_group(message);
        self.drain(actions);
    }

    /// The host has this log write, and all before it, on disk.
    pub fn persisted(&mut self, number: u64, actions: &mut Actions) {
        if self.stopped {
            return;
        }
        self.writes.confirm(number, &mut self.group, &mut actions.messages);
        self.drain(actions);
    }

    /// Proposes a change. The answer comes under `caller`, in order of application; where the table is written through,
    /// when SQL has it.
    #[inline]
    pub fn submit(&mut self, caller: Caller, request: &Request<'_>, actions: &mut Actions) {
        self.submit_with(caller, request, Ack::default(), actions);
    }

    /// The same for a change that says when it wants to be answered.
    #[inline]
    pub fn submit_with(&mut self, caller: Caller, request: &Request<'_>, ack: Ack, actions: &mut Actions) {
        self.take(caller, request, self.wish(ack), actions);
    }

    #[inline]
    pub(crate) fn take(&mut self, caller: Caller, request: &Request<'_>, wish: Wish, actions: &mut Actions) {
        if let Some(code) = self.refusal(request) {
            actions.answers.push((caller, Answer::Failed(code)));
            return;
        }
        let hold = self.hold_for(request, wish);
        if hold.is_some() && self.writeback.waits.len() >= limits::SQL_WAITS_MAX {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::Busy)));
        }
        if self.park_if_not_resident(caller, request, wish, actions) {
            return;
        }
        if self.evictor.is_watching() {
            request.rows().for_each(|row| self.evictor.touch(row));
        }
        self.gathering.add(self.stamp(), caller, request, hold);
    }

    #[inline]
    fn refusal(&self, request: &Request<'_>) -> Option<ErrorCode> {
        if !self.is_serving() {
            return Some(self.absent_leader());
        }
        if self.records.is_suspended() {
            return Some(ErrorCode::Suspended);
        }
        if self.gathering.is_full() {
            return Some(ErrorCode::Busy);
        }
        if self.is_above_hard_limit() && self.would_dirty_more(request) {
            return Some(ErrorCode::DirtyLimit);
        }
        let mut rows = request.rows();
        let strays = rows.any(|row| !self.options.interval.contains(row.position()));
        strays.then_some(ErrorCode::StaleRoute)
    }

    /// Proposes what has gathered. The host calls it when its log is free to take the next write.
    pub fn flush(&mut self, actions: &mut Actions) {
        self.start_read_round();
        self.propose_news();
        while let Some(entry) = self.gathering.take() {
            match self.group.propose(entry.bytes) {
                Some(proposed) => self.flights.push_back(Flight {
                    proposed,
                    since_ms: self.time.monotonic_ms,
                    callers: entry.callers,
                    holds: entry.holds,
                    touched: entry.touched,
                    then: Then::Answer,
                }),
                None => fail(actions, entry.callers, ErrorCode::NotLeader),
            }
        }
        self.drain(actions);
    }

    /// Whether there is something for [`Replica::flush`] to do.
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        !self.gathering.is_empty() || self.reads.wants_round() || self.loads.has_news()
    }

    /// Proposes an entry of the replica's own making.
    pub(crate) fn propose(&mut self, entry: &Entry<'_>, callers: Vec<Caller>, then: Then) -> bool {
        self.propose_bytes(entry.to_bytes(), callers, then)
    }

    /// The same for an entry that borrowed from the records while it was made.
    pub(crate) fn propose_bytes(&mut self, bytes: Vec<u8>, callers: Vec<Caller>, then: Then) -> bool {
        let Some(proposed) = self.group.propose(bytes) else { return false };
        let since_ms = self.time.monotonic_ms;
        let (holds, touched) = Default::default();
        self.flights.push_back(Flight { proposed, since_ms, callers, holds, touched, then });
        true
    }

    /// Proposes an entry that somebody waits for (a definition, an emptied table, a suspension).
    pub fn propose_for(&mut self, caller: Caller, entry: &Entry<'_>, actions: &mut Actions) {
        if !self.is_serving() || !self.propose(entry, vec![caller], Then::Answer) {
            actions.answers.push((caller, Answer::Failed(ErrorCode::NotLeader)));
        }
        self.drain(actions);
    }

    /// Takes everything the group has ready: sends, writes, applies.
    pub(crate) fn drain(&mut self, actions: &mut Actions) {
        while !self.stopped {
            let Some(mut ready) = self.group.ready() else { break };
            actions.messages.append(&mut ready.messages);
            if let Some((meta, data)) = &ready.snapshot {
                self.install(meta.clone(), data.clone(), actions);
            }
            if ready.must_sync || ready.snapshot.is_some() {
                self.cutting.count_log(&ready.entries);
            }
            let shard = self.options.shard;
            self.writes.take(shard, &mut ready, &mut self.group, &mut actions.persists, &mut actions.messages);
            #[cfg(feature = "mutants")]
            self.answer_before_sync(ready.number, actions);
            for entry in ready.committed {
                self.apply(entry, actions);
                if self.stopped {
                    return;
                }
            }
            for done in ready.reads {
                self.reads.confirm(done);
            }
            self.answer_confirmed_reads(actions);
            self.notice_role(actions);
        }
    }

    #[cfg(feature = "mutants")]
    fn answer_before_sync(&mut self, number: u64, actions: &mut Actions) {
        if self.options.mutant == Some(shardine_records::Mutant::AnswerBeforeSync) {
            self.writes.confirm_newest_too_early(number, &mut self.group, &mut actions.messages);
        }
    }

    /// A new leader looks over what it has taken on; a deposed one lets go of what only a leader may do.
    fn notice_role(&mut self, actions: &mut Actions) {
        if self.is_serving() {
            if self.led_term != self.group.term() {
                self.led_term = self.group.term();
                let left = self.writeback.take_over(self.records.dirty_rows(), self.time.monotonic_ms);
                fail(actions, left, ErrorCode::NotLeader);
                self.finish_waits(actions);
                self.loads.take_over();
            }
        } else if self.led_term != 0 && self.group.role() != Role::Leader {
            self.led_term = 0;
            self.step_down(actions);
        }
    }

    /// What was not yet proposed was certainly not executed; what was proposed may yet be applied, and is answered then.
    fn step_down(&mut self, actions: &mut Actions) {
        while let Some(entry) = self.gathering.take() {
            fail(actions, entry.callers, ErrorCode::NotLeader);
        }
        fail(actions, self.reads.give_up(), ErrorCode::NotLeader);
        fail(actions, self.loads.give_up(), ErrorCode::NotLeader);
        fail(actions, self.writeback.let_go(), ErrorCode::NotLeader);
        actions.answers.extend(self.writeback.waits.give_up());
    }

    /// A proposal whose fate stays open after the leadership is gone is in doubt (record-cache 34).
    fn fail_overdue(&mut self, actions: &mut Actions) {
        if self.group.role() == Role::Leader {
            return;
        }
        let now = self.time.monotonic_ms;
        for flight in &mut self.flights {
            if now.saturating_sub(flight.since_ms) > IN_DOUBT_AFTER_MS {
                fail(actions, std::mem::take(&mut flight.callers), ErrorCode::InDoubt);
            }
        }
    }

    pub(crate) fn stop(&mut self, reason: String, actions: &mut Actions) {
        self.stopped = true;
        let waiting = self.flights.drain(..).flat_map(|flight| flight.callers).collect();
        fail(actions, waiting, ErrorCode::InDoubt);
        self.step_down(actions);
        actions.stop = Some(format!("shard {} stopped: {reason}", self.options.shard));
    }

    /// A snapshot does not tell whether it holds what this replica had proposed at the places that it covers.
    fn lose_sight_of_flights(&mut self, actions: &mut Actions) {
        let flights = std::mem::take(&mut self.flights).into_iter();
        let (covered, ahead): (Vec<_>, Vec<_>) = flights.partition(|flight| flight.proposed.index <= self.applied);
        self.flights = ahead.into();
        for flight in covered {
            fail(actions, flight.callers, ErrorCode::InDoubt);
            self.upkeep.clear(&flight.then);
        }
    }

    /// Takes the leader's snapshot in place of everything this replica has applied.
    fn install(&mut self, meta: shardine_model::log::SnapshotMeta, data: Bytes, actions: &mut Actions) {
        match self.restore_from_peer(&meta, &data) {
            Ok(()) => {
                (self.applied, self.applied_term) = (meta.index, meta.term);
                self.lose_sight_of_flights(actions);
            }
            Err(error) => self.stop(format!("a snapshot from the leader cannot be read: {error}"), actions),
        }
    }
}

/// How long a deposed leader's callers wait for news of their proposals.
const IN_DOUBT_AFTER_MS: u64 = 3_000;

pub(crate) fn fail(actions: &mut Actions, callers: Vec<Caller>, code: ErrorCode) {
    actions.answers.extend(callers.into_iter().map(|caller| (caller, Answer::Failed(code))));
}
