//! What the tests of the log share: a small log on either disk, entries to put into it, and a copy as a crash would leave it.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod model;
pub mod node;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use shardine_model::ids::{NodeId, ReplicaId, ShardId};
use shardine_model::log::{HardState, LogEntry, LogEntryKind, LogWrite};
use shardine_store::log::{Change, GroupLog, Start};
use shardine_store::{Disk, Error, MemoryDisk, Options, OsDisk, Owner, SegmentLog};

pub const SMALL: Options = Options { segment_bytes: 16 << 10, frame_bytes: 1 << 20, spares_max: 2, fill_ahead: true };

pub const OWNER: Owner = Owner { cluster: 0xc1, node: NodeId(4) };

/// A directory with a log, or with all that a node has, on the operating system's disk or on one in memory.
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
        SegmentLog::open(self.disk(), self.dir(), OWNER, Start::New, SMALL)
    }

    /// The directory as it is now, in another place: what a process that is killed leaves behind. Without the spare that
    /// the log's own thread is making: it gets another name while this copies, and a restart would remove it.
    pub fn crash(&self) -> Self {
        match self {
            Self::Os(dir) => {
                let copy = tempfile::tempdir().unwrap();
                copy_tree(dir.path(), copy.path());
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
        let mut found = self.below(self.dir());
        found.retain(|path| path.extension().is_some_and(|found| found == ending));
        found.sort();
        found
    }

    fn below(&self, dir: &Path) -> Vec<PathBuf> {
        let paths = self.disk().list(dir).unwrap().into_iter().map(|name| dir.join(name));
        paths.flat_map(|path| if self.disk().is_dir(&path) { self.below(&path) } else { vec![path] }).collect()
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

fn copy_tree(from: &Path, to: &Path) {
    let paths = fs::read_dir(from).unwrap().map(|file| file.unwrap().path());
    for path in paths.filter(|path| path.extension().is_none_or(|ending| ending != "filling")) {
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir(&copy).unwrap();
            copy_tree(&path, &copy);
        } else {
            fs::copy(&path, copy).unwrap();
        }
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

pub fn loaded(log: &SegmentLog, shard: u32) -> GroupLog {
    log.load(ShardId(shard)).unwrap().expect("the group is known")
}

pub fn indexes(log: &SegmentLog, shard: u32) -> Vec<u64> {
    loaded(log, shard).entries.iter().map(|entry| entry.index).collect()
}

pub fn write<const N: usize>(log: &SegmentLog, writes: [LogWrite; N]) {
    try_write(log, writes).unwrap();
}

pub fn try_write<const N: usize>(log: &SegmentLog, writes: [LogWrite; N]) -> Result<(), Error> {
    log.append(writes.into_iter().map(Change::Write).collect())
}

pub fn truncate(log: &SegmentLog, shard: u32, below: u64) {
    log.append(vec![Change::Truncate { shard: ShardId(shard), below }]).unwrap();
}

/// A snapshot of this index replaces what the log has of the shard.
pub fn reset(log: &SegmentLog, shard: u32, index: u64) {
    let (shard, replica) = (ShardId(shard), ReplicaId(1));
    log.append(vec![Change::Reset { shard, replica, hard_state: hard_state(index), index }]).unwrap();
}
