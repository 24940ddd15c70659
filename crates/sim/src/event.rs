//! Everything that can happen, and the order in which it does: by virtual time, then by the order of scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use shardine_model::log::SnapshotMeta;
use shardine_model::{Answer, RowKeyBuf, Version};
use shardine_shard::{FlushResult, FlushRow, LoadedRow, Message, Question, SqlPurge};

/// What reaches the process of a node. Waits while the process is paused, and is lost with it when it crashes.
#[derive(Debug)]
pub enum Input {
    Tick,
    Message {
        shard: usize,
        message: Message,
    },
    Request {
        attempt: u64,
    },
    /// Writes up to these numbers are on disk, by shard.
    Synced {
        writes: Vec<(usize, u64)>,
    },
    SnapshotSaved {
        shard: usize,
        index: u64,
    },
    /// The next pieces of a snapshot may be cut.
    Cut {
        shard: usize,
    },
    Loaded {
        shard: usize,
        question: Question,
        rows: Vec<LoadedRow>,
    },
    LoadFailed {
        shard: usize,
        question: Question,
        rows: Vec<RowKeyBuf>,
    },
    Flushed {
        shard: usize,
        term: u64,
        results: Vec<(RowKeyBuf, FlushResult)>,
    },
    Purged {
        shard: usize,
        term: u64,
        rows: Vec<(RowKeyBuf, Version)>,
    },
    PurgeFailed {
        shard: usize,
        term: u64,
    },
    FlushFailed {
        shard: usize,
        term: u64,
        rows: Vec<RowKeyBuf>,
    },
}

#[derive(Debug)]
pub enum Event {
    /// For whatever life of the node it finds.
    Arrive {
        node: usize,
        input: Input,
    },
    /// For one life of the node only.
    Own {
        node: usize,
        life: u64,
        input: Input,
    },
    DiskSynced {
        node: usize,
        life: u64,
    },
    SnapshotWritten {
        node: usize,
        life: u64,
        shard: usize,
        meta: SnapshotMeta,
        chunks: Vec<Vec<u8>>,
    },
    Crash {
        node: usize,
        life: u64,
        down: u64,
    },
    Restart {
        node: usize,
    },
    Resume {
        node: usize,
    },
    SqlLoad {
        node: usize,
        life: u64,
        shard: usize,
        question: Question,
        rows: Vec<RowKeyBuf>,
        told: u64,
    },
    /// `told` of `None`: the node has heard already.
    SqlPurge {
        node: usize,
        life: u64,
        shard: usize,
        purge: SqlPurge,
        told: Option<u64>,
    },
    SqlWrite {
        node: usize,
        life: u64,
        shard: usize,
        term: u64,
        rows: Vec<FlushRow>,
        told: Option<u64>,
    },
    Answer {
        attempt: u64,
        answer: Answer,
    },
    ClientActs {
        client: usize,
    },
    ClientGivesUp {
        attempt: u64,
    },
    /// Sends again what this attempt was about.
    ClientActsAgain {
        client: usize,
        attempt: u64,
    },
    ResumeShard {
        shard: usize,
    },
    Strike,
}

#[derive(Debug)]
struct Scheduled {
    at: u64,
    sequence: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

#[derive(Debug, Default)]
pub struct Schedule {
    heap: BinaryHeap<Reverse<Scheduled>>,
    sequence: u64,
}

impl Schedule {
    pub fn at(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.heap.push(Reverse(Scheduled { at, sequence: self.sequence, event }));
    }

    /// The next event up to a time.
    pub fn next_until(&mut self, end: u64) -> Option<(u64, Event)> {
        if self.heap.peek().is_none_or(|Reverse(next)| next.at > end) {
            return None;
        }
        self.heap.pop().map(|Reverse(next)| (next.at, next.event))
    }
}
