//! Log and snapshots of one data directory, as one thing: what a node's turn wants done is done in order, and what a crash leaves
//! between two steps is made whole at the next start.
//!
//! Where a snapshot and the log touch, the order is always the same: the snapshot is on disk under its own name before the log
//! lets go of anything that it replaces. So a start may find a snapshot that the log does not know of yet, and never a log that
//! lacks its snapshot. What that start does is in `reconcile.rs`.

#[cfg(feature = "mutants")]
mod mutant;
mod reconcile;

use std::sync::Arc;

use shardine_model::codec::Reader;
use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{HardState, Install, LogEntry, LogOp, SnapshotMeta};

#[cfg(feature = "mutants")]
pub use self::mutant::Mutant;
use crate::data_dir::DataDir;
use crate::error::Error;
use crate::log::{Change, GroupLog, Options, SegmentLog, Start};
use crate::snapshot::{Finished, SnapshotReader, SnapshotReceiver, SnapshotWriter, Snapshots};

/// What a node keeps: the log of all its groups and their snapshots. Shared by all threads that write.
pub struct Storage {
    log: SegmentLog,
    snapshots: Arc<Snapshots>,
    #[cfg(feature = "mutants")]
    mutant: Option<Mutant>,
}

/// Everything kept of one group.
pub struct Loaded {
    pub replica: ReplicaId,
    /// Where the state is to be taken from. Without one it begins empty.
    pub snapshot: Option<SnapshotReader>,
    /// Never behind the snapshot.
    pub hard_state: HardState,
    /// Behind the snapshot, without gaps.
    pub entries: Vec<LogEntry>,
}

impl Storage {
    /// Opens what is in a directory that was adopted, and makes whole what a crash has left between two steps. Reads all of the
    /// log. An error is about the node; what is wrong with one shard is told when that one is loaded.
    pub fn open(data: &DataDir, options: Options) -> Result<Self, Error> {
        let identity = data.adopted()?;
        let owner = identity.identity.owner();
        let start = if identity.is_log_begun { Start::Again } else { Start::New };
        let log = SegmentLog::open_in(data.files().clone(), &data.log_dir(), owner, start, options)?;
        if start == Start::New {
            data.note_log()?;
        }
        reconcile::check_snapshots_are_there(&log, data)?;
        let snapshots = Snapshots::open(data.files().clone(), &data.snapshot_dir(), owner.cluster)?;
        let storage = Self {
            log,
            snapshots,
            #[cfg(feature = "mutants")]
            mutant: None,
        };
        storage.reconcile()?;
        Ok(storage)
    }

    /// Does everything in order, and returns when all of it is on disk. Neighbours share a write; a snapshot from a peer is
    /// stored behind everything that was asked for before it. After an error the process must stop.
    pub fn perform(&self, ops: Vec<LogOp>) -> Result<(), Error> {
        let mut batch = Batch { changes: Vec::with_capacity(ops.len()), cleanups: Vec::new() };
        for op in ops {
            match op {
                LogOp::Write(write) => batch.changes.push(Change::Write(write)),
                LogOp::Truncate { shard, below } => {
                    if self.may_truncate(shard, below)? {
                        batch.changes.push(Change::Truncate { shard, below });
                    }
                }
                LogOp::Remove { shard, replica } => {
                    batch.changes.push(Change::Remove { shard, replica });
                    batch.cleanups.push(Cleanup::Removed { shard, replica });
                }
                #[cfg(feature = "mutants")]
                LogOp::Install(install) if self.mutant.is_some() => self.install_wrongly(*install, &mut batch)?,
                LogOp::Install(install) => {
                    // What was asked for earlier must not come to stand behind the snapshot.
                    self.append(std::mem::take(&mut batch))?;
                    self.install(*install, &mut batch)?;
                }
            }
        }
        self.append(batch)
    }

    fn append(&self, batch: Batch) -> Result<(), Error> {
        if batch.changes.is_empty() {
            return Ok(());
        }
        self.log.append(batch.changes)?;
        batch.cleanups.into_iter().try_for_each(|cleanup| match cleanup {
            Cleanup::Replaced { shard } => self.snapshots.remove_older(shard),
            Cleanup::Removed { shard, replica } => self.snapshots.remove_all(shard, replica),
        })
    }

    /// Stores a snapshot from a peer. What is then to be written to the log goes into the batch.
    fn install(&self, install: Install, batch: &mut Batch) -> Result<(), Error> {
        let (snapshot, changes) = self.stage(install)?;
        let shard = snapshot.shard();
        self.snapshots.publish(snapshot)?;
        batch.changes.extend(changes);
        batch.cleanups.push(Cleanup::Replaced { shard });
        Ok(())
    }

    /// A snapshot from a peer, on disk without a name, and what is to be written to the log when it has one.
    fn stage(&self, install: Install) -> Result<(Finished, [Change; 2]), Error> {
        let Install { meta, data, mut write } = install;
        let (shard, replica) = (write.shard, write.replica);
        let hard_state = write.hard_state.ok_or(Error::IncompleteInstall { shard, what: "a hard state" })?;
        if hard_state.commit < meta.index || hard_state.term < meta.term {
            let (commit, hard_term) = (hard_state.commit, hard_state.term);
            return Err(Error::HardStateBehind { shard, index: meta.index, term: meta.term, commit, hard_term });
        }
        let snapshot = match self.snapshots.take_staged(shard, replica, &meta) {
            Some(staged) => staged,
            None if data.is_empty() => return Err(Error::IncompleteInstall { shard, what: "its content" }),
            None => {
                let mut receiver = self.snapshots.receive(shard, replica, &meta)?;
                let mut chunks = Reader::new(&data);
                while !chunks.is_empty() {
                    let cut = |_| Error::IncompleteInstall { shard, what: "its last chunk" };
                    receiver.push(chunks.bytes("snapshot chunk").map_err(cut)?)?;
                }
                receiver.finish()?
            }
        };

        // A crash may come before the entries that follow it, so it claims nothing of them.
        let at_snapshot = HardState { commit: meta.index, ..hard_state };
        let reset = Change::Reset { shard, replica, hard_state: at_snapshot, index: meta.index };
        if write.entries.is_empty() && hard_state == at_snapshot {
            write.hard_state = None;
        }
        Ok((snapshot, [reset, Change::Write(write)]))
    }

    /// Whether there is a group to forget anything of. That it is in a snapshot on disk is not left to the caller to know.
    fn may_truncate(&self, shard: ShardId, below: u64) -> Result<bool, Error> {
        let covered = self.snapshots.covered(shard);
        if below <= covered.saturating_add(1) {
            return Ok(true);
        }
        match self.log.group(shard)? {
            Some(_) => Err(Error::NotInSnapshot { shard, below, covered }),
            None => Ok(false),
        }
    }

    /// The groups that anything is kept of, also those that cannot be read.
    pub fn shards(&self) -> Result<Vec<ShardId>, Error> {
        let mut shards = self.log.shards();
        shards.extend(self.snapshots.shards()?);
        shards.sort_unstable();
        shards.dedup();
        Ok(shards)
    }

    /// The groups that were removed from this node, each with the last replica that was.
    #[must_use]
    pub fn removed(&self) -> Vec<(ShardId, ReplicaId)> {
        self.log.removed()
    }

    /// Whose log is kept of a group, if one is.
    pub fn replica(&self, shard: ShardId) -> Result<Option<ReplicaId>, Error> {
        Ok(self.log.group(shard)?.map(|group| group.replica))
    }

    /// Everything kept of one group; `None` if nothing is. An error is about this group alone.
    pub fn load(&self, shard: ShardId) -> Result<Option<Loaded>, Error> {
        let snapshot = self.snapshots.newest(shard)?;
        let log = self.log.load(shard)?;
        let group = self.log.group(shard)?;
        let dir = || self.snapshots.shard_dir(shard);
        let Some(mut log) = log else {
            return reconcile::check_known(shard, snapshot.as_ref()).map(|()| None);
        };
        if let Some(group) = group {
            reconcile::check_fits(shard, &group, &log.entries, snapshot.as_ref(), dir)?;
        }
        if let Some(snapshot) = &snapshot {
            log.hard_state = at_least(log.hard_state, snapshot.meta());
            log.entries.retain(|entry| entry.index > snapshot.meta().index);
        }
        let GroupLog { replica, hard_state, entries, .. } = log;
        Ok(Some(Loaded { replica, snapshot, hard_state, entries }))
    }

    /// The newest snapshot of a group, for sending it to a peer.
    pub fn snapshot(&self, shard: ShardId) -> Result<Option<SnapshotReader>, Error> {
        self.snapshots.newest(shard)
    }

    /// Begins a snapshot of a group's state as the log has brought it there. When it is finished the log before it may be
    /// truncated.
    pub fn cut_snapshot(
        &self,
        shard: ShardId,
        replica: ReplicaId,
        meta: &SnapshotMeta,
    ) -> Result<SnapshotWriter, Error> {
        self.snapshots.cut(shard, replica, meta)
    }

    /// Begins a snapshot that a peer sends. When all of it has come it is staged, and an [`Install`] of the same replica and
    /// place, without content of its own, takes it.
    pub fn receive_snapshot(
        &self,
        shard: ShardId,
        replica: ReplicaId,
        meta: &SnapshotMeta,
    ) -> Result<SnapshotReceiver, Error> {
        self.snapshots.receive(shard, replica, meta)
    }

    /// The group that keeps the oldest part of the log from being freed, if that would give space back. Take a snapshot of
    /// this one first.
    #[must_use]
    pub fn oldest_shard(&self) -> Option<ShardId> {
        self.log.oldest_shard()
    }

    /// What the log occupies, spare segments included.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.log.bytes_on_disk()
    }
}

/// What goes to the log together, and what is to be removed when it is there.
#[derive(Default)]
struct Batch {
    changes: Vec<Change>,
    cleanups: Vec<Cleanup>,
}

enum Cleanup {
    Replaced { shard: ShardId },
    Removed { shard: ShardId, replica: ReplicaId },
}

/// A hard state that does not contradict a snapshot. Whoever votes or commits has it on disk first, so a replica whose log ends
/// before the snapshot has neither voted in a later term nor committed anything behind it.
fn at_least(hard_state: HardState, snapshot: &SnapshotMeta) -> HardState {
    let commit = hard_state.commit.max(snapshot.index);
    if hard_state.term < snapshot.term {
        HardState { term: snapshot.term, vote: ReplicaId(0), commit }
    } else {
        HardState { commit, ..hard_state }
    }
}
