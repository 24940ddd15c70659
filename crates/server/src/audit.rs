//! Looks of whoever leads the map at all shards together: that each key belongs to one of them. What is found twice is said loudly; once
//! may be two nodes that spoke at different times.

use std::sync::{Mutex, MutexGuard, PoisonError};

use shardine_router::EngineStatus;
use shardine_shard::meta::{Held, Map, audit};

#[derive(Default)]
pub(crate) struct Audit {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    passed: u64,
    failed: u64,
    /// What the last look has found, and what it has found as the one before did.
    last: Vec<String>,
    proven: Vec<String>,
}

impl Audit {
    /// Compares what leaders say with each other and with the map.
    pub fn look(&self, map: &Map, status: &EngineStatus) {
        let led = status.shards.iter().filter(|shard| shard.leader.is_some());
        let held: Vec<Held> = led.map(|shard| Held { shard: shard.shard, lo: shard.lo, hi: shard.hi }).collect();
        let Some(found) = audit(map, &held) else { return };
        let mut state = self.lock();
        state.proven = if found == state.last { found.clone() } else { Vec::new() };
        match state.proven.is_empty() {
            true => state.passed += u64::from(found.is_empty()),
            false => state.failed += 1,
        }
        state.last = found;
        for sentence in &state.proven {
            tracing::error!("SHARDS DO NOT PART THE SPACE: {sentence}");
        }
    }

    pub fn counters(&self) -> [(&'static str, u64); 2] {
        let state = self.lock();
        [("audits_passed", state.passed), ("audits_failed", state.failed)]
    }

    /// What somebody should know of, in sentences.
    pub fn trouble(&self) -> Vec<String> {
        self.lock().proven.iter().map(|sentence| format!("shards do not part the space: {sentence}")).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use shardine_model::{Bounds, Descriptor, Epoch, NodeId, Position, ShardId};
    use shardine_router::ShardStatus;

    use super::*;

    fn status(lo: u64) -> EngineStatus {
        let shard =
            ShardStatus { shard: ShardId(1), lo: Position(lo), leader: Some(NodeId(1)), ..ShardStatus::default() };
        EngineStatus { shards: vec![shard], ..EngineStatus::default() }
    }

    #[test]
    fn what_is_found_twice_is_trouble_until_it_is_gone() {
        let (shard, state, bounds) = (ShardId(1), Default::default(), Bounds::default());
        let (epoch, voters, learners) = (Epoch::default(), Vec::new(), Vec::new());
        let groups = BTreeMap::from([(shard, Descriptor { shard, epoch, state, bounds, voters, learners })]);
        let mut map = Map::default();
        (map.cluster, map.version, map.groups) = (7, 1, groups);
        let audit = Audit::default();

        audit.look(&map, &status(5));
        assert!(audit.trouble().is_empty(), "once may be chance");
        audit.look(&map, &status(5));
        let trouble = audit.trouble();
        assert!(trouble.iter().any(|said| said.contains("nobody holds 0x0 to 0x5, below shard 1")), "{trouble:?}");
        assert_eq!(audit.counters(), [("audits_passed", 0), ("audits_failed", 1)]);
        audit.look(&map, &status(0));
        assert!(audit.trouble().is_empty());
    }
}
