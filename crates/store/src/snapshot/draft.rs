//! Snapshots that are being written: cut here, or received from a peer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shardine_model::ids::ShardId;

use super::Snapshots;
use super::format::{CHUNK_BYTES_MAX, Footer, Header};
use crate::disk::DiskFile;
use crate::error::Error;
use crate::files::Files;

/// The page cache is written out at least this often, so that the sync at the end does not hold up those of the log.
const SYNC_BYTES: usize = 8 << 20;

/// A snapshot that is cut here. Dropped before `finish`, it leaves nothing behind.
#[derive(Debug)]
pub struct SnapshotWriter {
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) draft: Draft,
}

impl SnapshotWriter {
    /// Adds a chunk.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.draft.push(chunk)
    }

    /// Makes the snapshot the newest of its shard, for good, and removes the older ones. Returns its file.
    pub fn finish(self) -> Result<PathBuf, Error> {
        let finished = self.draft.finish()?;
        let shard = finished.header.shard;
        let path = self.snapshots.publish(finished)?;
        self.snapshots.remove_older(shard)?;
        Ok(path)
    }
}

/// A snapshot that comes from a peer, chunk by chunk. Dropped before `stage`, it leaves nothing behind.
#[derive(Debug)]
pub struct SnapshotReceiver {
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) draft: Draft,
}

impl SnapshotReceiver {
    /// Adds a chunk.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.draft.push(chunk)
    }

    /// All chunks have come: the snapshot is on disk under a name of its own and waits to be installed. Those that nobody takes are
    /// removed with the next one that is taken, and when the process ends.
    pub fn stage(self) -> Result<(), Error> {
        self.snapshots.stage(self.draft.finish()?);
        Ok(())
    }

    /// Without waiting for anybody.
    pub(crate) fn finish(self) -> Result<Finished, Error> {
        self.draft.finish()
    }
}

/// A file that is not a snapshot yet.
#[derive(Debug)]
pub(super) struct Draft {
    unfinished: Unfinished,
    file: Box<dyn DiskFile>,
    header: Header,
    footer: Footer,
    /// Where the next byte goes.
    offset: u64,
    unsynced_bytes: usize,
}

impl Draft {
    pub(super) fn create(files: Files, path: PathBuf, header: Header) -> Result<Self, Error> {
        let file = files.create(&path)?;
        let bytes = header.encode();
        let mut draft = Self {
            unfinished: Unfinished { files, path, is_named: false },
            file,
            header,
            footer: Footer::after(&bytes),
            offset: 0,
            unsynced_bytes: 0,
        };
        draft.write(&bytes)?;
        Ok(draft)
    }

    fn push(&mut self, chunk: &[u8]) -> Result<(), Error> {
        if chunk.len() > CHUNK_BYTES_MAX {
            return Err(Error::ChunkTooLarge { bytes: chunk.len(), bytes_max: CHUNK_BYTES_MAX });
        }
        let head = self.footer.note(chunk);
        self.write(&head)?;
        self.write(chunk)
    }

    fn finish(mut self) -> Result<Finished, Error> {
        let footer = self.footer.encode();
        self.write(&footer)?;
        self.sync()?;
        Ok(Finished { unfinished: self.unfinished, header: self.header })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_at(bytes, self.offset).map_err(Error::io("write", &self.unfinished.path))?;
        self.offset += bytes.len() as u64;
        self.unsynced_bytes += bytes.len();
        if self.unsynced_bytes >= SYNC_BYTES { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.unsynced_bytes = 0;
        self.file.sync().map_err(Error::io("sync", &self.unfinished.path))
    }
}

/// A file with all of a snapshot in it, synced, that has no name yet.
#[derive(Debug)]
pub(crate) struct Finished {
    unfinished: Unfinished,
    pub(super) header: Header,
}

impl Finished {
    pub(crate) fn shard(&self) -> ShardId {
        self.header.shard
    }

    pub(super) fn rename(&mut self, path: &Path) -> Result<(), Error> {
        self.unfinished.files.rename(&self.unfinished.path, path)?;
        self.unfinished.is_named = true;
        Ok(())
    }
}

/// Takes the file along when nobody wants it.
#[derive(Debug)]
struct Unfinished {
    files: Files,
    path: PathBuf,
    is_named: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_named {
            // If this fails, the next start finds it.
            let _ = self.files.remove(&self.path);
        }
    }
}
