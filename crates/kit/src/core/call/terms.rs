//! What a call is told: how many are asked, how long it waits for what, and how much one request carries.

use std::time::Duration;

/// How many of the hosts that serve a key are asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Every active one; the first answer wins.
    #[default]
    All,
    /// The best one, and a second one when it takes longer than it usually does.
    Hedge,
    /// The best one, and another only when it fails.
    One,
}

/// How long a call waits for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// The whole call.
    pub deadline: Duration,
    /// One request to one host.
    pub host_timeout: Duration,
    /// Further requests to a host that failed.
    pub retries: u32,
    /// Before each of those; half of it is left to chance.
    pub retry_pause: Duration,
    /// Between two searches for a host that serves a key.
    pub search_pause: Duration,
    /// The bounds of what a second request waits for.
    pub hedge_delay_min: Duration,
    /// The upper one.
    pub hedge_delay_max: Duration,
}

/// How much one request carries.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// One at least.
    pub keys_max: usize,
    /// A key that is larger goes alone.
    pub bytes_max: usize,
}
