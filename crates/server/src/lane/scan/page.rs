//! A page as it is made: memory first, SQL under it, cut where both have been read. Asks nobody.

use std::collections::BTreeMap;

use shardine_model::{Position, RowKey, RowKeyBuf, TableId, limits};
use shardine_router::{ScanPage, ScannedRow};

use super::cursor::Cursor;

/// Routing order `(position, key, table, sort)`; inside one partition, sort order.
type ScanOrder = (Position, Box<[u8]>, TableId, Box<[u8]>);

/// How far a page can speak for what it covers. All of one scan's are of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Up to and with this row.
    Row(RowKeyBuf),
    /// Up to and with all rows of this position.
    Position(Position),
}

impl Reach {
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Row(row) => Some(row.as_ref().position()),
            Self::Position(position) => Some(*position),
        }
    }
}

/// Invariant: a place that memory has spoken for stays as memory said.
pub(super) struct Draft {
    limit: usize,
    whole_positions: bool,
    descending: bool,
    /// `None` is a row that memory knows to be gone.
    rows: BTreeMap<ScanOrder, Option<ScannedRow>>,
    /// `None` is to the end of the shard, or of the partition's range.
    reach: Option<Reach>,
}

impl Draft {
    pub fn new(limit: usize, whole_positions: bool, descending: bool) -> Self {
        let limit = limit.clamp(1, limits::SCAN_ROWS_MAX);
        Self { limit, whole_positions, descending, rows: BTreeMap::new(), reach: None }
    }

    pub fn rows_max(&self) -> usize {
        self.limit
    }

    pub fn ends_between_positions(&self) -> bool {
        self.whole_positions
    }

    pub fn reach(&self) -> Option<&Reach> {
        self.reach.as_ref()
    }

    pub fn in_memory(&mut self, row: RowKey<'_>, live: Option<ScannedRow>) {
        self.rows.insert(place(row), live);
    }

    /// A row that SQL holds, unless memory has spoken for it.
    pub fn in_sql(&mut self, row: ScannedRow) {
        self.rows.entry(place(row.row.as_ref())).or_insert(Some(row));
    }

    /// One of the sources was read up to here only: nothing behind it is known to be complete.
    pub fn reaches(&mut self, reach: Reach) {
        let is_nearer = match (&self.reach, &reach) {
            (None, _) => true,
            (Some(Reach::Row(old)), Reach::Row(new)) => {
                let (old, new) = (place(old.as_ref()), place(new.as_ref()));
                if self.descending { new > old } else { new < old }
            }
            (Some(Reach::Position(old)), Reach::Position(new)) => new < old,
            (Some(Reach::Row(_)), Reach::Position(_)) | (Some(Reach::Position(_)), Reach::Row(_)) => {
                unreachable!("a scan ends either between rows or between positions")
            }
        };
        if is_nearer {
            self.reach = Some(reach);
        }
    }

    /// The page, and where the next one begins: behind it, or at `end`, where the next shard does.
    pub fn finish(mut self, end: Option<Position>) -> ScanPage {
        let rows = std::mem::take(&mut self.rows);
        let mut page = ScanPage::default();
        let mut bytes = 0;
        let ordered: Box<dyn Iterator<Item = _>> =
            if self.descending { Box::new(rows.into_iter().rev()) } else { Box::new(rows.into_iter()) };
        for (place, row) in ordered {
            let Some(row) = row.filter(|_| self.covers(&place)) else { continue };
            let is_full = page.rows.len() >= self.limit || bytes >= limits::SCAN_BYTES_MAX;
            let last = page.rows.last().map(|last: &ScannedRow| last.row.clone());
            if let Some(last) = last.filter(|last| is_full && self.may_end_between(last, place.0)) {
                page.next = self.next(self.last_covered(last), end);
                return page;
            }
            bytes += row.row.key.len() + row.row.sort.len() + row.fields.packed.len();
            page.rows.push(row);
        }
        page.next = self.next(self.reach.clone(), end);
        page
    }

    fn covers(&self, place: &ScanOrder) -> bool {
        match &self.reach {
            None => true,
            Some(Reach::Position(last)) => place.0 <= *last,
            Some(Reach::Row(last)) if self.descending => *place >= self::place(last.as_ref()),
            Some(Reach::Row(last)) => *place <= self::place(last.as_ref()),
        }
    }

    fn may_end_between(&self, last: &RowKeyBuf, next: Position) -> bool {
        !self.whole_positions || last.as_ref().position() != next
    }

    fn last_covered(&self, last: RowKeyBuf) -> Option<Reach> {
        Some(if self.whole_positions { Reach::Position(last.as_ref().position()) } else { Reach::Row(last) })
    }

    fn next(&self, reach: Option<Reach>, end: Option<Position>) -> Option<Vec<u8>> {
        let cursor = match reach {
            None => Cursor::at(end?),
            Some(Reach::Row(row)) => Cursor::behind(row),
            // Behind every row of this position; nothing lies at a position that does not exist.
            Some(Reach::Position(position)) => Cursor::at(Position(position.0.checked_add(1)?)),
        };
        Some(cursor.write())
    }
}

fn place(row: RowKey<'_>) -> ScanOrder {
    (row.position(), row.key.into(), row.table, row.sort.into())
}
