//! Reads that may be a little old (records 36): any replica in touch answers at once, from what it has applied.
//!
//! In touch means: it has heard from its leader, or as leader from a majority, within the age that the reader accepts, by
//! its own clock, and has applied everything that it was told is committed. The time that a message took to arrive is not
//! known and not counted.

use std::collections::BTreeMap;

use shardine_consensus::{Message, Role};
use shardine_model::{ErrorCode, ReplicaId, RowKey};
use shardine_records::Lookup;

use crate::replica::Replica;

/// Whom this replica has heard from, and what it was told.
#[derive(Debug, Default)]
pub(crate) struct Touch {
    term: u64,
    /// By replica, in the present term.
    heard_ms: BTreeMap<ReplicaId, u64>,
    /// The newest entry that a leader called committed.
    committed: u64,
}

/// What a read with a bound on its age finds.
#[derive(Debug)]
pub enum ReadStale<'a> {
    /// The row as this replica has it, after applying exactly the entries up to `applied`.
    Found {
        row: Lookup<'a>,
        applied: u64,
    },
    /// Memory alone cannot tell, and this replica leads: ask with [`Replica::read`].
    Later,
    Refused(ErrorCode),
}

impl Replica {
    /// Reads a row on the spot, without asking anybody. A change on its way to the row is not waited for.
    #[must_use]
    pub fn read_stale(&self, row: RowKey<'_>, max_age_ms: u64) -> ReadStale<'_> {
        if !self.is_in_touch(max_age_ms) {
            return ReadStale::Refused(self.absent_leader());
        }
        if self.records.is_suspended() {
            return ReadStale::Refused(ErrorCode::Suspended);
        }
        if !self.records.interval().contains(row.position()) {
            return ReadStale::Refused(ErrorCode::StaleRoute);
        }
        let (found, leads) = (self.records.get(row.position(), row), self.is_serving());
        match found {
            Lookup::NotResident if leads => ReadStale::Later,
            Lookup::NotResident => ReadStale::Refused(self.absent_leader()),
            Lookup::UnknownTable => ReadStale::Refused(ErrorCode::UnknownTable),
            // Its end is decided by an entry, and the leader is who can propose one.
            Lookup::Live(view) if leads && view.expires_at.is_some_and(|at| at <= self.stamp()) => ReadStale::Later,
            Lookup::Live(_) | Lookup::Absent { .. } => ReadStale::Found { row: found, applied: self.applied() },
        }
    }

    pub(crate) fn absent_leader(&self) -> ErrorCode {
        if self.member.group.leader().is_some() { ErrorCode::NotLeader } else { ErrorCode::NoLeader }
    }

    fn is_in_touch(&self, max_age_ms: u64) -> bool {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(shardine_records::Mutant::StaleWithoutBound) {
            return true;
        }
        let is_fresh = |replica: ReplicaId| {
            let now = self.time.monotonic_ms;
            self.touch.heard_ms.get(&replica).is_some_and(|heard| now.saturating_sub(*heard) <= max_age_ms)
        };
        match self.member.group.role() {
            Role::Leader if self.member.group.is_alone() => self.is_serving(),
            Role::Leader => {
                let own = self.options.replica;
                let has_quorum = self.member.group.membership().is_quorum(|voter| voter == own || is_fresh(voter));
                self.is_serving() && self.touch.term == self.term() && has_quorum
            }
            Role::Follower => {
                let is_told = self.touch.term == self.term() && self.applied() >= self.touch.committed;
                is_told && self.member.group.leader().is_some_and(is_fresh)
            }
            Role::Candidate => false,
        }
    }

    /// Steps the group and notes who was heard.
    pub(crate) fn step_group(&mut self, message: Message) {
        let (from, term, committed) = (message.from(), message.term(), message.commit());
        self.member.group.step(message);
        let is_leader = self.member.group.leader() == Some(from);
        if term != self.term() || !(is_leader || self.member.group.role() == Role::Leader) {
            return;
        }
        if self.touch.term != term {
            self.touch.term = term;
            self.touch.heard_ms.clear();
        }
        self.touch.heard_ms.insert(from, self.time.monotonic_ms);
        if is_leader {
            self.touch.committed = self.touch.committed.max(committed);
        }
    }
}
