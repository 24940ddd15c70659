//! Keys and positions: how a record is addressed and where it lives.

use xxhash_rust::xxh3::xxh3_64;

use crate::codec::{DecodeError, Reader};
use crate::ids::TableId;
use crate::slot::Slot;

/// The address of one row: a table, the key that partitions it, and, in tables with a sort key, the encoded sort key.
/// `sort` is empty in tables without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey<'a> {
    pub table: TableId,
    pub key: &'a [u8],
    pub sort: &'a [u8],
}

/// A row's address that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKeyBuf {
    pub table: TableId,
    pub key: Box<[u8]>,
    pub sort: Box<[u8]>,
}

impl RowKey<'_> {
    #[must_use]
    pub fn position(&self) -> Position {
        Position::of_key(self.key)
    }

    #[must_use]
    pub fn to_owned(self) -> RowKeyBuf {
        RowKeyBuf { table: self.table, key: self.key.into(), sort: self.sort.into() }
    }
}

impl RowKeyBuf {
    #[must_use]
    pub fn as_ref(&self) -> RowKey<'_> {
        RowKey { table: self.table, key: &self.key, sort: &self.sort }
    }
}

/// Where a partition lives under the scheme `slot`: fourteen bits of Redis Cluster slot, then the upper fifty of xxh3-64,
/// both of the partition key. Compared as eight big-endian bytes, which is the order of the number. Published with test
/// vectors in `docs/encoding.md` (redis-cluster A-50).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    #[inline]
    #[must_use]
    pub fn of_key(key: &[u8]) -> Self {
        let partition = partition_key(key);
        Self(Slot::of_partition(partition).start().0 | xxh3_64(partition) >> Slot::BITS)
    }

    #[must_use]
    pub fn slot(self) -> Slot {
        Slot((self.0 >> Slot::SHIFT) as u16)
    }

    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = reader.take(8, "position")?;
        Ok(Self(u64::from_be_bytes(bytes.try_into().expect("take returned eight bytes"))))
    }
}

/// The part of a key that decides where it lives: the text in the first `{…}` if it is not empty, else the whole key.
#[inline]
#[must_use]
pub fn partition_key(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let after = &key[open + 1..];
    match after.iter().position(|&byte| byte == b'}') {
        Some(length) if length > 0 => &after[..length],
        _ => key,
    }
}

/// A half-open interval of positions, `[lo, hi)`; `hi` of `None` means up to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub lo: Position,
    pub hi: Option<Position>,
}

impl Interval {
    pub const ALL: Interval = Interval { lo: Position(0), hi: None };

    #[inline]
    #[must_use]
    pub fn contains(&self, position: Position) -> bool {
        self.lo <= position && self.hi.is_none_or(|hi| position < hi)
    }

    /// Cuts the whole space into `count` intervals, in order, at slot edges (redis-cluster A-25): none has more than one
    /// slot more than another.
    #[must_use]
    pub fn cut_evenly(count: u32) -> Vec<Interval> {
        assert!(count > 0, "a space is cut into at least one interval");
        assert!(count <= Slot::COUNT, "a first cut is not finer than slots");
        // Both factors have 15 bits at most, and the quotient is below the number of slots.
        let edge = |number: u32| Slot((Slot::COUNT * number / count) as u16).start();
        (0..count)
            .map(|number| Interval { lo: edge(number), hi: (number + 1 < count).then(|| edge(number + 1)) })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_decides_alone() {
        assert_eq!(Position::of_key(b"cart:{42}"), Position::of_key(b"42"));
        assert_eq!(partition_key(b"a{}b"), b"a{}b");
        assert_eq!(partition_key(b"a{b"), b"a{b");
        assert_eq!(partition_key(b"{a}{b}"), b"a");
    }

    /// redis-cluster A-50
    #[test]
    fn a_position_begins_with_its_slot() {
        for key in [&b"lili"[..], b"users:{42}", b"", b"{}x"] {
            let position = Position::of_key(key);

            assert_eq!(position.slot(), Slot::of_key(key));
            assert_eq!(position.0 << 14 >> 14, xxh3_64(partition_key(key)) >> 14);
        }
    }

    #[test]
    fn an_even_cut_covers_everything_once_and_parts_no_slot() {
        for count in [1, 2, 3, 4, 7, 256, 1_000, 16_383, 16_384] {
            let intervals = Interval::cut_evenly(count);

            assert_eq!(intervals.len(), count as usize);
            assert_eq!(intervals[0].lo, Position(0));
            assert_eq!(intervals.last().unwrap().hi, None);
            assert!(intervals.windows(2).all(|pair| pair[0].hi == Some(pair[1].lo)));
            assert!(intervals.iter().all(|interval| interval.lo == interval.lo.slot().start()));
            let end = |interval: &Interval| interval.hi.map_or(Slot::COUNT, |hi| u32::from(hi.slot().0));
            let slots = intervals.iter().map(|interval| end(interval) - u32::from(interval.lo.slot().0));
            let (least, most) = slots.fold((u32::MAX, 0), |(least, most), slots| (least.min(slots), most.max(slots)));
            assert!(least > 0 && most - least <= 1, "{count}: {least} to {most} slots");
        }
    }
}
