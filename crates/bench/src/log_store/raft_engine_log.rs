//! The log on raft-engine: files recycled and prefilled, no compression, only the tail may be damaged.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use raft_engine::{Command, Config, Engine, LogBatch, MessageExt, ReadableSize, RecoveryMode};
use raft_proto::eraftpb::{Entry, EntryType};
use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{HardState, LogEntry, LogEntryKind, LogWrite};
use shardine_store::{Error, GroupLog, LogStore};

use super::Space;

const HARD_STATE_KEY: &[u8] = b"hard";

struct Entries;

impl MessageExt for Entries {
    type Entry = Entry;

    fn index(entry: &Entry) -> u64 {
        entry.index
    }
}

pub struct RaftEngineLog {
    dir: PathBuf,
    engine: Engine,
    /// Kept between writes for its memory.
    batch: Mutex<LogBatch>,
}

impl RaftEngineLog {
    pub fn open(dir: &Path, space: Space) -> Result<Self> {
        let config = Config {
            dir: dir.display().to_string(),
            recovery_mode: RecoveryMode::TolerateTailCorruption,
            recovery_threads: 2,
            batch_compression_threshold: ReadableSize(0),
            target_file_size: ReadableSize::mb(32),
            purge_threshold: ReadableSize::mb(128),
            enable_log_recycle: true,
            prefill_for_recycle: space == Space::Prepared,
            ..Config::default()
        };
        Ok(Self { dir: dir.to_path_buf(), engine: Engine::open(config)?, batch: Mutex::default() })
    }

    fn error(&self, error: raft_engine::Error) -> Error {
        Error::Io { action: "use the raft-engine log in", path: self.dir.clone(), cause: io::Error::other(error) }
    }

    fn stage(batch: &mut LogBatch, write: &LogWrite) -> raft_engine::Result<()> {
        let region = u64::from(write.shard.0);
        let entries: Vec<Entry> = write.entries.iter().map(encode).collect();
        batch.add_entries::<Entries>(region, &entries)?;
        if let Some(hard_state) = write.hard_state {
            let numbers = [hard_state.term, hard_state.vote.0, hard_state.commit];
            let value = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            batch.put(region, HARD_STATE_KEY.to_vec(), value)?;
        }
        Ok(())
    }
}

impl LogStore for RaftEngineLog {
    fn write(&self, writes: &[LogWrite]) -> Result<(), Error> {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        for write in writes {
            Self::stage(&mut batch, write).map_err(|error| self.error(error))?;
        }
        self.engine.write(&mut batch, true).map_err(|error| self.error(error))?;
        Ok(())
    }

    fn shards(&self) -> Vec<ShardId> {
        self.engine.raft_groups().into_iter().map(|region| ShardId(region as u32)).collect()
    }

    fn load(&self, shard: ShardId) -> Result<GroupLog, Error> {
        let region = u64::from(shard.0);
        let mut found = Vec::new();
        if let (Some(first), Some(last)) = (self.engine.first_index(region), self.engine.last_index(region)) {
            self.engine
                .fetch_entries_to::<Entries>(region, first, last + 1, None, &mut found)
                .map_err(|error| self.error(error))?;
        }
        let value = self.engine.get(region, HARD_STATE_KEY).unwrap_or_default();
        let number = |at: usize| {
            let bytes = value.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let hard_state = HardState { term: number(0), vote: ReplicaId(number(8)), commit: number(16) };
        Ok(GroupLog { hard_state, entries: found.into_iter().map(decode).collect() })
    }

    fn truncate_before(&self, shard: ShardId, index: u64) -> Result<(), Error> {
        self.engine.compact_to(u64::from(shard.0), index);
        self.engine.purge_expired_files().map_err(|error| self.error(error))?;
        Ok(())
    }

    fn reset(&self, shard: ShardId, hard_state: HardState) -> Result<(), Error> {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        batch.add_command(u64::from(shard.0), Command::Clean);
        let write = LogWrite { shard, replica: ReplicaId(1), entries: Vec::new(), hard_state: Some(hard_state) };
        Self::stage(&mut batch, &write).map_err(|error| self.error(error))?;
        self.engine.write(&mut batch, true).map_err(|error| self.error(error))?;
        Ok(())
    }

    fn oldest_shard(&self) -> Option<ShardId> {
        None
    }

    fn bytes_on_disk(&self) -> u64 {
        self.engine.get_used_size() as u64
    }
}

fn encode(entry: &LogEntry) -> Entry {
    let mut encoded = Entry { index: entry.index, term: entry.term, data: entry.data.clone(), ..Entry::default() };
    if entry.kind == LogEntryKind::Membership {
        encoded.set_entry_type(EntryType::EntryConfChangeV2);
    }
    encoded
}

fn decode(entry: Entry) -> LogEntry {
    let kind = match entry.get_entry_type() {
        EntryType::EntryNormal => LogEntryKind::Normal,
        _ => LogEntryKind::Membership,
    };
    LogEntry { index: entry.index, term: entry.term, kind, data: entry.data }
}
