//! The log on raft-engine: files recycled and prefilled, no compression, only the tail may be damaged.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize, RecoveryMode};
use raft_proto::eraftpb::{Entry, EntryType};
use shardine_model::ids::ShardId;
use shardine_model::log::{LogEntry, LogEntryKind, LogWrite};

use super::Space;
use super::store::LogStore;

const HARD_STATE_KEY: &[u8] = b"hard";

struct Entries;

impl MessageExt for Entries {
    type Entry = Entry;

    fn index(entry: &Entry) -> u64 {
        entry.index
    }
}

pub struct RaftEngineLog {
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
        Ok(Self { engine: Engine::open(config)?, batch: Mutex::default() })
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
    fn write(&self, writes: Vec<LogWrite>) -> Result<()> {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        for write in &writes {
            Self::stage(&mut batch, write)?;
        }
        self.engine.write(&mut batch, true)?;
        Ok(())
    }

    fn shards(&self) -> Vec<ShardId> {
        self.engine.raft_groups().into_iter().map(|region| ShardId(region as u32)).collect()
    }

    fn entries(&self, shard: ShardId) -> Result<Vec<LogEntry>> {
        let region = u64::from(shard.0);
        let mut found = Vec::new();
        if let (Some(first), Some(last)) = (self.engine.first_index(region), self.engine.last_index(region)) {
            self.engine.fetch_entries_to::<Entries>(region, first, last + 1, None, &mut found)?;
        }
        Ok(found.into_iter().map(decode).collect())
    }

    fn truncate_before(&self, shards: &[ShardId], index: u64) -> Result<()> {
        for shard in shards {
            self.engine.compact_to(u64::from(shard.0), index);
        }
        self.engine.purge_expired_files()?;
        Ok(())
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
