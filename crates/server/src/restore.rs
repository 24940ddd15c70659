//! Brings a shard back from disk: the newest snapshot, then the log behind it.

use anyhow::{Context, bail};
use shardine_model::key::Interval;
use shardine_model::log::{Membership, SnapshotMeta};
use shardine_model::{ReplicaId, ShardId};
use shardine_records::Records;
use shardine_shard::Restored;
use shardine_shard::coord::Coord;
use shardine_store::{Loaded, SnapshotReader, Storage};

/// The records of the snapshot and what the group needs to go on. An error is about this shard alone.
pub(crate) fn restore(
    storage: &Storage,
    shard: ShardId,
    interval: Interval,
    replica: ReplicaId,
    seed: u64,
) -> anyhow::Result<(Records, Restored)> {
    let mut records = Records::new(seed).owning(interval);
    let mut loaded = storage.load(shard)?;
    if let Some(reader) = snapshot_of(&mut loaded) {
        while let Some(chunk) = reader.next_chunk()? {
            let damaged = || format!("snapshot {} of shard {shard} cannot be read", reader.path().display());
            records.restore_chunk(&chunk).with_context(damaged)?;
        }
    }
    if records.interval() != interval {
        bail!(
            "shard {shard}: its snapshot owns other positions than the map says; restore the data directory from a copy"
        );
    }
    Ok((records, restored(loaded, shard, replica)?))
}

/// The same for a coordination group.
pub(crate) fn restore_coord(
    storage: &Storage,
    group: ShardId,
    replica: ReplicaId,
) -> anyhow::Result<(Coord, Restored)> {
    let mut coord = Coord::new();
    let mut loaded = storage.load(group)?;
    if let Some(reader) = snapshot_of(&mut loaded) {
        while let Some(chunk) = reader.next_chunk()? {
            let damaged = || format!("snapshot {} of coordination cannot be read", reader.path().display());
            coord.restore_chunk(&chunk).with_context(damaged)?;
        }
    }
    Ok((coord, restored(loaded, group, replica)?))
}

fn snapshot_of(loaded: &mut Option<Loaded>) -> Option<&mut SnapshotReader> {
    loaded.as_mut().and_then(|loaded| loaded.snapshot.as_mut())
}

/// Where a group begins that has no snapshot yet.
fn first(replica: ReplicaId) -> SnapshotMeta {
    SnapshotMeta { membership: Membership::of([replica]), ..SnapshotMeta::default() }
}

/// What the group needs to go on behind its snapshot.
fn restored(loaded: Option<Loaded>, shard: ShardId, replica: ReplicaId) -> anyhow::Result<Restored> {
    let Some(loaded) = loaded else {
        return Ok(Restored { snapshot: first(replica), ..Restored::default() });
    };
    if loaded.replica != replica {
        bail!(
            "shard {shard}: the data directory holds replica {}, this is replica {replica}; choose the right directory",
            loaded.replica
        );
    }
    let snapshot = loaded.snapshot.map_or_else(|| first(replica), |reader| reader.meta().clone());
    Ok(Restored { snapshot, hard_state: loaded.hard_state, entries: loaded.entries })
}
