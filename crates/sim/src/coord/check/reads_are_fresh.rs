//! Promise: a STRICT describe tells of everything that was done before it was asked for; a RELAXED one is at most a grace
//! period behind, for a leader that cannot prove that it leads says nothing (coordination 192, 193).

use crate::check::Violation;
use crate::ground::MS;

pub const NAME: &str = "reads_are_fresh";

/// Clocks drift, and count whole milliseconds.
const SLACK: u64 = 40 * MS;

/// When each entry was first applied anywhere, in order.
#[derive(Clone, Debug, Default)]
pub struct Log {
    applied: Vec<(u64, u64)>,
}

impl Log {
    pub fn apply(&mut self, index: u64, now: u64) {
        self.applied.push((now, index));
    }

    #[must_use]
    pub fn newest(&self) -> u64 {
        self.applied.last().map_or(0, |(_, index)| *index)
    }

    fn newest_at(&self, at: u64) -> u64 {
        let after = self.applied.partition_point(|(applied, _)| *applied <= at);
        after.checked_sub(1).map_or(0, |last| self.applied[last].1)
    }

    /// A describe is answered by a replica that has applied so much.
    pub fn check(&self, applied: u64, floor: Floor, now: u64) -> Result<(), Violation> {
        let (needed, kind) = match floor {
            Floor::Strict { asked_at } => (asked_at, "STRICT"),
            Floor::Relaxed { grace_ms } => {
                (now.checked_sub(grace_ms * MS + SLACK).map_or(0, |then| self.newest_at(then)), "RELAXED")
            }
        };
        if applied >= needed {
            return Ok(());
        }
        Err(Violation::new(NAME, format!("a {kind} describe tells of entry {applied}, and must of {needed}")))
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Floor {
    /// The newest entry that was applied anywhere when it was asked for.
    Strict {
        asked_at: u64,
    },
    Relaxed {
        grace_ms: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_answers_are_seen() {
        let mut log = Log::default();
        log.apply(1, 0);
        log.apply(2, 1_000 * MS);

        assert!(log.check(1, Floor::Strict { asked_at: 2 }, 1_000 * MS).is_err());
        assert_eq!(log.check(1, Floor::Relaxed { grace_ms: 500 }, 1_400 * MS), Ok(()));
        assert!(log.check(1, Floor::Relaxed { grace_ms: 500 }, 2_000 * MS).is_err());
        assert_eq!(log.check(2, Floor::Relaxed { grace_ms: 500 }, 2_000 * MS), Ok(()));
    }
}
