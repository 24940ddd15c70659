//! Reads that may be a little old (records 36): any replica answers at once, from what it has applied, if that is not older
//! than the reader accepts. Its age counts, by this replica's own clock, from a moment at which what it has applied was
//! certainly all that was committed anywhere ([`crate::freshness`]).

use shardine_consensus::{Message, Pulse, Role};
use shardine_model::{ErrorCode, ReplicaId, RowKey};
use shardine_records::Lookup;

use crate::actions::Actions;
use crate::replica::Replica;

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
            // Whoever leads can find out, and nobody else could answer more truly.
            return if self.is_serving() { ReadStale::Later } else { ReadStale::Refused(self.absent_leader()) };
        }
        if self.records.is_suspended() {
            return ReadStale::Refused(ErrorCode::Suspended);
        }
        if !self.records.bounds().contains(row.position(), row) {
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
        self.as_of_ms().is_some_and(|as_of_ms| self.time.monotonic_ms.saturating_sub(as_of_ms) <= max_age_ms)
    }

    /// Whether this replica has had, at some moment since its start, all that was committed then.
    #[must_use]
    pub fn has_caught_up(&self) -> bool {
        self.as_of_ms().is_some()
    }

    /// As of when what this replica has applied was all that was committed anywhere, if that is known.
    fn as_of_ms(&self) -> Option<u64> {
        // What it has applied was once all that was committed, and it has made something else of it.
        if self.member.group.is_aside() {
            return None;
        }
        match self.member.group.role() {
            // Followers may have applied what its own disk does not hold yet.
            Role::Leader if self.is_serving() && self.applied() < self.member.group.commit() => {
                self.freshness.of_follower_ms(self.applied())
            }
            Role::Leader if self.is_serving() => self.followed_ms(),
            Role::Leader => None,
            Role::Follower | Role::Candidate => self.freshness.of_follower_ms(self.applied()),
        }
    }

    /// Until when a majority certainly followed this leader.
    fn followed_ms(&self) -> Option<u64> {
        let now_ms = self.time.monotonic_ms;
        if self.member.group.is_alone() {
            return Some(now_ms);
        }
        self.freshness.of_leader_ms(self.options.replica, self.term(), self.member.group.membership(), now_ms)
    }

    /// Steps the group, and notes what the message says of time.
    pub(crate) fn step_group(&mut self, message: Message) {
        let (from, term, committed, stamps) = (message.from(), message.term(), message.committed(), message.stamps());
        self.member.group.step(message);
        self.freshness.hear(from, stamps);
        if term != self.term() {
            return;
        }
        match committed {
            #[cfg(feature = "mutants")]
            Some(committed) if self.options.mutant == Some(shardine_records::Mutant::StaleByTouch) => {
                self.freshness.note_leader(committed.min(self.applied()), self.time.monotonic_ms);
            }
            Some(committed) => self.freshness.hear_leader(committed, stamps),
            None if self.member.leads() => self.freshness.hear_follower(from, term, stamps),
            None => {}
        }
    }

    /// What this leader tells the nodes of its followers when it has nothing else to say to them, and how long before a
    /// majority certainly followed it.
    #[must_use]
    pub fn pulse(&self) -> Option<(Pulse, u64)> {
        let followed_ms = self.followed_ms().filter(|_| self.is_serving())?;
        Some((self.member.group.pulse()?, self.time.monotonic_ms.saturating_sub(followed_ms)))
    }

    /// Takes what a leader told by a pulse of its node. `as_of_ms`, by this replica's clock, is not later than the moment as of
    /// which a majority followed it: the host knows what its peers had heard when they sent a pulse.
    pub fn hear_pulse(&mut self, pulse: Pulse, as_of_ms: u64) {
        if pulse.term == self.term() {
            self.freshness.note_leader(pulse.committed, as_of_ms);
        }
    }

    /// The same for a leader: a follower of a group that sleeps followed in this term at that moment.
    pub fn hear_sleeper(&mut self, follower: ReplicaId, term: u64, as_of_ms: u64) {
        if term == self.term() && self.member.leads() {
            self.freshness.note_follower(follower, term, as_of_ms);
        }
    }

    /// Puts this replica's time on what it sends.
    pub(crate) fn stamp_messages(&mut self, actions: &mut Actions) {
        if actions.messages.is_empty() {
            return;
        }
        self.freshness.note_applied(self.applied());
        let now_ms = self.time.monotonic_ms;
        let followed_ms = if self.member.leads() { self.followed_ms() } else { None };
        let age_ms = followed_ms.map(|followed_ms| now_ms.saturating_sub(followed_ms));
        // What it tells the others holds for itself, too.
        if let Some(followed_ms) = followed_ms.filter(|_| self.is_serving()) {
            self.freshness.note_leader(self.member.group.commit(), followed_ms);
        }
        // Those before them were sent in an earlier turn.
        for message in actions.messages.iter_mut().rev().take_while(|message| message.stamps().sent == 0) {
            message.stamp(self.freshness.stamps(message.to(), now_ms, age_ms));
        }
    }
}
