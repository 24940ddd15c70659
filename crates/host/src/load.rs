//! What a shard is asked for, and where it would be parted by that: so that each side has its share of the requests (sharding B-28,
//! row 13 and 14 of its table). Counts requests, and keeps in mind where a few of them went; costs an addition per request.

use shardine_model::{Bound, Bounds, Position};

/// One request in so many is kept in mind. A prime, so that clients who ask in turns are not always met at the same one.
const SAMPLE_EVERY: u64 = 31;
/// Requests that are kept in mind: at the rate from which on shards are parted, those of the last seconds.
const SAMPLES_MAX: usize = 512;
/// Fewer say nothing of where the middle is.
const SAMPLES_MIN: usize = 64;
/// What each side must have of the requests, in parts of a hundred.
const SIDE_PERCENT: usize = 25;

/// What a replica was asked for, from its beginning on.
#[derive(Debug, Default)]
pub struct Meter {
    pub requests: u64,
    /// Bytes that went into its log.
    pub written: u64,
    samples: Vec<Position>,
    /// The oldest of them.
    next: usize,
}

impl Meter {
    #[inline]
    pub fn count(&mut self, position: Position) {
        self.requests += 1;
        if self.requests.is_multiple_of(SAMPLE_EVERY) {
            self.keep(position);
        }
    }

    #[cold]
    fn keep(&mut self, position: Position) {
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(position);
            return;
        }
        self.samples[self.next] = position;
        self.next = (self.next + 1) % SAMPLES_MAX;
    }

    /// The shard is parted: what is known of the right half goes with it (sharding R-7).
    pub(crate) fn part(&mut self, at: &Bound) -> Self {
        let (left, right) = std::mem::take(&mut self.samples).into_iter().partition(|position| *position < at.position);
        (self.samples, self.next) = (left, 0);
        Self { samples: right, ..Self::default() }
    }

    /// Where the shard would be parted.
    #[must_use]
    pub fn parting(&self, bounds: &Bounds) -> Parting {
        parting(&mut self.samples.clone(), bounds)
    }
}

/// Where a shard would be parted by what it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parting {
    At(Bound),
    /// Too little is known yet.
    Unknown,
    /// Whatever the place, one side has nearly all: one partition has most of the requests.
    Nowhere,
}

/// At a slot edge if one leaves both sides enough, else between two partitions; as near to the middle as can be.
fn parting(samples: &mut [Position], bounds: &Bounds) -> Parting {
    samples.sort_unstable();
    let total = samples.len();
    if total < SAMPLES_MIN {
        return Parting::Unknown;
    }
    let is_between = |left: &usize| samples[*left] != samples[*left - 1];
    let has_sides = |left: &usize| *left * 100 >= total * SIDE_PERCENT && (total - *left) * 100 >= total * SIDE_PERCENT;
    let place = |left: usize| {
        let (before, behind) = (samples[left - 1], samples[left]);
        let is_edge = before.slot() != behind.slot();
        let at = Bound::at(if is_edge { behind.slot().start() } else { behind });
        (is_edge, std::cmp::Reverse(left.abs_diff(total - left)), at)
    };
    let places = (1..total).filter(is_between).filter(has_sides).map(place);
    let best = places
        .filter(|(_, _, at)| bounds.is_parted_by(at))
        .max_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
    best.map_or(Parting::Nowhere, |(_, _, at)| Parting::At(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metered(positions: impl IntoIterator<Item = u64>) -> Meter {
        let mut meter = Meter::default();
        for position in positions {
            (0..SAMPLE_EVERY).for_each(|_| meter.count(Position(position)));
        }
        meter
    }

    fn share_left(meter: &Meter, at: &Bound) -> usize {
        let left = meter.samples.iter().filter(|position| **position < at.position).count();
        left * 100 / meter.samples.len()
    }

    #[test]
    fn each_side_has_a_quarter_of_the_requests_at_least() {
        // Most are asked for what stands at the end.
        let meter = metered((0..400u64).map(|n| if n % 4 == 0 { n << 50 } else { u64::MAX - (n << 40) }));

        let Parting::At(at) = meter.parting(&Bounds::default()) else { panic!("there is a place") };

        assert!((25..=75).contains(&share_left(&meter, &at)), "{} percent", share_left(&meter, &at));
    }

    #[test]
    fn a_slot_edge_goes_before_the_very_middle() {
        let inside = (0..100).map(|n| (3 << 50) + n);
        let meter = metered((0..50).map(|n| n + 7).chain(inside));

        assert_eq!(meter.parting(&Bounds::default()), Parting::At(Bound::at(Position(3 << 50))));
    }

    #[test]
    fn partitions_of_one_slot_are_parted_between() {
        let meter = metered((0..100).map(|n| 5 + n / 10));

        let Parting::At(at) = meter.parting(&Bounds::default()) else { panic!("there is a place") };

        assert_eq!(at, Bound::at(Position(10)));
    }

    /// sharding B-28: one key alone is hot.
    #[test]
    fn sharding_b_28_where_one_partition_has_most_of_the_requests_there_is_no_place() {
        let meter = metered((0..400).map(|n| if n % 5 == 0 { n << 40 } else { 77 << 50 }));

        assert_eq!(meter.parting(&Bounds::default()), Parting::Nowhere);
    }

    #[test]
    fn few_requests_say_nothing() {
        assert_eq!(metered((0..10).map(|n| n << 50)).parting(&Bounds::default()), Parting::Unknown);
    }

    /// sharding R-7.
    #[test]
    fn sharding_r_7_both_halves_know_what_they_were_asked_for() {
        let mut left = metered((0..400).map(|n| n << 50));

        let right = left.part(&Bound::at(Position(200 << 50)));

        let middle = |meter: &Meter, lo: u64, hi: u64| {
            let bounds = Bounds { lo: Bound::at(Position(lo << 50)), hi: Some(Bound::at(Position(hi << 50))) };
            meter.parting(&bounds)
        };
        assert_eq!(middle(&left, 0, 200), Parting::At(Bound::at(Position(100 << 50))));
        assert_eq!(middle(&right, 200, 400), Parting::At(Bound::at(Position(300 << 50))));
    }

    #[test]
    fn the_newest_requests_count() {
        let mut meter = metered((0..2_000).map(|n| n % 7));
        for n in 0..SAMPLES_MAX as u64 * SAMPLE_EVERY {
            meter.count(Position(n << 45));
        }

        let Parting::At(at) = meter.parting(&Bounds::default()) else { panic!("there is a place") };

        assert!(at.position > Position(1 << 50), "{at:?}");
    }
}
