//! Brings a shard back from disk: the newest snapshot, then the log behind it.

use std::path::Path;

use anyhow::{Context, bail};
use shardine_model::key::Interval;
use shardine_model::log::SnapshotMeta;
use shardine_records::Records;
use shardine_shard::Restored;
use shardine_shard::coord::Coord;
use shardine_store::{Loaded, SnapshotReader, Storage};

use crate::topology::LocalReplica;

/// The records of the snapshot and what the group needs to go on. An error is about this shard alone.
pub(crate) fn restore(
    storage: &Storage,
    local: &LocalReplica,
    interval: Interval,
    seed: u64,
) -> anyhow::Result<(Records, Restored)> {
    let shard = local.shard;
    let mut records = Records::new(seed).owning(interval);
    let mut loaded = storage.load(shard)?;
    if let Some(reader) = snapshot_of(&mut loaded) {
        let damaged = |path: &Path| format!("snapshot {} of shard {shard} cannot be read", path.display());
        let mut restore = shardine_records::Restore::new(records);
        while let Some(chunk) = reader.next_chunk()? {
            restore.push(&chunk).with_context(|| damaged(reader.path()))?;
        }
        records = restore.finish().with_context(|| damaged(reader.path()))?;
    }
    if *records.bounds() != interval.into() {
        bail!(
            "shard {shard}: its snapshot owns other positions than the map says; restore the data directory from a copy"
        );
    }
    Ok((records, restored(loaded, local)?))
}

/// The same for a coordination group.
pub(crate) fn restore_coord(storage: &Storage, local: &LocalReplica) -> anyhow::Result<(Coord, Restored)> {
    let mut coord = Coord::new();
    let mut loaded = storage.load(local.shard)?;
    if let Some(reader) = snapshot_of(&mut loaded) {
        let damaged = |path: &Path| format!("snapshot {} of coordination cannot be read", path.display());
        let mut restore = shardine_shard::coord::Restore::new(coord);
        while let Some(chunk) = reader.next_chunk()? {
            restore.push(&chunk).with_context(|| damaged(reader.path()))?;
        }
        coord = restore.finish().with_context(|| damaged(reader.path()))?;
    }
    Ok((coord, restored(loaded, local)?))
}

fn snapshot_of(loaded: &mut Option<Loaded>) -> Option<&mut SnapshotReader> {
    loaded.as_mut().and_then(|loaded| loaded.snapshot.as_mut())
}

/// Where a group begins that has no snapshot yet.
fn first(local: &LocalReplica) -> SnapshotMeta {
    SnapshotMeta { membership: local.first_members.clone(), ..SnapshotMeta::default() }
}

/// What the group needs to go on behind its snapshot.
fn restored(loaded: Option<Loaded>, local: &LocalReplica) -> anyhow::Result<Restored> {
    let LocalReplica { shard, replica, .. } = *local;
    let Some(loaded) = loaded else {
        return Ok(Restored { snapshot: first(local), ..Restored::default() });
    };
    if loaded.replica != replica {
        bail!(
            "shard {shard}: the data directory holds replica {}, this is replica {replica}; choose the right directory",
            loaded.replica
        );
    }
    let snapshot = loaded.snapshot.map_or_else(|| first(local), |reader| reader.meta().clone());
    Ok(Restored { snapshot, hard_state: loaded.hard_state, entries: loaded.entries })
}
