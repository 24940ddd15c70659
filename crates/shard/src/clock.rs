//! The time of one shard, as its leader stamps it: the node's, but never before what stands in the shard's log, and never at a
//! stand. A leader whose clock is behind the one before it goes on from where that one stopped.

use shardine_model::Timestamp;

use crate::actions::Time;

/// Time that is ahead of the node's clock runs one part in so many slower, until they meet. Times to live then last that much
/// longer at most, never shorter.
const SLOWER_BY_ONE_IN: u64 = 100;

/// Invariant: what it reads never falls below `newest`, and rises with the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShardClock {
    /// The newest stamp that was met ahead of this clock.
    newest: Timestamp,
    /// When it was met; `None` until the first look at the time.
    met_ms: Option<u64>,
}

impl ShardClock {
    /// The clock of a shard whose disk holds stamps up to this one.
    pub fn new(newest: Timestamp) -> Self {
        Self { newest, met_ms: None }
    }

    /// Notes the newest stamp of the log.
    pub fn note(&mut self, stamp: Timestamp, time: Time) {
        let stamp = stamp.max(self.newest);
        if self.met_ms.is_none() || stamp > self.read(time) {
            *self = Self { newest: stamp, met_ms: Some(time.monotonic_ms) };
        }
    }

    #[inline]
    pub fn read(&self, time: Time) -> Timestamp {
        let passed_ms = self.met_ms.map_or(0, |met_ms| time.monotonic_ms.saturating_sub(met_ms));
        time.wall.max(self.newest.plus_ms(passed_ms - passed_ms / SLOWER_BY_ONE_IN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(monotonic_ms: u64, wall: u64) -> Time {
        Time { monotonic_ms, wall: Timestamp(wall) }
    }

    #[test]
    fn it_is_the_nodes_where_the_log_is_not_ahead() {
        let mut clock = ShardClock::new(Timestamp(500));
        clock.note(Timestamp(900), time(10, 1_000));

        assert_eq!(clock.read(time(20, 1_010)), Timestamp(1_010));
    }

    #[test]
    fn it_goes_on_from_the_log_where_that_is_ahead() {
        let mut clock = ShardClock::new(Timestamp(90_000));
        assert_eq!(clock.read(time(1_000_000, 1_000)), Timestamp(90_000), "no time has passed yet that it knows of");
        clock.note(Timestamp(0), time(1_000_000, 1_000));

        assert_eq!(clock.read(time(1_010_000, 11_000)), Timestamp(99_900));
    }

    #[test]
    fn the_node_catches_up() {
        let mut clock = ShardClock::default();
        clock.note(Timestamp(6_000), time(0, 1_000));

        assert_eq!(clock.read(time(400_000, 401_000)), Timestamp(402_000));
        assert_eq!(clock.read(time(600_000, 601_000)), Timestamp(601_000));
    }

    #[test]
    fn an_older_stamp_changes_nothing() {
        let mut clock = ShardClock::default();
        clock.note(Timestamp(6_000), time(0, 1_000));
        clock.note(Timestamp(6_050), time(100, 1_100));

        assert_eq!(clock.read(time(200, 1_200)), Timestamp(6_198));
    }
}
