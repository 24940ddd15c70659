//! A replica of a coordination group as the world compares it with others.

use shardine_model::Timestamp;
use shardine_shard::coord::Replica;

use crate::tenant::Member;

impl Member for Replica {
    fn state_hash(&self) -> u64 {
        self.coord().digest()
    }

    /// It keeps no time of day.
    fn stamp(&self) -> Timestamp {
        Timestamp::default()
    }
}
