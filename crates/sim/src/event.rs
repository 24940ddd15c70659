//! Everything that can happen, and the order in which it does: by virtual time, then by the order of scheduling.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use shardine_host::Receipt;
use shardine_model::log::SnapshotMeta;
use shardine_shard::Message;

/// What reaches the process of a node. Waits while the process is paused, and is lost with it when it crashes.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all are messages, the large ones")]
pub enum Input<I> {
    Tick,
    Message {
        group: usize,
        message: Message,
    },
    /// A lane's batch is on disk.
    Synced {
        lane: usize,
        receipt: Receipt,
    },
    SnapshotSaved {
        group: usize,
        index: u64,
    },
    /// The next pieces of a snapshot may be cut.
    Cut {
        lane: usize,
    },
    /// Of the tenant's own.
    Own(I),
}

#[derive(Debug)]
pub enum Event<I, E> {
    /// For whatever life of the node it finds.
    Arrive {
        node: usize,
        input: Input<I>,
    },
    /// For one life of the node only.
    Own {
        node: usize,
        life: u64,
        input: Input<I>,
    },
    DiskSynced {
        node: usize,
        life: u64,
        lane: usize,
    },
    SnapshotWritten {
        node: usize,
        life: u64,
        group: usize,
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
    Strike,
    /// Of the tenant's own.
    Tenant(E),
}

#[derive(Debug)]
struct Scheduled<V> {
    at: u64,
    sequence: u64,
    event: V,
}

impl<V> PartialEq for Scheduled<V> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl<V> Eq for Scheduled<V> {}

impl<V> PartialOrd for Scheduled<V> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<V> Ord for Scheduled<V> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

#[derive(Debug)]
pub struct Schedule<V> {
    heap: BinaryHeap<Reverse<Scheduled<V>>>,
    sequence: u64,
}

impl<V> Default for Schedule<V> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0 }
    }
}

impl<V> Schedule<V> {
    pub fn at(&mut self, at: u64, event: V) {
        self.sequence += 1;
        self.heap.push(Reverse(Scheduled { at, sequence: self.sequence, event }));
    }

    /// The next event up to a time.
    pub fn next_until(&mut self, end: u64) -> Option<(u64, V)> {
        if self.heap.peek().is_none_or(|Reverse(next)| next.at > end) {
            return None;
        }
        self.heap.pop().map(|Reverse(next)| (next.at, next.event))
    }
}
