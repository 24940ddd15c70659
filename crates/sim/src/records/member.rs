//! A replica of a shard as the world compares it with others.

use shardine_model::Timestamp;
use shardine_shard::Replica;

use crate::tenant::Member;

impl Member for Replica {
    fn state_hash(&self) -> u64 {
        self.records().state_hash()
    }

    fn stamp(&self) -> Timestamp {
        Replica::stamp(self)
    }
}
