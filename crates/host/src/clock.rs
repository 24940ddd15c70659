//! What a node takes for the time. The wall clock of a machine is set by others: by hand, by a wrong server, by a battery that
//! is empty. What is stamped by it goes into logs, where it stays, so a wall clock is followed only while it goes on from what it
//! said before.

use shardine_model::Timestamp;

/// How far the wall clock may be from where it should be and still be followed: more than a machine's clock is corrected by at
/// once, less than a time to live that somebody would miss.
pub const WALL_STEP_MS_MAX: u64 = 5_000;

/// How long a node that has peers waits for them to say what time it is, before it believes its own wall clock. Whoever can be
/// elected hears a majority, and hears it many times as soon; this is for a node whose peers are gone.
pub const PROOF_WAIT_MS: u64 = 10_000;

/// The believed time of a node. Reads no clock: readings of the wall and of a monotonic clock are handed to it.
///
/// A wall time is believed if it is within [`WALL_STEP_MS_MAX`] of the last believed one plus the time that has passed since.
/// Else the time goes on by the monotonic clock alone, and [`BelievedClock::doubt`] says so. Where peers tell their time, the
/// median of a majority decides ([`BelievedClock::hear_majority`]).
#[derive(Clone, Copy, Debug)]
pub struct BelievedClock {
    believed: Timestamp,
    at_ms: u64,
    doubt: Option<Doubt>,
    /// This node waits for others to say what time it is.
    unproven: Option<Unproven>,
    #[cfg(feature = "mutants")]
    credulous: bool,
}

/// A node has started again, and nobody has said yet what time it is.
#[derive(Clone, Copy, Debug)]
struct Unproven {
    since_ms: u64,
    /// The newest stamp on its disk: the time was later when the node started.
    stamp: Timestamp,
    started_ms: u64,
    /// Somebody has told a time, even if there is no majority for it yet.
    has_heard: bool,
}

/// The wall clock is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// How far the wall clock is ahead of the believed time; negative if it is behind.
    pub wall_ahead_ms: i64,
    /// By the monotonic clock, since when.
    pub since_ms: u64,
}

impl BelievedClock {
    /// A node that has just started has nothing but the wall clock to believe.
    #[must_use]
    pub fn start(wall: Timestamp, monotonic_ms: u64) -> Self {
        Self {
            believed: wall,
            at_ms: monotonic_ms,
            doubt: None,
            unproven: None,
            #[cfg(feature = "mutants")]
            credulous: false,
        }
    }

    /// The same with a planted bug: believes every wall time.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn credulous(self, credulous: bool) -> Self {
        Self { credulous, ..self }
    }

    /// A node that has peers has started again, with stamps up to this one on its disk. What its wall clock shows may be another
    /// day, and would stand in every log that it leads: time goes on from what it has, until a majority says what time it is
    /// ([`BelievedClock::hear_majority`]) or nobody does for [`PROOF_WAIT_MS`].
    pub fn begin_among_peers(&mut self, stamp: Timestamp, monotonic_ms: u64) {
        self.believe(stamp, monotonic_ms);
        self.unproven = Some(Unproven { since_ms: monotonic_ms, stamp, started_ms: monotonic_ms, has_heard: false });
    }

    /// What others are to be told: the time, or the wall clock's as long as nobody has said what time it is, so that nodes that
    /// all started together agree on something.
    #[must_use]
    pub fn told(&self, wall: Timestamp, monotonic_ms: u64) -> Timestamp {
        if self.unproven.is_some() { wall } else { self.read(monotonic_ms) }
    }

    /// There is nobody to ask, in this cluster of one.
    pub fn hear_that_alone(&mut self, wall: Timestamp, monotonic_ms: u64) {
        if self.unproven.take().is_some() && wall > self.read(monotonic_ms) {
            self.believe(wall, monotonic_ms);
        }
    }

    /// Others are there, and their clocks and this one's show different times: a wait for them begins anew. Who is wrong cannot be
    /// known, but all that is on the disk was stamped before now, and who shows an earlier time is wrong. Of the rest the earliest
    /// is the best guess: it is late at worst, and right if only one of them is wrong and shows the past or the future.
    pub fn hear_other_times(&mut self, walls: impl Iterator<Item = Timestamp>, monotonic_ms: u64) {
        let Some(unproven) = &mut self.unproven else { return };
        (unproven.since_ms, unproven.has_heard) = (monotonic_ms, true);
        // Clocks that are all right are a little apart: one of them may have stamped what is on the disk, another show less.
        let elapsed_ms = monotonic_ms.saturating_sub(unproven.started_ms);
        let earliest = Timestamp(unproven.stamp.plus_ms(elapsed_ms).0.saturating_sub(WALL_STEP_MS_MAX));
        let guess = walls.filter(|wall| *wall >= earliest).min();
        if let Some(guess) = guess.filter(|guess| *guess > self.read(monotonic_ms)) {
            (self.believed, self.at_ms) = (guess, monotonic_ms);
        }
    }

    /// Whether this node has started again and heard of no clock but its own. Its time is that of its log then, perhaps long over.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.unproven.is_some_and(|unproven| !unproven.has_heard)
    }

    fn still_waits(&self, monotonic_ms: u64) -> bool {
        #[cfg(feature = "mutants")]
        if self.credulous {
            return false;
        }
        self.unproven.is_some_and(|unproven| monotonic_ms < unproven.since_ms.saturating_add(PROOF_WAIT_MS))
    }

    /// The time, without a look at the wall.
    #[must_use]
    pub fn read(&self, monotonic_ms: u64) -> Timestamp {
        self.believed.plus_ms(monotonic_ms.saturating_sub(self.at_ms))
    }

    /// Looks at the wall clock, follows it if it can be believed, and gives the time. Begins or ends a doubt.
    pub fn look(&mut self, wall: Timestamp, monotonic_ms: u64) -> Timestamp {
        if self.still_waits(monotonic_ms) {
            return self.read(monotonic_ms);
        }
        self.hear_that_alone(wall, monotonic_ms);
        let expected = self.read(monotonic_ms);
        let is_near = wall.0.abs_diff(expected.0) <= WALL_STEP_MS_MAX;
        #[cfg(feature = "mutants")]
        let is_near = is_near || self.credulous;
        if is_near {
            self.believe(wall, monotonic_ms);
        } else {
            let since_ms = self.doubt.map_or(monotonic_ms, |doubt| doubt.since_ms);
            self.doubt = Some(Doubt { wall_ahead_ms: signed_difference(wall, expected), since_ms });
        }
        self.read(monotonic_ms)
    }

    /// Hears what a majority of nodes takes for the time: the median of theirs. Whoever is far from it, by a clock that was wrong
    /// when it started or by a log from the future, takes it over; and a wall clock that is near it is believed again. Says
    /// whether the time was another one.
    pub fn hear_majority(&mut self, agreed: Timestamp, wall: Timestamp, monotonic_ms: u64) -> bool {
        let is_near = |time: Timestamp| time.0.abs_diff(agreed.0) <= WALL_STEP_MS_MAX;
        let was_off = !is_near(self.told(wall, monotonic_ms));
        if is_near(wall) && (was_off || self.doubt.is_some() || self.unproven.is_some()) {
            self.believe(wall, monotonic_ms);
        } else if was_off {
            self.believe(agreed, monotonic_ms);
            // Says that the wall is not believed.
            self.look(wall, monotonic_ms);
        }
        was_off
    }

    /// Takes a time for true, whatever was believed.
    pub fn believe(&mut self, time: Timestamp, monotonic_ms: u64) {
        self.believed = time;
        self.at_ms = monotonic_ms;
        self.doubt = None;
        self.unproven = None;
    }

    /// The time is certainly not earlier: so says what this node has on its disk.
    pub fn not_before(&mut self, stamp: Timestamp, monotonic_ms: u64) {
        if stamp > self.read(monotonic_ms) {
            self.believe(stamp, monotonic_ms);
        }
    }

    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        self.doubt
    }
}

/// How far one time is ahead of another; as far as can be said.
#[must_use]
pub fn signed_difference(one: Timestamp, other: Timestamp) -> i64 {
    let magnitude = i64::try_from(one.0.abs_diff(other.0)).unwrap_or(i64::MAX);
    if one >= other { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 86_400_000;
    const NOON: u64 = 1_700_000_000_000;

    fn started() -> BelievedClock {
        BelievedClock::start(Timestamp(NOON), 100)
    }

    #[test]
    fn a_clock_that_is_corrected_a_little_is_followed() {
        let mut clock = started();

        assert_eq!(clock.look(Timestamp(NOON + 1_000 + 4_999), 1_100), Timestamp(NOON + 5_999));
        assert_eq!(clock.look(Timestamp(NOON + 2_000), 2_100), Timestamp(NOON + 2_000));
        assert_eq!(clock.doubt(), None);
    }

    #[test]
    fn a_jump_ahead_is_not_followed_and_time_goes_on() {
        let mut clock = started();

        assert_eq!(clock.look(Timestamp(NOON + DAY_MS), 1_100), Timestamp(NOON + 1_000));
        assert_eq!(clock.look(Timestamp(NOON + DAY_MS + 2_000), 3_100), Timestamp(NOON + 3_000));
        assert_eq!(clock.doubt(), Some(Doubt { wall_ahead_ms: DAY_MS as i64 - 1_000, since_ms: 1_100 }));

        assert_eq!(clock.look(Timestamp(NOON + 4_010), 4_100), Timestamp(NOON + 4_010));
        assert_eq!(clock.doubt(), None);
    }

    #[test]
    fn a_jump_back_is_not_followed_either() {
        let mut clock = started();

        assert_eq!(clock.look(Timestamp(NOON - DAY_MS), 1_100), Timestamp(NOON + 1_000));
        assert_eq!(clock.doubt().map(|doubt| doubt.wall_ahead_ms), Some(-(DAY_MS as i64) - 1_000));
    }

    #[test]
    fn nothing_earlier_than_the_log_is_believed() {
        let mut clock = started();
        clock.not_before(Timestamp(NOON + DAY_MS), 200);

        assert_eq!(clock.look(Timestamp(NOON + 1_000), 1_200), Timestamp(NOON + DAY_MS + 1_000));
        assert_eq!(clock.doubt().map(|doubt| doubt.wall_ahead_ms), Some(-(DAY_MS as i64)));

        clock.not_before(Timestamp(NOON), 1_300);
        assert_eq!(clock.read(1_300), Timestamp(NOON + DAY_MS + 1_100));
    }

    #[test]
    fn a_majority_is_believed_before_the_wall() {
        let mut clock = BelievedClock::start(Timestamp(NOON + DAY_MS), 100);

        assert!(clock.hear_majority(Timestamp(NOON + 10), Timestamp(NOON + DAY_MS + 10), 110));

        assert_eq!(clock.doubt(), Some(Doubt { wall_ahead_ms: DAY_MS as i64, since_ms: 110 }));
        assert_eq!(clock.look(Timestamp(NOON + DAY_MS + 1_000), 1_100), Timestamp(NOON + 1_000));
        assert!(!clock.hear_majority(Timestamp(NOON + 1_300), Timestamp(NOON + DAY_MS + 1_000), 1_100));
        assert_eq!(clock.read(1_100), Timestamp(NOON + 1_000), "near enough is left alone");
    }

    #[test]
    fn a_wall_that_is_where_the_majority_is_is_believed_again() {
        let mut clock = started();
        clock.look(Timestamp(NOON + 8_000), 1_100);
        assert!(clock.doubt().is_some());

        // Nobody is further than five seconds from what they agree on, and still these two are seven apart.
        clock.hear_majority(Timestamp(NOON + 4_500), Timestamp(NOON + 8_000), 1_100);

        assert_eq!((clock.read(1_100), clock.doubt()), (Timestamp(NOON + 8_000), None));
    }

    /// One that has started again among others, with its wall clock a day ahead of what is on its disk.
    fn returned() -> BelievedClock {
        let mut clock = BelievedClock::start(Timestamp(NOON + DAY_MS), 100);
        clock.begin_among_peers(Timestamp(NOON), 100);
        clock
    }

    #[test]
    fn records_137_a_wall_clock_is_not_believed_before_others_have_spoken() {
        let mut clock = returned();

        assert_eq!(clock.look(Timestamp(NOON + DAY_MS + 50), 150), Timestamp(NOON + 50));
        assert_eq!(
            clock.told(Timestamp(NOON + DAY_MS + 50), 150),
            Timestamp(NOON + DAY_MS + 50),
            "others compare walls"
        );
        assert!(clock.hear_majority(Timestamp(NOON + 60), Timestamp(NOON + DAY_MS + 60), 160));

        assert_eq!(clock.look(Timestamp(NOON + DAY_MS + 100), 200), Timestamp(NOON + 100));
        assert_eq!(clock.told(Timestamp(NOON + DAY_MS + 100), 200), Timestamp(NOON + 100));
    }

    #[test]
    fn nodes_that_start_together_after_a_day_agree_on_their_walls() {
        let mut clock = returned();

        assert!(!clock.hear_majority(Timestamp(NOON + DAY_MS + 70), Timestamp(NOON + DAY_MS + 50), 150));

        assert_eq!((clock.read(150), clock.doubt()), (Timestamp(NOON + DAY_MS + 50), None));
    }

    #[test]
    fn a_node_whose_peers_are_gone_believes_its_wall_in_the_end() {
        let (mut gone, mut contradicted, mut alone) = (returned(), returned(), returned());
        let late_ms = 100 + PROOF_WAIT_MS;
        let wall = |ms| Timestamp(NOON + DAY_MS + ms);

        alone.hear_that_alone(wall(10), 110);
        assert_eq!(alone.read(110), wall(10));

        assert!(contradicted.is_blind());
        contradicted.hear_other_times([].into_iter(), late_ms - 1);
        assert!(!contradicted.is_blind(), "somebody has spoken");
        assert_eq!(contradicted.look(wall(PROOF_WAIT_MS), late_ms), Timestamp(NOON + PROOF_WAIT_MS));
        assert!(gone.is_blind());
        assert_eq!(gone.look(wall(PROOF_WAIT_MS), late_ms), wall(PROOF_WAIT_MS));
        assert!(!gone.is_blind());
    }

    /// Simulated: seeds 26111903454, 26111907195 and 26111911803 of records, where all nodes had been away for seconds and the
    /// first two that came back did not agree.
    #[test]
    fn records_137_of_clocks_that_differ_the_earliest_is_believed_that_is_not_before_the_log() {
        let away_ms = 3_000;
        let wall = |ms: u64| Timestamp(NOON + away_ms + ms);
        let past = Timestamp(NOON - DAY_MS);
        let future = Timestamp(NOON + DAY_MS);
        for wrong in [past, future] {
            let mut clock = returned();
            clock.hear_other_times([wrong, wall(50)].into_iter(), 150);
            assert_eq!(clock.look(wrong, 160), wall(60));
            clock.hear_other_times([wrong, wall(57)].into_iter(), 160);
            assert_eq!(clock.look(wrong, 160), wall(60), "not back, and not to the one that is wrong");
            assert_eq!(clock.told(wrong, 160), wrong, "others still compare walls");
        }

        let mut clock = returned();
        clock.hear_other_times([past, past].into_iter(), 150);
        assert_eq!(clock.read(150), Timestamp(NOON + 50), "nobody can be right");
        let mut proven = started();
        proven.hear_other_times([wall(50)].into_iter(), 150);
        assert_eq!(proven.read(150), Timestamp(NOON + 50), "who knows the time does not guess");
    }

    #[test]
    fn the_ends_of_time_do_no_harm() {
        let mut clock = BelievedClock::start(Timestamp(0), u64::MAX);
        assert_eq!(clock.look(Timestamp(u64::MAX), 0), Timestamp(0));
        assert_eq!(clock.doubt().map(|doubt| doubt.wall_ahead_ms), Some(i64::MAX));
    }
}
