//! Brings a shard back from disk: the newest snapshot, then the log behind it.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

use anyhow::{Context, bail};
use shardine_model::key::Interval;
use shardine_model::log::{LogOp, Membership, SnapshotMeta};
use shardine_model::{GroupKind, ReplicaId, ShardId};
use shardine_records::Records;
use shardine_shard::coord::Coord;
use shardine_shard::meta;
use shardine_shard::{Infancy, Restored};
use shardine_store::{Loaded, SnapshotReader, Storage};

use crate::topology::{LocalReplica, Origin, Topology};

/// Does the same to all items, as many at once as the machine has cores, and keeps their order. What takes time when a node
/// starts is to apply the logs of its shards, which have nothing to do with one another.
pub(crate) fn side_by_side<T: Sync, U: Send>(items: &[T], work: impl Fn(&T) -> U + Sync) -> Vec<U> {
    let next = AtomicUsize::new(0);
    let some = || -> Vec<(usize, U)> {
        let taken = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        taken.map_while(|place| Some((place, work(items.get(place)?)))).collect()
    };
    let threads = available_parallelism().map_or(1, usize::from).min(items.len());
    let mut done: Vec<(usize, U)> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(some)).collect();
        let own = some();
        let join = |other: thread::ScopedJoinHandle<'_, _>| {
            other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        others.into_iter().flat_map(join).chain(own).collect()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, done)| done).collect()
}

/// What the disk has of a replica of records.
pub(crate) enum Found {
    /// The records of the snapshot and what the group needs to go on.
    Whole(Box<Records>, Restored),
    /// Nothing. Whether there is to be a replica is seen when the others are there.
    Nothing,
    /// It was parted off another shard, and has no snapshot of that yet: the other one's log has what it was born with.
    Infant(Infancy),
}

/// Reads what the disk has of a replica. An error is about this shard alone.
pub(crate) fn restore(storage: &Storage, local: &LocalReplica, interval: Interval, seed: u64) -> anyhow::Result<Found> {
    let shard = local.shard;
    let bounds = match &local.origin {
        Origin::Founded(bounds) => bounds.clone(),
        Origin::Map | Origin::Later => interval.into(),
    };
    let mut records = Records::new(seed).owning(bounds);
    let mut loaded = load(storage, local)?;
    if local.origin == Origin::Later && loaded.is_none() {
        return Ok(Found::Nothing);
    }
    if local.origin == Origin::Later
        && let Some(Loaded { snapshot: None, hard_state, entries, .. }) = &mut loaded
        && !entries.is_empty()
    {
        return Ok(Found::Infant(Infancy { hard_state: *hard_state, entries: std::mem::take(entries) }));
    }
    if let Some(reader) = snapshot_of(&mut loaded) {
        let damaged = |path: &Path| format!("snapshot {} of shard {shard} cannot be read", path.display());
        let mut restore = shardine_records::Restore::new(records);
        while let Some(chunk) = reader.next_chunk()? {
            restore.push(&chunk).with_context(|| damaged(reader.path()))?;
        }
        records = restore.finish().with_context(|| damaged(reader.path()))?;
    }
    if local.origin == Origin::Map && *records.bounds() != interval.into() {
        bail!(
            "shard {shard}: its snapshot owns other positions than the map says; restore the data directory from a copy"
        );
    }
    Ok(Found::Whole(Box::new(records), restored(loaded, local)?))
}

/// The same for a coordination group.
pub(crate) fn restore_coord(storage: &Storage, local: &LocalReplica) -> anyhow::Result<(Coord, Restored)> {
    let mut coord = Coord::new();
    let mut loaded = load(storage, local)?;
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

/// The same for this node's replica of the map's group, made whole; or why there is none.
pub(crate) fn meta_replica(storage: &Storage, local: &LocalReplica, incarnation: u64) -> Result<meta::Replica, String> {
    let restore = || -> anyhow::Result<(meta::Meta, Restored)> {
        let mut state = meta::Meta::new();
        let mut loaded = load(storage, local)?;
        if let Some(reader) = snapshot_of(&mut loaded) {
            let mut chunks = Vec::new();
            while let Some(chunk) = reader.next_chunk()? {
                chunks.push(chunk);
            }
            let damaged = || format!("snapshot {} of the map's group cannot be read", reader.path().display());
            state = state.restored(chunks).with_context(damaged)?;
        }
        Ok((state, restored(loaded, local)?))
    };
    let options = meta::Options { incarnation, seed: rand::random(), ..meta::Options::new(local.replica) };
    let replica = restore().map(|(state, restored)| meta::Replica::new(options, state, restored));
    replica.map_err(|error| {
        let reason = format!("{error:#}");
        tracing::error!(%reason, "the map's group cannot be read here; everything else goes on");
        reason
    })
}

/// Lets go of what the directory holds of replicas that the map says were removed, which a crash may have left.
pub(crate) fn drop_removed(storage: &Storage, topology: &Topology) -> anyhow::Result<()> {
    if topology.sheet.is_none() {
        return Ok(());
    }
    for shard in storage.shards()? {
        // What the map does not have may have been parted off since.
        let is_known = topology.map().is_some_and(|map| map.group(shard).is_some());
        if is_known
            && topology.local(shard).is_none()
            && let Ok(Some(loaded)) = storage.load(shard)
        {
            remove(storage, shard, loaded.replica)?;
        }
    }
    Ok(())
}

/// Replicas that the directory holds of shards that the map does not have: they were parted off, and the map says so later.
pub(crate) fn unmapped(storage: &Storage, topology: &Topology) -> anyhow::Result<Vec<LocalReplica>> {
    let Some(map) = topology.map() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for shard in storage.shards()?.into_iter().filter(|shard| shard.kind() == GroupKind::Records) {
        if let (None, Some(replica)) = (map.group(shard), storage.replica(shard)?) {
            found.push(LocalReplica { shard, replica, first_members: Membership::default(), origin: Origin::Later });
        }
    }
    Ok(found)
}

fn remove(storage: &Storage, shard: ShardId, replica: ReplicaId) -> anyhow::Result<()> {
    tracing::info!(%shard, %replica, "what is left of a replica that was removed goes");
    Ok(storage.perform(vec![LogOp::Remove { shard, replica }])?)
}

/// What the directory holds of a replica. One that came before it was removed: the map would not have this one otherwise.
fn load(storage: &Storage, local: &LocalReplica) -> anyhow::Result<Option<Loaded>> {
    match storage.load(local.shard)? {
        Some(loaded) if loaded.replica < local.replica => {
            remove(storage, local.shard, loaded.replica)?;
            Ok(None)
        }
        loaded => Ok(loaded),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_side_by_side_comes_back_in_order() {
        for count in [0, 1, 2, 100] {
            let items: Vec<usize> = (0..count).collect();

            assert_eq!(side_by_side(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
