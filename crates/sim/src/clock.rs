//! Clocks of nodes: a monotonic one that runs a little fast or slow, and a wall clock that may be off, may jump a little, and may
//! for a while show another day. What a node makes of them is decided by the server's own [`BelievedClock`].

use shardine_host::BelievedClock;
use shardine_model::Timestamp;
use shardine_shard::Time;

use crate::chance::Chance;
use crate::ground::SECOND;

/// The wall clock's milliseconds when true time is zero.
pub const WALL_START_MS: u64 = 1_700_000_000_000;

const DAY_MS: i64 = 86_400_000;

/// Longer than a pulse takes to come, with one or two lost before it.
const HEARD_LATE: u64 = SECOND;

/// What a node makes of its wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Believes {
    /// What the server does.
    #[default]
    Sound,
    /// A planted bug: whatever it shows.
    All,
    /// Another: whatever it shows when the process starts.
    AtStart,
}

#[derive(Clone, Debug)]
pub struct Clock {
    /// Parts in a million that the monotonic clock gains.
    drift_ppm: i64,
    offset_ms: i64,
    skew_ms: u64,
    /// Another offset, and until when.
    astray: Option<(i64, u64)>,
    /// A planted bug: what the wall clock shows when the process starts is taken for the time.
    believes_at_start: bool,
    believed: BelievedClock,
}

impl Clock {
    #[must_use]
    pub fn new(skew_ms: u64, believes: Believes, chance: &mut Chance) -> Self {
        let drift_ppm = chance.below(2_001) as i64 - 1_000;
        let believed = BelievedClock::start(Timestamp(WALL_START_MS), 0).credulous(believes == Believes::All);
        let mut clock = Self {
            drift_ppm,
            offset_ms: 0,
            skew_ms,
            astray: None,
            believes_at_start: believes == Believes::AtStart,
            believed,
        };
        clock.jump(chance);
        clock
    }

    /// Sets the wall clock somewhere else within the skew, forward or back.
    pub fn jump(&mut self, chance: &mut Chance) {
        self.offset_ms = chance.below(2 * self.skew_ms + 1) as i64 - self.skew_ms as i64;
    }

    /// Sets it to another day, for some seconds.
    pub fn go_astray(&mut self, now_us: u64, chance: &mut Chance) {
        let offset_ms = chance.pick(&[DAY_MS, DAY_MS, -DAY_MS, 20_000, -20_000]);
        self.astray = Some((offset_ms, now_us + chance.between((SECOND, 8 * SECOND))));
    }

    /// The process starts, with stamps up to this one on its disk. If it is alone, it has nothing but the wall clock to believe,
    /// and somebody has set that right.
    pub fn begin(&mut self, now_us: u64, is_alone: bool, newest: Timestamp) {
        if is_alone {
            self.astray = None;
        }
        let time = self.time(now_us);
        self.believed.believe(time.wall, time.monotonic_ms);
        if !is_alone && newest > Timestamp(0) && !self.believes_at_start {
            self.believed.begin_among_peers(newest, time.monotonic_ms);
        }
    }

    /// Whether it shows another day, or has so lately that others may not have heard yet that it does no longer.
    #[must_use]
    pub fn is_astray(&self, now_us: u64) -> bool {
        self.astray.is_some_and(|(_, until)| now_us < until + HEARD_LATE)
    }

    /// Whether the node has started and heard of no other clock yet.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.believed.is_blind()
    }

    /// What the others are told.
    #[must_use]
    pub fn told(&self, now_us: u64) -> Timestamp {
        let time = self.time(now_us);
        self.believed.told(time.wall, time.monotonic_ms)
    }

    /// The others do not agree on a time, and not with this node.
    pub fn hear_other_times(&mut self, now_us: u64, walls: impl Iterator<Item = Timestamp>) {
        let time = self.time(now_us);
        self.believed.hear_other_times(walls, time.monotonic_ms);
    }

    /// The others agree on a time. Says whether this one was far from it.
    pub fn hear_majority(&mut self, now_us: u64, agreed: Timestamp) -> bool {
        let time = self.time(now_us);
        self.believed.hear_majority(agreed, time.wall, time.monotonic_ms)
    }

    /// What the node takes for the time.
    pub fn read(&mut self, now_us: u64) -> Time {
        let time = self.time(now_us);
        Time { wall: self.believed.look(time.wall, time.monotonic_ms), ..time }
    }

    /// What its clocks show.
    pub fn time(&self, now_us: u64) -> Time {
        let drifted = now_us as i64 + now_us as i64 / 1_000_000 * self.drift_ppm;
        let astray = self.astray.filter(|(_, until)| now_us < *until).map(|(offset_ms, _)| offset_ms);
        let offset_ms = astray.unwrap_or(self.offset_ms);
        let wall = WALL_START_MS.saturating_add_signed(now_us as i64 / 1_000 + offset_ms);
        Time { monotonic_ms: drifted as u64 / 1_000, wall: Timestamp(wall) }
    }
}

/// The true wall clock.
#[must_use]
pub fn wall_ms(now_us: u64) -> u64 {
    WALL_START_MS + now_us / 1_000
}
