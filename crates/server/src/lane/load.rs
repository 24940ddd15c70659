//! How busy a lane is with requests, told to those who could wait: threads that write to SQL take less while it is.

use std::time::{Duration, Instant};

/// A lane that slept less than this share of the time has little to spare: one part in two.
const SLEEP_SHARE: u32 = 2;

pub(crate) struct Load {
    since: Instant,
    slept: Duration,
    requests_before: u64,
}

impl Load {
    pub fn begin() -> Self {
        Self { since: Instant::now(), slept: Duration::ZERO, requests_before: 0 }
    }

    /// Sleeps, in the way that is given, and counts it.
    pub fn sleep<T>(&mut self, sleep: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let woken_by = sleep();
        self.slept += began.elapsed();
        woken_by
    }

    /// Whether the lane was busy since it was last asked. `requests` is how many it has taken so far: where nobody asks,
    /// what it does is its own upkeep, and may take what it needs.
    pub fn was_busy(&mut self, requests: u64) -> bool {
        let (slept, passed) = (std::mem::take(&mut self.slept), self.since.elapsed());
        self.since += passed;
        let was_asked = requests != std::mem::replace(&mut self.requests_before, requests);
        was_asked && slept * SLEEP_SHARE < passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_is_asked_and_does_not_sleep_is_busy() {
        let mut load = Load::begin();

        assert!(load.was_busy(1));
        assert!(!load.was_busy(1), "nobody has asked since");
        assert!(load.was_busy(2));
    }

    #[test]
    fn a_lane_that_slept_has_time() {
        let mut load = Load::begin();
        load.since -= Duration::from_secs(1);
        load.slept = Duration::from_millis(900);

        assert!(!load.was_busy(1));
    }
}
