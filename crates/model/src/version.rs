//! Versions of records.

use std::fmt;

/// How often a record has changed: 0 never existed, above 0 live, below 0 deleted. The magnitude grows by one with
/// every change for the record's whole life, so no number ever names two contents (records 1-7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub i64);

impl Version {
    pub const NEVER: Version = Version(0);

    #[must_use]
    pub fn is_live(self) -> bool {
        self.0 > 0
    }

    #[must_use]
    pub fn magnitude(self) -> u64 {
        self.0.unsigned_abs()
    }

    /// Whether there is a number left for another change (records 7). Only a row that somebody else wrote to SQL
    /// can come near the end.
    #[inline]
    #[must_use]
    pub fn has_next(self) -> bool {
        self.magnitude() < i64::MAX as u64
    }

    /// The version of the record's next live content.
    #[must_use]
    pub fn next_live(self) -> Self {
        Self(self.next_magnitude())
    }

    /// The version of the tombstone that a delete leaves.
    #[must_use]
    pub fn next_tombstone(self) -> Self {
        Self(-self.next_magnitude())
    }

    /// `i64::MIN` is never made: PostgreSQL's `abs` fails on it (records 7).
    fn next_magnitude(self) -> i64 {
        let magnitude = i64::try_from(self.magnitude()).expect("i64::MIN is never a version");
        magnitude.checked_add(1).expect("the caller saw that there is a next version")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
