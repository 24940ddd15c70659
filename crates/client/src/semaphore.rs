//! Semaphores as requests name them and descriptions show them.

use std::time::Duration;

use shardine_proto::ydb::coordination::{SemaphoreDescription, SemaphoreSession};

/// Waits for ever, on the wire.
const FOREVER: u64 = u64::MAX;

/// How to acquire: how many tokens, how long to wait, and what others are to read beside this owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    pub(crate) count: u64,
    pub(crate) timeout: Option<Duration>,
    pub(crate) data: Vec<u8>,
    pub(crate) ephemeral: bool,
}

impl Acquire {
    /// So many tokens, however long it takes.
    #[must_use]
    pub fn tokens(count: u64) -> Self {
        Self { count, timeout: None, data: Vec::new(), ephemeral: false }
    }

    /// One token.
    #[must_use]
    pub fn shared() -> Self {
        Self::tokens(1)
    }

    /// All tokens of an ephemeral semaphore, or of one whose limit is `u64::MAX`.
    #[must_use]
    pub fn exclusive() -> Self {
        Self::tokens(u64::MAX)
    }

    /// The semaphore is made by the first acquire and goes with the last owner.
    #[must_use]
    pub fn ephemeral(self) -> Self {
        Self { ephemeral: true, ..self }
    }

    /// Waits so long at most. Zero takes what is free now or nothing.
    #[must_use]
    pub fn within(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Shown to whoever describes the semaphore: an endpoint, a name.
    #[must_use]
    pub fn data(self, data: impl Into<Vec<u8>>) -> Self {
        Self { data: data.into(), ..self }
    }

    pub(crate) fn timeout_millis(&self) -> u64 {
        self.timeout.map_or(FOREVER, millis)
    }
}

/// Rounded up, so that a wait of less than a millisecond is still a wait.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(FOREVER)
}

/// Which semaphores a delete takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delete {
    /// Only one that nobody holds or waits for.
    Idle,
    /// Owners lose it without a word, waiters hear ABORTED.
    Force,
}

/// What a description includes beside the semaphore itself. Both lists may be long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Include {
    /// Who holds it.
    pub owners: bool,
    /// Who waits for it.
    pub waiters: bool,
}

/// Which changes a watch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Its data.
    pub data: bool,
    /// Who holds it.
    pub owners: bool,
}

impl Watch {
    /// Changes of its data.
    pub const DATA: Self = Self { data: true, owners: false };
    /// Changes of who holds it.
    pub const OWNERS: Self = Self { data: false, owners: true };
    /// Either.
    pub const BOTH: Self = Self { data: true, owners: true };
}

/// Why a watch has fired. Both are set when the semaphore is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Its data.
    pub data: bool,
    /// Who holds it.
    pub owners: bool,
}

impl Change {
    /// Nothing is known to have changed, but something may have without notice: the connection was lost, the leader
    /// changed, or a newer watch took the place of this one. Describe again.
    #[must_use]
    pub fn is_spurious(self) -> bool {
        !self.data && !self.owners
    }
}

/// A semaphore as it was described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Semaphore {
    /// What it is called at its node.
    pub name: String,
    /// What whoever made or updated it left with it.
    pub data: Vec<u8>,
    /// Tokens there are.
    pub limit: u64,
    /// Tokens that are held.
    pub count: u64,
    /// Gone with its last owner.
    pub ephemeral: bool,
    /// Who holds it, if asked for.
    pub owners: Vec<Claim>,
    /// In the order in which they will be served.
    pub waiters: Vec<Claim>,
}

/// An owner or a waiter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Grows for the life of the node with every acquire that takes a new place: a fencing token.
    pub order_id: u64,
    /// Whose it is.
    pub session_id: u64,
    /// Tokens held or waited for.
    pub count: u64,
    /// What the claimant shows.
    pub data: Vec<u8>,
    /// How long a waiter waits at most; `None` for ever, and for owners.
    pub timeout: Option<Duration>,
}

impl From<SemaphoreDescription> for Semaphore {
    fn from(found: SemaphoreDescription) -> Self {
        Self {
            name: found.name,
            data: found.data,
            limit: found.limit,
            count: found.count,
            ephemeral: found.ephemeral,
            owners: found.owners.into_iter().map(|claim| Claim { timeout: None, ..Claim::from(claim) }).collect(),
            waiters: found.waiters.into_iter().map(Claim::from).collect(),
        }
    }
}

impl From<SemaphoreSession> for Claim {
    fn from(claim: SemaphoreSession) -> Self {
        Self {
            order_id: claim.order_id,
            session_id: claim.session_id,
            count: claim.count,
            data: claim.data,
            timeout: (claim.timeout_millis != FOREVER).then(|| Duration::from_millis(claim.timeout_millis)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_wait_is_not_rounded_to_none() {
        assert_eq!(Acquire::shared().timeout_millis(), u64::MAX);
        assert_eq!(Acquire::shared().within(Duration::ZERO).timeout_millis(), 0);
        assert_eq!(Acquire::shared().within(Duration::from_micros(1)).timeout_millis(), 1);
        assert_eq!(Acquire::shared().within(Duration::from_millis(7)).timeout_millis(), 7);
    }
}
