//! Snapshots on disk: one file per snapshot, written in chunks, read in chunks. Does not know what the chunks mean.
//!
//! A snapshot appears whole or not at all: it is written under another name, synced, and renamed. When the new one
//! is in place the older ones of the shard go. Only the newest is kept: the log behind it is truncated, so an older
//! one could not be brought up to date, and falling back to it would forget entries that were promised.

mod format;

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use shardine_model::ids::ShardId;
use shardine_model::log::SnapshotMeta;

pub use self::format::CHUNK_BYTES_MAX;
use self::format::{Fault, Parser};
use crate::error::Error;
use crate::files;

const ENDING: &str = ".snap";
const UNFINISHED_ENDING: &str = ".unfinished";

/// The page cache is written out at least this often, so that the sync at the end does not hold up those of the log.
const SYNC_BYTES: usize = 8 << 20;

/// A snapshot that is being written. Dropped before `finish`, it leaves nothing behind.
pub struct SnapshotWriter {
    file: File,
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
        let dir = shard_dir(dir, shard);
        files::create_dir(&dir)?;
        let unfinished = dir.join(format!("{:020}{UNFINISHED_ENDING}", meta.index));
        let header = format::encode_header(shard, meta);
        let mut writer = Self {
            file: files::create_file(&unfinished)?,
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
        self.file.sync_all().map_err(Error::io("sync", &self.unfinished))?;
        let path = self.dir.join(format!("{:020}{ENDING}", self.index));
        files::rename(&self.unfinished, &path)?;
        self.finished = true;
        files::sync_dir(&self.dir)?;
        for (index, older) in files::numbered(&self.dir, ENDING)? {
            if index < self.index {
                files::remove(&older)?;
            }
        }
        Ok(path)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(Error::io("write", &self.unfinished))?;
        self.unsynced_bytes += bytes.len();
        if self.unsynced_bytes >= SYNC_BYTES {
            self.unsynced_bytes = 0;
            self.file.sync_data().map_err(Error::io("sync", &self.unfinished))?;
        }
        Ok(())
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.finished {
            // If this fails, `remove_unfinished` finds it at the next start.
            let _ = files::remove(&self.unfinished);
        }
    }
}

/// A snapshot that is being read. Its content may be used only after the last chunk was followed by `None`: only then is the
/// file known to be whole.
pub struct SnapshotReader {
    path: PathBuf,
    meta: SnapshotMeta,
    parser: Parser<BufReader<File>>,
    bytes: u64,
}

impl SnapshotReader {
    /// Opens the newest snapshot of a shard below `dir`, if there is one. Unfinished ones do not count.
    pub fn newest(dir: &Path, shard: ShardId) -> Result<Option<Self>, Error> {
        let dir = shard_dir(dir, shard);
        if !dir.exists() {
            return Ok(None);
        }
        match files::numbered(&dir, ENDING)?.pop() {
            Some((index, path)) => Self::open(path, shard, index).map(Some),
            None => Ok(None),
        }
    }

    fn open(path: PathBuf, shard: ShardId, index: u64) -> Result<Self, Error> {
        let mut file = File::open(&path).map_err(Error::io("open", &path))?;
        let bytes = file
            .seek(SeekFrom::End(0))
            .and_then(|bytes| file.rewind().map(|()| bytes))
            .map_err(Error::io("read", &path))?;
        let reader = BufReader::with_capacity(1 << 16, file);
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
    for (_, shard_dir) in shard_dirs(dir)? {
        for (_, unfinished) in files::numbered(&shard_dir, UNFINISHED_ENDING)? {
            files::remove(&unfinished)?;
        }
    }
    Ok(())
}

/// The shards that have a directory below `dir`.
pub fn shards(dir: &Path) -> Result<Vec<ShardId>, Error> {
    let dirs = shard_dirs(dir)?;
    Ok(dirs.into_iter().filter_map(|(number, _)| u32::try_from(number).ok()).map(ShardId).collect())
}

fn shard_dirs(dir: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    if dir.exists() { files::numbered(dir, "") } else { Ok(Vec::new()) }
}

fn shard_dir(dir: &Path, shard: ShardId) -> PathBuf {
    dir.join(shard.to_string())
}
