//! What a claim does next, and until when its holder may answer. Time and outcomes go in; asks no database itself.

use std::time::Duration;

use super::moment::Moment;
use super::shard::Hold;

/// How long a claim lives without a proof, unless its store was told otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// The times of a claim. How long it lives without a proof is said to its store, and only there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Between two proofs that the claim is still held, and between two tries to get one.
    pub ping: Duration,
    /// The holder stops answering so much earlier than the store gives the shard to others: for clocks that differ in speed,
    /// and for the way of an answer.
    pub margin: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self { ping: Duration::from_secs(5), margin: Duration::from_secs(10) }
    }
}

impl Times {
    /// What is wrong with them for a store of this timeout, if anything is: a holder would never be proven, or would stop
    /// between two proofs that went well.
    #[must_use]
    pub fn flaw(&self, timeout: Duration) -> Option<&'static str> {
        let lease = timeout.checked_sub(self.margin).filter(|lease| !lease.is_zero());
        match lease {
            _ if self.ping.is_zero() => Some("a claim is proven again and again: ping is not zero"),
            None => Some("a holder stops before the timeout: margin is less than timeout"),
            Some(lease) if lease <= self.ping => {
                Some("a holder stops between two proofs: ping is less than timeout - margin")
            }
            Some(_) => None,
        }
    }

    /// How long a store's answer is waited for before it is asked anew: half of the time that a proof gives. A store that is
    /// slow takes several steps for an answer, and one that is given up too early never gets to the last of them; a question
    /// that was lost still leaves time for a second one.
    pub(crate) fn patience(&self, timeout: Duration) -> Duration {
        (timeout.saturating_sub(self.margin) / 2).max(self.ping)
    }
}

/// What a holder does while the store is silent, for whatever reason: the store is down, or the way to it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhileSilent {
    /// Goes on answering until the store says that the shard is somebody else's. A store that is down costs nothing then. A
    /// holder that alone is cut off from the store may answer beside the one who has taken its shard, for as long as it is
    /// cut off: clients that hear of both ask the later claim, others get answers as old as what the first one has read.
    ///
    /// The default: nobody can take a shard from a store that is down, while stopping makes its outage everybody's, in all
    /// data centres at once. And two replicas may differ anyway for as long as they read at different times.
    #[default]
    Serve,
    /// Stops answering before anybody else could take the shard, and goes on when the store says that it is still held. Two
    /// hosts never answer for one shard then; a store that is down for longer than `timeout - margin` ends the service in
    /// all data centres that claim there, until it is back.
    Stop,
}

/// What to ask of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreRequest {
    /// Any shard that is free.
    Claim,
    /// This one, which is held.
    Renew(Hold),
}

/// What the store answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// To a claim: nothing was free.
    Nothing,
    /// To a claim, or to a renewal: the same, or a later generation of it.
    Held(Hold),
    /// To a renewal: somebody else has it.
    Lost,
    /// No answer, or none that says anything.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Seeking,
    /// `proven`: when the last question was *sent* that was answered with yes.
    Holding {
        hold: Hold,
        proven: Moment,
    },
    Lost(Hold),
}

/// A claim's life: seeking, holding, lost. Silence of the store is never a loss. Invariant of [`WhileSilent::Stop`]: the
/// holder may answer only before `proven + timeout - margin`, which lies before the moment at which the store could give the
/// shard to somebody else, since the store counts from when it received what was sent at `proven`.
#[derive(Clone, Debug)]
pub struct Tenure {
    times: Times,
    timeout: Duration,
    while_silent: WhileSilent,
    state: State,
    next: Moment,
    sent: Moment,
}

impl Tenure {
    /// A claim that is to be made from now on.
    #[must_use]
    pub fn new(times: Times, timeout: Duration, while_silent: WhileSilent, now: Moment) -> Self {
        Self { times, timeout, while_silent, state: State::Seeking, next: now, sent: now }
    }

    /// When the next request is due.
    #[must_use]
    pub fn due(&self) -> Moment {
        self.next
    }

    /// The request to be sent now; `None` once the shard is lost.
    pub fn request(&mut self, now: Moment) -> Option<StoreRequest> {
        (self.sent, self.next) = (now, now.after(self.times.ping));
        match self.state {
            State::Seeking => Some(StoreRequest::Claim),
            State::Holding { hold, .. } => Some(StoreRequest::Renew(hold)),
            State::Lost(_) => None,
        }
    }

    /// What came of the request that was sent last.
    pub fn settle(&mut self, outcome: Outcome) {
        self.state = match (self.state, outcome) {
            (State::Seeking, Outcome::Held(hold)) => State::Holding { hold, proven: self.sent },
            // The same, or claimed anew after the store had lost it.
            (State::Holding { hold, .. }, Outcome::Held(held)) if is_same_or_later(hold, held) => {
                State::Holding { hold: held, proven: self.sent }
            }
            // Not what was asked for is as bad as a no.
            (State::Holding { hold, .. }, Outcome::Lost | Outcome::Held(_) | Outcome::Nothing) => State::Lost(hold),
            (state, _) => state,
        };
    }

    /// What is held.
    #[must_use]
    pub fn hold(&self) -> Option<Hold> {
        match self.state {
            State::Holding { hold, .. } => Some(hold),
            State::Seeking | State::Lost(_) => None,
        }
    }

    /// What was held.
    #[must_use]
    pub fn lost(&self) -> Option<Hold> {
        match self.state {
            State::Lost(hold) => Some(hold),
            State::Seeking | State::Holding { .. } => None,
        }
    }

    /// Until when the holder may answer.
    #[must_use]
    pub fn until(&self) -> Option<Moment> {
        match self.state {
            State::Holding { proven, .. } => Some(match self.while_silent {
                WhileSilent::Serve => Moment::from_micros(u64::MAX),
                WhileSilent::Stop => proven.after(self.timeout.saturating_sub(self.times.margin)),
            }),
            State::Seeking | State::Lost(_) => None,
        }
    }
}

fn is_same_or_later(hold: Hold, held: Hold) -> bool {
    hold.shard == held.shard && hold.generation <= held.generation
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Hold = Hold { shard: 1, generation: 4 };

    fn at(seconds: u64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    fn holding() -> Tenure {
        let mut tenure = Tenure::new(Times::default(), TIMEOUT, WhileSilent::Stop, at(0));
        assert_eq!(tenure.request(at(0)), Some(StoreRequest::Claim));
        tenure.settle(Outcome::Held(HOLD));
        tenure
    }

    #[test]
    fn times_that_cannot_work_are_told() {
        let flaw = |ping, timeout, margin| {
            let seconds = Duration::from_secs;
            Times { ping: seconds(ping), margin: seconds(margin) }.flaw(seconds(timeout))
        };

        assert_eq!(Times::default().flaw(TIMEOUT), None);
        assert_eq!(flaw(1, 3, 1), None);
        for (ping, timeout, margin) in [(0, 30, 10), (5, 10, 10), (5, 10, 20), (5, 15, 10), (1, 0, 0)] {
            assert!(flaw(ping, timeout, margin).is_some(), "{ping} {timeout} {margin}");
        }
    }

    /// kit A-46: half of what a proof gives, so that a question that was lost leaves time for a second one, and a period at
    /// least: whoever gives up earlier asks a slow store anew for ever.
    #[test]
    fn an_answer_is_waited_for_half_of_the_lease_and_a_period_at_least() {
        let patience = |ping, timeout, margin| {
            let seconds = Duration::from_secs;
            Times { ping: seconds(ping), margin: seconds(margin) }.patience(seconds(timeout)).as_secs()
        };

        assert_eq!(Times::default().patience(TIMEOUT), Duration::from_secs(10));
        assert_eq!((patience(1, 30, 0), patience(1, 30, 20)), (15, 5));
        assert_eq!((patience(5, 30, 20), patience(5, 30, 24)), (5, 5));
    }

    #[test]
    fn kit_a_44_who_found_nothing_asks_again_every_period() {
        let mut tenure = Tenure::new(Times::default(), TIMEOUT, WhileSilent::Stop, at(0));

        tenure.request(at(0));
        tenure.settle(Outcome::Nothing);

        assert_eq!((tenure.due(), tenure.hold()), (at(5), None));
        assert_eq!(tenure.request(at(5)), Some(StoreRequest::Claim));
    }

    #[test]
    fn kit_a_46_a_holder_proves_it_every_period() {
        let mut tenure = holding();

        assert_eq!(tenure.due(), at(5));
        assert_eq!(tenure.request(at(5)), Some(StoreRequest::Renew(HOLD)));
        tenure.settle(Outcome::Held(HOLD));

        assert_eq!(tenure.until(), Some(at(25)));
    }

    /// kit A-46: a store that was silent for an hour is not asked at once for all the proofs of that hour.
    #[test]
    fn the_next_proof_is_a_period_after_the_last_question_whenever_that_was() {
        let mut tenure = holding();

        tenure.request(at(3_600));
        tenure.settle(Outcome::Unknown);

        assert_eq!(tenure.due(), at(3_605));
    }

    #[test]
    fn kit_a_49_silence_ends_the_right_to_answer_before_others_may_take_the_shard() {
        let mut tenure = holding();

        for second in [5, 10, 15, 20, 25] {
            tenure.request(at(second));
            tenure.settle(Outcome::Unknown);
        }

        assert_eq!(tenure.until(), Some(at(20)), "the store gives it away after second 30");
        assert_eq!(tenure.hold(), Some(HOLD), "and it is asked for on: the row may still be ours");
    }

    #[test]
    fn kit_a_49_who_serves_on_does_so_until_the_store_says_no() {
        let mut tenure = Tenure::new(Times::default(), TIMEOUT, WhileSilent::Serve, at(0));
        tenure.request(at(0));
        tenure.settle(Outcome::Held(HOLD));

        for second in 1..1_000 {
            tenure.request(at(second * 5));
            tenure.settle(Outcome::Unknown);
        }
        assert!(tenure.until() > Some(at(5_000)));
        tenure.request(at(5_000));
        tenure.settle(Outcome::Lost);

        assert_eq!((tenure.until(), tenure.lost()), (None, Some(HOLD)));
    }

    #[test]
    fn kit_a_49_a_slow_yes_counts_from_when_it_was_asked_for() {
        let mut tenure = holding();
        tenure.request(at(5));

        // The answer comes at second 24, when the first proof has run out.
        tenure.settle(Outcome::Held(HOLD));

        assert_eq!(tenure.until(), Some(at(25)));
    }

    #[test]
    fn kit_a_47_what_is_lost_stays_lost() {
        let mut tenure = holding();
        tenure.request(at(5));

        tenure.settle(Outcome::Lost);
        tenure.settle(Outcome::Held(HOLD));

        assert_eq!((tenure.until(), tenure.lost()), (None, Some(HOLD)));
        assert_eq!(tenure.request(at(10)), None);
    }

    #[test]
    fn kit_a_48_an_earlier_generation_or_another_shard_is_not_ours() {
        for wrong in [Hold { generation: 3, ..HOLD }, Hold { shard: 2, ..HOLD }] {
            let mut tenure = holding();
            tenure.request(at(5));

            tenure.settle(Outcome::Held(wrong));

            assert_eq!(tenure.lost(), Some(HOLD));
        }
    }

    #[test]
    fn kit_a_55_a_claim_that_was_made_anew_goes_on_under_its_new_generation() {
        let mut tenure = holding();
        tenure.request(at(5));

        tenure.settle(Outcome::Held(Hold { generation: 9, ..HOLD }));

        assert_eq!((tenure.hold(), tenure.until()), (Some(Hold { generation: 9, ..HOLD }), Some(at(25))));
    }
}
