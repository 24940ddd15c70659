//! Ids of 24 hex digits in the order of time, as the seed of this service has them: four bytes of seconds, five of the process,
//! three that count. No two processes have one number, so no two ids are the same.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

/// An id as it is written: 24 hex digits in lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(Arc<str>);

/// An id with the second that it begins with: what messages are sorted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Seconds since 1970 on the clock of the service.
    pub ts: i64,
    /// Tells apart what has the same second.
    pub id: Id,
}

/// What is not an id of this service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id has 24 hex digits in lower case")]
pub struct NotAnId;

const DIGITS: usize = 24;
/// Ids of one second and process.
const COUNT_MAX: u32 = 0x00ff_ffff;
const PROCESS_MAX: u64 = 0x00ff_ffff_ffff;

impl Id {
    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Id {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match text.len() == DIGITS && text.bytes().all(is_digit) {
            true => Ok(Self(text.into())),
            false => Err(NotAnId),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// As a cursor is written: `1612626038-601eb87efa1a4d54af02bb20`.
impl fmt::Display for Stamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.ts, self.id)
    }
}

impl FromStr for Stamp {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let (ts, id) = text.split_once('-').ok_or(NotAnId)?;
        Ok(Self { ts: ts.parse().map_err(|_| NotAnId)?, id: id.parse()? })
    }
}

/// Makes the ids of one process. They only grow, also while the clock goes back.
#[derive(Debug)]
pub(crate) struct Stamps {
    process: u64,
    last: Mutex<(u32, u32)>,
}

impl Stamps {
    pub fn new(process: u64) -> Self {
        Self { process: process & PROCESS_MAX, last: Mutex::new((0, 0)) }
    }

    pub fn next(&self) -> Stamp {
        self.next_at(UNIX_EPOCH.elapsed().map_or(0, |now| u32::try_from(now.as_secs()).unwrap_or(u32::MAX)))
    }

    fn next_at(&self, now: u32) -> Stamp {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (second, count) = *last;
        *last = match count {
            _ if now > second => (now, 0),
            // Sixteen million of one second: the next one is begun early.
            COUNT_MAX => (second.saturating_add(1), 0),
            count => (second, count + 1),
        };
        let (second, count) = *last;
        Stamp { ts: second.into(), id: Id(format!("{second:08x}{:010x}{count:06x}", self.process).into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_with_time_and_never_go_back_with_the_clock() {
        let stamps = Stamps::new(7);

        let made: Vec<Stamp> = [100, 100, 99, 101, 50].into_iter().map(|now| stamps.next_at(now)).collect();

        assert!(made.is_sorted() && made.windows(2).all(|pair| pair[0].id < pair[1].id), "{made:?}");
        assert_eq!(made[0].id.as_str(), "000000640000000007000000");
        assert_eq!(made[4].id.as_str(), "000000650000000007000001");
    }

    #[test]
    fn a_second_that_is_full_borrows_of_the_next() {
        let stamps = Stamps { process: 1, last: Mutex::new((100, COUNT_MAX)) };

        assert_eq!(stamps.next_at(100).id.as_str(), "000000650000000001000000");
    }

    #[test]
    fn two_processes_share_no_id() {
        let (one, two) = (Stamps::new(1), Stamps::new(2));

        let ids = |stamps: &Stamps| (0..1_000).map(|_| stamps.next_at(5).id).collect::<Vec<_>>();

        let both: std::collections::BTreeSet<Id> = ids(&one).into_iter().chain(ids(&two)).collect();
        assert_eq!(both.len(), 2_000);
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in [
            "",
            "601eb87efa1a4d54af02bb2",
            "601EB87EFA1A4D54AF02BB20",
            "601eb87efa1a4d54af02bb2g",
            "é01eb87efa1a4d54af02bb2",
        ] {
            assert_eq!(text.parse::<Id>(), Err(NotAnId), "{text}");
        }
        let stamp: Stamp = "1612626038-601eb87efa1a4d54af02bb20".parse().unwrap();
        assert_eq!(stamp.to_string().parse(), Ok(stamp));
    }
}
