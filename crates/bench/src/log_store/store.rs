//! What is asked of a candidate, and of ours through the same door.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use shardine_model::ids::{NodeId, ShardId};
use shardine_model::log::{LogEntry, LogWrite};
use shardine_store::disk::{Cache, DirLock, DiskFile};
use shardine_store::log::{Change, Start};
use shardine_store::{Disk, Options, OsDisk, Owner, SegmentLog};

/// Keeps the logs of all groups of a node.
pub trait LogStore: Send + Sync {
    /// Writes everything of one lane turn, all groups. Returns after it is on disk.
    fn write(&self, writes: Vec<LogWrite>) -> Result<()>;

    fn shards(&self) -> Vec<ShardId>;

    fn entries(&self, shard: ShardId) -> Result<Vec<LogEntry>>;

    /// Forgets the entries below `index` of many groups at once.
    fn truncate_before(&self, shards: &[ShardId], index: u64) -> Result<()>;

    /// How often it has asked the disk to sync, if it can be told.
    fn syncs(&self) -> Option<u64> {
        None
    }
}

/// Ours, on a disk that counts.
pub struct Segments {
    log: SegmentLog,
    syncs: Arc<AtomicU64>,
}

impl Segments {
    pub fn open(dir: &Path, options: Options) -> Result<Self> {
        let syncs = Arc::<AtomicU64>::default();
        let disk = Arc::new(CountingDisk { syncs: Arc::clone(&syncs) });
        let owner = Owner { cluster: 1, node: NodeId(1) };
        Ok(Self { log: SegmentLog::open(disk, dir, owner, Start::New, options)?, syncs })
    }
}

impl LogStore for Segments {
    fn write(&self, writes: Vec<LogWrite>) -> Result<()> {
        Ok(self.log.append(writes.into_iter().map(Change::Write).collect())?)
    }

    fn shards(&self) -> Vec<ShardId> {
        self.log.shards()
    }

    fn entries(&self, shard: ShardId) -> Result<Vec<LogEntry>> {
        Ok(self.log.load(shard)?.map_or_else(Vec::new, |group| group.entries))
    }

    fn truncate_before(&self, shards: &[ShardId], index: u64) -> Result<()> {
        Ok(self.log.append(shards.iter().map(|&shard| Change::Truncate { shard, below: index }).collect())?)
    }

    fn syncs(&self) -> Option<u64> {
        Some(self.syncs.load(Ordering::Relaxed))
    }
}

#[derive(Debug)]
struct CountingDisk {
    syncs: Arc<AtomicU64>,
}

impl CountingDisk {
    fn counted(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(CountingFile { file, syncs: Arc::clone(&self.syncs) })
    }
}

impl Disk for CountingDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        OsDisk.create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        // Spares are filled beside the log: their syncs are not those of writes.
        OsDisk.create(path)
    }

    fn open(&self, path: &Path, cache: Cache) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.counted(OsDisk.open(path, cache)?))
    }

    fn read(&self, path: &Path, bytes: &mut Vec<u8>) -> io::Result<()> {
        OsDisk.read(path, bytes)
    }

    fn is_dir(&self, path: &Path) -> bool {
        OsDisk.is_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        OsDisk.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        OsDisk.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        OsDisk.remove_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        OsDisk.sync_dir(path)
    }

    fn lock(&self, dir: &Path) -> io::Result<Option<Box<dyn DirLock>>> {
        OsDisk.lock(dir)
    }

    fn draw(&self) -> u64 {
        OsDisk.draw()
    }
}

#[derive(Debug)]
struct CountingFile {
    file: Box<dyn DiskFile>,
    syncs: Arc<AtomicU64>,
}

impl DiskFile for CountingFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync()
    }
}
