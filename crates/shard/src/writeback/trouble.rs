//! What becomes of the next try after SQL failed: how long to wait, and how carefully to begin again (write-back 111,
//! 112). Counts on the host's clock; its chance is a hash, so that a run can be repeated.

use shardine_model::sql::Class;
use shardine_model::{ErrorCode, limits};
use xxhash_rust::xxh3::xxh3_64;

use crate::actions::Trouble;

/// The first pause after trouble that passes by itself, and the longest.
const RETRY_FIRST_MS: u64 = 100;
const RETRY_LAST_MS: u64 = 10_000;
/// The pause of a table that is not what its definition says. A changed definition ends it.
const DEFINITION_PAUSE_MS: u64 = 10_000;
/// The same for trouble that only an operator can mend: asked seldom, so that a wrong password locks nobody out.
const FATAL_FIRST_MS: u64 = 1_000;
const FATAL_LAST_MS: u64 = 30_000;
/// The pause of a table whose batch found no room: long enough not to be in the way of those who have one.
const BUSY_PAUSE_MS: u64 = 100;

/// One way to the database: all writes, or all loads. While it is down one probe at a time goes out, and after that more
/// and more, so that a database that comes back is not run over (write-back 111).
#[derive(Debug, Default)]
pub(crate) struct Health {
    tries: u32,
    until_ms: u64,
    is_probing: bool,
    /// Rows that the next batch may have while the way is new again; 0 means as many as it likes.
    ramp_rows: usize,
}

impl Health {
    pub fn is_down(&self) -> bool {
        self.tries > 0
    }

    pub fn paused_until_ms(&self) -> Option<u64> {
        self.is_down().then_some(self.until_ms)
    }

    /// Whether something may be sent now.
    pub fn may_try(&self, now_ms: u64) -> bool {
        !self.is_down() || (now_ms >= self.until_ms && !self.is_probing)
    }

    pub fn rows_max(&self) -> usize {
        match self.ramp_rows {
            0 => limits::FLUSH_ROWS_MAX,
            rows => rows,
        }
    }

    pub fn sent(&mut self) {
        self.is_probing = self.is_down();
    }

    pub fn succeeded(&mut self) {
        (self.tries, self.until_ms, self.is_probing) = (0, 0, false);
        self.ramp_rows *= 2;
        if self.ramp_rows >= limits::FLUSH_ROWS_MAX {
            self.ramp_rows = 0;
        }
    }

    /// Nothing was learned about the way as a whole: a probe met trouble of its own.
    pub fn settled(&mut self) {
        self.is_probing = false;
    }

    /// What was sent before the first failure may fail as well: that is the same news, and no reason to wait longer.
    pub fn failed(&mut self, now_ms: u64, salt: (u64, u64)) {
        self.is_probing = false;
        self.ramp_rows = 1;
        if now_ms < self.until_ms {
            return;
        }
        self.tries = self.tries.saturating_add(1);
        self.until_ms = now_ms + jittered(doubled(RETRY_FIRST_MS, RETRY_LAST_MS, self.tries), salt, self.tries);
    }
}

/// Trouble of one table; the others are not concerned.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    tries: u32,
    until_ms: u64,
    /// The definition under which it came to that.
    definition: u64,
}

impl Pause {
    pub fn holds(&self, now_ms: u64, definition: u64) -> bool {
        self.tries > 0 && now_ms < self.until_ms && self.definition == definition
    }

    pub fn until_ms(&self, now_ms: u64, definition: u64) -> Option<u64> {
        self.holds(now_ms, definition).then_some(self.until_ms)
    }

    pub fn end(&mut self) {
        *self = Self::default();
    }

    pub fn begin(&mut self, now_ms: u64, definition: u64, class: Class) {
        self.tries = self.tries.saturating_add(1);
        self.definition = definition;
        let pause = match class {
            Class::Fatal | Class::Foreign => doubled(FATAL_FIRST_MS, FATAL_LAST_MS, self.tries),
            Class::Busy => BUSY_PAUSE_MS,
            Class::Definition | Class::Row | Class::ForeignKey | Class::Retryable => DEFINITION_PAUSE_MS,
        };
        self.until_ms = now_ms + pause;
    }
}

impl Trouble {
    /// Whether it concerns the way to the database rather than one table.
    pub(crate) fn is_of_the_database(&self) -> bool {
        self.class == Class::Retryable
    }

    /// Whether something of the job may still be under way in SQL.
    pub(crate) fn was_sent(&self) -> bool {
        self.class != Class::Busy
    }

    /// What whoever waits for the job hears.
    pub(crate) fn code(&self) -> ErrorCode {
        match self.class {
            Class::Busy => ErrorCode::Busy,
            Class::Retryable | Class::Definition | Class::Row | Class::ForeignKey | Class::Fatal | Class::Foreign => {
                ErrorCode::BackendUnavailable
            }
        }
    }
}

fn doubled(first: u64, last: u64, tries: u32) -> u64 {
    let doublings = tries.saturating_sub(1).min(16);
    (first << doublings).min(last)
}

/// Between half of the pause and all of it, so that many shards do not come back at one moment.
fn jittered(pause: u64, salt: (u64, u64), tries: u32) -> u64 {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&salt.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&salt.1.to_le_bytes());
    bytes[16..].copy_from_slice(&tries.to_le_bytes());
    pause / 2 + xxh3_64(&bytes) % (pause / 2 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// write-back 111: pauses double up to ten seconds, each between half and all of it, and differ from node to node.
    #[test]
    fn write_back_111_pauses_double_with_jitter_up_to_a_cap() {
        let mut health = Health::default();
        let (mut now, mut pauses) = (0, Vec::new());
        for _ in 0..10 {
            health.failed(now, (1, 1));
            pauses.push(health.until_ms - now);
            now = health.until_ms;
        }

        for (place, pause) in pauses.iter().enumerate() {
            let whole = (100 << place).min(10_000);
            assert!((whole / 2..=whole).contains(pause), "pause {place} is {pause}");
        }
        let mut other = Health::default();
        other.failed(0, (2, 1));
        assert_ne!(other.until_ms, pauses[0], "another node comes back at another moment");
    }

    /// write-back 111: what was under way when the trouble began does not make the pause longer.
    #[test]
    fn write_back_111_news_of_the_same_trouble_is_no_new_try() {
        let mut health = Health::default();
        health.failed(0, (1, 1));
        let until = health.until_ms;

        (0..50).for_each(|_| health.failed(1, (1, 1)));

        assert_eq!(health.until_ms, until);
    }

    /// write-back 111: one row is the probe, and the batches after it double.
    #[test]
    fn write_back_111_batches_grow_after_the_probe() {
        let mut health = Health::default();
        health.failed(0, (1, 1));
        let mut rows = vec![health.rows_max()];
        for _ in 0..10 {
            health.succeeded();
            rows.push(health.rows_max());
        }

        assert_eq!(rows, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000]);
    }
}
