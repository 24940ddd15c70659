//! All records of a shard, found by address and walked in routing order.
//!
//! The interval of the shard is cut into segments of some hundred rows, each a small hash table. A lookup finds the segment
//! by binary search over the segments' first places and the record by a keyed hash of its address. So no table ever grows as
//! a whole (no long rehash), a scan or a snapshot goes segment by segment, and keys chosen to collide by somebody outside
//! only make one segment larger, not slower. A segment begins between two positions by habit; one partition that is too large
//! for a segment lies in several.

use std::ops::Range;

use shardine_model::{Bound, Position, RowKey, TableId};
use smallvec::SmallVec;

use crate::record::Slot;
use crate::segment::{Hasher, Segment};

/// Invariant: `starts` and `inside` are as long as `segments` and sorted together, and begin at the lowest place; a segment
/// holds the rows at or behind its start and before the next. None is empty but a lone one.
#[derive(Debug)]
pub(crate) struct Index {
    hasher: Hasher,
    /// The positions at which segments begin: what nearly every search needs.
    starts: Vec<u64>,
    /// The whole bound of a segment that begins inside its position.
    inside: Vec<Option<Box<Bound>>>,
    segments: Vec<Segment>,
}

/// Where a slot was found: good until the next row is put or removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotHandle {
    pub segment: usize,
    bucket: usize,
}

impl Index {
    pub fn new(seed: u64) -> Self {
        let hasher = Hasher { seed };
        Self { hasher, starts: vec![0], inside: vec![None], segments: vec![Segment::default()] }
    }

    /// Files segments that do not overlap, in the order of their starts. The first one begins where the index does.
    pub fn of_segments(hasher: Hasher, segments: Vec<(Bound, Segment)>) -> Self {
        let mut index = Self { hasher, starts: Vec::new(), inside: Vec::new(), segments: Vec::new() };
        for (start, segment) in segments {
            let start = if index.segments.is_empty() { Bound::default() } else { start };
            index.insert(index.segments.len(), start, segment);
        }
        if index.segments.is_empty() { Self::new(hasher.seed) } else { index }
    }

    fn insert(&mut self, place: usize, start: Bound, segment: Segment) {
        self.starts.insert(place, start.position.0);
        self.inside.insert(place, (!start.is_between_positions()).then(|| Box::new(start)));
        self.segments.insert(place, segment);
    }

    pub fn hasher(&self) -> Hasher {
        self.hasher
    }

    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    pub fn segment(&self, segment: usize) -> &Segment {
        &self.segments[segment]
    }

    pub fn segment_mut(&mut self, segment: usize) -> &mut Segment {
        &mut self.segments[segment]
    }

    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter()
    }

    /// The place at which a segment begins.
    pub fn start(&self, segment: usize) -> Bound {
        match &self.inside[segment] {
            Some(start) => Bound::clone(start),
            None => Bound::at(Position(self.starts[segment])),
        }
    }

    /// The segment that holds a row, or would.
    #[inline]
    pub fn segment_of(&self, position: Position, row: RowKey<'_>) -> usize {
        let place = self.starts.partition_point(|&start| start <= position.0) - 1;
        if self.inside[place].is_some() && self.starts[place] == position.0 {
            return self.last_where(position, |start| start.is_before(position, row));
        }
        place
    }

    /// The last segment whose start stands before a place inside a position, as `is_before` tells.
    fn last_where(&self, position: Position, is_before: impl Fn(&Bound) -> bool) -> usize {
        let first = self.starts.partition_point(|&start| start < position.0);
        let inside = &self.inside[first..];
        let is_before = |start: &Option<Box<Bound>>| match start {
            Some(start) => start.position == position && is_before(start),
            None => false,
        };
        // The first of them may begin right before the position.
        let begins_there = usize::from(inside.first().is_some_and(Option::is_none) && self.starts[first] == position.0);
        first + begins_there + inside[begins_there..].partition_point(is_before) - 1
    }

    /// The first segment that may hold rows of a position.
    pub fn first_of(&self, position: Position) -> usize {
        self.starts.partition_point(|&start| start < position.0).saturating_sub(1)
    }

    /// The segments in which the rows of one partition lie.
    pub fn segments_of(&self, position: Position, table: TableId, key: &[u8]) -> Range<usize> {
        let first = self.segment_of(position, RowKey { table, key, sort: b"" });
        let last = match self.starts.get(first + 1) {
            Some(&start) if start == position.0 => {
                self.last_where(position, |start| (&*start.key, start.table) <= (key, table))
            }
            _ => first,
        };
        first..last.max(first) + 1
    }

    /// Touches rows that will be looked for one after the other. Among millions each costs two or three waits for memory, one behind
    /// the other and behind all that is done with the row before it; here they depend on nothing, and a core waits for many at once.
    pub fn look_ahead<'a>(&self, rows: impl Iterator<Item = RowKey<'a>>) {
        let found: SmallVec<[(usize, u64); 8]> =
            rows.map(|row| (self.segment_of(row.position(), row), self.hasher.hash(row.table, row.key))).collect();
        let touched = found.iter().fold(0, |sum, (segment, hash)| sum ^ self.segments[*segment].touch(*hash));
        std::hint::black_box(touched);
    }

    #[inline]
    pub fn find(&self, position: Position, row: RowKey<'_>) -> Option<&Slot> {
        self.segments[self.segment_of(position, row)].find(self.hasher, row)
    }

    /// Finds a slot for whoever looks at it, and then changes it.
    #[inline]
    pub fn place(&self, position: Position, row: RowKey<'_>) -> Option<SlotHandle> {
        let segment = self.segment_of(position, row);
        let bucket = self.segments[segment].bucket(self.hasher, row)?;
        Some(SlotHandle { segment, bucket })
    }

    #[inline]
    pub fn at(&self, place: SlotHandle) -> Option<&Slot> {
        self.segments[place.segment].slot(place.bucket)
    }

    #[inline]
    pub fn at_mut(&mut self, place: SlotHandle) -> Option<&mut Slot> {
        self.segments[place.segment].slot_mut(place.bucket)
    }

    pub fn find_mut(&mut self, segment: usize, row: RowKey<'_>) -> Option<&mut Slot> {
        self.segments[segment].find_mut(self.hasher, row)
    }

    /// Parts a segment that has become too large.
    pub fn split(&mut self, segment: usize, is_sql: impl Fn(TableId) -> bool) {
        let Some(middle) = self.segments[segment].middle() else { return };
        let upper = self.segments[segment].split_off(self.hasher, &middle, is_sql);
        self.insert(segment + 1, middle, upper);
    }

    /// Joins a segment with a neighbour if both are small; says whether it did.
    pub fn join(&mut self, segment: usize) -> bool {
        let fits = |lower: usize| {
            let pair = self.segments.get(lower).zip(self.segments.get(lower + 1));
            pair.is_some_and(|(lower, upper)| lower.fits_with(upper))
        };
        let below = segment.checked_sub(1).filter(|lower| fits(*lower));
        let Some(lower) = below.or_else(|| Some(segment).filter(|lower| fits(*lower))) else { return false };
        let upper = self.segments.remove(lower + 1);
        self.starts.remove(lower + 1);
        self.inside.remove(lower + 1);
        self.segments[lower].append(self.hasher, upper);
        true
    }

    /// Moves everything at and behind a bound to an index of its own: whole segments, and rows of the one that the bound lies
    /// in. Says how many rows that one had.
    pub fn split_off(&mut self, at: &Bound, is_sql: impl Fn(TableId) -> bool) -> (Self, usize) {
        let row = RowKey { table: at.table, key: &at.key, sort: &at.sort };
        let border = self.segment_of(at.position, row);
        let rows = self.segments[border].rows;
        let mut segments = vec![self.segments[border].split_off(self.hasher, at, is_sql)];
        let (mut starts, mut inside) = (vec![0], vec![None]);
        segments.extend(self.segments.drain(border + 1..));
        starts.extend(self.starts.drain(border + 1..));
        inside.extend(self.inside.drain(border + 1..));
        let mut upper = Self { hasher: self.hasher, starts, inside, segments };
        upper.drop_empty(0);
        self.drop_empty(border);
        (upper, rows)
    }

    /// Lets a segment without rows go, unless it is the only one.
    fn drop_empty(&mut self, segment: usize) {
        if self.segments[segment].rows > 0 || self.segments.len() == 1 {
            return;
        }
        self.segments.remove(segment);
        // The rows of its interval, if there are ever any, belong to its neighbour below; the lowest has none.
        let start = if segment == 0 { 1 } else { segment };
        self.starts.remove(start);
        self.inside.remove(start);
    }
}
