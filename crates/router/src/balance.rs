//! What operators see of the balancer, and of what the cluster did.

use shardine_model::{NodeId, ShardId, Timestamp};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BalanceLook {
    /// The state of the balancer and what is to be moved.
    Report,
    /// What the cluster did behind the event of this number.
    Events { after: u64 },
}

#[derive(Clone, Debug, PartialEq)]
pub enum BalanceView {
    Report(BalancerReport),
    /// Oldest first.
    Events(Vec<EventLine>),
    /// What will be done, or would be, in a sentence.
    Told(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct BalancerReport {
    /// Whether it is on, and whether this is the time of day for it.
    pub is_on: bool,
    pub is_time: bool,
    /// What is said of it that is not as it was at first: names and values.
    pub settings: Vec<(String, String)>,
    /// What a node sends of copies in a second, and after how long it is taken for gone.
    pub speed_bytes: u64,
    pub gone_after_ms: u64,
    pub nodes: Vec<NodeFill>,
    /// What is under way, and what would be begun now if nothing were.
    pub running: Vec<MoveLine>,
    pub planned: Vec<MoveLine>,
}

/// What is on a node that holds data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFill {
    pub node: NodeId,
    pub name: String,
    pub zone: String,
    pub weight: u16,
    pub replicas: u64,
    pub bytes: u64,
    pub leads: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveLine {
    pub shard: ShardId,
    pub what: String,
    /// Empty of what is under way: the events say it.
    pub why: String,
    /// Whether nothing is wrong if it is left undone.
    pub is_for_balance: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLine {
    pub number: u64,
    pub at: Timestamp,
    pub text: String,
}
