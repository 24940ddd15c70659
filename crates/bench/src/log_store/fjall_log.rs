//! The log on fjall: one keyspace, keys in the order of shard and index, every turn one batch that is synced.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use bytes::Bytes;
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch as WriteBatch, PersistMode};
use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{HardState, LogEntry, LogEntryKind, LogWrite};
use shardine_store::{Error, GroupLog, LogStore};

/// The index under which the hard state lies: before every entry.
const HARD_STATE_INDEX: u64 = 0;

pub struct FjallLog {
    dir: PathBuf,
    database: Database,
    entries: Keyspace,
}

impl FjallLog {
    pub fn open(dir: &Path) -> Result<Self> {
        let database = Database::builder(dir).journal_compression(CompressionType::None).worker_threads(2).open()?;
        let entries = database.keyspace("entries", KeyspaceCreateOptions::default)?;
        Ok(Self { dir: dir.to_path_buf(), database, entries })
    }

    fn error(&self, error: fjall::Error) -> Error {
        Error::Io { action: "use the fjall log in", path: self.dir.clone(), cause: io::Error::other(error) }
    }

    fn batch(&self) -> WriteBatch {
        self.database.batch().durability(Some(PersistMode::SyncData))
    }

    fn stored(&self, shard: ShardId) -> Result<Vec<(u64, Bytes)>, Error> {
        let mut stored = Vec::new();
        for guard in self.entries.prefix(shard.0.to_be_bytes()) {
            let (key, value) = guard.into_inner().map_err(|error| self.error(error))?;
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
    fn remove(&self, batch: &mut WriteBatch, shard: ShardId, below: u64) -> Result<(), Error> {
        for guard in self.entries.range(key(shard, 1)..key(shard, below)) {
            let key = guard.key().map_err(|error| self.error(error))?;
            batch.remove(&self.entries, key);
        }
        Ok(())
    }
}

impl LogStore for FjallLog {
    fn write(&self, writes: &[LogWrite]) -> Result<(), Error> {
        let mut batch = self.batch();
        for write in writes {
            for entry in &write.entries {
                batch.insert(&self.entries, key(write.shard, entry.index), encode(entry));
            }
            if let Some(hard_state) = write.hard_state {
                self.put_hard_state(&mut batch, write.shard, hard_state);
            }
        }
        batch.commit().map_err(|error| self.error(error))
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

    fn load(&self, shard: ShardId) -> Result<GroupLog, Error> {
        let mut group = GroupLog::default();
        for (index, value) in self.stored(shard)? {
            let number = |at: usize| {
                let bytes = value.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
                u64::from_le_bytes(bytes.unwrap_or_default())
            };
            if index == HARD_STATE_INDEX {
                group.hard_state = HardState { term: number(0), vote: ReplicaId(number(8)), commit: number(16) };
            } else {
                let kind = if value[8] == 0 { LogEntryKind::Normal } else { LogEntryKind::Membership };
                group.entries.push(LogEntry { index, term: number(0), kind, data: value.slice(9..) });
            }
        }
        Ok(group)
    }

    fn truncate_before(&self, shard: ShardId, index: u64) -> Result<(), Error> {
        let mut batch = self.batch();
        self.remove(&mut batch, shard, index)?;
        batch.commit().map_err(|error| self.error(error))
    }

    fn reset(&self, shard: ShardId, hard_state: HardState) -> Result<(), Error> {
        let mut batch = self.batch();
        self.remove(&mut batch, shard, u64::MAX)?;
        self.put_hard_state(&mut batch, shard, hard_state);
        batch.commit().map_err(|error| self.error(error))
    }

    fn oldest_shard(&self) -> Option<ShardId> {
        None
    }

    fn bytes_on_disk(&self) -> u64 {
        self.database.disk_space().unwrap_or(0)
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
