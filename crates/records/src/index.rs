//! All records of a shard, found by address and walked in position order.
//!
//! The interval of positions is cut into segments of about a thousand records, each a small hash table. A lookup finds
//! the segment by binary search over the segments' first positions and the record by a keyed hash of its address. So no
//! table ever grows as a whole (no long rehash), a scan or a snapshot goes segment by segment, and keys chosen to
//! collide by somebody outside only make one segment larger, not slower.

use hashbrown::HashTable;
use shardine_model::{Position, TableId};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::record::Slot;

/// A segment splits above this: seven eighths of 1,024, the fill at which its table would double.
const SEGMENT_SLOTS_MAX: usize = 896;

#[derive(Debug, Default)]
pub(crate) struct Segment {
    table: HashTable<Slot>,
    /// The snapshot cut that this segment was last written for (`snapshot.rs`).
    pub saved_for: u64,
    /// The fill below which another split is not tried, after one that could not part the records.
    split_above: usize,
}

/// Invariant: `starts` is sorted, begins at 0 and is as long as `segments`; a segment holds the slots whose position is
/// at or above its start and below the next.
#[derive(Debug)]
pub(crate) struct Index {
    seed: u64,
    starts: Vec<u64>,
    segments: Vec<Segment>,
}

impl Index {
    pub fn new(seed: u64) -> Self {
        let segment = Segment { split_above: SEGMENT_SLOTS_MAX, ..Segment::default() };
        Self { seed, starts: vec![0], segments: vec![segment] }
    }

    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    #[inline]
    fn hash(seed: u64, table: TableId, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, seed.wrapping_add(u64::from(table.0)))
    }

    /// The segment that holds a position.
    #[inline]
    pub fn segment_of(&self, position: Position) -> usize {
        self.starts.partition_point(|&start| start <= position.0) - 1
    }

    #[inline]
    pub fn find(&self, position: Position, table: TableId, key: &[u8]) -> Option<&Slot> {
        let segment = &self.segments[self.segment_of(position)];
        segment.table.find(Self::hash(self.seed, table, key), |slot| slot.address() == (table, key))
    }

    pub fn find_mut(&mut self, segment: usize, table: TableId, key: &[u8]) -> Option<&mut Slot> {
        let hash = Self::hash(self.seed, table, key);
        self.segments[segment].table.find_mut(hash, |slot| slot.address() == (table, key))
    }

    /// Files a slot, replacing the one with the same address.
    pub fn put(&mut self, segment: usize, slot: Slot) {
        let seed = self.seed;
        let (table, key) = slot.address();
        let hash = Self::hash(seed, table, key);
        let found = self.segments[segment].table.find_mut(hash, |known| known.address() == (table, key));
        if let Some(known) = found {
            *known = slot;
            return;
        }
        let rehash = |slot: &Slot| {
            let (table, key) = slot.address();
            Self::hash(seed, table, key)
        };
        let held = &mut self.segments[segment];
        held.table.insert_unique(hash, slot, rehash);
        if held.table.len() > held.split_above {
            self.split(segment);
        }
    }

    pub fn remove(&mut self, segment: usize, table: TableId, key: &[u8]) -> Option<Slot> {
        let hash = Self::hash(self.seed, table, key);
        let entry = self.segments[segment].table.find_entry(hash, |slot| slot.address() == (table, key)).ok()?;
        Some(entry.remove().0)
    }

    /// Parts a segment at its median position. Records that share one position stay together; then the segment just
    /// grows, and is looked at again when it has doubled.
    #[allow(clippy::disallowed_methods, reason = "the positions are sorted before they are used")]
    fn split(&mut self, segment: usize) {
        let mut positions: Vec<u64> = self.segments[segment].table.iter().map(position_of).collect();
        positions.sort_unstable();
        let median = positions[positions.len() / 2];
        let held = &mut self.segments[segment];
        if median == positions[0] {
            held.split_above *= 2;
            return;
        }
        let saved_for = held.saved_for;
        let (seed, lower) = (self.seed, std::mem::take(&mut held.table));
        let mut halves = [HashTable::with_capacity(positions.len() / 2), HashTable::with_capacity(positions.len() / 2)];
        for slot in lower {
            let half = usize::from(position_of(&slot) >= median);
            let (table, key) = slot.address();
            let hash = Self::hash(seed, table, key);
            halves[half].insert_unique(hash, slot, |slot| {
                let (table, key) = slot.address();
                Self::hash(seed, table, key)
            });
        }
        let [lower, upper] = halves;
        let of = |table| Segment { table, saved_for, split_above: SEGMENT_SLOTS_MAX };
        self.segments[segment] = of(lower);
        self.segments.insert(segment + 1, of(upper));
        self.starts.insert(segment + 1, median);
    }

    /// Slots of a segment in no particular order; whoever emits them sorts.
    #[allow(clippy::disallowed_methods, reason = "the one place where the table's order leaves it; see above")]
    pub fn slots(&self, segment: usize) -> impl Iterator<Item = &Slot> {
        self.segments[segment].table.iter()
    }

    pub fn saved_for(&self, segment: usize) -> u64 {
        self.segments[segment].saved_for
    }

    pub fn mark_saved(&mut self, segment: usize, cut: u64) {
        self.segments[segment].saved_for = cut;
    }
}

fn position_of(slot: &Slot) -> u64 {
    Position::of_key(slot.address().1).0
}
