//! What the tests of the log share: a small log on either disk, entries to put into it, and a copy as a crash would leave it.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{HardState, LogEntry, LogEntryKind, LogWrite};
use shardine_store::{Disk, Error, LogStore, MemoryDisk, Options, OsDisk, SegmentLog};

pub const SMALL: Options = Options { segment_bytes: 16 << 10, spares_max: 2, fill_ahead: true };

/// A directory with a log, on the operating system's disk or on one in memory.
pub enum Ground {
    Os(tempfile::TempDir),
    Memory(MemoryDisk),
}

/// Tells a story on both disks.
pub fn on_both(story: impl Fn(&Ground)) {
    story(&Ground::Os(tempfile::tempdir().unwrap()));
    story(&Ground::Memory(MemoryDisk::new(1)));
}

impl Ground {
    pub fn dir(&self) -> &Path {
        match self {
            Self::Os(dir) => dir.path(),
            Self::Memory(_) => Path::new("/log"),
        }
    }

    pub fn disk(&self) -> Arc<dyn Disk> {
        match self {
            Self::Os(_) => Arc::new(OsDisk),
            Self::Memory(disk) => Arc::new(disk.clone()),
        }
    }

    /// How far apart the places are that a sweep looks at: every `step` where that is quick.
    pub fn step(&self, step: usize) -> usize {
        match self {
            Self::Os(_) => step * 29,
            Self::Memory(_) => step,
        }
    }

    pub fn open(&self) -> Result<SegmentLog, Error> {
        SegmentLog::open_on(self.disk(), self.dir(), SMALL)
    }

    /// The directory as it is now, in another place: what a process that is killed leaves behind. Without the spare that
    /// the log's own thread is making: it gets another name while this copies, and a restart would remove it.
    pub fn crash(&self) -> Self {
        match self {
            Self::Os(dir) => {
                let copy = tempfile::tempdir().unwrap();
                let paths = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
                for path in paths.filter(|path| path.extension().is_none_or(|ending| ending != "filling")) {
                    fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
                }
                Self::Os(copy)
            }
            Self::Memory(disk) => Self::Memory(disk.fork()),
        }
    }

    /// The log as the next process finds it. The directory goes with the first of the two.
    pub fn crash_and_open(&self) -> (Self, SegmentLog) {
        let crashed = self.crash();
        let log = crashed.open().unwrap();
        (crashed, log)
    }

    /// The files with this ending, by name.
    pub fn files(&self, ending: &str) -> Vec<PathBuf> {
        let mut names = self.disk().list(self.dir()).unwrap();
        names.retain(|name| Path::new(name).extension().is_some_and(|found| found == ending));
        names.sort();
        names.iter().map(|name| self.dir().join(name)).collect()
    }

    pub fn newest_segment(&self) -> PathBuf {
        self.files("seg").pop().unwrap()
    }

    pub fn read(&self, path: &Path) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.disk().read(path, &mut bytes).unwrap();
        bytes
    }

    pub fn put(&self, path: &Path, bytes: &[u8]) {
        match self {
            Self::Os(_) => fs::write(path, bytes).unwrap(),
            Self::Memory(disk) => disk.put(path, bytes),
        }
    }

    pub fn remove(&self, path: &Path) {
        self.disk().remove(path).unwrap();
    }
}

pub fn entry(index: u64, bytes: usize) -> LogEntry {
    let data = (0..bytes).map(|at| (index as usize * 31 + at) as u8).collect::<Vec<_>>();
    LogEntry { index, term: 1, kind: LogEntryKind::Normal, data: Bytes::from(data) }
}

pub fn entries(shard: u32, indexes: impl IntoIterator<Item = u64>, bytes: usize) -> LogWrite {
    LogWrite {
        shard: ShardId(shard),
        replica: ReplicaId(1),
        entries: indexes.into_iter().map(|index| entry(index, bytes)).collect(),
        hard_state: None,
    }
}

pub fn hard_state(commit: u64) -> HardState {
    HardState { term: 1, vote: ReplicaId(1), commit }
}

pub fn indexes(log: &SegmentLog, shard: u32) -> Vec<u64> {
    let group = log.load(ShardId(shard)).unwrap();
    group.entries.iter().map(|entry| entry.index).collect()
}

pub fn write<const N: usize>(log: &SegmentLog, writes: [LogWrite; N]) {
    try_write(log, writes).unwrap();
}

pub fn try_write<const N: usize>(log: &SegmentLog, writes: [LogWrite; N]) -> Result<(), Error> {
    log.write(&writes)
}

pub fn truncate(log: &SegmentLog, shard: u32, below: u64) {
    log.truncate_before(ShardId(shard), below).unwrap();
}

/// A snapshot of this index replaces what the log has of the shard.
pub fn reset(log: &SegmentLog, shard: u32, index: u64) {
    log.reset(ShardId(shard), hard_state(index)).unwrap();
}
