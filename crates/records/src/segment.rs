//! A piece of the index: some hundred rows that are neighbours in routing order, found by their address, with what is
//! derived from them.

use hashbrown::HashTable;
use shardine_model::{Bound, RowKey, RowView, TableId};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::derived::{Change, Derived};
use crate::record::{Big, Partition, Slot, view};
use crate::slot::{Content, Weight, middle};
use crate::tally::Tally;

/// A segment splits above this: seven eighths of 1,024, the fill at which its table would double.
const ROWS_MAX: usize = 896;

/// And above this, if it has more than one row: so much is written at once, and by a change that comes before, when a snapshot
/// is cut.
const BYTES_MAX: u64 = 512 << 10;

/// Two neighbours that have no more than this together become one.
const ROWS_TOGETHER: usize = ROWS_MAX / 2;
const BYTES_TOGETHER: u64 = BYTES_MAX / 2;

#[derive(Debug, Default)]
pub(crate) struct Segment {
    table: HashTable<Slot>,
    pub rows: usize,
    /// As the shard counts them.
    pub bytes: u64,
    /// The snapshot cut that this segment was last written for (`snapshot/cut.rs`).
    pub saved_for: u64,
    pub derived: Box<Derived>,
}

/// Spreads the slots of a table. Keyed, so that nobody outside can make keys that collide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hasher {
    pub seed: u64,
}

impl Hasher {
    #[inline]
    pub fn hash(self, table: TableId, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed.wrapping_add(u64::from(table.0)))
    }

    #[inline]
    fn hash_slot(self, slot: &Slot) -> u64 {
        let (table, key) = slot.address();
        self.hash(table, key)
    }
}

impl Segment {
    pub fn with_capacity(slots: usize) -> Self {
        Self { table: HashTable::with_capacity(slots), ..Self::default() }
    }

    #[inline]
    pub fn find(&self, hasher: Hasher, row: RowKey<'_>) -> Option<&Slot> {
        let is_it = |slot: &Slot| slot.address() == (row.table, row.key);
        self.table.find(hasher.hash(row.table, row.key), is_it)
    }

    pub fn find_mut(&mut self, hasher: Hasher, row: RowKey<'_>) -> Option<&mut Slot> {
        let is_it = |slot: &Slot| slot.address() == (row.table, row.key);
        self.table.find_mut(hasher.hash(row.table, row.key), is_it)
    }

    /// Reads a byte of the first row that may be the one with this hash.
    #[inline]
    pub fn touch(&self, hash: u64) -> u8 {
        let mut byte = 0;
        let _ = self.table.find(hash, |slot| {
            byte = slot.first_byte();
            true
        });
        byte
    }

    /// The place of a slot among those of the segment, as long as none comes or goes.
    #[inline]
    pub fn bucket(&self, hasher: Hasher, row: RowKey<'_>) -> Option<usize> {
        let is_it = |slot: &Slot| slot.address() == (row.table, row.key);
        self.table.find_bucket_index(hasher.hash(row.table, row.key), is_it)
    }

    #[inline]
    pub fn slot(&self, bucket: usize) -> Option<&Slot> {
        self.table.get_bucket(bucket)
    }

    #[inline]
    pub fn slot_mut(&mut self, bucket: usize) -> Option<&mut Slot> {
        self.table.get_bucket_mut(bucket)
    }

    /// Slots in no particular order; whoever emits them sorts.
    #[allow(clippy::disallowed_methods, reason = "the one place where the table's order leaves it; see above")]
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.table.iter()
    }

    /// Puts or removes one row; gives back what was there. Does not count.
    pub fn exchange(&mut self, hasher: Hasher, row: RowKey<'_>, content: Option<Content>) -> Option<Content> {
        match content {
            None => self.remove(hasher, row),
            Some(content) if row.sort.is_empty() => self.put(hasher, row, content.into_slot()),
            Some(Content::Packed(bytes)) => self.put_in_partition(hasher, row, bytes),
            Some(Content::Wide(_)) => unreachable!("a table with a sort key is not dynamic"),
        }
    }

    fn put(&mut self, hasher: Hasher, row: RowKey<'_>, slot: Slot) -> Option<Content> {
        let hash = hasher.hash(row.table, row.key);
        let is_it = |slot: &Slot| slot.address() == (row.table, row.key);
        if let Some(known) = self.table.find_mut(hash, is_it) {
            return Some(std::mem::replace(known, slot).into_content());
        }
        self.table.insert_unique(hash, slot, |slot| hasher.hash_slot(slot));
        None
    }

    fn put_in_partition(&mut self, hasher: Hasher, row: RowKey<'_>, bytes: Box<[u8]>) -> Option<Content> {
        if let Some(slot) = self.find_mut(hasher, row) {
            let partition = slot.partition_mut().expect("a table with a sort key holds partitions only");
            return partition.rows.insert(row.sort.into(), bytes).map(Content::Packed);
        }
        let partition = Partition { table: row.table, key: row.key.into(), rows: [(row.sort.into(), bytes)].into() };
        self.insert(hasher, Slot::Big(Box::new(Big::Partition(partition))));
        None
    }

    fn remove(&mut self, hasher: Hasher, row: RowKey<'_>) -> Option<Content> {
        let slot = self.find_mut(hasher, row)?;
        if row.sort.is_empty() {
            slot.row(b"")?;
            return self.take(hasher, row).map(Slot::into_content);
        }
        let partition = slot.partition_mut()?;
        let removed = partition.rows.remove(row.sort).map(Content::Packed);
        if partition.rows.is_empty() {
            self.take(hasher, row);
        }
        removed
    }

    fn take(&mut self, hasher: Hasher, row: RowKey<'_>) -> Option<Slot> {
        let is_it = |slot: &Slot| slot.address() == (row.table, row.key);
        let entry = self.table.find_entry(hasher.hash(row.table, row.key), is_it).ok()?;
        Some(entry.remove().0)
    }

    /// Files a slot whose address is not there yet.
    pub fn insert(&mut self, hasher: Hasher, slot: Slot) {
        self.table.insert_unique(hasher.hash_slot(&slot), slot, |slot| hasher.hash_slot(slot));
    }

    /// Counts a change of one row; says what it counted for before and after.
    #[inline]
    pub fn count(&mut self, change: &Change<'_>) -> (Tally, Tally) {
        let bytes = |row: Option<(_, usize)>| row.map_or(0, |(_, bytes)| bytes as u64);
        self.bytes = self.bytes + bytes(change.after) - bytes(change.before);
        self.rows = self.rows + usize::from(change.after.is_some()) - usize::from(change.before.is_some());
        let (before, after) = (Tally::of(change.before, change.is_sql), Tally::of(change.after, change.is_sql));
        if before != after {
            self.derived.tallies.exchange(change.row.table, before, after);
        }
        (before, after)
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.rows > ROWS_MAX || (self.bytes > BYTES_MAX && self.rows > 1)
    }

    pub fn fits_with(&self, neighbour: &Self) -> bool {
        self.rows + neighbour.rows <= ROWS_TOGETHER && self.bytes + neighbour.bytes <= BYTES_TOGETHER
    }

    /// Where to part it. `None` if there is but one row.
    pub fn middle(&self) -> Option<Bound> {
        let by = if self.rows > ROWS_MAX { Weight::Rows } else { Weight::Bytes };
        middle(self.slots(), by)
    }

    /// Moves the rows at and behind a bound to a segment of their own.
    pub fn split_off(&mut self, hasher: Hasher, at: &Bound, is_sql: impl Fn(TableId) -> bool) -> Self {
        let mut lower = HashTable::with_capacity(self.table.len() / 2);
        let mut upper = Self::with_capacity(self.table.len() / 2);
        for slot in std::mem::take(&mut self.table) {
            let (below, behind) = slot.split_at(at);
            if let Some(slot) = below {
                lower.insert_unique(hasher.hash_slot(&slot), slot, |slot| hasher.hash_slot(slot));
            }
            if let Some(slot) = behind {
                upper.count_slot(&slot, &is_sql);
                upper.insert(hasher, slot);
            }
        }
        self.table = lower;
        self.rows -= upper.rows;
        self.bytes -= upper.bytes;
        self.derived.tallies.subtract(&upper.derived.tallies);
        let tallies = std::mem::take(&mut upper.derived.tallies);
        *upper.derived = Derived { tallies, ..self.derived.split_off(at) };
        upper.saved_for = self.saved_for;
        upper
    }

    /// Counts the rows of a slot in, without its marks.
    pub fn count_slot(&mut self, slot: &Slot, is_sql: impl Fn(TableId) -> bool) {
        let (table, _) = slot.address();
        let is_sql = is_sql(table);
        slot.each_measure(|versions, bytes| {
            self.rows += 1;
            self.bytes += bytes as u64;
            let tally = Tally::of(Some((versions, bytes)), is_sql);
            self.derived.tallies.exchange(table, Tally::default(), tally);
        });
    }

    /// Takes all rows of the neighbour in. A partition may lie in both.
    pub fn append(&mut self, hasher: Hasher, neighbour: Self) {
        let mut table = HashTable::with_capacity(self.table.len() + neighbour.table.len());
        for slot in std::mem::take(&mut self.table) {
            table.insert_unique(hasher.hash_slot(&slot), slot, |slot| hasher.hash_slot(slot));
        }
        self.table = table;
        for mut slot in neighbour.table {
            let known = self.find_mut(hasher, slot.filed_under());
            match (known.and_then(Slot::partition_mut), slot.partition_mut()) {
                (Some(known), Some(partition)) => known.rows.append(&mut partition.rows),
                _ => self.insert(hasher, slot),
            }
        }
        self.rows += neighbour.rows;
        self.bytes += neighbour.bytes;
        self.derived.append(*neighbour.derived);
        self.derived.shrink();
    }
}

/// Gives every row of a slot.
pub(crate) fn walk_slot<'a>(slot: &'a Slot, mut visit: impl FnMut(RowKey<'a>, RowView<'a>)) {
    let (table, key) = slot.address();
    match slot {
        Slot::Packed(bytes) => visit(RowKey { table, key, sort: b"" }, view(bytes)),
        Slot::Big(big) => match &**big {
            Big::Wide(wide) => visit(RowKey { table, key, sort: b"" }, wide.view()),
            Big::Partition(partition) => {
                for (sort, bytes) in &partition.rows {
                    visit(RowKey { table, key, sort }, view(bytes));
                }
            }
        },
    }
}
