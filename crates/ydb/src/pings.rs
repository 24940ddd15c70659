//! Whether a client is still there: a ping every period, which must be answered before the next (coordination 46-52).

use std::time::Duration;

use shardine_coord::{Refusal, Status};

const PERIOD_MIN: Duration = Duration::from_millis(10);

/// How a client shows that it is there. Each ping costs both sides a wake-up, so none is sent that proves nothing new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Manner {
    /// Nothing is known yet, or it sends our pings back as its own: that is the Python SDK, which leaves after three seconds
    /// of silence.
    #[default]
    Echoes,
    /// It answers as it should. The Go SDK leaves after ten seconds of silence.
    Answers,
    /// It pings by itself, and hears our answers.
    Asks,
}

#[derive(Debug, Default)]
pub(crate) struct Pings {
    /// Grows with every ping; never 0, which the Python SDK ignores.
    last: u64,
    answered: bool,
    manner: Manner,
}

impl Pings {
    /// The next ping, unless the one before is unanswered.
    pub(crate) fn next(&mut self) -> Result<u64, Refusal> {
        if self.last > 0 && !self.answered {
            return Err(Refusal::new(Status::Timeout, "Ping timeout"));
        }
        self.last += 1;
        self.answered = false;
        Ok(self.last)
    }

    pub(crate) fn pong(&mut self, opaque: u64) -> Result<(), Refusal> {
        if opaque != self.last {
            return Err(Refusal::new(Status::BadRequest, "Pong data mismatch"));
        }
        self.answered = true;
        if self.manner == Manner::Echoes {
            self.manner = Manner::Answers;
        }
        Ok(())
    }

    /// The Python SDK answers a ping with a ping: its echo counts, whatever else a ping may mean. One that is the client's
    /// own shows that it is there; says so, for then nobody has to ask.
    pub(crate) fn ping(&mut self, opaque: u64) -> bool {
        if opaque == self.last {
            self.answered = true;
            return false;
        }
        self.manner = Manner::Asks;
        true
    }

    /// How long to wait before the next ping: a third of the session's timeout, within reason. Whoever pings by itself does
    /// so as often, and is asked only when that fails.
    pub(crate) fn period(&self, timeout_ms: u64) -> Duration {
        let (share, max_ms) = match self.manner {
            Manner::Echoes => (3, 2_000),
            Manner::Answers => (3, 8_000),
            Manner::Asks => (2, 15_000),
        };
        Duration::from_millis((timeout_ms / share).min(max_ms)).max(PERIOD_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(result: Result<u64, Refusal>) -> Option<Status> {
        result.err().map(|refusal| refusal.status)
    }

    /// coordination 46, 48 and 50.
    #[test]
    fn a_ping_must_be_answered_before_the_next() {
        let mut pings = Pings::default();

        assert_eq!(pings.next(), Ok(1));
        assert!(pings.pong(1).is_ok());
        assert_eq!(pings.next(), Ok(2));
        assert_eq!(status(pings.next()), Some(Status::Timeout));
    }

    /// coordination 49.
    #[test]
    fn another_pong_is_refused() {
        let mut pings = Pings::default();
        pings.next().unwrap();

        assert_eq!(pings.pong(7).unwrap_err().status, Status::BadRequest);
    }

    /// coordination 51.
    #[test]
    fn an_echoed_ping_counts_as_an_answer() {
        let mut pings = Pings::default();
        let opaque = pings.next().unwrap();

        pings.ping(99);
        assert_eq!(status(pings.next()), Some(Status::Timeout));
        pings.ping(opaque);

        assert_eq!(pings.next(), Ok(2));
    }

    /// coordination 52.
    #[test]
    fn the_period_follows_the_timeout_and_the_client() {
        let mut pings = Pings::default();
        assert_eq!(pings.period(0), Duration::from_millis(10));
        assert_eq!(pings.period(3_000), Duration::from_secs(1));
        assert_eq!(pings.period(30_000), Duration::from_secs(2), "the Python SDK must not leave");

        let opaque = pings.next().unwrap();
        assert!(!pings.ping(opaque), "an echo");
        assert_eq!(pings.period(30_000), Duration::from_secs(2));

        let opaque = pings.next().unwrap();
        pings.pong(opaque).unwrap();
        assert_eq!(pings.period(30_000), Duration::from_secs(8), "the Go SDK must not leave");
        assert_eq!(pings.period(3_000), Duration::from_secs(1));

        assert!(pings.ping(1 << 40), "its own");
        assert_eq!(pings.period(30_000), Duration::from_secs(15), "nobody asks whoever speaks by itself");
    }
}
