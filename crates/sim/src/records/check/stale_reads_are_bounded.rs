//! Promise: a read that may be old is no older than was accepted (records 36). What it tells was still true then: no change
//! that was committed had replaced it any longer ago, whoever has heard of it by now. It is the age of what was read that
//! counts, not how recently its replica has heard from anybody.
//!
//! And it tells what the log says at the entry that it names, and whoever reads one replica again finds it no earlier in the
//! log than before.

use std::collections::BTreeMap;

use shardine_model::ReplicaId;

use crate::check::Violation;
use crate::ground::MS;
use crate::records::truth::SeenRow;

pub const NAME: &str = "stale_reads_are_bounded";

/// Clocks drift, and a node counts whole milliseconds.
fn with_drift(age: u64) -> u64 {
    age + age / 500 + 3 * MS
}

/// Where a replica lives, and in which life: a restarted node begins again from what its disk held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplicaLife {
    pub node: usize,
    pub life: u64,
    pub shard: usize,
    pub replica: ReplicaId,
}

/// A stale read that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    pub client: usize,
    pub place: ReplicaLife,
    pub applied: u64,
    pub max_age: u64,
    pub told: SeenRow,
}

/// The same row as the log has it at that entry, and when something else took its place, if it did.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub held: Option<SeenRow>,
    pub replaced_at: Option<u64>,
}

/// How much of the log was told to whom.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    applied: BTreeMap<(usize, ReplicaLife), u64>,
}

impl Seen {
    pub fn check(&mut self, read: Answered, known: Known, now: u64) -> Result<(), Violation> {
        let Answered { client, place, applied, max_age, told } = read;
        let node = place.node + 1;
        if known.held != Some(told) {
            let detail = format!("node {node} told {told:?} at entry {applied}, where there is {:?}", known.held);
            return Err(Violation::new(NAME, detail));
        }
        let before = std::mem::replace(self.applied.entry((client, place)).or_default(), applied);
        if applied < before {
            let detail = format!("client {client} saw entry {applied} of node {node} after {before}");
            return Err(Violation::new(NAME, detail));
        }
        let age = known.replaced_at.map_or(0, |at| now - at);
        if age > with_drift(max_age) {
            let detail = format!("node {node} told what was replaced {age} us before, where {max_age} were accepted");
            return Err(Violation::new(NAME, detail));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use shardine_model::Version;

    use super::*;
    use crate::records::universe::Content;

    const TOLD: SeenRow = (Version(4), Some(Content { value: 7, count: 0 }));
    const NOW: u64 = 1_000 * MS;

    fn read() -> Answered {
        let place = ReplicaLife { node: 1, life: 1, shard: 0, replica: ReplicaId(2) };
        Answered { client: 0, place, applied: 9, max_age: 300 * MS, told: TOLD }
    }

    fn known(replaced_at: Option<u64>) -> Known {
        Known { held: Some(TOLD), replaced_at }
    }

    #[test]
    fn an_old_value_is_seen() {
        let check = |replaced_at| Seen::default().check(read(), known(replaced_at), NOW);

        assert_eq!((check(None), check(Some(NOW)), check(Some(700 * MS))), (Ok(()), Ok(()), Ok(())));
        assert!(check(Some(690 * MS)).is_err());
    }

    #[test]
    fn a_read_that_tells_something_else_than_the_log_is_seen() {
        let other = Known { held: Some((Version(5), None)), replaced_at: None };

        assert!(Seen::default().check(read(), other, NOW).is_err());
    }

    #[test]
    fn a_reader_who_goes_back_is_seen() {
        let mut seen = Seen::default();
        assert_eq!(seen.check(read(), known(None), NOW), Ok(()));

        assert!(seen.check(Answered { applied: 8, ..read() }, known(None), NOW).is_err());
    }
}
