//! How many second requests may be sent, of all kinds together: a share of the first ones over the last minute, so that
//! hedges and retries cannot double the load when everything is slow.

use super::moment::Moment;

/// The minute that slides, in slices of a second.
const SLICES: usize = 60;
const SLICE_MICROS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    /// Which second it counts; a slice of an older one is empty.
    second: u64,
    first: u64,
    extra: u64,
}

/// How large the budget is.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Of the first requests, up to which a faster host is asked.
    pub hedge_percent: u32,
    /// Of the first requests, up to which what failed is asked for again.
    pub retry_percent: u32,
    /// Retries of a minute that are granted however few first requests there were.
    pub retry_reserve: u32,
}

/// Counts requests and grants extra ones, all of which it counts together. Invariant: whenever one is granted, the extra
/// requests of the minute that ends with it, itself among them, are no more than their share of the first ones of that
/// minute (and the reserve, for a retry).
#[derive(Clone, Debug)]
pub struct Budget {
    shares: Shares,
    slices: [Slice; SLICES],
}

impl Budget {
    /// A budget that nothing was counted in yet.
    #[must_use]
    pub fn new(shares: Shares) -> Self {
        Self { shares, slices: [Slice::default(); SLICES] }
    }

    /// A request that is not extra.
    pub fn count(&mut self, now: Moment) {
        self.slice(now).first += 1;
    }

    /// Grants a request to a second host beside the first, if the budget has room for it.
    pub fn grant_hedge(&mut self, now: Moment) -> bool {
        self.grant(now, self.shares.hedge_percent, 0)
    }

    /// Grants a request for what has failed, to the same host or to another.
    pub fn grant_retry(&mut self, now: Moment) -> bool {
        self.grant(now, self.shares.retry_percent, self.shares.retry_reserve)
    }

    fn grant(&mut self, now: Moment, percent: u32, reserve: u32) -> bool {
        let oldest = second(now).saturating_sub(SLICES as u64 - 1);
        let known = self.slices.iter().filter(|slice| slice.second >= oldest);
        let (first, extra) = known.fold((0, 0), |(first, extra), slice| (first + slice.first, extra + slice.extra));
        let granted = (extra + 1) * 100 <= first * u64::from(percent) + u64::from(reserve) * 100;
        if granted {
            self.slice(now).extra += 1;
        }
        granted
    }

    fn slice(&mut self, now: Moment) -> &mut Slice {
        let second = second(now);
        let slice = &mut self.slices[usize::try_from(second % SLICES as u64).unwrap_or_default()];
        if slice.second != second {
            *slice = Slice { second, ..Slice::default() };
        }
        slice
    }
}

fn second(now: Moment) -> u64 {
    now.micros() / SLICE_MICROS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_micros(seconds * SLICE_MICROS)
    }

    fn budget() -> Budget {
        Budget::new(Shares { hedge_percent: 5, retry_percent: 20, retry_reserve: 3 })
    }

    #[test]
    fn kit_a_35_all_kinds_of_second_requests_are_counted_together() {
        let mut budget = budget();
        assert_eq!((0..10).filter(|_| budget.grant_retry(at(1))).count(), 3, "the reserve");
        (0..100).for_each(|_| budget.count(at(1)));

        assert_eq!((0..10).filter(|_| budget.grant_hedge(at(1))).count(), 2, "five less what was granted before");
        assert_eq!((0..50).filter(|_| budget.grant_retry(at(1))).count(), 18);
        assert!(!budget.grant_hedge(at(1)));
    }

    #[test]
    fn kit_a_34_one_in_twenty_is_granted_and_then_no_more() {
        let mut budget = budget();
        (0..40).for_each(|_| budget.count(at(1)));

        let granted = (0..10).filter(|_| budget.grant_hedge(at(1))).count();

        assert_eq!(granted, 2);
    }

    #[test]
    fn kit_a_34_what_is_older_than_a_minute_counts_no_more() {
        let mut budget = budget();
        (0..20).for_each(|_| budget.count(at(1)));

        assert!(!budget.clone().grant_hedge(at(61)));
        assert!(budget.grant_hedge(at(60)));
        assert!(!budget.grant_hedge(at(60)));
    }

    proptest! {
        /// kit A-35: however many ask for it.
        #[test]
        fn all_that_is_granted_stays_within_the_share(steps in prop::collection::vec((0u64..3, any::<bool>()), 1..2_000)) {
            let mut budget = budget();
            let (mut now, mut first, mut extra) = (0, 0u64, 0u64);
            for (pause, is_first) in steps {
                now += pause;
                match is_first {
                    true => { budget.count(at(now)); first += 1; }
                    false => extra += u64::from(budget.grant_hedge(at(now))),
                }
                prop_assert!(extra * 20 <= first);
            }
        }
    }
}
