//! What the tests of the log share: a small log, entries to put into it, and a copy of it as a crash would leave it.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{HardState, LogEntry, LogEntryKind, LogWrite};
use shardine_store::{Error, LogStore, Options, SegmentLog};

pub const SMALL: Options = Options { segment_bytes: 16 << 10, spares_max: 2 };

pub fn open(dir: &Path) -> Result<SegmentLog, Error> {
    SegmentLog::open(dir, SMALL)
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

/// The directory as it is on disk now, in another place: what a process that is killed leaves behind. Without the spare
/// that the log's own thread is making: it gets another name while this copies, and a restart would remove it.
pub fn crash(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let paths = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    for path in paths.filter(|path| path.extension().is_none_or(|ending| ending != "filling")) {
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    copy
}

/// The log as the next process finds it. The directory goes with the first of the two.
pub fn crash_and_open(dir: &Path) -> (tempfile::TempDir, SegmentLog) {
    let crashed = crash(dir);
    let log = open(crashed.path()).unwrap();
    (crashed, log)
}

pub fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    found.sort();
    found
}
