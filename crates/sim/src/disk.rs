//! A node's disk: one log for all its groups and a snapshot for each. A crash keeps what was synced, and of what was not
//! a prefix of random length.

use std::collections::{BTreeMap, VecDeque};

use shardine_model::codec::Reader;
use shardine_model::log::{HardState, LogEntry, SnapshotMeta};
use shardine_shard::{Persist, Restored};

use crate::chance::Chance;

/// What is safely stored of one group. Invariant: `entries` follow the snapshot without a gap; only a planted bug of the
/// host can break it, and [`Stored::restore`] then says so.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    pub snapshot: SnapshotMeta,
    chunks: Vec<Vec<u8>>,
    pub entries: VecDeque<LogEntry>,
    pub hard_state: HardState,
}

#[derive(Debug)]
pub struct Disk {
    groups: Vec<Stored>,
    queue: VecDeque<(usize, Persist)>,
    /// How many writes at the front of the queue the running sync covers.
    syncing: usize,
}

impl Disk {
    #[must_use]
    pub fn new(groups: usize, first: SnapshotMeta) -> Self {
        let stored = Stored { snapshot: first, ..Stored::default() };
        Self { groups: vec![stored; groups], queue: VecDeque::new(), syncing: 0 }
    }

    #[must_use]
    pub fn stored(&self, group: usize) -> &Stored {
        &self.groups[group]
    }

    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.syncing == 0
    }

    pub fn push(&mut self, group: usize, persist: Persist) {
        self.queue.push_back((group, persist));
    }

    /// Begins to sync everything that waits. False if there is nothing to do or a sync is running.
    pub fn start_sync(&mut self) -> bool {
        if self.syncing > 0 || self.queue.is_empty() {
            return false;
        }
        self.syncing = self.queue.len();
        true
    }

    /// The running sync is done: gives, for each group that took part, the newest write that is now safe.
    pub fn finish_sync(&mut self) -> BTreeMap<usize, u64> {
        let mut done = BTreeMap::new();
        for _ in 0..std::mem::take(&mut self.syncing) {
            let (group, persist) = self.queue.pop_front().expect("the sync covered it");
            done.insert(group, persist.number);
            self.groups[group].take(persist);
        }
        done
    }

    /// Loses a random part of what was not synced; says how many writes.
    pub fn crash(&mut self, chance: &mut Chance) -> usize {
        let kept = chance.index(self.queue.len() + 1);
        let lost = self.queue.len() - kept;
        for (group, persist) in self.queue.drain(..).take(kept) {
            self.groups[group].take(persist);
        }
        self.syncing = 0;
        lost
    }

    /// Stores a finished snapshot, unless a newer one is there.
    pub fn save_snapshot(&mut self, group: usize, meta: SnapshotMeta, chunks: Vec<Vec<u8>>) {
        let stored = &mut self.groups[group];
        if meta.index > stored.snapshot.index {
            stored.chunks = chunks;
            stored.snapshot = meta;
        }
    }

    /// Cuts the log up to an index.
    pub fn truncate(&mut self, group: usize, up_to: u64) {
        let entries = &mut self.groups[group].entries;
        while entries.front().is_some_and(|entry| entry.index <= up_to) {
            entries.pop_front();
        }
    }
}

impl Stored {
    /// What a starting node finds. An error means that the log has a hole.
    pub fn restore(&self) -> Result<(Vec<Vec<u8>>, Restored), String> {
        for (place, entry) in self.entries.iter().enumerate() {
            let expected = self.snapshot.index + 1 + place as u64;
            if entry.index != expected {
                return Err(format!("the log has a hole: entry {} stands where {expected} should", entry.index));
            }
        }
        let (snapshot, entries) = (self.snapshot.clone(), self.entries.iter().cloned().collect());
        Ok((self.chunks.clone(), Restored { snapshot, hard_state: self.hard_state, entries }))
    }

    fn take(&mut self, persist: Persist) {
        if let Some((meta, data)) = persist.install {
            self.chunks = split_chunks(&data);
            self.snapshot = meta;
            self.entries.clear();
        }
        if let Some(hard_state) = persist.write.hard_state {
            assert!(hard_state.term >= self.hard_state.term, "a term on disk never goes back (reliability I4)");
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
        self.entry(index).is_some_and(|entry| entry.term == term)
    }

    /// The entry of this index, unless a snapshot has taken its place.
    #[must_use]
    pub fn entry(&self, index: u64) -> Option<&LogEntry> {
        let place = index.checked_sub(self.entries.front()?.index)?;
        self.entries.get(place as usize).filter(|entry| entry.index == index)
    }
}

/// The chunks of a snapshot that came from a peer in one piece.
fn split_chunks(data: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = Reader::new(data);
    let mut chunks = Vec::new();
    while !reader.is_empty() {
        chunks.push(reader.bytes("snapshot chunk").expect("made by a replica of this run").to_vec());
    }
    chunks
}
