//! The process's clocks, read once per turn and passed in as arguments from there on.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use shardine_model::Timestamp;
use shardine_shard::Time;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
}

impl Clock {
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// The moment at which the monotonic clock shows this.
    pub fn moment(&self, monotonic_ms: u64) -> Instant {
        self.started + Duration::from_millis(monotonic_ms)
    }

    /// For durations shorter than what [`Time`] shows.
    pub fn micros(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub fn now(&self) -> Time {
        let monotonic_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Time { monotonic_ms, wall: wall() }
    }
}

pub(crate) fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_where_the_clock_says() {
        let clock = Clock::start();
        let (before, now, after) = (Instant::now(), clock.now().monotonic_ms, Instant::now());

        assert!(clock.moment(now) <= after);
        assert!(clock.moment(now + 1) >= before);
    }
}
