//! Until when a holder may answer, and under which generation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use tokio::time::Instant;

use crate::core::moment::{Moment, micros};
use crate::core::shard::Hold;

/// Looked at with every answer, so that a process that stood still is too late by itself and not by the word of a task that
/// has not run yet. Counted on two clocks, and the one that says more counts: the monotonic one does not go back, but stands
/// still while the machine is suspended; the machine's own goes on, or is set right afterwards.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    started: Instant,
    wall: fn() -> u64,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    until: AtomicU64,
    wall_until: AtomicU64,
    generation: AtomicU64,
    /// Nobody renews it any more, for ever.
    is_closed: AtomicBool,
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub moment: Moment,
    wall: u64,
}

impl Lease {
    pub fn new() -> Self {
        Self { started: Instant::now(), wall: unix_micros, state: Arc::default() }
    }

    /// By a wall clock of one's own.
    #[cfg(test)]
    pub fn by_wall(wall: fn() -> u64) -> Self {
        Self { wall, ..Self::new() }
    }

    pub fn now(&self) -> Now {
        // The one that may jump is read first: whatever happens in between makes the lease shorter.
        let wall = (self.wall)();
        Now { moment: Moment::from_micros(micros(self.started.elapsed())), wall }
    }

    /// The same on the clock of timers.
    pub fn instant(&self, moment: Moment) -> Instant {
        self.started + Duration::from_micros(moment.micros())
    }

    /// A proof that was sent at this moment holds until then.
    pub fn extend(&self, hold: Hold, sent: Now, until: Moment) {
        let wall_until = sent.wall.saturating_add(micros(until.since(sent.moment)));
        self.state.generation.store(hold.generation, Ordering::Release);
        self.state.wall_until.store(wall_until, Ordering::Release);
        self.state.until.store(until.micros(), Ordering::Release);
    }

    /// Nothing may be answered until the next proof.
    pub fn end(&self) {
        self.state.until.store(0, Ordering::Release);
    }

    /// Nothing may be answered any more, whatever comes of a proof that is on its way: whoever takes that in may do so on
    /// another thread after this.
    pub fn close(&self) {
        self.state.is_closed.store(true, Ordering::Release);
    }

    pub fn is_proven(&self) -> bool {
        let now = self.now();
        !self.state.is_closed.load(Ordering::Acquire)
            && now.moment.micros() < self.state.until.load(Ordering::Acquire)
            && now.wall < self.state.wall_until.load(Ordering::Acquire)
    }

    /// The claim's, which changes when it was made anew.
    pub fn generation(&self) -> u64 {
        self.state.generation.load(Ordering::Acquire)
    }
}

/// Microseconds since 1970.
fn unix_micros() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    static WALL: AtomicU64 = AtomicU64::new(0);

    fn wall_at(seconds: u64) {
        WALL.store(seconds * 1_000_000, Ordering::SeqCst);
    }

    /// kit A-49: the machine was suspended, so that its monotonic clock stood still.
    #[test]
    fn a_suspended_machine_is_too_late_when_it_wakes_up() {
        wall_at(1_000);
        let lease = Lease::by_wall(|| WALL.load(Ordering::SeqCst));
        let sent = lease.now();
        lease.extend(Hold { shard: 1, generation: 3 }, sent, sent.moment.after(Duration::from_secs(20_000)));
        assert!(lease.is_proven());

        wall_at(1_000 + 20_000);
        assert!(!lease.is_proven());
        wall_at(900);
        assert!(lease.is_proven(), "a clock that was set back takes nothing away, and gives nothing");
        let proven = lease.now();
        lease.extend(Hold { shard: 1, generation: 4 }, proven, proven.moment.after(Duration::from_secs(20_000)));
        wall_at(1_000 + 20_000);

        assert!(!lease.is_proven() && lease.generation() == 4);
    }

    /// kit A-49: the machine was suspended between the question and the answer. The store counts from the question, and what it
    /// said is as old as that, although no time has passed on the monotonic clock.
    #[test]
    fn a_machine_that_is_suspended_during_a_proof_has_none_when_it_wakes_up() {
        static WALL: AtomicU64 = AtomicU64::new(1_000_000_000);
        let lease = Lease::by_wall(|| WALL.load(Ordering::SeqCst));
        let twenty = Duration::from_secs(20);

        let sent = lease.now();
        WALL.fetch_add(micros(twenty), Ordering::SeqCst);
        lease.extend(Hold { shard: 1, generation: 3 }, sent, sent.moment.after(twenty));
        assert!(!lease.is_proven(), "others may have taken it while nothing moved here");
        let sent = lease.now();
        WALL.fetch_add(micros(twenty) - 1, Ordering::SeqCst);
        lease.extend(Hold { shard: 1, generation: 3 }, sent, sent.moment.after(twenty));

        assert!(lease.is_proven(), "and one that took its time counts for the rest of it");
    }

    #[test]
    fn a_proof_that_was_on_its_way_does_not_open_what_was_given_back() {
        let lease = Lease::new();
        let sent = lease.now();

        lease.close();
        lease.extend(Hold { shard: 1, generation: 3 }, sent, Moment::from_micros(u64::MAX));

        assert!(!lease.is_proven());
    }

    /// kit A-49: to the microsecond, since the store's time begins where this one ends.
    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_with_its_last_moment() {
        let lease = Lease::by_wall(|| 0);
        let sent = lease.now();
        let twenty = Duration::from_secs(20);
        lease.extend(Hold { shard: 1, generation: 3 }, Now { wall: 1, ..sent }, sent.moment.after(twenty));

        tokio::time::advance(twenty - Duration::from_micros(1)).await;
        assert!(lease.is_proven());
        tokio::time::advance(Duration::from_micros(1)).await;

        assert!(!lease.is_proven());
    }

    /// kit A-49: whoever serves on while the store is silent does so by any clock.
    #[test]
    fn a_lease_without_an_end_has_none_on_either_clock() {
        let lease = Lease::by_wall(|| u64::MAX - 1);

        lease.extend(Hold { shard: 1, generation: 3 }, lease.now(), Moment::from_micros(u64::MAX));

        assert!(lease.is_proven());
    }
}
