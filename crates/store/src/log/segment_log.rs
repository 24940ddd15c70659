//! The log on disk, as the rest of the node sees it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use shardine_model::ids::{ReplicaId, ShardId};

use super::gather::Gather;
use super::group::Group;
use super::writer::Writer;
use super::{Change, GroupLog, Options};
use crate::disk::Disk;
use crate::error::Error;
use crate::files::Files;
use crate::identity::Owner;

/// Whether there was a log before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// One is begun unless it is there.
    New,
    /// It must be there.
    Again,
}

/// The log of all groups of a node in one directory. Shared by all threads that write.
pub struct SegmentLog {
    dir: PathBuf,
    gather: Gather,
    writer: Mutex<Writer>,
}

impl SegmentLog {
    /// Opens the log in `dir`, recovers what was synced and cuts an incomplete last write. Reads every byte of
    /// the log; an error says what is damaged and what to do. Damage to one group is told when that one is loaded.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, owner: Owner, start: Start, options: Options) -> Result<Self, Error> {
        Self::open_in(Files::new(disk), dir, owner, start, options)
    }

    pub(crate) fn open_in(
        files: Files,
        dir: &Path,
        owner: Owner,
        start: Start,
        options: Options,
    ) -> Result<Self, Error> {
        let writer = Writer::open(files, dir, owner, start, options)?;
        Ok(Self { dir: dir.to_path_buf(), gather: Gather::default(), writer: Mutex::new(writer) })
    }

    /// Makes all changes durable, in order: what fits into one frame all or, after a crash, none of it. Returns after it is on
    /// disk. Callers at the same time share a write; those of one group must come one after the other. An error means that the
    /// process must stop: no later change is accepted.
    pub fn append(&self, changes: Vec<Change>) -> Result<(), Error> {
        let written = self.gather.append(changes, |changes| self.writer()?.append(changes));
        written.unwrap_or_else(|| Err(Error::Stopped { dir: self.dir.clone() }))
    }

    /// The groups that anything is kept of, also those whose log is damaged.
    pub fn shards(&self) -> Vec<ShardId> {
        self.writer().map_or(Vec::new(), |writer| writer.groups().live.keys().copied().collect())
    }

    /// The groups that were removed, with the last replica that was.
    pub fn removed(&self) -> Vec<(ShardId, ReplicaId)> {
        let removed = |writer: MutexGuard<'_, Writer>| writer.groups().removed.clone().into_iter().collect();
        self.writer().map_or(Vec::new(), removed)
    }

    /// Everything kept of one group. The first call after opening takes what recovery has read; later ones read the
    /// files again. `None` for an unknown group. An error about damage is about this group alone.
    pub fn load(&self, shard: ShardId) -> Result<Option<GroupLog>, Error> {
        self.writer()?.load(shard)
    }

    /// Where a group stands, without its entries.
    pub(crate) fn group(&self, shard: ShardId) -> Result<Option<Group>, Error> {
        Ok(self.writer()?.groups().get(shard).copied())
    }

    /// The term of an entry, as long as nobody has loaded its group.
    pub(crate) fn recovered_term(&self, shard: ShardId, index: u64) -> Result<Option<u64>, Error> {
        Ok(self.writer()?.recovered_term(shard, index))
    }

    /// The group that keeps the oldest segment from being freed, if that would give space back. Take a snapshot of this one
    /// first.
    pub fn oldest_shard(&self) -> Option<ShardId> {
        self.writer().ok()?.oldest_shard()
    }

    /// What the log occupies, spare segments included.
    pub fn bytes_on_disk(&self) -> u64 {
        self.writer().map_or(0, |writer| writer.bytes())
    }

    fn writer(&self) -> Result<MutexGuard<'_, Writer>, Error> {
        let stopped = || Error::Stopped { dir: self.dir.clone() };
        let writer = self.writer.lock().map_err(|_| stopped())?;
        if writer.is_stopped() { Err(stopped()) } else { Ok(writer) }
    }
}
