//! Brings a coordination group back from disk.

use shardine_model::{ReplicaId, ShardId};
use shardine_shard::Restored;
use shardine_shard::coord::{Coord, Options, Replica};
use shardine_store::Storage;

use crate::restore;
use crate::topology::LocalReplica;

/// The replica, or why there is none: a group that cannot be read refuses everybody, the rest of the node goes on.
pub(super) fn restore(local: &LocalReplica, storage: &Storage, incarnation: u64) -> Result<Replica, String> {
    let LocalReplica { shard: group, replica, .. } = *local;
    let restored = restore::restore_coord(storage, local);
    let replica = restored
        .map_err(|error| format!("{error:#}"))
        .map(|(coord, restored)| make(group, replica, incarnation, coord, restored));
    if let Err(reason) = &replica {
        tracing::error!(%group, %reason, "a coordination group cannot be read; everything else goes on");
    }
    replica
}

/// One that has nothing, and belongs to nobody until the group's leader has sent it a snapshot.
pub(super) fn newborn(group: ShardId, replica: ReplicaId, incarnation: u64) -> Replica {
    make(group, replica, incarnation, Coord::new(), Restored::default())
}

fn make(group: ShardId, replica: ReplicaId, incarnation: u64, coord: Coord, restored: Restored) -> Replica {
    let options = Options { incarnation, seed: rand::random(), ..Options::new(replica, group) };
    Replica::new(options, coord, restored)
}
