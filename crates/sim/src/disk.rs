//! A node's disk: one log for all its groups and a snapshot for each. A crash keeps what was synced, and of what was not
//! a prefix of random length.

use std::collections::VecDeque;

use shardine_host::{Batch, Receipt};
use shardine_model::ShardId;
use shardine_model::codec::Reader;
use shardine_model::log::{HardState, Install, LogEntry, LogOp, LogWrite, SnapshotMeta};
use shardine_shard::Restored;

use crate::chance::Chance;
use crate::ground::Ground;

/// What is safely stored of one group. Invariant: `entries` follow the snapshot without a gap; only a planted bug of the
/// host can break it, and [`Stored::restore`] then says so.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    pub snapshot: SnapshotMeta,
    chunks: Vec<Vec<u8>>,
    pub entries: VecDeque<LogEntry>,
    pub hard_state: HardState,
}

/// Batches on their way, and what is safely there.
#[derive(Debug)]
pub struct Disk {
    groups: Vec<Stored>,
    shards: Vec<ShardId>,
    /// By lane.
    under_way: Vec<Option<Batch>>,
}

impl Disk {
    #[must_use]
    pub fn new<F>(ground: &Ground<F>, first: SnapshotMeta, shard: impl Fn(usize) -> ShardId) -> Self {
        let stored = Stored { snapshot: first, ..Stored::default() };
        Self {
            groups: vec![stored; ground.groups],
            shards: (0..ground.groups).map(shard).collect(),
            under_way: (0..ground.lanes).map(|_| None).collect(),
        }
    }

    #[must_use]
    pub fn stored(&self, group: usize) -> &Stored {
        &self.groups[group]
    }

    pub fn begin(&mut self, lane: usize, batch: Batch) {
        let before = self.under_way[lane].replace(batch);
        assert!(before.is_none(), "one batch of a lane is under way at most");
    }

    /// A batch is on disk; its receipt is for the lane.
    pub fn finish(&mut self, lane: usize) -> Receipt {
        let Batch { ops, receipt } = self.under_way[lane].take().expect("it was begun");
        ops.into_iter().for_each(|op| self.take(op));
        receipt
    }

    fn take(&mut self, op: LogOp) {
        let group = self.shards.iter().position(|shard| *shard == op.shard()).expect("one of these");
        self.groups[group].take(op);
    }

    /// Loses a random part of what was on its way; says how many operations.
    pub fn crash(&mut self, chance: &mut Chance) -> usize {
        let mut lost = 0;
        for lane in 0..self.under_way.len() {
            let Some(batch) = self.under_way[lane].take() else { continue };
            let kept = chance.index(batch.ops.len() + 1);
            lost += batch.ops.len() - kept;
            batch.ops.into_iter().take(kept).for_each(|op| self.take(op));
        }
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

    /// Cuts the log up to an index, as a planted bug does.
    pub fn truncate(&mut self, group: usize, up_to: u64) {
        self.groups[group].truncate(up_to + 1);
    }
}

impl Stored {
    /// What a starting node finds. An error means that the log has a hole.
    pub fn restore(&self) -> Result<(Vec<Vec<u8>>, Restored), String> {
        let behind = self.entries.iter().filter(|entry| entry.index > self.snapshot.index);
        let entries: Vec<LogEntry> = behind.cloned().collect();
        for (entry, expected) in entries.iter().zip(self.snapshot.index + 1..) {
            if entry.index != expected {
                return Err(format!("the log has a hole: entry {} stands where {expected} should", entry.index));
            }
        }
        let snapshot = self.snapshot.clone();
        Ok((self.chunks.clone(), Restored { snapshot, hard_state: self.hard_state, entries }))
    }

    fn take(&mut self, op: LogOp) {
        match op {
            LogOp::Write(write) => self.write(write),
            LogOp::Install(install) => {
                let Install { meta, data, write } = *install;
                self.chunks = split_chunks(&data);
                self.snapshot = meta;
                self.entries.clear();
                self.write(write);
            }
            LogOp::Truncate { below, .. } => self.truncate(below),
            LogOp::Remove { .. } => *self = Self::default(),
        }
    }

    fn write(&mut self, write: LogWrite) {
        if let Some(hard_state) = write.hard_state {
            assert!(hard_state.term >= self.hard_state.term, "a term on disk never goes back (reliability I4)");
            self.hard_state = hard_state;
        }
        if let Some(first) = write.entries.first() {
            while self.entries.back().is_some_and(|entry| entry.index >= first.index) {
                self.entries.pop_back();
            }
        }
        let behind = self.snapshot.index;
        self.entries.extend(write.entries.into_iter().filter(|entry| entry.index > behind));
    }

    fn truncate(&mut self, below: u64) {
        while self.entries.front().is_some_and(|entry| entry.index < below) {
            self.entries.pop_front();
        }
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
