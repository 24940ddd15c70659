//! Snapshots on disk: one file per snapshot, written in chunks, read in chunks. Does not know what the chunks mean.
//!
//! A snapshot appears whole or not at all: it is written under another name, synced, and renamed. When the new one
//! is in place the older ones of the shard go. Only the newest is kept: the log behind it is truncated, so an older
//! one could not be brought up to date, and falling back to it would forget entries that were promised.
//!
//! ```text
//! snapshots/<shard>/<replica>-<index>.snap
//! snapshots/<shard>/<number>.unfinished
//! ```

// In the order in which a newcomer should read them.
mod draft;
mod reader;
mod format;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::SnapshotMeta;

use self::draft::Draft;
pub(crate) use self::draft::Finished;
pub use self::draft::{SnapshotReceiver, SnapshotWriter};
pub use self::format::{CHUNK_BYTES_MAX, Header, Origin};
pub use self::reader::{SnapshotReader, decode_all};
use crate::error::Error;
use crate::files::Files;

/// Snapshots from peers that wait for one shard. Raft takes one of them at most, within a turn of its arrival.
const STAGED_MAX: usize = 8;

const ENDING: &str = ".snap";
const UNFINISHED_ENDING: &str = ".unfinished";

/// Names one snapshot. Ordered as they come to be: a replica's follow those of the replicas before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SnapshotId {
    pub(crate) replica: ReplicaId,
    pub(crate) index: u64,
}

/// The snapshots of all groups of a node.
#[derive(Debug)]
pub(crate) struct Snapshots {
    files: Files,
    dir: PathBuf,
    cluster: u128,
    /// Names unfinished files.
    next_number: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The newest one of each shard that is on disk for good.
    newest: BTreeMap<ShardId, SnapshotId>,
    /// Replicas up to this one have been removed: what is still being written of them is not kept.
    removed: BTreeMap<ShardId, ReplicaId>,
    /// Whole snapshots from peers that wait to be installed, oldest first.
    staged: BTreeMap<ShardId, Vec<Finished>>,
}

impl Snapshots {
    /// Takes over a directory, and removes what an interrupted process left half written.
    pub(crate) fn open(files: Files, dir: &Path, cluster: u128) -> Result<Arc<Self>, Error> {
        files.create_dir(dir)?;
        let (next_number, state) = (AtomicU64::new(1), Mutex::default());
        let snapshots = Self { files, dir: dir.to_path_buf(), cluster, next_number, state };
        for (_, shard_dir) in snapshots.files.numbered(dir, "")? {
            for (_, unfinished) in snapshots.files.numbered(&shard_dir, UNFINISHED_ENDING)? {
                snapshots.files.remove(&unfinished)?;
            }
            // Whatever name is here may have been seen by the process before, and be in nobody's keeping yet.
            snapshots.files.sync_dir(&shard_dir)?;
        }
        snapshots.files.sync_dir(dir)?;
        Ok(Arc::new(snapshots))
    }

    /// The shards that have snapshots.
    pub(crate) fn shards(&self) -> Result<Vec<ShardId>, Error> {
        let dirs = self.files.numbered(&self.dir, "")?;
        let shards = dirs.into_iter().filter_map(|(number, _)| u32::try_from(number).ok()).map(ShardId);
        let mut found = Vec::new();
        for shard in shards {
            if !self.list(shard)?.is_empty() {
                found.push(shard);
            }
        }
        Ok(found)
    }

    /// The snapshots of a shard that are whole, oldest first.
    pub(crate) fn list(&self, shard: ShardId) -> Result<Vec<SnapshotId>, Error> {
        let dir = self.shard_dir(shard);
        if !self.files.disk().is_dir(&dir) {
            return Ok(Vec::new());
        }
        let names = self.files.disk().list(&dir).map_err(Error::io("list", &dir))?;
        let mut places: Vec<SnapshotId> = names.iter().filter_map(|name| parse(name)).collect();
        places.sort_unstable();
        Ok(places)
    }

    /// Opens the newest snapshot of a shard, if there is one.
    pub(crate) fn newest(&self, shard: ShardId) -> Result<Option<SnapshotReader>, Error> {
        self.list(shard)?.pop().map(|place| self.open_one(shard, place)).transpose()
    }

    pub(crate) fn open_one(&self, shard: ShardId, place: SnapshotId) -> Result<SnapshotReader, Error> {
        SnapshotReader::open(&self.files, self.path(shard, place), self.cluster, shard, place)
    }

    /// Begins a snapshot that is cut here.
    pub(crate) fn cut(
        self: &Arc<Self>,
        shard: ShardId,
        replica: ReplicaId,
        meta: &SnapshotMeta,
    ) -> Result<SnapshotWriter, Error> {
        let draft = self.draft(shard, replica, meta, Origin::Cut)?;
        Ok(SnapshotWriter { snapshots: Arc::clone(self), draft })
    }

    /// Begins a snapshot that comes from a peer.
    pub(crate) fn receive(
        self: &Arc<Self>,
        shard: ShardId,
        replica: ReplicaId,
        meta: &SnapshotMeta,
    ) -> Result<SnapshotReceiver, Error> {
        let draft = self.draft(shard, replica, meta, Origin::Peer)?;
        Ok(SnapshotReceiver { snapshots: Arc::clone(self), draft })
    }

    fn draft(&self, shard: ShardId, replica: ReplicaId, meta: &SnapshotMeta, origin: Origin) -> Result<Draft, Error> {
        self.check_not_removed(&self.state(), shard, replica)?;
        self.files.create_dir(&self.shard_dir(shard))?;
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let path = self.shard_dir(shard).join(format!("{number:020}{UNFINISHED_ENDING}"));
        let header = Header { cluster: self.cluster, shard, replica, origin, meta: meta.clone() };
        Draft::create(self.files.clone(), path, header)
    }

    /// Keeps a whole snapshot from a peer until it is installed. Some that came before it stay: their group may have taken one of them,
    /// and not come to write it.
    fn stage(&self, finished: Finished) {
        let shard = finished.header.shard;
        let oldest = {
            let mut state = self.state();
            let waiting = state.staged.entry(shard).or_default();
            waiting.push(finished);
            (waiting.len() > STAGED_MAX).then(|| waiting.remove(0))
        };
        drop(oldest);
    }

    /// The snapshot from a peer of this replica and place, if it waits. Those that came before it are not wanted any more.
    pub(crate) fn take_staged(&self, shard: ShardId, replica: ReplicaId, meta: &SnapshotMeta) -> Option<Finished> {
        let mut state = self.state();
        let waiting = state.staged.get_mut(&shard)?;
        let is_it = |staged: &Finished| staged.header.replica == replica && staged.header.meta == *meta;
        let place = waiting.iter().position(is_it)?;
        let mut older: Vec<Finished> = waiting.drain(..=place).collect();
        drop(state);
        older.pop()
    }

    /// Gives a whole snapshot its name, for good.
    pub(crate) fn publish(&self, mut finished: Finished) -> Result<PathBuf, Error> {
        let (shard, replica) = (finished.header.shard, finished.header.replica);
        let mut state = self.state();
        self.check_not_removed(&state, shard, replica)?;
        let place = SnapshotId { replica, index: finished.header.meta.index };
        let path = self.path(shard, place);
        finished.rename(&path)?;
        self.files.sync_dir(&self.shard_dir(shard))?;
        let newest = state.newest.entry(shard).or_insert(place);
        *newest = place.max(*newest);
        Ok(path)
    }

    /// Up to where a group's state is in a snapshot that is on disk for good.
    pub(crate) fn covered(&self, shard: ShardId) -> u64 {
        self.state().newest.get(&shard).map_or(0, |newest| newest.index)
    }

    /// Notes which snapshot a shard goes on from, and removes those before it.
    pub(crate) fn keep_newest(&self, shard: ShardId, newest: SnapshotId) -> Result<(), Error> {
        self.state().newest.insert(shard, newest);
        self.remove_before(shard, newest)
    }

    /// Removes the snapshots of a shard that the newest one replaces.
    pub(crate) fn remove_older(&self, shard: ShardId) -> Result<(), Error> {
        let newest = self.state().newest.get(&shard).copied();
        newest.map_or(Ok(()), |newest| self.remove_before(shard, newest))
    }

    /// Removes everything of a replica that was removed, and of those before it; what is being written of them comes to nothing.
    pub(crate) fn remove_all(&self, shard: ShardId, replica: ReplicaId) -> Result<(), Error> {
        let staged = {
            let mut state = self.state();
            let removed = state.removed.entry(shard).or_default();
            *removed = replica.max(*removed);
            if state.newest.get(&shard).is_some_and(|newest| newest.replica <= replica) {
                state.newest.remove(&shard);
            }
            let waiting = state.staged.entry(shard).or_default();
            let gone: Vec<Finished> = waiting.extract_if(.., |staged| staged.header.replica <= replica).collect();
            gone
        };
        drop(staged);
        let next = SnapshotId { replica: ReplicaId(replica.0.saturating_add(1)), index: 0 };
        self.remove_before(shard, next)?;
        // Somebody may still be writing there.
        let _ = self.files.disk().remove_dir(&self.shard_dir(shard));
        Ok(())
    }

    fn remove_before(&self, shard: ShardId, place: SnapshotId) -> Result<(), Error> {
        let older = self.list(shard)?.into_iter().filter(|older| *older < place);
        older.into_iter().try_for_each(|older| self.files.remove(&self.path(shard, older)))
    }

    fn check_not_removed(&self, state: &State, shard: ShardId, replica: ReplicaId) -> Result<(), Error> {
        match state.removed.get(&shard) {
            Some(&removed) if replica <= removed => Err(Error::ReplicaRemoved { shard, replica, removed }),
            _ => Ok(()),
        }
    }

    pub(crate) fn shard_dir(&self, shard: ShardId) -> PathBuf {
        self.dir.join(shard.to_string())
    }

    pub(crate) fn path(&self, shard: ShardId, place: SnapshotId) -> PathBuf {
        self.shard_dir(shard).join(format!("{:020}-{:020}{ENDING}", place.replica.0, place.index))
    }

    /// Whole at every moment that a panic could leave it in.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place that the name of a snapshot tells.
fn parse(name: &str) -> Option<SnapshotId> {
    let (replica, index) = name.strip_suffix(ENDING)?.split_once('-')?;
    Some(SnapshotId { replica: ReplicaId(replica.parse().ok()?), index: index.parse().ok()? })
}
