//! Keys and positions: how a record is addressed and where it lives.

use xxhash_rust::xxh3::xxh3_64;

use crate::ids::TableId;

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

/// Where a partition lives under the scheme `hash`: xxh3-64 of the partition key, compared as eight big-endian bytes,
/// which is the order of the number. Published with test vectors in `docs/encoding.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    #[inline]
    #[must_use]
    pub fn of_key(key: &[u8]) -> Self {
        Self(xxh3_64(partition_key(key)))
    }

    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
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

    /// Cuts the whole space into `count` intervals of equal width, in order.
    #[must_use]
    pub fn cut_evenly(count: u32) -> Vec<Interval> {
        assert!(count > 0, "a space is cut into at least one interval");
        let width = (1u128 << 64) / u128::from(count);
        let edge = |number: u32| Position((width * u128::from(number)) as u64);
        (0..count)
            .map(|number| Interval { lo: edge(number), hi: (number + 1 < count).then(|| edge(number + 1)) })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_positions() {
        let vectors: [(&[u8], u64); 6] = [
            (b"", 0x2d06_8005_38d3_94c2),
            (b"lili", 0x638a_b9d9_0250_32e2),
            (b"1", 0x65cd_2502_8f98_f158),
            (b"user:{42}:cart", 0x1217_cb28_c0ef_2191),
            (b"42", 0x1217_cb28_c0ef_2191),
            (b"{}x", 0x32e9_1499_4b9c_7af4),
        ];
        for (key, position) in vectors {
            assert_eq!(Position::of_key(key).0, position, "{:?}", String::from_utf8_lossy(key));
        }
    }

    #[test]
    fn a_tag_decides_alone() {
        assert_eq!(Position::of_key(b"cart:{42}"), Position::of_key(b"42"));
        assert_eq!(partition_key(b"a{}b"), b"a{}b");
        assert_eq!(partition_key(b"a{b"), b"a{b");
        assert_eq!(partition_key(b"{a}{b}"), b"a");
    }

    #[test]
    fn an_even_cut_covers_everything_once() {
        for count in [1, 2, 3, 4, 7, 256] {
            let intervals = Interval::cut_evenly(count);

            assert_eq!(intervals[0].lo, Position(0));
            assert_eq!(intervals.last().unwrap().hi, None);
            assert!(intervals.windows(2).all(|pair| pair[0].hi == Some(pair[1].lo)));
        }
    }
}
