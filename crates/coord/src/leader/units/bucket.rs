//! One resource's units: they come at a steady pace, up to what may be used at once.

use crate::resources::Pace;

/// Below zero it is in debt: more was used than there was.
#[derive(Debug)]
pub(super) struct Bucket {
    units_per_ms: f64,
    burst: f64,
    units: f64,
    at_ms: u64,
}

impl Bucket {
    /// Nothing is known of what was used until now: nothing is there.
    pub fn empty(pace: &Pace, at_ms: u64) -> Self {
        Self { units_per_ms: pace.max_units_per_second / 1_000.0, burst: pace.burst(), units: 0.0, at_ms }
    }

    pub fn full(pace: &Pace, at_ms: u64) -> Self {
        Self { units: pace.burst(), ..Self::empty(pace, at_ms) }
    }

    pub fn refill(&mut self, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.at_ms) as f64;
        self.units = (self.units + self.units_per_ms * passed_ms).min(self.burst);
        self.at_ms = self.at_ms.max(now_ms);
    }

    /// Goes on at another pace from now on, with what is there.
    pub fn repace(&mut self, pace: &Pace, now_ms: u64) {
        self.refill(now_ms);
        *self = Self { units: self.units.min(pace.burst()), ..Self::empty(pace, self.at_ms) };
    }

    /// Whether so many may be taken. A request that is larger than the burst is served by a full bucket and leaves a debt:
    /// else it would wait for ever.
    pub fn has(&self, units: f64) -> bool {
        self.units >= units.min(self.burst)
    }

    pub fn take(&mut self, units: f64) {
        self.units -= units;
    }

    /// When it will have so many, if nobody takes any: at least a millisecond from now if it has not.
    pub fn ready_ms(&self, units: f64) -> u64 {
        if self.has(units) {
            return self.at_ms;
        }
        let wait_ms = (units.min(self.burst) - self.units) / self.units_per_ms;
        // Casts of floats stop at the ends.
        self.at_ms.saturating_add((wait_ms.ceil() as u64).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(max_units_per_second: f64) -> Pace {
        Pace { max_units_per_second, ..Pace::default() }
    }

    #[test]
    fn units_come_at_a_steady_pace_up_to_the_burst() {
        let mut bucket = Bucket::full(&pace(10.0), 1_000);

        bucket.take(10.0);
        assert!(!bucket.has(1.0));
        assert_eq!(bucket.ready_ms(1.0), 1_100);
        bucket.refill(1_099);
        assert!(!bucket.has(1.0));
        bucket.refill(1_100);
        assert!(bucket.has(1.0));
        bucket.refill(90_000);
        assert!(bucket.has(10.0));

        bucket.take(10.0);
        assert!(!bucket.has(1.0), "no more than the burst was saved up");
    }

    #[test]
    fn more_than_the_burst_is_served_by_a_full_bucket_and_leaves_a_debt() {
        let mut bucket = Bucket::full(&pace(10.0), 0);

        assert!(bucket.has(25.0));
        bucket.take(25.0);

        assert_eq!(bucket.ready_ms(1.0), 1_600);
    }

    #[test]
    fn another_pace_begins_with_what_is_there() {
        let mut bucket = Bucket::empty(&pace(10.0), 0);

        bucket.repace(&pace(1.0), 500);
        assert!(bucket.has(1.0), "five came, one fits");
        bucket.take(1.0);

        assert_eq!(bucket.ready_ms(1.0), 1_500);
    }
}
