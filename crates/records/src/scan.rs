//! Pages of rows: one partition by sort key, or a whole table in routing order.

use std::ops::Bound;

use shardine_model::{Position, RowKey, RowView, TableId, limits};

use crate::record::{Slot, view};
use crate::state::Records;

/// Where a page begins in routing order: at a position, or right behind a row.
#[derive(Clone, Copy, Debug)]
pub enum ScanFrom<'a> {
    Position(Position),
    After { position: Position, row: RowKey<'a> },
}

/// What a page of a table holds.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// `None` takes the rows of all tables.
    pub table: Option<TableId>,
    pub from: ScanFrom<'a>,
    pub limit: usize,
    /// Ends only between positions.
    pub whole_positions: bool,
}

/// Which rows a walk gives.
#[derive(Clone, Copy)]
enum Which {
    Live,
    Resident,
}

impl Which {
    fn takes(self, view: &RowView<'_>) -> bool {
        match self {
            Self::Live => view.version.is_live(),
            Self::Resident => true,
        }
    }
}

pub type ScanBound<'a> = Bound<&'a [u8]>;

/// Why a page ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Nothing is left in this shard.
    Finished,
    /// The limit was met; go on behind the last row given.
    More,
}

impl Records {
    /// Gives live rows in routing order `(position, key, table, sort)` until the limit.
    pub fn scan<'a>(&'a self, scan: &Scan<'_>, give: impl FnMut(Position, RowKey<'a>, RowView<'a>)) -> Page {
        self.walk(scan, Which::Live, give)
    }

    /// Gives every row that memory can tell about, also that it is deleted or was never there. For whoever lays memory
    /// over SQL: what is not given, only SQL knows.
    pub fn scan_resident<'a>(&'a self, scan: &Scan<'_>, give: impl FnMut(Position, RowKey<'a>, RowView<'a>)) -> Page {
        self.walk(scan, Which::Resident, give)
    }

    fn walk<'a>(
        &'a self,
        scan: &Scan<'_>,
        which: Which,
        mut give: impl FnMut(Position, RowKey<'a>, RowView<'a>),
    ) -> Page {
        let (start, first, after) = match scan.from {
            ScanFrom::Position(position) => (position, self.index.first_of(position), None),
            ScanFrom::After { position, row } => {
                let after = (position, row.key, row.table, row.sort);
                (position, self.index.segment_of(position, row), Some(after))
            }
        };
        let mut budget = Budget::new(scan.limit);
        let mut last: Option<Position> = None;
        let mut more = false;
        for segment in first..self.index.segment_count() {
            self.walk_segment(segment, |position, row, view| {
                let behind = after.is_none_or(|after| (position, row.key, row.table, row.sort) > after);
                let wanted = scan.table.is_none_or(|table| table == row.table) && which.takes(&view);
                if more || position < start || !behind || !wanted {
                    return;
                }
                let may_end = !scan.whole_positions || last != Some(position);
                if budget.is_spent() && may_end {
                    more = true;
                    return;
                }
                budget.take(&row, &view);
                last = Some(position);
                give(position, row, view);
            });
            if more {
                return Page::More;
            }
        }
        Page::Finished
    }

    /// Gives live rows of one key in sort order, or against it, between two bounds.
    pub fn scan_partition<'a>(
        &'a self,
        table: TableId,
        key: &'a [u8],
        range: (ScanBound<'_>, ScanBound<'_>),
        descending: bool,
        limit: usize,
        give: impl FnMut(RowKey<'a>, RowView<'a>),
    ) -> Page {
        self.walk_partition((table, key), range, (descending, limit), Which::Live, give)
    }

    /// The same with rows that memory knows to be deleted or never there, as `scan_resident` does.
    pub fn scan_partition_resident<'a>(
        &'a self,
        table: TableId,
        key: &'a [u8],
        range: (ScanBound<'_>, ScanBound<'_>),
        descending: bool,
        limit: usize,
        give: impl FnMut(RowKey<'a>, RowView<'a>),
    ) -> Page {
        self.walk_partition((table, key), range, (descending, limit), Which::Resident, give)
    }

    fn walk_partition<'a>(
        &'a self,
        (table, key): (TableId, &'a [u8]),
        range: (ScanBound<'_>, ScanBound<'_>),
        (descending, limit): (bool, usize),
        which: Which,
        mut give: impl FnMut(RowKey<'a>, RowView<'a>),
    ) -> Page {
        if is_empty(range) {
            return Page::Finished;
        }
        let rows = self.rows_between(table, key, range);
        let ordered: Box<dyn Iterator<Item = _>> = if descending { Box::new(rows.rev()) } else { Box::new(rows) };
        let mut budget = Budget::new(limit);
        for (sort, bytes) in ordered {
            let (row, view) = (RowKey { table, key, sort }, view(bytes));
            if !which.takes(&view) {
                continue;
            }
            if budget.is_spent() {
                return Page::More;
            }
            budget.take(&row, &view);
            give(row, view);
        }
        Page::Finished
    }
}

impl Records {
    /// Rows of a partition in sort order. A large one lies in several segments, of which only those are looked at that the
    /// range needs.
    fn rows_between<'a>(
        &'a self,
        table: TableId,
        key: &'a [u8],
        range: (ScanBound<'_>, ScanBound<'_>),
    ) -> impl DoubleEndedIterator<Item = (&'a Box<[u8]>, &'a Box<[u8]>)> {
        let position = Position::of_key(key);
        let row = RowKey { table, key, sort: b"" };
        let segments = self.index.segments_of(position, table, key);
        let of = |bound: ScanBound<'_>, open: usize| match bound {
            Bound::Included(sort) | Bound::Excluded(sort) => self.index.segment_of(position, RowKey { sort, ..row }),
            Bound::Unbounded => open,
        };
        let segments = of(range.0, segments.start)..of(range.1, segments.end - 1) + 1;
        segments.flat_map(move |segment| {
            let slot = self.index.segment(segment).find(self.index.hasher(), row);
            let partition = slot.and_then(Slot::partition);
            partition.into_iter().flat_map(move |partition| partition.rows.range::<[u8], _>(range))
        })
    }
}

/// `BTreeMap::range` panics on a range that ends before it begins; a client may ask for one.
fn is_empty((from, to): (ScanBound<'_>, ScanBound<'_>)) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
    }
}

/// Rows and bytes that one page may still hold.
struct Budget {
    rows: usize,
    bytes: usize,
}

impl Budget {
    fn new(limit: usize) -> Self {
        Self { rows: limit.clamp(1, limits::SCAN_ROWS_MAX), bytes: limits::SCAN_BYTES_MAX }
    }

    fn is_spent(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }

    fn take(&mut self, row: &RowKey<'_>, view: &RowView<'_>) {
        let fields = match view.fields {
            shardine_model::FieldsView::Packed(bytes) => bytes.len(),
            shardine_model::FieldsView::Wide(fields) => {
                fields.iter().map(|(name, value)| name.len() + value.len()).sum()
            }
        };
        self.rows = self.rows.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(row.key.len() + row.sort.len() + fields);
    }
}
