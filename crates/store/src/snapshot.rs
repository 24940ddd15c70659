//! Snapshots on disk: one file per snapshot, written in chunks, read in chunks. Does not know what the chunks mean.
//!
//! A snapshot appears whole or not at all: it is written under another name, synced, and renamed. When the new one
//! is in place the older ones of the shard go. Only the newest is kept: the log behind it is truncated, so an older
//! one could not be brought up to date, and falling back to it would forget entries that were promised.

mod format;

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shardine_model::ids::ShardId;
use shardine_model::log::SnapshotMeta;

pub use self::format::CHUNK_BYTES_MAX;
use self::format::{Fault, Parser};
use crate::disk::{Cache, DiskFile, OsDisk};
use crate::error::Error;
use crate::files::Files;

const ENDING: &str = ".snap";
const UNFINISHED_ENDING: &str = ".unfinished";

/// The page cache is written out at least this often, so that the sync at the end does not hold up those of the log.
const SYNC_BYTES: usize = 8 << 20;

/// A snapshot that is being written. Dropped before `finish`, it leaves nothing behind.
pub struct SnapshotWriter {
    files: Files,
    file: Box<dyn DiskFile>,
    /// Where the next byte goes.
    offset: u64,
    dir: PathBuf,
    unfinished: PathBuf,
    index: u64,
    footer: format::Footer,
    unsynced_bytes: usize,
    finished: bool,
}

impl SnapshotWriter {
    /// Begins a snapshot of `shard` below `dir`. Two writers of one shard must be at different indexes.
    pub fn create(dir: &Path, shard: ShardId, meta: &SnapshotMeta) -> Result<Self, Error> {
        let files = os();
        let dir = shard_dir(dir, shard);
        files.create_dir(&dir)?;
        let unfinished = dir.join(format!("{:020}{UNFINISHED_ENDING}", meta.index));
        let header = format::encode_header(shard, meta);
        let mut writer = Self {
            file: files.create(&unfinished)?,
            files,
            offset: 0,
            dir,
            unfinished,
            index: meta.index,
            footer: format::Footer::after(&header),
            unsynced_bytes: 0,
            finished: false,
        };
        writer.write(&header)?;
        Ok(writer)
    }

    /// Adds a chunk.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Error> {
        if chunk.len() > CHUNK_BYTES_MAX {
            return Err(Error::ChunkTooLarge { bytes: chunk.len(), bytes_max: CHUNK_BYTES_MAX });
        }
        let head = self.footer.note(chunk);
        self.write(&head)?;
        self.write(chunk)
    }

    /// Makes the snapshot the newest of its shard, for good, and removes the older ones. Returns its file.
    pub fn finish(mut self) -> Result<PathBuf, Error> {
        let footer = self.footer.encode();
        self.write(&footer)?;
        self.file.sync().map_err(Error::io("sync", &self.unfinished))?;
        let path = self.dir.join(format!("{:020}{ENDING}", self.index));
        self.files.rename(&self.unfinished, &path)?;
        self.finished = true;
        self.files.sync_dir(&self.dir)?;
        for (index, older) in self.files.numbered(&self.dir, ENDING)? {
            if index < self.index {
                self.files.remove(&older)?;
            }
        }
        Ok(path)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_at(bytes, self.offset).map_err(Error::io("write", &self.unfinished))?;
        self.offset += bytes.len() as u64;
        self.unsynced_bytes += bytes.len();
        if self.unsynced_bytes >= SYNC_BYTES {
            self.unsynced_bytes = 0;
            self.file.sync().map_err(Error::io("sync", &self.unfinished))?;
        }
        Ok(())
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.finished {
            // If this fails, `remove_unfinished` finds it at the next start.
            let _ = self.files.remove(&self.unfinished);
        }
    }
}

/// A snapshot that is being read. Its content may be used only after the last chunk was followed by `None`: only then is the
/// file known to be whole.
pub struct SnapshotReader {
    path: PathBuf,
    meta: SnapshotMeta,
    parser: Parser<BufReader<FromFile>>,
    bytes: u64,
}

impl SnapshotReader {
    /// Opens the newest snapshot of a shard below `dir`, if there is one. Unfinished ones do not count.
    pub fn newest(dir: &Path, shard: ShardId) -> Result<Option<Self>, Error> {
        let files = os();
        let dir = shard_dir(dir, shard);
        if !files.disk().is_dir(&dir) {
            return Ok(None);
        }
        match files.numbered(&dir, ENDING)?.pop() {
            Some((index, path)) => Self::open(&files, path, shard, index).map(Some),
            None => Ok(None),
        }
    }

    fn open(files: &Files, path: PathBuf, shard: ShardId, index: u64) -> Result<Self, Error> {
        let file = files.open(&path, Cache::Through)?;
        let bytes = file.size().map_err(Error::io("look at", &path))?;
        let reader = BufReader::with_capacity(1 << 16, FromFile { file, offset: 0 });
        let (parser, found, meta) = Parser::begin(reader).map_err(|fault| fault.at(&path))?;
        if (found, meta.index) != (shard, index) {
            let fault = Fault::Damaged(format!(
                "it holds shard {found} at {}, its name says shard {shard} at {index}",
                meta.index
            ));
            return Err(fault.at(&path));
        }
        Ok(Self { path, meta, parser, bytes })
    }

    #[must_use]
    pub fn meta(&self) -> &SnapshotMeta {
        &self.meta
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next chunk, checked. `None` after the last one, when the whole file was found in order.
    pub fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.parser.next_chunk().map_err(|fault| fault.at(&self.path))
    }
}

/// Reads a whole snapshot file from memory. For fuzzing: whatever the bytes are, the answer is a snapshot or an error.
pub fn decode_all(bytes: &[u8]) -> Result<(SnapshotMeta, Vec<Vec<u8>>), Error> {
    let path = Path::new("(memory)");
    let (mut parser, _, meta) = Parser::begin(bytes).map_err(|fault| fault.at(path))?;
    let chunks = read_all(&mut parser).map_err(|fault| fault.at(path))?;
    Ok((meta, chunks))
}

fn read_all(parser: &mut Parser<impl Read>) -> Result<Vec<Vec<u8>>, Fault> {
    let mut chunks = Vec::new();
    while let Some(chunk) = parser.next_chunk()? {
        chunks.push(chunk);
    }
    Ok(chunks)
}

/// Removes what an interrupted process left half written. To be called at the start, before there are writers.
pub fn remove_unfinished(dir: &Path) -> Result<(), Error> {
    let files = os();
    for (_, shard_dir) in shard_dirs(&files, dir)? {
        for (_, unfinished) in files.numbered(&shard_dir, UNFINISHED_ENDING)? {
            files.remove(&unfinished)?;
        }
    }
    Ok(())
}

/// The shards that have a directory below `dir`.
pub fn shards(dir: &Path) -> Result<Vec<ShardId>, Error> {
    let dirs = shard_dirs(&os(), dir)?;
    Ok(dirs.into_iter().filter_map(|(number, _)| u32::try_from(number).ok()).map(ShardId).collect())
}

fn shard_dirs(files: &Files, dir: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    if files.disk().is_dir(dir) { files.numbered(dir, "") } else { Ok(Vec::new()) }
}

fn os() -> Files {
    Files::new(Arc::new(OsDisk))
}

/// Reads a file from its beginning to its end.
struct FromFile {
    file: Box<dyn DiskFile>,
    offset: u64,
}

impl Read for FromFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(bytes, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

fn shard_dir(dir: &Path, shard: ShardId) -> PathBuf {
    dir.join(shard.to_string())
}
