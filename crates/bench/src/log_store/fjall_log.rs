//! The log on fjall: one keyspace, keys in the order of shard and index, every turn one batch that is synced.

use std::path::Path;

use anyhow::Result;
use bytes::Bytes;
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch as WriteBatch, PersistMode};
use shardine_model::ids::ShardId;
use shardine_model::log::{HardState, LogEntry, LogEntryKind, LogWrite};

use super::store::LogStore;

/// The index under which the hard state lies: before every entry.
const HARD_STATE_INDEX: u64 = 0;

pub struct FjallLog {
    database: Database,
    entries: Keyspace,
}

impl FjallLog {
    pub fn open(dir: &Path) -> Result<Self> {
        let database = Database::builder(dir).journal_compression(CompressionType::None).worker_threads(2).open()?;
        let entries = database.keyspace("entries", KeyspaceCreateOptions::default)?;
        Ok(Self { database, entries })
    }

    fn batch(&self) -> WriteBatch {
        self.database.batch().durability(Some(PersistMode::SyncData))
    }

    fn stored(&self, shard: ShardId) -> Result<Vec<(u64, Bytes)>> {
        let mut stored = Vec::new();
        for guard in self.entries.prefix(shard.0.to_be_bytes()) {
            let (key, value) = guard.into_inner()?;
            let index = key.get(4..12).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
            stored.push((u64::from_be_bytes(index), Bytes::copy_from_slice(&value)));
        }
        Ok(stored)
    }

    fn put_hard_state(&self, batch: &mut WriteBatch, shard: ShardId, hard_state: HardState) {
        let numbers = [hard_state.term, hard_state.vote.0, hard_state.commit];
        let value: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        batch.insert(&self.entries, key(shard, HARD_STATE_INDEX), value);
    }

    /// There is no removal of a range that would be synced with the rest, so entries go one by one.
    fn remove(&self, batch: &mut WriteBatch, shard: ShardId, below: u64) -> Result<()> {
        for guard in self.entries.range(key(shard, 1)..key(shard, below)) {
            let key = guard.key()?;
            batch.remove(&self.entries, key);
        }
        Ok(())
    }
}

impl LogStore for FjallLog {
    fn write(&self, writes: Vec<LogWrite>) -> Result<()> {
        let mut batch = self.batch();
        for write in &writes {
            for entry in &write.entries {
                batch.insert(&self.entries, key(write.shard, entry.index), encode(entry));
            }
            if let Some(hard_state) = write.hard_state {
                self.put_hard_state(&mut batch, write.shard, hard_state);
            }
        }
        Ok(batch.commit()?)
    }

    fn shards(&self) -> Vec<ShardId> {
        let keys = self.entries.range::<[u8; 0], _>(..).filter_map(|guard| guard.key().ok());
        let mut shards: Vec<ShardId> = keys
            .filter_map(|key| key.get(..4).and_then(|bytes| bytes.try_into().ok()))
            .map(|bytes| ShardId(u32::from_be_bytes(bytes)))
            .collect();
        shards.dedup();
        shards
    }

    fn entries(&self, shard: ShardId) -> Result<Vec<LogEntry>> {
        let entries = self.stored(shard)?.into_iter().filter(|(index, _)| *index != HARD_STATE_INDEX);
        let entry = |(index, value): (u64, Bytes)| {
            let term = value.get(..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
            let kind = if value[8] == 0 { LogEntryKind::Normal } else { LogEntryKind::Membership };
            LogEntry { index, term, kind, data: value.slice(9..) }
        };
        Ok(entries.map(entry).collect())
    }

    fn truncate_before(&self, shards: &[ShardId], index: u64) -> Result<()> {
        let mut batch = self.batch();
        for shard in shards {
            self.remove(&mut batch, *shard, index)?;
        }
        Ok(batch.commit()?)
    }
}

fn key(shard: ShardId, index: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&shard.0.to_be_bytes());
    key[4..].copy_from_slice(&index.to_be_bytes());
    key
}

fn encode(entry: &LogEntry) -> Vec<u8> {
    let mut value = Vec::with_capacity(9 + entry.data.len());
    value.extend_from_slice(&entry.term.to_le_bytes());
    value.push(u8::from(entry.kind == LogEntryKind::Membership));
    value.extend_from_slice(&entry.data);
    value
}
