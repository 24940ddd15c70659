//! What one frame tells of one group, and how changes that are too much for a frame are cut into several. No I/O.

use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{HardState, LogEntry, LogWrite};

use super::frame::{BODY_BYTES_MAX, SECTION_BYTES};
use super::{Change, record};
use crate::error::Error;

/// One group's part of a frame. Borrows the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Write { shard: ShardId, replica: ReplicaId, entries: &'a [LogEntry], hard_state: Option<HardState> },
    Truncate { shard: ShardId, below: u64 },
    Reset { shard: ShardId, replica: ReplicaId, hard_state: HardState, index: u64 },
    Remove { shard: ShardId, replica: ReplicaId },
}

impl Part<'_> {
    /// The most that it can add to a frame.
    fn bytes(&self) -> usize {
        SECTION_BYTES
            + match self {
                Self::Write { entries, hard_state, .. } => record::measure(entries, *hard_state),
                Self::Truncate { .. } | Self::Reset { .. } | Self::Remove { .. } => record::SHORT_BYTES_MAX,
            }
    }
}

/// The parts of all changes, in order. None is above `bytes_max`, unless a single entry is. Writes without content have none.
pub(super) fn parts(changes: &[Change], bytes_max: usize) -> Result<Vec<Part<'_>>, Error> {
    let mut parts = Vec::with_capacity(changes.len());
    for change in changes {
        match *change {
            Change::Write(ref write) => put_write(&mut parts, write, bytes_max)?,
            Change::Truncate { shard, below } => parts.push(Part::Truncate { shard, below }),
            Change::Reset { shard, replica, hard_state, index } => {
                parts.push(Part::Reset { shard, replica, hard_state, index });
            }
            Change::Remove { shard, replica } => parts.push(Part::Remove { shard, replica }),
        }
    }
    Ok(parts)
}

/// How many of the parts go into the next frame, at least one, and what they add to it.
pub(super) fn next_frame(parts: &[Part<'_>], bytes_max: usize) -> (usize, usize) {
    let mut bytes = 0;
    for (place, part) in parts.iter().enumerate() {
        let more = part.bytes();
        if place > 0 && bytes + more > bytes_max {
            return (place, bytes);
        }
        bytes += more;
    }
    (parts.len(), bytes)
}

fn put_write<'a>(parts: &mut Vec<Part<'a>>, write: &'a LogWrite, bytes_max: usize) -> Result<(), Error> {
    let (shard, replica) = (write.shard, write.replica);
    let whole = Part::Write { shard, replica, entries: &write.entries, hard_state: write.hard_state };
    if write.entries.is_empty() && write.hard_state.is_none() {
        return Ok(());
    }
    if whole.bytes() <= bytes_max {
        parts.push(whole);
        return Ok(());
    }
    let mut left = write.entries.as_slice();
    while let Some(count) = fitting(left, write.hard_state, bytes_max)? {
        let (entries, later) = left.split_at(count);
        parts.push(Part::Write { shard, replica, entries, hard_state: up_to(write.hard_state, entries) });
        left = later;
    }
    Ok(())
}

/// How many of the entries go into one part: as many as fit, one at least. `None` if there are none.
fn fitting(entries: &[LogEntry], hard_state: Option<HardState>, bytes_max: usize) -> Result<Option<usize>, Error> {
    let empty = SECTION_BYTES + record::measure(&[], hard_state) + record::ENTRIES_BYTES;
    let mut bytes = empty;
    for (place, entry) in entries.iter().enumerate() {
        let more = record::entry_bytes(entry);
        if empty + more > BODY_BYTES_MAX {
            return Err(Error::EntryTooLarge { bytes: entry.data.len(), bytes_max: BODY_BYTES_MAX - empty });
        }
        if place > 0 && bytes + more > bytes_max {
            return Ok(Some(place));
        }
        bytes += more;
    }
    Ok((!entries.is_empty()).then_some(entries.len()))
}

/// A crash may come between two parts. What is committed must be there then, so the first of them claim no more than they bring;
/// term and vote are in all of them, because no entry may stand in the log of a replica that has not heard of its term.
fn up_to(hard_state: Option<HardState>, entries: &[LogEntry]) -> Option<HardState> {
    let last = entries.last()?.index;
    hard_state.map(|hard_state| HardState { commit: hard_state.commit.min(last), ..hard_state })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use shardine_model::log::LogEntryKind;

    use super::*;

    const SHARD: ShardId = ShardId(3);
    const REPLICA: ReplicaId = ReplicaId(7);

    fn entries(indexes: std::ops::RangeInclusive<u64>, bytes: usize) -> Vec<LogEntry> {
        let entry = |index| LogEntry { index, term: 2, kind: LogEntryKind::Normal, data: Bytes::from(vec![0; bytes]) };
        indexes.map(entry).collect()
    }

    fn write(entries: Vec<LogEntry>, hard_state: Option<HardState>) -> Change {
        Change::Write(LogWrite { shard: SHARD, replica: REPLICA, entries, hard_state })
    }

    /// For each part that writes: its entries, and how far it claims to be committed.
    fn shape(parts: &[Part<'_>]) -> Vec<(Vec<u64>, Option<u64>)> {
        let shape = |part: &Part<'_>| match part {
            Part::Write { entries, hard_state, .. } => {
                (entries.iter().map(|entry| entry.index).collect(), hard_state.map(|hard_state| hard_state.commit))
            }
            other => panic!("{other:?} writes nothing"),
        };
        parts.iter().map(shape).collect()
    }

    #[test]
    fn what_fits_stays_in_one_piece() {
        let changes = [write(entries(1..=3, 100), None), write(Vec::new(), None)];

        assert_eq!(shape(&parts(&changes, 10_000).unwrap()), [(vec![1, 2, 3], None)]);
    }

    #[test]
    fn a_write_is_cut_between_entries_and_claims_no_more_than_it_brings() {
        let hard_state = HardState { term: 2, vote: REPLICA, commit: 3 };
        let changes = [write(entries(1..=5, 100), Some(hard_state))];

        let parts = parts(&changes, 300).unwrap();

        assert_eq!(shape(&parts), [(vec![1, 2], Some(2)), (vec![3, 4], Some(3)), (vec![5], Some(3))]);
        assert!(parts.iter().all(|part| part.bytes() <= 300));
    }

    #[test]
    fn a_large_entry_has_a_part_of_its_own() {
        let mut all = entries(1..=3, 10);
        all[1].data = Bytes::from(vec![0; 1_000]);
        let changes = [write(all, None)];

        let parts = parts(&changes, 300).unwrap();

        assert_eq!(shape(&parts), [(vec![1], None), (vec![2], None), (vec![3], None)]);
    }

    #[test]
    fn an_entry_that_no_frame_could_hold_is_refused() {
        let changes = [write(entries(1..=1, BODY_BYTES_MAX), None)];

        assert!(matches!(parts(&changes, 300), Err(Error::EntryTooLarge { .. })));
    }

    #[test]
    fn frames_take_what_fits_and_always_something() {
        let changes: Vec<Change> = (0..4).map(|_| write(entries(1..=1, 1_000), None)).collect();
        let parts = parts(&changes, 10_000).unwrap();
        let one = parts[0].bytes();

        assert_eq!(next_frame(&parts, 2 * one), (2, 2 * one));
        assert_eq!(next_frame(&parts, 2 * one - 1), (1, one));
        assert_eq!(next_frame(&parts, 1), (1, one));
        assert_eq!(next_frame(&parts, usize::MAX), (4, 4 * one));
    }
}
