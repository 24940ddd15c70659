//! What every replica of the map's group holds.

use std::collections::{BTreeMap, VecDeque};

use shardine_model::{ErrorCode, NodeId, Refusal, ReplicaId, ShardId, Timestamp};
use xxhash_rust::xxh3::xxh3_64;

use crate::change::Change;
use crate::event::{Event, Occasion, told};
use crate::limits::HISTORY_VERSIONS_MAX;
use crate::map::Map;
use crate::operation::OperationId;
use crate::snapshot::Cut;

/// The map, and what only those need who change it: numbers that are never given again. Invariant: no number in the map is
/// above the last one given.
#[derive(Debug, Default)]
pub struct Meta {
    pub(crate) map: Map,
    pub(crate) last: Last,
    /// What the newest versions brought, oldest first. Not part of the state: a replica that came by a snapshot has none.
    pub(crate) history: VecDeque<(u64, Vec<Change>)>,
    pub(crate) cut: Option<Cut>,
    /// Of the command that is being executed, if it says so.
    pub(crate) occasion: Option<Occasion>,
}

/// The last numbers that were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Last {
    pub node: u64,
    pub operation: u64,
    /// Of each group, also of one that is gone.
    pub replicas: BTreeMap<ShardId, u64>,
}

impl Meta {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Two replicas at the same index have the same.
    #[must_use]
    pub fn digest(&self) -> u64 {
        xxh3_64(&self.to_items())
    }

    /// Makes changes that belong together: one new version of the map.
    pub(crate) fn publish(&mut self, mut changes: Vec<Change>) {
        let mut lines = Vec::new();
        for change in &changes {
            let line = self.occasion.as_ref().and_then(|occasion| told(&self.map, change, &occasion.why));
            lines.extend(line);
            self.map.put(change);
        }
        for line in lines {
            let number = self.map.events.back().map_or(0, |event| event.number) + 1;
            let at = self.occasion.as_ref().map_or(Timestamp(0), |occasion| occasion.at);
            let event = Change::Event(Event::new(number, at, line));
            self.map.put(&event);
            changes.push(event);
        }
        self.map.version += 1;
        if self.history.len() >= HISTORY_VERSIONS_MAX {
            self.history.pop_front();
        }
        self.history.push_back((self.map.version, changes));
        debug_assert_eq!(self.map.check(), Ok(()), "a change left no map behind");
    }

    pub(crate) fn next_node(&mut self) -> NodeId {
        self.last.node += 1;
        NodeId(self.last.node)
    }

    pub(crate) fn next_operation(&mut self) -> OperationId {
        self.last.operation += 1;
        OperationId(self.last.operation)
    }

    pub(crate) fn next_replica(&mut self, shard: ShardId) -> ReplicaId {
        let last = self.last.replicas.entry(shard).or_default();
        *last += 1;
        ReplicaId(*last)
    }
}

pub(crate) fn refused<T>(code: ErrorCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(code, message))
}
