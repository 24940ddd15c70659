//! Brings a coordination group back from disk.

use shardine_model::ShardId;
use shardine_shard::coord::{Options, Replica};
use shardine_store::Storage;

use crate::node::REPLICA;
use crate::restore;

/// The replica, or why there is none: a group that cannot be read refuses everybody, the rest of the node goes on.
pub(super) fn restore(group: ShardId, storage: &Storage, incarnation: u64) -> Result<Replica, String> {
    let restored = restore::restore_coord(storage, group, REPLICA);
    let replica = restored.map_err(|error| format!("{error:#}")).map(|(coord, restored)| {
        let options = Options { incarnation, seed: rand::random(), ..Options::new(REPLICA, group) };
        Replica::new(options, coord, restored)
    });
    if let Err(reason) = &replica {
        tracing::error!(%group, %reason, "a coordination group cannot be read; everything else goes on");
    }
    replica
}
