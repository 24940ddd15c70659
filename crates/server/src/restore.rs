//! Brings a shard back from disk: the newest snapshot, then the log behind it.

use std::path::Path;

use anyhow::{Context, bail};
use shardine_model::key::Interval;
use shardine_model::log::{Membership, SnapshotMeta};
use shardine_model::{ReplicaId, ShardId};
use shardine_records::Records;
use shardine_shard::Restored;
use shardine_shard::coord::Coord;
use shardine_store::{LogStore, SnapshotReader};

/// The records of the snapshot and what the group needs to go on. An error is about this shard alone.
pub(crate) fn restore(
    log: &dyn LogStore,
    snapshots: &Path,
    shard: ShardId,
    interval: Interval,
    replica: ReplicaId,
    seed: u64,
) -> anyhow::Result<(Records, Restored)> {
    let mut records = Records::new(seed).owning(interval);
    let mut snapshot = first(replica);
    if let Some(mut reader) = SnapshotReader::newest(snapshots, shard)? {
        let damaged = |path: &Path| format!("snapshot {} of shard {shard} cannot be read", path.display());
        snapshot = reader.meta().clone();
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
    Ok((records, behind(log, shard, snapshot)?))
}

/// The same for a coordination group.
pub(crate) fn restore_coord(
    log: &dyn LogStore,
    snapshots: &Path,
    group: ShardId,
    replica: ReplicaId,
) -> anyhow::Result<(Coord, Restored)> {
    let mut coord = Coord::new();
    let mut snapshot = first(replica);
    if let Some(mut reader) = SnapshotReader::newest(snapshots, group)? {
        let damaged = |path: &Path| format!("snapshot {} of coordination cannot be read", path.display());
        snapshot = reader.meta().clone();
        let mut restore = shardine_shard::coord::Restore::new(coord);
        while let Some(chunk) = reader.next_chunk()? {
            restore.push(&chunk).with_context(|| damaged(reader.path()))?;
        }
        coord = restore.finish().with_context(|| damaged(reader.path()))?;
    }
    Ok((coord, behind(log, group, snapshot)?))
}

/// Where a group begins that has no snapshot yet.
fn first(replica: ReplicaId) -> SnapshotMeta {
    SnapshotMeta { membership: Membership::of([replica]), ..SnapshotMeta::default() }
}

/// What the group needs to go on behind its snapshot.
fn behind(log: &dyn LogStore, shard: ShardId, snapshot: SnapshotMeta) -> anyhow::Result<Restored> {
    let kept = log.load(shard)?;
    let mut entries = kept.entries;
    entries.retain(|entry| entry.index > snapshot.index);
    if let Some(first) = entries.first()
        && first.index != snapshot.index + 1
    {
        bail!(
            "shard {shard}: the snapshot ends at entry {} and the log begins at {}: entries between them are lost; \
             restore the data directory from a copy",
            snapshot.index,
            first.index
        );
    }
    Ok(Restored { snapshot, hard_state: kept.hard_state, entries })
}
