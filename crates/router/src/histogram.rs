//! How long things took, in buckets. Counted by whoever owns it, without atomics; shown by `/metrics`.

/// Upper bounds of the buckets in microseconds: from what memory takes to what only trouble takes.
pub const HISTOGRAM_BOUNDS_US: [u64; 18] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000,
];

/// Durations by size. The last bucket has whatever is longer than all bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; HISTOGRAM_BOUNDS_US.len() + 1],
    sum_us: u64,
}

impl Histogram {
    /// Notes `times` things that took as long as this.
    #[inline]
    pub fn note(&mut self, us: u64, times: u64) {
        let bucket = HISTOGRAM_BOUNDS_US.partition_point(|bound| *bound < us);
        self.buckets[bucket] += times;
        self.sum_us = self.sum_us.saturating_add(us.saturating_mul(times));
    }

    pub fn add(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }

    /// How many took at most as long as each bound, and how many there are.
    #[must_use]
    pub fn cumulative(&self) -> [u64; HISTOGRAM_BOUNDS_US.len() + 1] {
        let mut sum = 0;
        self.buckets.map(|count| {
            sum += count;
            sum
        })
    }

    #[must_use]
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_as_long_as_a_bound_is_within_it() {
        let mut histogram = Histogram::default();
        histogram.note(50, 1);
        histogram.note(51, 2);
        histogram.note(u64::MAX, 1);

        let counts = histogram.cumulative();
        assert_eq!((counts[0], counts[1], counts[17], counts[18]), (1, 3, 3, 4));
        let mut both = histogram.clone();
        both.add(&histogram);
        assert_eq!(both.cumulative()[18], 8);
    }
}
