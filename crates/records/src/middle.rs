//! Where a shard would be parted by its size: at a slot edge if one leaves both sides enough, else between two partitions
//! (redis-cluster A-25, sharding B-22). A pure choice; costs a walk over the sizes of segments, and over the rows of a few of them.

use shardine_model::{Bound, FieldsView, Position, RowKey, Slot};

use crate::state::Records;

/// What the smaller side of a cut at a slot edge has at least, in parts of a hundred: less means that one slot has more than half.
const SLOT_SIDE_PERCENT: u64 = 25;

impl Records {
    /// The best place; nowhere if one partition has everything.
    #[must_use]
    pub fn middle(&self) -> Option<Bound> {
        let total = self.bytes_before(None);
        let half = self.position_at(total / 2)?;
        let slots = [half.slot().start(), next_slot(half).unwrap_or(Position(0))];
        let edges = [half, Position(half.0.checked_add(1).unwrap_or(0))];
        let best = |places: [Position; 2]| {
            let inside = places.into_iter().filter(|place| self.bounds.is_parted_by(&Bound::at(*place)));
            let sides = inside.map(|place| {
                let left = self.bytes_before(Some(place));
                (left.min(total.saturating_sub(left)), place)
            });
            sides.max_by_key(|(smaller, place)| (*smaller, std::cmp::Reverse(*place)))
        };
        let slot = best(slots).filter(|(smaller, _)| *smaller * 100 >= total * SLOT_SIDE_PERCENT);
        let edge = || best(edges).filter(|(smaller, _)| *smaller > 0);
        slot.filter(|(smaller, _)| *smaller > 0).or_else(edge).map(|(_, place)| Bound::at(place))
    }

    /// The position of the row with which so many bytes are reached.
    fn position_at(&self, bytes: u64) -> Option<Position> {
        let mut before = 0;
        for segment in 0..self.index.segment_count() {
            let in_it = self.index.segment(segment).bytes;
            if before + in_it > bytes {
                let mut found = None;
                self.weigh(segment, |position, until| {
                    if found.is_none() && before + until > bytes {
                        found = Some(position);
                    }
                });
                return found;
            }
            before += in_it;
        }
        None
    }

    /// Bytes of the rows that stand before a position; of all.
    fn bytes_before(&self, at: Option<Position>) -> u64 {
        let mut bytes = 0;
        for segment in 0..self.index.segment_count() {
            let behind = |next: usize| {
                next >= self.index.segment_count() || at.is_some_and(|at| self.index.start(next).position > at)
            };
            if at.is_some_and(|at| self.index.start(segment).position >= at && segment > 0) {
                break;
            }
            if at.is_none() || !behind(segment + 1) {
                bytes += self.index.segment(segment).bytes;
                continue;
            }
            let mut some = 0;
            self.weigh(segment, |position, until| {
                if at.is_some_and(|at| position < at) {
                    some = until;
                }
            });
            bytes += some;
        }
        bytes
    }

    /// Walks the rows of a segment with the bytes up to and with each. A segment knows best what it takes as a whole.
    fn weigh(&self, segment: usize, mut visit: impl FnMut(Position, u64)) {
        let mut rows = Vec::new();
        self.walk_segment(segment, |position, row, view| rows.push((position, weight(row, view.fields))));
        let sum: u64 = rows.iter().map(|(_, weight)| weight).sum();
        let mut until = 0;
        for (position, weight) in rows {
            until += weight;
            let part = u128::from(self.index.segment(segment).bytes) * u128::from(until) / u128::from(sum.max(1));
            visit(position, part as u64);
        }
    }
}

fn next_slot(position: Position) -> Option<Position> {
    let next = position.slot().0 + 1;
    (u32::from(next) < Slot::COUNT).then(|| Slot(next).start())
}

/// About what a row takes, beside others.
fn weight(row: RowKey<'_>, fields: FieldsView<'_>) -> u64 {
    let fields = match fields {
        FieldsView::Packed(bytes) => bytes.len(),
        FieldsView::Wide(fields) => fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum(),
    };
    (row.key.len() + row.sort.len() + fields + 48) as u64
}
