//! The lease: who may write to SQL. Saves useless work; correctness rests on the version fence alone (write-back 82).

use shardine_model::{Entry, ReplicaId};

use crate::gather::Then;
use crate::replica::Replica;

/// How long others wait after applying a lease, and how long its holder trusts it, counted from before it asked.
pub const LEASE_LENGTH_MS: u64 = 10_000;
pub const LEASE_TRUST_MS: u64 = 5_000;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lease {
    trusted_until_ms: u64,
    /// Since when it has been this replica's, without another's in between.
    held_since_ms: Option<u64>,
    /// When another's lease was first seen by this replica's clock.
    foreign_since: Option<(ReplicaId, u64, u64)>,
}

impl Lease {
    pub fn granted(&mut self, asked_ms: u64) {
        self.trusted_until_ms = asked_ms + LEASE_TRUST_MS;
        self.held_since_ms.get_or_insert(asked_ms);
    }

    pub fn is_held(&self, now_ms: u64) -> bool {
        now_ms < self.trusted_until_ms
    }

    /// Until when the holder may begin a write.
    pub fn trusted_until_ms(&self) -> u64 {
        self.trusted_until_ms
    }

    /// What the holder knows of it, for the replica beside it that holds the same lease of another shard.
    pub fn passed(&self) -> Option<Self> {
        self.held_since_ms.map(|_| Self { foreign_since: None, ..*self })
    }

    pub fn let_go(&mut self) {
        self.trusted_until_ms = 0;
        self.held_since_ms = None;
    }

    pub fn held_since_ms(&self) -> Option<u64> {
        self.held_since_ms
    }
}

impl Replica {
    /// Asks for the lease when there is something to write and the old one is over (write-back 77-80).
    pub(crate) fn pursue_lease(&mut self) {
        let now = self.time.monotonic_ms;
        if !self.is_serving() || self.is_handing_over() || self.upkeep.leasing || !self.wants_lease() {
            return;
        }
        // Renewed when half of the trust is used up, so that writing never pauses.
        if self.writeback.lease.is_held(now + LEASE_TRUST_MS / 2) || !self.lease_is_free(now) {
            return;
        }
        let (holder, term) = (self.options.replica, self.term());
        let entry = Entry::Lease { holder, term, length_ms: LEASE_LENGTH_MS };
        self.upkeep.leasing = self.propose(&entry, Vec::new(), Then::Leased { asked_ms: now });
    }

    /// Whether it may begin statements at this moment of its clock.
    #[must_use]
    pub fn trusts_lease(&self, monotonic_ms: u64) -> bool {
        self.writeback.lease.is_held(monotonic_ms)
    }

    fn lease_is_free(&mut self, now: u64) -> bool {
        #[cfg(feature = "mutants")]
        if self.options.mutant == Some(shardine_records::Mutant::LeaseNotWaitedFor) {
            return true;
        }
        let Some(lease) = self.records.lease().filter(|lease| lease.holder != self.options.replica) else {
            return true;
        };
        let seen = match self.writeback.lease.foreign_since {
            Some((holder, term, since)) if (holder, term) == (lease.holder, lease.term) => since,
            _ => {
                self.writeback.lease.foreign_since = Some((lease.holder, lease.term, now));
                now
            }
        };
        now >= seen + lease.length_ms
    }
}
