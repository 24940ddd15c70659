//! Places in routing order, `(position, key, table, sort key)`, and the half-open intervals between them that shards hold.
//!
//! A bound falls between two partitions by habit, and inside one where that is large or hot.

use std::cmp::Ordering;

use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::ids::TableId;
use crate::key::{Interval, Position, RowKey};

/// A place in routing order, which is the order of the fields. A bound with nothing behind its position stands before all
/// rows of that position.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bound {
    pub position: Position,
    pub key: Box<[u8]>,
    pub table: TableId,
    pub sort: Box<[u8]>,
}

impl Bound {
    /// Before all rows of a position.
    #[must_use]
    pub fn at(position: Position) -> Self {
        Self { position, ..Self::default() }
    }

    /// Right before a row.
    #[must_use]
    pub fn before(row: RowKey<'_>) -> Self {
        Self { position: row.position(), key: row.key.into(), table: row.table, sort: row.sort.into() }
    }

    /// Whether it parts no rows of one position.
    #[must_use]
    pub fn is_between_positions(&self) -> bool {
        self.key.is_empty() && self.table == TableId(0) && self.sort.is_empty()
    }

    /// Where a row stands beside the bound. One that stands right at it is behind it: `Less` means before, everything else
    /// behind.
    #[inline]
    #[must_use]
    pub fn place_of(&self, position: Position, row: RowKey<'_>) -> Ordering {
        let by_address = || (row.key, row.table, row.sort).cmp(&(&self.key, self.table, &self.sort));
        position.cmp(&self.position).then_with(by_address)
    }

    #[inline]
    #[must_use]
    pub fn is_before(&self, position: Position, row: RowKey<'_>) -> bool {
        self.place_of(position, row).is_ge()
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.position.to_bytes());
        put_bytes(out, &self.key);
        put_varint(out, u64::from(self.table.0));
        put_bytes(out, &self.sort);
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let position = reader.bytes("position of a bound")?;
        let position = <[u8; 8]>::try_from(position)
            .map_err(|_| DecodeError::Unknown { what: "length of a position", value: position.len() as u64 })?;
        Ok(Self {
            position: Position(u64::from_be_bytes(position)),
            key: reader.bytes("key of a bound")?.into(),
            table: TableId(reader.varint_u32("table of a bound")?),
            sort: reader.bytes("sort key of a bound")?.into(),
        })
    }
}

/// A half-open interval of routing order, `[lo, hi)`; `hi` of `None` means up to the end. Invariant: it is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    pub lo: Bound,
    pub hi: Option<Bound>,
}

impl Bounds {
    #[inline]
    #[must_use]
    pub fn contains(&self, position: Position, row: RowKey<'_>) -> bool {
        self.lo.is_before(position, row) && !self.hi.as_ref().is_some_and(|hi| hi.is_before(position, row))
    }

    /// The positions of which it holds rows, all of them or some.
    #[must_use]
    pub fn positions(&self) -> Interval {
        let end = |hi: &Bound| match hi.is_between_positions() {
            true => Some(hi.position),
            false => hi.position.0.checked_add(1).map(Position),
        };
        Interval { lo: self.lo.position, hi: self.hi.as_ref().and_then(end) }
    }

    /// Whether there is a place in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let begins_before_end = |one: &Self, other: &Self| other.hi.as_ref().is_none_or(|hi| one.lo < *hi);
        begins_before_end(self, other) && begins_before_end(other, self)
    }

    /// Whether a bound parts the interval into two that are not empty.
    #[must_use]
    pub fn is_parted_by(&self, at: &Bound) -> bool {
        self.lo < *at && self.hi.as_ref().is_none_or(|hi| at < hi)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        self.lo.encode(out);
        out.push(u8::from(self.hi.is_some()));
        if let Some(hi) = &self.hi {
            hi.encode(out);
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let lo = Bound::decode(reader)?;
        let hi = match reader.u8("upper bound mark")? {
            0 => None,
            1 => Some(Bound::decode(reader)?),
            mark => return Err(DecodeError::Unknown { what: "upper bound mark", value: u64::from(mark) }),
        };
        if hi.as_ref().is_some_and(|hi| *hi <= lo) {
            return Err(DecodeError::Unknown { what: "empty interval", value: lo.position.0 });
        }
        Ok(Self { lo, hi })
    }
}

impl From<Interval> for Bounds {
    fn from(interval: Interval) -> Self {
        Self { lo: Bound::at(interval.lo), hi: interval.hi.map(Bound::at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: RowKey<'static> = RowKey { table: TableId(2), key: b"room", sort: &[5] };

    fn inside() -> Bounds {
        let hi = Bound { position: Position(u64::MAX), ..Bound::before(ROOM) };
        Bounds { lo: Bound::before(ROOM), hi: Some(hi) }
    }

    #[test]
    fn bounds_have_these_bytes_for_ever() {
        let mut bytes = Vec::new();
        let place = Bound { position: Position(0x0102), ..Bound::before(ROOM) };
        place.encode(&mut bytes);

        assert_eq!(bytes, [8, 0, 0, 0, 0, 0, 0, 1, 2, 4, b'r', b'o', b'o', b'm', 2, 1, 5]);
        assert_eq!(Bound::decode(&mut Reader::new(&bytes)), Ok(place));
        let mut all = Vec::new();
        Bounds::default().encode(&mut all);
        assert_eq!(all, [8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Bounds::decode(&mut Reader::new(&all)), Ok(Bounds::default()));
    }

    #[test]
    fn bounds_cut_anywhere_are_refused() {
        let mut bytes = Vec::new();
        inside().encode(&mut bytes);

        assert_eq!(Bounds::decode(&mut Reader::new(&bytes)), Ok(inside()));
        for len in 0..bytes.len() {
            assert!(Bounds::decode(&mut Reader::new(&bytes[..len])).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn an_empty_interval_is_refused() {
        let mut bytes = Vec::new();
        Bounds { lo: Bound::before(ROOM), hi: Some(Bound::before(ROOM)) }.encode(&mut bytes);

        assert!(Bounds::decode(&mut Reader::new(&bytes)).is_err());
    }

    #[test]
    fn the_lower_bound_belongs_to_the_interval_and_the_upper_does_not() {
        let (position, bounds) = (ROOM.position(), inside());
        let earlier = RowKey { sort: &[4], ..ROOM };
        let other_table = RowKey { table: TableId(1), ..ROOM };

        assert!(bounds.contains(position, ROOM));
        assert!(!bounds.contains(position, earlier));
        assert!(!bounds.contains(position, other_table), "tables come before sort keys");
        assert!(bounds.contains(Position(u64::MAX), earlier));
        assert!(!bounds.contains(Position(u64::MAX), ROOM));
    }

    #[test]
    fn positions_are_those_of_which_there_may_be_rows() {
        let hi = Bound { position: Position(9), ..Bound::before(ROOM) };
        let of = |hi| Bounds { lo: Bound::at(Position(3)), hi }.positions();

        assert_eq!(of(None), Interval { lo: Position(3), hi: None });
        assert_eq!(of(Some(Bound::at(Position(9)))).hi, Some(Position(9)));
        assert_eq!(of(Some(hi.clone())).hi, Some(Position(10)));
        assert_eq!(of(Some(Bound { position: Position(u64::MAX), ..hi })).hi, None);
    }

    #[test]
    fn a_bare_position_stands_before_all_its_rows() {
        let bound = Bound::at(ROOM.position());
        let least = RowKey { table: TableId(0), key: b"", sort: b"" };

        assert!(bound.is_between_positions());
        assert!(bound.is_before(ROOM.position(), least));
        assert!(!bound.is_before(Position(ROOM.position().0 - 1), ROOM));
        assert!(!Bound::before(ROOM).is_between_positions());
    }
}
