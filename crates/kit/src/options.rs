//! What a client can be told, with what it does when it is told nothing.

use std::time::Duration;

use crate::core::call::{Batch, Mode, Patience};
use crate::core::plan::Activity;
use crate::host::Dial;

/// Whoever wants to ask around without a pause does it so often.
pub(crate) const PERIOD_MIN: Duration = Duration::from_millis(1);

/// What tonic's stubs take unless they are told otherwise: a service that hands no limit on has the same one.
const REPLY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How a client asks. The defaults are those of `docs/kit.md`.
#[derive(Clone)]
pub struct Options {
    /// How many hosts are asked.
    pub mode: Mode,
    /// The whole call.
    pub deadline: Duration,
    /// One request to one host.
    pub host_timeout: Duration,
    /// Further requests to a host that failed.
    pub retries: u32,
    /// Before each of those; half of it is left to chance.
    pub retry_pause: Duration,
    /// How often the list of hosts is read again and every host is asked what it serves.
    pub ping_period: Duration,
    /// The same while a call waits for a host of its keys.
    pub search_period: Duration,
    /// A host that was not heard of for so many periods is asked only where nobody else serves the key.
    pub silent_periods: u32,
    /// A host with so many requests to answer is passed over in the same way.
    pub in_flight_max: u32,
    /// The bounds of what a second request waits for.
    pub hedge_delay_min: Duration,
    /// The upper one.
    pub hedge_delay_max: Duration,
    /// Second requests of a minute, as a share of the first ones, up to which a faster host is asked.
    pub hedge_percent: u32,
    /// The same up to which what has failed is asked for again, of the same host or of another. Hedges and retries are counted
    /// together. Keys that have moved are no retry.
    pub retry_percent: u32,
    /// Retries of a minute that are sent however few first requests there were.
    pub retry_reserve: u32,
    /// Keys of one request; a host with more of them is sent several.
    pub request_keys_max: usize,
    /// Bytes of one request's keys, as [`crate::Request::key_bytes`] tells them. A larger key goes alone.
    pub request_bytes_max: usize,
    /// Bytes of one reply: a larger one fails its request, with both sizes in the host's status, and is not asked for again.
    /// A stub has a limit of its own, so the service hands this on in [`crate::Request::call`], by
    /// [`crate::Host::reply_bytes_max`].
    pub reply_bytes_max: usize,
    /// How to connect to an address; by plain HTTP/2 if nothing is said.
    pub dial: Option<Dial>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::All,
            deadline: Duration::from_secs(2),
            host_timeout: Duration::from_millis(500),
            retries: 2,
            retry_pause: Duration::from_millis(20),
            ping_period: Duration::from_secs(10),
            search_period: Duration::from_secs(1),
            silent_periods: 3,
            // A stalled host gathers what was sent to it until it times out: half a second at 2,000 calls a second.
            in_flight_max: 1_000,
            hedge_delay_min: Duration::from_millis(2),
            hedge_delay_max: Duration::from_millis(100),
            hedge_percent: 5,
            // A fifth is what other retry budgets have: enough for a host in five that is gone, too little for an avalanche.
            retry_percent: 20,
            retry_reserve: 100,
            // With replies of 200 bytes a key, half of what a reply may have.
            request_keys_max: 10_000,
            request_bytes_max: 1024 * 1024,
            reply_bytes_max: REPLY_BYTES_MAX,
            dial: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Options").field("mode", &self.mode).field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl Options {
    pub(crate) fn patience(&self, how: &How) -> Patience {
        Patience {
            deadline: how.deadline.unwrap_or(self.deadline),
            host_timeout: self.host_timeout,
            retries: self.retries,
            retry_pause: self.retry_pause,
            search_pause: self.search_period.max(PERIOD_MIN),
            hedge_delay_min: self.hedge_delay_min,
            hedge_delay_max: self.hedge_delay_max.max(self.hedge_delay_min),
        }
    }

    pub(crate) fn batch(&self) -> Batch {
        Batch { keys_max: self.request_keys_max.max(1), bytes_max: self.request_bytes_max }
    }

    pub(crate) fn activity(&self) -> Activity {
        Activity {
            silence_max: self.ping_period.saturating_mul(self.silent_periods),
            in_flight_max: self.in_flight_max,
        }
    }
}

/// What one call does otherwise than its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    /// Another mode.
    pub mode: Option<Mode>,
    /// Another deadline.
    pub deadline: Option<Duration>,
}

impl How {
    /// In another mode.
    #[must_use]
    pub fn mode(mode: Mode) -> Self {
        Self { mode: Some(mode), ..Self::default() }
    }

    /// With another deadline.
    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_waits_as_long_as_its_client_or_the_caller_says() {
        let millis = Duration::from_millis;
        let options =
            Options { deadline: millis(7), host_timeout: millis(3), retry_pause: millis(2), ..Options::default() };

        let usual = options.patience(&How::default());
        let own = options.patience(&How::mode(Mode::One).within(millis(9)));

        assert_eq!((usual.deadline, own.deadline), (millis(7), millis(9)));
        assert_eq!((own.host_timeout, own.retry_pause, own.retries), (millis(3), millis(2), 2));
    }

    /// An upper bound below the lower one would be a panic in the middle of a call, and a search without a pause would be one
    /// search for ever.
    #[test]
    fn bounds_that_cannot_work_are_put_right() {
        let (min, max) = (Duration::from_millis(50), Duration::from_millis(20));
        let search_period = Duration::ZERO;
        let options = Options { hedge_delay_min: min, hedge_delay_max: max, search_period, ..Options::default() };

        let patience = options.patience(&How::default());

        assert_eq!((patience.hedge_delay_min, patience.hedge_delay_max), (min, min));
        assert_eq!(patience.search_pause, PERIOD_MIN);
        let usual = Options::default().patience(&How::default());
        let millis = Duration::from_millis;
        assert_eq!((usual.hedge_delay_min, usual.hedge_delay_max), (millis(2), millis(100)));
        assert_eq!(usual.search_pause, Duration::from_secs(1));
    }
}
