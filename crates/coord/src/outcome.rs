//! What comes of a command: one outcome for whoever sent it, and notices about everybody else it touched.

use crate::config::Config;
use crate::ids::{NodeNumber, OrderId, ResourceId, SemaphoreId, SessionId};
use crate::status::Refusal;

/// The answer to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Attached {
        node: NodeNumber,
        session: SessionId,
        is_new: bool,
    },
    /// The tokens are held.
    Acquired,
    /// Not now, and it did not want to wait.
    NotAcquired,
    Queued {
        semaphore: SemaphoreId,
        order: OrderId,
        revision: u32,
        timeout_ms: u64,
    },
    /// Whether there was anything to release.
    Released(bool),
    Refused(Refusal),
}

/// One session's claim on one semaphore, held or waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimRef {
    pub node: NodeNumber,
    pub semaphore: SemaphoreId,
    pub order: OrderId,
}

/// Something that somebody other than the sender may want to hear. The state does not know who listens; the leader does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A waiter has become an owner.
    Granted(ClaimRef),
    /// A waiter's request was replaced, released, or lost its semaphore: that request ends with ABORTED.
    Aborted(ClaimRef),
    /// A waiter waited long enough.
    TimedOut(ClaimRef),
    /// A waiter went away with its session; nobody is told.
    Withdrawn(ClaimRef),
    DataChanged {
        node: NodeNumber,
        semaphore: SemaphoreId,
    },
    OwnersChanged {
        node: NodeNumber,
        semaphore: SemaphoreId,
    },
    SemaphoreGone {
        node: NodeNumber,
        semaphore: SemaphoreId,
    },
    SessionGone {
        node: NodeNumber,
        session: SessionId,
    },
    NodeGone {
        node: NodeNumber,
    },
    ResourceMade {
        node: NodeNumber,
        resource: ResourceId,
    },
    /// Its settings are others now.
    ResourceAltered {
        node: NodeNumber,
        resource: ResourceId,
    },
    ResourceGone {
        node: NodeNumber,
        resource: ResourceId,
    },
}

/// A semaphore as a client sees it (coordination 110-113).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub name: String,
    pub data: Vec<u8>,
    pub limit: u64,
    pub count: u64,
    pub ephemeral: bool,
    pub owners: Vec<ClaimLine>,
    pub waiters: Vec<ClaimLine>,
}

/// An owner or a waiter in a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimLine {
    pub order: OrderId,
    pub session: SessionId,
    /// 0 for owners.
    pub timeout_ms: u64,
    pub count: u64,
    pub data: Vec<u8>,
}

/// A session in a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLine {
    pub id: SessionId,
    pub timeout_ms: u64,
    pub description: String,
    /// Semaphores that it holds or waits for.
    pub claims: u64,
}

/// A semaphore in a list of them: the first of its claims, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SemaphoreLine {
    pub description: Description,
    pub owners: u64,
    pub waiters: u64,
}

/// Which semaphores of a node a list is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range<'a> {
    All,
    After(&'a str),
    Named(&'a str),
}

/// A node in a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLine {
    pub path: String,
    pub config: Config,
    pub sessions: u64,
    pub semaphores: u64,
}
