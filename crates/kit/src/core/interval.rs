//! Half-open intervals of sharding keys, and the ways to cut the whole space into them.

use std::fmt;

/// One more than the greatest sharding key.
const END: u128 = 1 << 64;

/// The sharding keys from `lo` up to, but without, `hi`. The upper end may be 2^64, so that every key is in some interval.
/// Invariant: `lo <= hi <= 2^64`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Interval {
    lo: u64,
    hi: u128,
}

impl Interval {
    /// No key.
    pub const EMPTY: Self = Self { lo: 0, hi: 0 };
    /// All keys.
    pub const WHOLE: Self = Self { lo: 0, hi: END };

    /// `[lo, hi)`; empty if `hi` is not above `lo`.
    #[must_use]
    pub const fn new(lo: u64, hi: u64) -> Self {
        if hi <= lo { Self::EMPTY } else { Self { lo, hi: hi as u128 } }
    }

    /// `[lo, 2^64)`.
    #[must_use]
    pub const fn to_end(lo: u64) -> Self {
        Self { lo, hi: END }
    }

    /// Whether the key is in it.
    #[must_use]
    pub fn contains(&self, key: u64) -> bool {
        self.lo <= key && u128::from(key) < self.hi
    }

    /// Whether there is no key in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        u128::from(self.lo) == self.hi
    }

    /// The first key.
    #[must_use]
    pub fn lo(&self) -> u64 {
        self.lo
    }

    /// The first key behind the interval; `None` if there is none, because it ends with the space itself.
    #[must_use]
    pub fn hi(&self) -> Option<u64> {
        u64::try_from(self.hi).ok()
    }

    /// Whether there is a key in both.
    #[must_use]
    pub fn overlaps(&self, other: &Interval) -> bool {
        !self.is_empty() && !other.is_empty() && u128::from(self.lo) < other.hi && u128::from(other.lo) < self.hi
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hi() {
            Some(hi) => write!(out, "[{}, {hi})", self.lo),
            None => write!(out, "[{}, 2^64)", self.lo),
        }
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// The whole space, cut into shards that are numbered from 0 in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where the second and all further shards begin, ascending and without 0.
    bounds: Vec<u64>,
}

impl Cut {
    /// So many shards of one size: for sharding keys that are hashes. At least one.
    #[must_use]
    pub fn even(shards: u32) -> Self {
        let shards = u128::from(shards.max(1));
        let bound = |number| u64::try_from(END * number / shards).unwrap_or(u64::MAX);
        Self { bounds: (1..shards).map(bound).collect() }
    }

    /// A shard begins at each of these keys, and one at 0.
    #[must_use]
    pub fn at(bounds: &[u64]) -> Self {
        let mut bounds: Vec<u64> = bounds.iter().copied().filter(|bound| *bound > 0).collect();
        bounds.sort_unstable();
        bounds.dedup();
        Self { bounds }
    }

    /// How many there are.
    #[must_use]
    pub fn shards(&self) -> u32 {
        u32::try_from(self.bounds.len() + 1).unwrap_or(u32::MAX)
    }

    /// The interval of a shard; empty for a number that this cut does not have.
    #[must_use]
    pub fn interval(&self, shard: u32) -> Interval {
        let shard = shard as usize;
        let lo = match shard {
            0 => Some(0),
            _ => self.bounds.get(shard - 1).copied(),
        };
        match (lo, self.bounds.get(shard)) {
            (Some(lo), Some(hi)) => Interval::new(lo, *hi),
            (Some(lo), None) => Interval::to_end(lo),
            (None, _) => Interval::EMPTY,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kit_a_6_the_lower_bound_belongs_and_the_upper_does_not() {
        let interval = Interval::new(10, 20);

        assert!(interval.contains(10) && interval.contains(19));
        assert!(!interval.contains(9) && !interval.contains(20));
    }

    #[test]
    fn kit_a_6_the_greatest_key_is_in_the_whole_space() {
        assert!(Interval::WHOLE.contains(0) && Interval::WHOLE.contains(u64::MAX));
        assert!(Interval::to_end(u64::MAX).contains(u64::MAX));
        assert!(!Interval::new(0, u64::MAX).contains(u64::MAX));
        assert_eq!(Interval::WHOLE.to_string(), "[0, 2^64)");
    }

    #[test]
    fn an_empty_interval_has_no_keys_and_no_neighbours() {
        assert!(Interval::EMPTY.is_empty() && !Interval::EMPTY.contains(0));
        assert!(Interval::new(7, 7).is_empty() && Interval::new(7, 3).is_empty());
        assert!(!Interval::EMPTY.overlaps(&Interval::WHOLE));
        assert!(!Interval::new(0, 10).overlaps(&Interval::new(10, 20)));
        assert!(!Interval::new(10, 20).overlaps(&Interval::new(0, 10)));
        assert!(Interval::new(0, 11).overlaps(&Interval::new(10, 20)));
        assert!(Interval::new(10, 20).overlaps(&Interval::new(0, 11)));
    }

    /// A shard without keys would be claimed and served for nothing.
    #[test]
    fn a_bound_that_is_said_twice_and_one_at_the_beginning_make_no_empty_shard() {
        let cut = Cut::at(&[20, 0, 10, 20]);

        let intervals: Vec<Interval> = (0..cut.shards()).map(|shard| cut.interval(shard)).collect();

        assert_eq!(intervals, [Interval::new(0, 10), Interval::new(10, 20), Interval::to_end(20)]);
    }

    #[test]
    fn a_number_beyond_the_cut_has_nothing() {
        assert_eq!(Cut::even(3).interval(3), Interval::EMPTY);
        assert_eq!(Cut::even(0).interval(0), Interval::WHOLE);
    }

    proptest! {
        #[test]
        fn every_key_is_in_exactly_one_shard_of_a_cut(bounds in prop::collection::vec(any::<u64>(), 0..9), key: u64) {
            for cut in [Cut::at(&bounds), Cut::even(u32::try_from(bounds.len()).unwrap())] {
                let owners = (0..cut.shards()).filter(|shard| cut.interval(*shard).contains(key)).count();

                prop_assert_eq!(owners, 1);
            }
        }
    }
}
