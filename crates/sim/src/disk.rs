//! A node's disk: one log for all its shards and a snapshot for each. A crash keeps what was synced, and of what was not
//! a prefix of random length.

use std::collections::{BTreeMap, VecDeque};

use shardine_model::entry::KIND_COMMANDS;
use shardine_model::log::{HardState, LogEntry, LogEntryKind, SnapshotMeta};
use shardine_model::{Entry, RowKey};
use shardine_records::Records;
use shardine_shard::{Persist, Restored};

use crate::chance::{Chance, fingerprint};
use crate::universe::split_chunks;

/// What is safely stored of one shard. Invariant: `entries` follow the snapshot without a gap; only a planted bug of the
/// host can break it, and [`Disk::restore`] then says so.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    pub snapshot: SnapshotMeta,
    chunks: Vec<Vec<u8>>,
    pub entries: VecDeque<LogEntry>,
    pub hard_state: HardState,
}

/// What is remembered of an entry for comparing it with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Believed {
    pub term: u64,
    pub print: u64,
    pub kind: Kind,
}

/// What an entry is about, as far as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Kick,
    Expire,
    Purge,
    Refused,
    Raise,
    /// SQL's row takes the place of this one of memory's.
    Settle {
        row: u64,
    },
    Other,
}

impl Believed {
    fn of(entry: &LogEntry) -> Self {
        Self { term: entry.term, print: fingerprint(&entry.data), kind: Kind::of(entry) }
    }
}

impl Kind {
    fn of(entry: &LogEntry) -> Self {
        // Commands are the most, and need not be looked into.
        if entry.data.get(1).is_none_or(|kind| *kind == KIND_COMMANDS) || entry.kind == LogEntryKind::Membership {
            return Self::Other;
        }
        match Entry::decode(&entry.data) {
            Ok(Entry::Kick(_)) => Self::Kick,
            Ok(Entry::Expire { .. }) => Self::Expire,
            Ok(Entry::Purge(_)) => Self::Purge,
            Ok(Entry::Refused { .. }) => Self::Refused,
            Ok(Entry::Raise(_)) => Self::Raise,
            Ok(Entry::Settle(settled)) => Self::Settle { row: row_print(settled.row) },
            Ok(_) | Err(_) => Self::Other,
        }
    }
}

/// Tells rows apart.
#[must_use]
pub fn row_print(row: RowKey<'_>) -> u64 {
    fingerprint(&[&row.table.0.to_le_bytes(), row.key, b"@", row.sort].concat())
}

#[derive(Debug)]
pub struct Disk {
    shards: Vec<Stored>,
    queue: VecDeque<(usize, Persist)>,
    /// How many writes at the front of the queue the running sync covers.
    syncing: usize,
    /// Each entry as the node believes its log to be, synced or not.
    believed: Vec<BTreeMap<u64, Believed>>,
}

impl Disk {
    #[must_use]
    pub fn new(shards: usize, first: SnapshotMeta) -> Self {
        let stored = Stored { snapshot: first, ..Stored::default() };
        Self {
            shards: vec![stored; shards],
            queue: VecDeque::new(),
            syncing: 0,
            believed: vec![BTreeMap::new(); shards],
        }
    }

    #[must_use]
    pub fn stored(&self, shard: usize) -> &Stored {
        &self.shards[shard]
    }

    /// The entry at this index of the log as the node sees it.
    #[must_use]
    pub fn believed(&self, shard: usize, index: u64) -> Option<Believed> {
        self.believed[shard].get(&index).copied()
    }

    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.syncing == 0
    }

    pub fn push(&mut self, shard: usize, persist: Persist) {
        let believed = &mut self.believed[shard];
        if persist.install.is_some() {
            believed.clear();
        }
        if let Some(first) = persist.write.entries.first() {
            believed.split_off(&first.index);
        }
        for entry in &persist.write.entries {
            believed.insert(entry.index, Believed::of(entry));
        }
        self.queue.push_back((shard, persist));
    }

    /// Begins to sync everything that waits. False if there is nothing to do or a sync is running.
    pub fn start_sync(&mut self) -> bool {
        if self.syncing > 0 || self.queue.is_empty() {
            return false;
        }
        self.syncing = self.queue.len();
        true
    }

    /// The running sync is done: gives, for each shard that took part, the newest write that is now safe.
    pub fn finish_sync(&mut self) -> BTreeMap<usize, u64> {
        let mut done = BTreeMap::new();
        for _ in 0..std::mem::take(&mut self.syncing) {
            let (shard, persist) = self.queue.pop_front().expect("the sync covered it");
            done.insert(shard, persist.number);
            self.shards[shard].take(persist);
        }
        done
    }

    /// Loses a random part of what was not synced; says how many writes.
    pub fn crash(&mut self, chance: &mut Chance) -> usize {
        let kept = chance.index(self.queue.len() + 1);
        let lost = self.queue.len() - kept;
        for (shard, persist) in self.queue.drain(..).take(kept) {
            self.shards[shard].take(persist);
        }
        self.syncing = 0;
        for (shard, stored) in self.shards.iter().enumerate() {
            let entries = stored.entries.iter();
            self.believed[shard] = entries.map(|entry| (entry.index, Believed::of(entry))).collect();
        }
        lost
    }

    /// Stores a finished snapshot, unless a newer one is there.
    pub fn save_snapshot(&mut self, shard: usize, meta: SnapshotMeta, chunks: Vec<Vec<u8>>) {
        let stored = &mut self.shards[shard];
        if meta.index > stored.snapshot.index {
            stored.chunks = chunks;
            stored.snapshot = meta;
        }
    }

    /// Cuts the log up to an index.
    pub fn truncate(&mut self, shard: usize, up_to: u64) {
        let entries = &mut self.shards[shard].entries;
        while entries.front().is_some_and(|entry| entry.index <= up_to) {
            entries.pop_front();
        }
    }

    /// What a starting node finds. An error means that the log has a hole.
    pub fn restore(&self, shard: usize, seed: u64) -> Result<(Records, Restored), String> {
        let stored = &self.shards[shard];
        for (place, entry) in stored.entries.iter().enumerate() {
            let expected = stored.snapshot.index + 1 + place as u64;
            if entry.index != expected {
                return Err(format!("the log has a hole: entry {} stands where {expected} should", entry.index));
            }
        }
        let mut records = Records::new(seed);
        for chunk in &stored.chunks {
            records.restore_chunk(chunk).map_err(|error| format!("a snapshot cannot be read: {error}"))?;
        }
        let entries = stored.entries.iter().cloned().collect();
        Ok((records, Restored { snapshot: stored.snapshot.clone(), hard_state: stored.hard_state, entries }))
    }
}

impl Stored {
    fn take(&mut self, persist: Persist) {
        if let Some((meta, data)) = persist.install {
            self.chunks = split_chunks(&data);
            self.snapshot = meta;
            self.entries.clear();
        }
        if let Some(hard_state) = persist.write.hard_state {
            assert!(hard_state.term >= self.hard_state.term, "a term on disk never goes back (I4)");
            self.hard_state = hard_state;
        }
        if let Some(first) = persist.write.entries.first() {
            while self.entries.back().is_some_and(|entry| entry.index >= first.index) {
                self.entries.pop_back();
            }
        }
        let behind = self.snapshot.index;
        self.entries.extend(persist.write.entries.into_iter().filter(|entry| entry.index > behind));
    }

    /// Whether the entry of this index and term is here, as itself or within the snapshot.
    #[must_use]
    pub fn holds(&self, index: u64, term: u64) -> bool {
        if index <= self.snapshot.index {
            return true;
        }
        let Some(front) = self.entries.front() else { return false };
        let place = index.checked_sub(front.index).and_then(|place| self.entries.get(place as usize));
        place.is_some_and(|entry| entry.term == term && entry.index == index)
    }
}
