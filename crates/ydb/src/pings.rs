//! Whether a client is still there: a ping every period, which must be answered before the next (coordination-semantics 46-52).

use std::time::Duration;

use shardine_coord::{Refusal, Status};

/// The Python SDK gives up after three seconds of silence, so YDB's five are too long for it.
const PERIOD_MAX: Duration = Duration::from_secs(2);
const PERIOD_MIN: Duration = Duration::from_millis(10);

/// A third of the session's timeout, within reason.
pub(crate) fn period(timeout_ms: u64) -> Duration {
    Duration::from_millis(timeout_ms / 3).clamp(PERIOD_MIN, PERIOD_MAX)
}

#[derive(Debug, Default)]
pub(crate) struct Pings {
    /// Grows with every ping; never 0, which the Python SDK ignores.
    last: u64,
    answered: bool,
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
        Ok(())
    }

    /// The Python SDK answers a ping with a ping: its echo counts, whatever else a ping may mean.
    pub(crate) fn ping(&mut self, opaque: u64) {
        if opaque == self.last {
            self.answered = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(result: Result<u64, Refusal>) -> Option<Status> {
        result.err().map(|refusal| refusal.status)
    }

    /// coordination-semantics 46, 48 and 50.
    #[test]
    fn a_ping_must_be_answered_before_the_next() {
        let mut pings = Pings::default();

        assert_eq!(pings.next(), Ok(1));
        assert!(pings.pong(1).is_ok());
        assert_eq!(pings.next(), Ok(2));
        assert_eq!(status(pings.next()), Some(Status::Timeout));
    }

    /// coordination-semantics 49.
    #[test]
    fn another_pong_is_refused() {
        let mut pings = Pings::default();
        pings.next().unwrap();

        assert_eq!(pings.pong(7).unwrap_err().status, Status::BadRequest);
    }

    /// coordination-semantics 51.
    #[test]
    fn an_echoed_ping_counts_as_an_answer() {
        let mut pings = Pings::default();
        let opaque = pings.next().unwrap();

        pings.ping(99);
        assert_eq!(status(pings.next()), Some(Status::Timeout));
        pings.ping(opaque);

        assert_eq!(pings.next(), Ok(2));
    }

    /// coordination-semantics 52.
    #[test]
    fn the_period_follows_the_timeout() {
        assert_eq!(period(0), Duration::from_millis(10));
        assert_eq!(period(3_000), Duration::from_secs(1));
        assert_eq!(period(30_000), Duration::from_secs(2));
    }
}
