//! What the host decides about the door: limits, the password, and what it calls itself. Read from no file here.

use std::sync::Arc;

use shardine_model::limits;

use crate::book::Book;
use crate::frame::Limits;
use crate::roster::Roster;
use crate::shelf::Shelf;
use crate::slow_log::SlowLog;

/// Replies that one connection may have outstanding (reliability S10). More pipelined commands wait in the input.
pub const PIPELINE_MAX: usize = 1_024;

/// Bytes of replies that one connection may hold before it executes nothing more (reliability S10). One reply may
/// exceed it; the next command then waits until the host has written this one.
pub const OUT_BYTES_SOFT_MAX: usize = 1 << 20;

/// Bytes of records from elsewhere that one connection waits for, each taken to be as large as the largest of late: every one of
/// a thousand could be a copy of 64 MiB.
pub const LATE_BYTES_SOFT_MAX: usize = limits::RECORD_BYTES_MAX;

/// How large a record is taken to be before one was seen. Small ones are believed after a few answers.
pub const LATE_BYTES_FIRST: usize = 4 << 20;

/// Bytes of one reply, `EXEC` included. Whoever asks for more is told so, and may ask again for less.
pub const REPLY_BYTES_MAX: usize = limits::REPLY_BYTES_MAX;

/// Rows that `KEYS` may look at; it answers in one piece and holds its whole answer.
pub const KEYS_ROWS_MAX: usize = 10_000;

/// Bytes of commands that one `MULTI` may queue.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;

/// Bytes of one script. To read one takes time on a lane, and no library has one of a hundredth of this.
pub(crate) const SCRIPT_BYTES_MAX: usize = 1 << 20;

/// Keys that one connection may watch.
pub const WATCH_MAX: usize = 1_024;

/// The Redis version whose behaviour clients may rely on; some refuse to talk to what they think is older.
pub const REDIS_VERSION: &str = "7.2.0";

/// A password that is only ever compared in constant time and never printed.
#[derive(Clone)]
pub struct Password(Box<[u8]>);

impl Password {
    #[must_use]
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        Self(text.into().into_boxed_slice())
    }

    /// Looks at every byte of the guess whatever it finds, so that the time tells nothing but the guess's length.
    #[must_use]
    pub fn matches(&self, guess: &[u8]) -> bool {
        let mut difference = self.0.len() ^ guess.len();
        for (index, byte) in guess.iter().enumerate() {
            let expected = self.0.get(index % self.0.len().max(1)).copied().unwrap_or(0);
            difference |= usize::from(byte ^ expected);
        }
        std::hint::black_box(difference) == 0
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Password(…)")
    }
}

#[derive(Clone, Debug)]
pub struct Options {
    pub limits: Limits,
    pub limits_before_auth: Limits,
    pub pipeline_max: usize,
    pub out_bytes_soft_max: usize,
    pub late_bytes_soft_max: usize,
    pub reply_bytes_max: usize,
    pub keys_rows_max: usize,
    pub queue_bytes_max: usize,
    /// Without one, every client is let in.
    pub password: Option<Password>,
    /// The version of Shardine, for `HELLO` and `INFO`.
    pub version: String,
    /// The port of the door, for `INFO`.
    pub port: u16,
    /// Bytes of records in memory above which those that SQL has are evicted, for `INFO`; 0 means no limit.
    pub memory_max: u64,
    /// Clients that the node lets in.
    pub connections_max: usize,
    /// The scripts that the node was told.
    pub scripts: Arc<Book>,
    /// The libraries of functions.
    pub shelf: Arc<Shelf>,
    /// The clients of the node.
    pub roster: Arc<Roster>,
    /// Those of their commands that took long.
    pub slow_log: Arc<SlowLog>,
    /// Chance, given from outside: `RANDOMKEY` and `HRANDFIELD` begin from it.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::OPEN,
            limits_before_auth: Limits::BEFORE_AUTH,
            pipeline_max: PIPELINE_MAX,
            out_bytes_soft_max: OUT_BYTES_SOFT_MAX,
            late_bytes_soft_max: LATE_BYTES_SOFT_MAX,
            reply_bytes_max: REPLY_BYTES_MAX,
            keys_rows_max: KEYS_ROWS_MAX,
            queue_bytes_max: QUEUE_BYTES_MAX,
            password: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            port: 7379,
            memory_max: 0,
            connections_max: 10_000,
            scripts: Arc::default(),
            shelf: Arc::default(),
            roster: Arc::default(),
            slow_log: Arc::default(),
            seed: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// reliability I88: were the comparison to end at the first wrong byte, one would take thousands of times as long as the other.
    #[test]
    fn a_guess_takes_as_long_wherever_it_is_wrong() {
        let password = Password::new(vec![b'x'; 1 << 20]);
        let (mut early, mut late) = (vec![b'x'; 1 << 20], vec![b'x'; 1 << 20]);
        (early[0], late[(1 << 20) - 1]) = (b'y', b'y');

        let (early, late) = (shortest(|| password.matches(&early)), shortest(|| password.matches(&late)));

        assert!(late < early * 20 && early < late * 20, "{early:?} and {late:?}");
    }

    /// The shortest of several times: what the machine does meanwhile makes none of them shorter.
    #[allow(clippy::disallowed_methods, reason = "a test of time looks at the clock")]
    fn shortest(guess: impl Fn() -> bool) -> std::time::Duration {
        let measured = (0..20).map(|_| {
            let begun = std::time::Instant::now();
            assert!(!guess());
            begun.elapsed()
        });
        measured.min().unwrap()
    }

    #[test]
    fn only_the_very_password_matches() {
        let password = Password::new("secret");

        assert!(password.matches(b"secret"));
        for guess in [&b""[..], b"secre", b"secrets", b"Secret", b"secretsecret"] {
            assert!(!password.matches(guess), "{:?}", String::from_utf8_lossy(guess));
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        assert_eq!(format!("{:?}", Password::new("secret")), "Password(…)");
    }
}
