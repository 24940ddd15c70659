//! Clocks of nodes: a monotonic one that runs a little fast or slow, and a wall clock that may be off and may jump.

use shardine_model::Timestamp;
use shardine_shard::Time;

use crate::chance::Chance;

/// The wall clock's milliseconds when true time is zero.
pub const WALL_START_MS: u64 = 1_700_000_000_000;

#[derive(Clone, Debug)]
pub struct Clock {
    /// Parts in a million that the monotonic clock gains.
    drift_ppm: i64,
    offset_ms: i64,
    skew_ms: u64,
}

impl Clock {
    #[must_use]
    pub fn new(skew_ms: u64, chance: &mut Chance) -> Self {
        let drift_ppm = chance.below(2_001) as i64 - 1_000;
        let mut clock = Self { drift_ppm, offset_ms: 0, skew_ms };
        clock.jump(chance);
        clock
    }

    /// Sets the wall clock somewhere else within the skew, forward or back.
    pub fn jump(&mut self, chance: &mut Chance) {
        self.offset_ms = chance.below(2 * self.skew_ms + 1) as i64 - self.skew_ms as i64;
    }

    #[must_use]
    pub fn read(&self, now_us: u64) -> Time {
        let drifted = now_us as i64 + now_us as i64 / 1_000_000 * self.drift_ppm;
        let wall = WALL_START_MS.saturating_add_signed(now_us as i64 / 1_000 + self.offset_ms);
        Time { monotonic_ms: drifted as u64 / 1_000, wall: Timestamp(wall) }
    }
}

/// The true wall clock.
#[must_use]
pub fn wall_ms(now_us: u64) -> u64 {
    WALL_START_MS + now_us / 1_000
}
