//! Time as the pure modules know it: handed to them, never asked for.

use std::time::Duration;

/// Microseconds since the client or the claim was made, on a clock that never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// So long after the beginning.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// How long after the beginning.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; nothing if it is not over yet.
    #[must_use]
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// So much later, as far as the numbers go.
    #[must_use]
    pub fn after(self, time: Duration) -> Moment {
        Moment(self.0.saturating_add(micros(time)))
    }
}

/// A duration in whole microseconds, as far as they go.
#[must_use]
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
