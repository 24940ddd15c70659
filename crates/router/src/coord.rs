//! What doors may look at in coordination. Changes do not come this way: they belong to a session, and sessions to the door
//! for YDB's SDKs.

use shardine_model::NodeId;

/// Looks at this replica's own state, which may be a moment old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordLook {
    Nodes,
    /// In the order of their numbers.
    Sessions {
        node: String,
        after: u64,
        limit: usize,
    },
    /// In the order of their names, or the one of this name.
    Semaphores {
        node: String,
        which: SemaphoreRange,
        limit: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SemaphoreRange {
    All,
    After(String),
    Named(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordView {
    Nodes(Vec<CoordNode>),
    Sessions(Vec<CoordSession>),
    Semaphores(Vec<CoordSemaphore>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoordNode {
    pub path: String,
    /// Periods as they are used, not as they were sent.
    pub self_check_ms: u64,
    pub grace_ms: u64,
    pub strict_reads: bool,
    pub strict_attaches: bool,
    pub sessions: u64,
    pub semaphores: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoordSession {
    pub id: u64,
    pub timeout_ms: u64,
    pub description: String,
    /// Whether a client is connected to it here.
    pub attached: bool,
    /// Semaphores that it holds or waits for.
    pub claims: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoordSemaphore {
    pub name: String,
    pub data: Vec<u8>,
    pub limit: u64,
    pub count: u64,
    pub ephemeral: bool,
    /// The first of them; how many there are in all stands beside.
    pub owners: Vec<CoordClaim>,
    pub owners_total: u64,
    pub waiters: Vec<CoordClaim>,
    pub waiters_total: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoordClaim {
    pub order_id: u64,
    pub session_id: u64,
    pub count: u64,
    pub data: Vec<u8>,
}

/// A coordination group in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoordStatus {
    pub group: u32,
    pub leader: Option<NodeId>,
    pub term: u64,
    pub applied: u64,
    pub snapshot: u64,
    pub nodes: u64,
    pub sessions: u64,
    pub semaphores: u64,
    pub bytes: u64,
    /// Streams, watches and waiting acquires, as far as this node leads.
    pub streams: u64,
    pub watches: u64,
    pub waiters: u64,
    /// Set when the group has stopped; says why.
    pub stopped: Option<String>,
}
