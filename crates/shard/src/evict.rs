//! What leaves memory by itself: absent rows after a while or above their number (records 45), and, above the limit of
//! bytes, absent rows first, then clean ones that nobody has touched lately, never dirty ones (write-back 115).
//!
//! Which rows were touched is the leader's own knowledge, kept in two bitmaps by fingerprint: a hand walks the segments and
//! spares what was touched in this round or the last one (CLOCK). That costs two bits per row and, where there is no limit,
//! one branch per request.

use std::cell::Cell;

use shardine_model::{Entry, FieldsView, RowKey, RowKeyBuf, Timestamp, Version, WriteMode, limits};

use crate::gather::{Then, fingerprint};
use crate::replica::Replica;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Bytes of records that the shard may hold before it sheds; 0 means that there is no limit.
    pub bytes_max: u64,
    pub absent_rows_max: u64,
    pub absent_keep_ms: u64,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { bytes_max: 0, absent_rows_max: limits::ABSENT_ROWS_MAX, absent_keep_ms: limits::ABSENT_KEEP_MS }
    }
}

/// Segments that one turn looks at: some ten thousand rows, a millisecond's work.
const SEGMENTS_PER_TURN: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Evictor {
    sketch: Option<Sketch>,
    /// The next segment to look at.
    hand: usize,
    /// Rows found in this round of the hand.
    found: usize,
    /// Rounds since the last that found something, up to two. The first after that spares only what was touched since it
    /// began, the next nothing.
    fruitless: u8,
    /// A whole round that spared nothing has found nothing: everything is dirty or in use.
    is_stuck: bool,
}

/// Two rotating bitmaps of rows that were touched.
#[derive(Debug)]
struct Sketch {
    present: Vec<Cell<u64>>,
    last: Vec<Cell<u64>>,
}

impl Sketch {
    /// One bit for every 64 bytes of the limit, about one per row; two rows that share a bit live and die together.
    fn new(bytes_max: u64) -> Self {
        let words = (bytes_max / 64 / 64).clamp(1 << 10, 1 << 20).next_power_of_two() as usize;
        Self { present: vec![Cell::new(0); words], last: vec![Cell::new(0); words] }
    }

    fn place(&self, row: RowKey<'_>) -> (usize, u64) {
        let print = fingerprint(row);
        ((print >> 6) as usize & (self.present.len() - 1), 1 << (print & 63))
    }

    fn set(&self, row: RowKey<'_>) {
        let (word, bit) = self.place(row);
        self.present[word].set(self.present[word].get() | bit);
    }

    /// In this round.
    fn is_touched(&self, row: RowKey<'_>) -> bool {
        let (word, bit) = self.place(row);
        self.present[word].get() & bit != 0
    }

    /// In this round or the last.
    fn was_touched(&self, row: RowKey<'_>) -> bool {
        let (word, bit) = self.place(row);
        (self.present[word].get() | self.last[word].get()) & bit != 0
    }

    fn rotate(&mut self) {
        std::mem::swap(&mut self.present, &mut self.last);
        self.present.fill(Cell::new(0));
    }
}

impl Evictor {
    pub fn new(memory: MemoryLimits) -> Self {
        let sketch = (memory.bytes_max > 0).then(|| Sketch::new(memory.bytes_max));
        Self { sketch, ..Self::default() }
    }

    /// There are fewer segments than before.
    pub fn begin_again(&mut self) {
        self.hand = 0;
    }

    #[inline]
    pub fn touch(&self, row: RowKey<'_>) {
        if let Some(sketch) = &self.sketch {
            sketch.set(row);
        }
    }

    #[inline]
    pub fn is_watching(&self) -> bool {
        self.sketch.is_some()
    }

    fn is_spared(&self, row: RowKey<'_>) -> bool {
        let Some(sketch) = &self.sketch else { return false };
        match self.fruitless {
            0 => sketch.was_touched(row),
            1 => sketch.is_touched(row),
            _ => false,
        }
    }

    /// The hand has come round.
    fn end_round(&mut self) {
        self.is_stuck = self.fruitless == 2 && self.found == 0;
        self.fruitless = if self.found > 0 { 0 } else { (self.fruitless + 1).min(2) };
        (self.hand, self.found) = (0, 0);
        if let Some(sketch) = &mut self.sketch {
            sketch.rotate();
        }
    }
}

impl Replica {
    fn excess_bytes(&self) -> u64 {
        let bytes_max = self.options.memory.bytes_max;
        if bytes_max == 0 { 0 } else { self.records.bytes().saturating_sub(bytes_max) }
    }

    /// Whether a load would only make it worse (write-back 115).
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.evictor.is_stuck && self.excess_bytes() > 0
    }

    pub(crate) fn wants_to_shed(&self) -> bool {
        let is_crowded = self.records.absent_count() > self.options.memory.absent_rows_max;
        self.excess_bytes() > 0 || is_crowded || self.has_old_absents()
    }

    fn has_old_absents(&self) -> bool {
        self.records.never_made().next().is_some_and(|(since, _)| self.is_over(since))
    }

    /// Whether a row has been remembered as absent for long enough. A tombstone stays: its age counts in SQL.
    fn is_over(&self, since: Timestamp) -> bool {
        since.plus_ms(self.options.memory.absent_keep_ms) <= self.stamp()
    }

    /// Proposes the next rows that are to leave. Locked until the lease is held, as every kick is (write-back 83).
    pub(crate) fn shed_some(&mut self) {
        let now = self.time.monotonic_ms;
        if self.upkeep.shedding || !self.is_serving() || !self.writeback.lease.is_held(now) || !self.wants_to_shed() {
            return;
        }
        let mut leaving = self.old_absents();
        let mut excess = self.excess_bytes();
        if excess > 0 {
            // A little more than needed, so that the next load does not begin it all again.
            excess += self.options.memory.bytes_max / 32;
            self.add_absents(&mut leaving, &mut excess);
            self.add_cold(&mut leaving, excess);
        } else {
            self.evictor.is_stuck = false;
        }
        leaving.retain(|(row, _)| self.writeback.begin_kick(row.clone()));
        if leaving.is_empty() {
            return;
        }
        let entry = Entry::Kick(leaving.iter().map(|(row, version)| (row.as_ref(), *version)).collect());
        let entry = entry.to_bytes();
        self.left.memory += leaving.len() as u64;
        self.upkeep.shedding = self.propose_bytes(entry, Vec::new(), Then::Shed(leaving));
    }

    /// Whether nothing is under way that needs the row where it is.
    pub(crate) fn may_leave(&self, row: RowKey<'_>) -> bool {
        !self.is_touched(row) && !self.writeback.is_kicking(row) && !self.writeback.is_purging(row)
    }

    fn old_absents(&self) -> Vec<(RowKeyBuf, Version)> {
        let mut too_many = self.records.absent_count().saturating_sub(self.options.memory.absent_rows_max);
        let mut leaving = Vec::new();
        for (row, version, is_over) in self.absents() {
            if leaving.len() >= limits::EXPIRE_ROWS_MAX || (!is_over && too_many == 0) {
                break;
            }
            if self.may_leave(row) {
                too_many = too_many.saturating_sub(1);
                leaving.push((row.to_owned(), version));
            }
        }
        leaving
    }

    /// Absent rows in the order in which they leave, and whether their time is over.
    fn absents(&self) -> impl Iterator<Item = (RowKey<'_>, Version, bool)> {
        let never = self.records.never_made().map(|(since, row)| (row, Version::NEVER, self.is_over(since)));
        never.chain(self.records.clean_tombstones(None).map(|(_, row, version)| (row, version, false)))
    }

    /// Absent rows go before all others.
    fn add_absents(&self, leaving: &mut Vec<(RowKeyBuf, Version)>, excess: &mut u64) {
        for (row, version, _) in self.absents() {
            if *excess == 0 || leaving.len() >= limits::EXPIRE_ROWS_MAX {
                return;
            }
            if self.may_leave(row) {
                *excess = excess.saturating_sub(weight(row, FieldsView::EMPTY));
                leaving.push((row.to_owned(), version));
            }
        }
    }

    /// Moves the hand over some segments, to the end of its round at most, and takes clean rows that nobody touched. Dirty
    /// rows of tables that are written only to leave are sent to SQL, and go in a later round.
    fn add_cold(&mut self, leaving: &mut Vec<(RowKeyBuf, Version)>, mut excess: u64) {
        for _ in 0..SEGMENTS_PER_TURN {
            if excess == 0 || leaving.len() >= limits::EXPIRE_ROWS_MAX {
                return;
            }
            let (mut cold, mut calls) = (Vec::new(), Vec::new());
            self.records.walk_sql_rows(self.evictor.hand, |_, row, view| {
                let is_enough = excess == 0 || leaving.len() + cold.len() >= limits::EXPIRE_ROWS_MAX;
                if is_enough || self.evictor.is_spared(row) {
                    return;
                }
                let is_dirty = view.version != view.sql_version;
                #[cfg(feature = "mutants")]
                let is_dirty = is_dirty && self.options.mutant != Some(shardine_records::Mutant::EvictDirty);
                if is_dirty {
                    calls.push(row.to_owned());
                } else if view.version.is_live() && view.expires_at.is_none() && self.may_leave(row) {
                    excess = excess.saturating_sub(weight(row, view.fields));
                    cold.push((row.to_owned(), view.version));
                }
            });
            self.evictor.found += cold.len();
            self.evictor.is_stuck &= cold.is_empty();
            leaving.append(&mut cold);
            self.call_to_sql(calls);
            self.evictor.hand += 1;
            if self.evictor.hand >= self.records.segment_count() {
                return self.evictor.end_round();
            }
        }
    }

    fn call_to_sql(&mut self, rows: Vec<RowKeyBuf>) {
        for row in rows {
            let table = self.records.catalogue().get(row.table);
            if table.is_some_and(|table| table.sql.mode == WriteMode::OnEvict) {
                self.writeback.hurry(row, self.time.monotonic_ms);
            }
        }
    }
}

/// About what a row counts for.
fn weight(row: RowKey<'_>, fields: FieldsView<'_>) -> u64 {
    let fields = match fields {
        FieldsView::Packed(bytes) => bytes.len(),
        FieldsView::Wide(fields) => fields.len() * size_of::<RowKeyBuf>(),
    };
    (row.key.len() + row.sort.len() + fields) as u64
}
