//! Which rows must go to SQL, who may send them, and who waits for it. Knows no SQL.
//!
//! A row is dirty while its version differs from the one SQL is known to hold; both are replicated. The queues here only
//! remember which rows to look at, and only a leader has them. The leader writes under a lease, one batch of a table at a
//! time; `Written` entries report back through the log, so a new leader writes only what is really dirty. A table that SQL
//! refuses waits by itself and holds up nobody else.

// In the order in which a newcomer should read them.
mod lease;
mod queue;
mod inherited;
mod send;
mod settle;

mod dead_letters;
mod waits;
mod kicks;
mod purge;
mod family;

mod pressure;
mod trouble;
mod status;

use std::collections::BTreeMap;

use shardine_model::{RowKey, RowKeyBuf, TableId, Version};

use crate::actions::{Caller, Time};
use inherited::Inherited;
use kicks::Kicks;
use lease::Lease;
pub use lease::{LEASE_LENGTH_MS, LEASE_TRUST_MS};
pub use pressure::DirtyLimits;
use purge::Purges;
use queue::Queue;
pub(crate) use queue::Urgency;
use settle::Settling;
pub use status::TableStatus;
pub(crate) use trouble::{Health, Pause};
use waits::Waits;

/// What a leader knows of the way to SQL. A follower's is empty.
#[derive(Debug, Default)]
pub(crate) struct Writeback {
    pub lease: Lease,
    tables: BTreeMap<TableId, Queue>,
    /// `None` when all rows that were dirty at the take-over have been found.
    inherited: Option<Inherited>,
    health: Health,
    pub waits: Waits,
    kicks: Kicks,
    settling: Settling,
    purges: Purges,
    /// Of a replica that was born beside a holder, until it takes over.
    passed_lease: Option<Lease>,
}

/// What the leader of a shard knows that goes with rows to another one.
#[derive(Debug)]
pub(crate) struct Passed {
    pub time: Time,
    waits: Waits,
    lease: Option<Lease>,
}

impl Writeback {
    /// Parts what is known here of rows that are another shard's now. Marks of theirs are left behind: nothing is found there any
    /// more, and whoever takes them over begins with all that are dirty.
    pub fn pass(
        &mut self,
        time: Time,
        holds_lease: bool,
        is_other: impl Fn(RowKey<'_>) -> bool,
    ) -> (Passed, Vec<Caller>) {
        let (waits, asked) = self.waits.part(is_other);
        let lease = self.lease.passed().filter(|_| holds_lease);
        (Passed { time, waits, lease }, asked)
    }

    /// Begins with what was passed on. Its holder trusts the lease as long as the one before did (sharding R-9).
    pub fn inherit(&mut self, passed: Passed) {
        self.waits = passed.waits;
        self.passed_lease = passed.lease;
    }

    /// Those who wait for something that may concern another shard now.
    pub fn send_away(&mut self) -> Vec<Caller> {
        let mut callers: Vec<Caller> = self.kicks.send_away().collect();
        callers.extend(self.settling.give_up());
        callers
    }

    /// Marks a row for a look (write-back 88).
    pub fn mark(&mut self, row: RowKey<'_>, now_ms: u64) {
        self.tables.entry(row.table).or_default().mark(row, now_ms);
    }

    pub fn hurry(&mut self, row: RowKeyBuf, now_ms: u64) {
        self.tables.entry(row.table).or_default().hurry(row, now_ms);
    }

    /// Marks a row of which somebody waits for this version, which is the newest there is.
    pub fn hurry_version(&mut self, row: RowKeyBuf, version: Version, now_ms: u64) {
        let queue = self.tables.entry(row.table).or_default();
        if !queue.hurry_sent(&row, version) {
            queue.hurry(row, now_ms);
        }
    }

    /// Calls all dirty rows of a table, with the version that somebody waits for.
    pub fn call_version(&mut self, row: &RowKeyBuf, version: Version, now_ms: u64) {
        let queue = self.tables.entry(row.table).or_default();
        queue.call(now_ms);
        if !queue.heeds_calls(row) && !queue.hurry_sent(row, version) {
            queue.hurry(row.clone(), now_ms);
        }
    }

    /// A new leader begins to look for dirty rows (write-back 84). Gives back who waited in an older term; whoever waits
    /// for SQL goes on waiting.
    pub fn take_over(&mut self, now_ms: u64, is_holder: bool) -> Vec<Caller> {
        let passed = self.passed_lease.take().filter(|_| is_holder);
        let left = self.let_go();
        self.lease = passed.unwrap_or(self.lease);
        self.inherited = Some(Inherited::since(now_ms));
        let awaited: Vec<RowKeyBuf> = self.waits.rows().into_iter().cloned().collect();
        awaited.into_iter().for_each(|row| self.hurry(row, now_ms));
        left
    }

    pub fn queued(&self) -> u64 {
        self.tables.values().map(|queue| queue.len() as u64).sum()
    }

    /// Whether SQL has been sent something of which nothing was heard yet.
    pub fn is_under_way(&self) -> bool {
        self.tables.values().any(|queue| queue.under_way() > 0) || self.purges.are_under_way()
    }

    /// Forgets what only a leader may know, and gives back whose wish cannot be done here any more.
    pub fn let_go(&mut self) -> Vec<Caller> {
        self.lease.let_go();
        self.tables.clear();
        self.inherited = None;
        self.health = Health::default();
        self.purges = Purges::default();
        let mut callers = self.kicks.give_up();
        callers.extend(self.settling.give_up());
        callers
    }

    pub fn begin_kick(&mut self, row: RowKeyBuf) -> bool {
        self.kicks.begin(row)
    }

    /// Whether the row is being deleted in SQL, and will be forgotten after that.
    pub fn is_purging(&self, row: RowKey<'_>) -> bool {
        self.purges.holds(row)
    }

    /// Whether a kick of the row is on its way through the log.
    #[inline]
    pub fn is_kicking(&self, row: RowKey<'_>) -> bool {
        self.kicks.is_kicking(row)
    }
}
