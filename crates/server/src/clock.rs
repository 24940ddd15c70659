//! The process's clocks, read once per turn and passed in as arguments from there on. All threads share one idea of the time:
//! the believed one (`shardine_host::BelievedClock`), looked up on the wall a hundred times a second and counted on in between.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use shardine_host::{BelievedClock, Doubt, WALL_STEP_MS_MAX, signed_difference};
use shardine_model::Timestamp;
use shardine_shard::Time;

/// Milliseconds between two looks at the wall clock: what it says is followed that soon, and a turn rarely pays for it.
const LOOK_EVERY_MS: u64 = 10;

/// A log whose newest entry is older than this by the wall clock is warned about: a day is longer than a restart takes, and
/// whoever did stop a node for days knows so.
const LONG_AGO_MS: u64 = 86_400_000;

/// How often a wall clock that is not believed is complained of.
const SAY_EVERY_MS: u64 = 60_000;

#[derive(Clone, Debug)]
pub(crate) struct Clock {
    started: Instant,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// What the clock of the machine that also runs while it sleeps showed at the start: a laptop that was closed has not jumped.
    started_ms: u64,
    /// The believed time at the start, as the last look sees it.
    origin_ms: AtomicU64,
    next_look_ms: AtomicU64,
    is_blind: AtomicBool,
    believed: Mutex<Believed>,
}

#[derive(Debug)]
struct Believed {
    clock: BelievedClock,
    said_ms: Option<u64>,
}

impl Clock {
    /// Begins with what the wall clock says: nothing else is known.
    pub fn start() -> Self {
        let wall = wall();
        let shared = Shared {
            started_ms: awake_and_asleep_ms(),
            origin_ms: AtomicU64::new(wall.0),
            next_look_ms: AtomicU64::new(LOOK_EVERY_MS),
            is_blind: AtomicBool::new(false),
            believed: Mutex::new(Believed { clock: BelievedClock::start(wall, 0), said_ms: None }),
        };
        Self { started: Instant::now(), shared: Arc::new(shared) }
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
        if monotonic_ms >= self.shared.next_look_ms.load(Ordering::Relaxed) {
            self.shared.next_look_ms.store(monotonic_ms + LOOK_EVERY_MS, Ordering::Relaxed);
            self.look(monotonic_ms);
        }
        let origin = Timestamp(self.shared.origin_ms.load(Ordering::Relaxed));
        Time { monotonic_ms, wall: origin.plus_ms(monotonic_ms) }
    }

    /// The disk holds stamps up to this one. Says how the wall clock stands to it: nobody else saw what it did meanwhile. A node
    /// that has peers asks them what time it is, before it believes that much.
    pub fn begin_behind(&self, stamp: Timestamp, has_peers: bool) {
        if stamp == Timestamp(0) {
            return;
        }
        if has_peers {
            self.change(|clock, elapsed_ms| clock.begin_among_peers(stamp, elapsed_ms));
            return;
        }
        say_how_it_stands(Standing::of(wall(), stamp));
        self.change(|clock, elapsed_ms| clock.not_before(stamp, elapsed_ms));
    }

    /// Whether this node has started again and nobody has told it yet what time it is.
    pub fn is_blind(&self) -> bool {
        self.shared.is_blind.load(Ordering::Relaxed)
    }

    /// What the other nodes are told, while and after this one waits for them to say what time it is.
    pub fn told(&self) -> Timestamp {
        self.shared.lock().clock.told(wall(), self.shared.elapsed_ms())
    }

    /// The other nodes take another time for true, and do not agree on one either.
    pub fn hear_other_times(&self, walls: impl Iterator<Item = Timestamp>) {
        self.change(|clock, elapsed_ms| clock.hear_other_times(walls, elapsed_ms));
    }

    /// This cluster has no other node.
    pub fn hear_that_alone(&self) {
        self.change(|clock, elapsed_ms| clock.hear_that_alone(wall(), elapsed_ms));
    }

    fn change(&self, change: impl FnOnce(&mut BelievedClock, u64)) {
        let monotonic_ms = self.now().monotonic_ms;
        let mut believed = self.shared.lock();
        let elapsed_ms = self.shared.elapsed_ms();
        change(&mut believed.clock, elapsed_ms);
        self.shared.tell(&believed.clock, elapsed_ms, monotonic_ms);
    }

    /// Hears what a majority of the cluster's nodes takes for the time.
    pub fn hear_majority(&self, agreed: Timestamp) {
        let monotonic_ms = self.now().monotonic_ms;
        let mut believed = self.shared.lock();
        let (elapsed_ms, before) = (self.shared.elapsed_ms(), believed.clock);
        let was_off = believed.clock.hear_majority(agreed, wall(), elapsed_ms);
        self.shared.tell(&believed.clock, elapsed_ms, monotonic_ms);
        if was_off {
            let ahead_ms = signed_difference(before.read(elapsed_ms), agreed);
            tracing::warn!(
                ahead_ms,
                "this node was far from the time that a majority of the nodes agrees on, and takes theirs"
            );
        }
    }

    /// Whether the wall clock is believed, and if not, how far it is off.
    pub fn doubt(&self) -> Option<Doubt> {
        self.shared.lock().clock.doubt()
    }

    fn look(&self, monotonic_ms: u64) {
        // Whoever else is looking does it for this thread too.
        let Ok(mut believed) = self.shared.believed.try_lock() else { return };
        let elapsed_ms = self.shared.elapsed_ms();
        let before = believed.clock.doubt();
        believed.clock.look(wall(), elapsed_ms);
        self.shared.tell(&believed.clock, elapsed_ms, monotonic_ms);
        let doubt = believed.clock.doubt();
        if doubt.is_some() || before.is_some() {
            believed.say(doubt, elapsed_ms);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Believed> {
        self.believed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elapsed_ms(&self) -> u64 {
        awake_and_asleep_ms().saturating_sub(self.started_ms)
    }

    /// Lets all threads count on from here, each by the monotonic clock that it reads anyway.
    fn tell(&self, clock: &BelievedClock, elapsed_ms: u64, monotonic_ms: u64) {
        let origin_ms = clock.read(elapsed_ms).0.saturating_sub(monotonic_ms);
        self.origin_ms.store(origin_ms, Ordering::Relaxed);
        self.is_blind.store(clock.is_blind(), Ordering::Relaxed);
    }
}

impl Believed {
    fn say(&mut self, doubt: Option<Doubt>, elapsed_ms: u64) {
        match (doubt, self.said_ms) {
            (Some(_), Some(said_ms)) if elapsed_ms < said_ms + SAY_EVERY_MS => {}
            (Some(doubt), _) => {
                let Doubt { wall_ahead_ms, .. } = doubt;
                self.said_ms = Some(elapsed_ms);
                tracing::warn!(
                    wall_ahead_ms,
                    "the wall clock jumped by more than {} s and is not believed; time goes on without it",
                    WALL_STEP_MS_MAX / 1_000
                );
            }
            (None, _) => {
                self.said_ms = None;
                tracing::info!("the wall clock is believed again");
            }
        }
    }
}

/// How the wall clock stands to the newest entry of the log when a node starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Behind {
        behind_ms: u64,
    },
    Ahead {
        passed_ms: u64,
    },
    /// A node that was stopped for long, a clock that is wrong, or a directory that is an old copy: the log cannot tell which.
    LongAgo {
        passed_ms: u64,
    },
}

impl Standing {
    fn of(wall: Timestamp, newest: Timestamp) -> Self {
        let passed_ms = signed_difference(wall, newest);
        match passed_ms.unsigned_abs() {
            behind_ms if passed_ms < 0 => Self::Behind { behind_ms },
            passed_ms if passed_ms > LONG_AGO_MS => Self::LongAgo { passed_ms },
            passed_ms => Self::Ahead { passed_ms },
        }
    }
}

fn say_how_it_stands(standing: Standing) {
    match standing {
        Standing::Behind { behind_ms } => tracing::warn!(
            behind_ms,
            "the wall clock is behind the newest entry of the log; time goes on from that entry"
        ),
        Standing::Ahead { passed_ms } => {
            tracing::info!(passed_ms, "the wall clock is believed; so much passed since the newest entry of the log");
        }
        Standing::LongAgo { passed_ms } => tracing::warn!(
            days = passed_ms / 86_400_000,
            "by the wall clock the newest entry of the log is days old: if this node was not stopped for so long, the clock is \
             wrong or the data directory is an old copy; what has a time to live that is over by this clock ends now"
        ),
    }
}

/// Milliseconds of a clock that nobody sets, and that runs on while the machine sleeps.
fn awake_and_asleep_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec * 1_000 + time.tv_nsec / 1_000_000).unwrap_or(0)
}

/// What the machine says; [`Clock::now`] is what is believed of it.
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

    #[test]
    fn all_threads_go_on_from_the_log_if_that_is_ahead() {
        let clock = Clock::start();
        let other = clock.clone();
        let tomorrow = wall().plus_ms(86_400_000);

        clock.begin_behind(tomorrow, false);

        assert!(other.now().wall >= tomorrow);
    }

    #[test]
    fn a_node_with_peers_goes_on_from_its_log_until_they_have_spoken() {
        let clock = Clock::start();
        let an_hour_ago = Timestamp(wall().0 - 3_600_000);

        clock.begin_behind(an_hour_ago, true);
        assert!(clock.now().wall < an_hour_ago.plus_ms(60_000));
        assert!(clock.told() > an_hour_ago.plus_ms(60_000));
        clock.hear_majority(wall());

        assert!(clock.now().wall > an_hour_ago.plus_ms(60_000));
    }

    #[test]
    fn only_a_log_of_days_ago_is_worth_a_warning() {
        let newest = Timestamp(1_000_000);
        let of = |wall| Standing::of(wall, newest);

        assert_eq!(of(Timestamp(999_000)), Standing::Behind { behind_ms: 1_000 });
        assert_eq!(of(newest), Standing::Ahead { passed_ms: 0 });
        assert_eq!(of(newest.plus_ms(LONG_AGO_MS)), Standing::Ahead { passed_ms: LONG_AGO_MS });
        assert_eq!(of(newest.plus_ms(LONG_AGO_MS + 1)), Standing::LongAgo { passed_ms: LONG_AGO_MS + 1 });
    }

    #[test]
    fn a_log_of_the_past_changes_nothing() {
        let clock = Clock::start();
        let before = clock.now().wall;

        clock.begin_behind(Timestamp(1_000), false);

        assert!(clock.now().wall >= before);
        assert_eq!(clock.doubt(), None);
    }
}
