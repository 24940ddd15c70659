//! How long a host took lately: the percentile that a second request waits for. Forgets what is old by samples, not by
//! time, so that a host that is seldom asked is not unknown.

use hdrhistogram::Histogram;

/// Samples of one half; the halves take turns, so between one and two of them are remembered.
const HALF: u64 = 1_000;
/// Fewer say nothing about a percentile.
const SAMPLES_MIN: u64 = 20;
/// The percentile is worked out anew after so many samples: it costs a walk through the histogram.
const REFRESH: u64 = 16;
/// Longer than any time-out; what is longer counts as this.
const MICROS_MAX: u64 = 60_000_000;

/// Latencies of one host in microseconds, to one digit: enough for a choice of when to ask somebody else.
#[derive(Debug, Default)]
pub struct Latency {
    now: Option<Histogram<u32>>,
    before: Option<Histogram<u32>>,
    p95: Option<u64>,
}

impl Latency {
    /// Takes in how long an answer took.
    pub fn record(&mut self, micros: u64) {
        let full = self.now.as_ref().is_some_and(|now| now.len() >= HALF);
        if full {
            self.before = self.now.take();
        }
        let now = self.now.get_or_insert_with(empty);
        now.saturating_record(micros.clamp(1, MICROS_MAX));
        if now.len().is_multiple_of(REFRESH) || self.p95.is_none() {
            self.p95 = self.percentile();
        }
    }

    /// 95 of a hundred answers took no longer than this; `None` while too few are known.
    #[must_use]
    pub fn p95(&self) -> Option<u64> {
        self.p95
    }

    fn percentile(&self) -> Option<u64> {
        let now = self.now.as_ref().filter(|now| now.len() >= HALF / 4 || self.before.is_none());
        let known = now.or(self.before.as_ref()).filter(|known| known.len() >= SAMPLES_MIN)?;
        Some(known.value_at_quantile(0.95))
    }
}

fn empty() -> Histogram<u32> {
    Histogram::new_with_bounds(1, MICROS_MAX, 1).expect("the bounds are in order and one digit is allowed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: impl IntoIterator<Item = u64>) -> Latency {
        let mut latency = Latency::default();
        samples.into_iter().for_each(|micros| latency.record(micros));
        latency
    }

    #[test]
    fn a_few_samples_are_no_percentile() {
        assert_eq!(of([500; 19]).p95(), None);
        assert!(of([500; 20]).p95().is_some());
    }

    #[test]
    fn the_percentile_is_near_the_truth() {
        let p95 = of((0..1_600).map(|number| number % 100 + 1)).p95().unwrap();

        assert!((90..=105).contains(&p95), "{p95}");
    }

    #[test]
    fn of_a_hundred_answers_the_slowest_five_are_left_out_and_no_more() {
        let with_slow =
            |slow| of((0..1_600).map(|number| if number % 100 < slow { 50_000 } else { 1_000 })).p95().unwrap();

        assert!(with_slow(4) < 2_000 && with_slow(7) > 40_000);
    }

    /// The halves take turns: when one begins, what the other has seen is what is known.
    #[test]
    fn what_is_known_of_a_host_is_never_forgotten_at_once() {
        let mut latency = of([1_000; 20]);

        for sample in 0..3_000 {
            latency.record(1_000);
            assert!(latency.p95().is_some(), "after {sample} more");
        }
    }

    #[test]
    fn a_host_that_has_become_slow_is_known_as_slow() {
        let mut latency = of([1_000; 3_000]);

        (0..1_500).for_each(|_| latency.record(50_000));

        assert!(latency.p95().unwrap() > 40_000);
    }
}
