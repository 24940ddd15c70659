//! What the log does when the disk does not give back what was written. The contract is records 74:
//! a torn tail is cut, damage elsewhere stops what it concerns. Damage to one shard is told in `section_damage.rs`.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::path::Path;

use common::{Ground, OWNER, SMALL, entries, indexes, on_both, truncate, write};
use shardine_model::ids::ShardId;
use shardine_store::disk::memory::Fault;
use shardine_store::log::{Change, Start};
use shardine_store::{Disk, Error, MemoryDisk, SegmentLog};

/// Writes one entry per frame and returns where each frame ended in the newest segment: nothing up to there may be lost by a cut
/// behind it.
fn write_and_note_ends(ground: &Ground, count: u64) -> (Ground, Vec<(u64, usize)>) {
    let log = ground.open().unwrap();
    let mut ends = Vec::new();
    for index in 1..=count {
        write(&log, [entries(1, [index], 150), entries(2, [index], 30)]);
        ends.push((index, end_of_frames(&ground.read(&ground.newest_segment()))));
    }
    (ground.crash(), ends)
}

/// Segments here begin as zeros, and the last byte of an entry is made not to be one.
fn end_of_frames(segment: &[u8]) -> usize {
    segment.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

fn overwrite_from(ground: &Ground, path: &Path, from: usize, with: u8) {
    let mut bytes = ground.read(path);
    bytes[from..].fill(with);
    ground.put(path, &bytes);
}

fn torn_everywhere(step: usize, tear: impl Fn(&mut Vec<u8>, usize)) {
    on_both(|ground| {
        let (crashed, ends) = write_and_note_ends(ground, 40);
        let name = crashed.newest_segment();
        let original = crashed.read(&name);
        let end = ends.last().unwrap().1;

        for at in (end - 2_048..=end).rev().step_by(ground.step(step)) {
            let mut torn = original.clone();
            tear(&mut torn, at);
            crashed.put(&name, &torn);
            let log = crashed.open().unwrap_or_else(|error| panic!("torn at {at}: {error}"));

            let kept = ends.iter().rev().find(|(_, end)| *end <= at).unwrap().0;
            for shard in [1, 2] {
                assert_eq!(indexes(&log, shard), (1..=kept).collect::<Vec<_>>(), "torn at {at}");
            }
        }
    });
}

/// reliability F4, as the two behind it.
#[test]
fn records_74_torn_tail_is_cut() {
    torn_everywhere(1, |bytes, at| bytes.truncate(at));
}

#[test]
fn records_74_torn_tail_of_zeros_is_cut() {
    torn_everywhere(5, |bytes, at| bytes[at..].fill(0));
}

#[test]
fn records_74_torn_tail_of_garbage_is_cut() {
    torn_everywhere(5, |bytes, at| bytes[at..].fill(0xa5));
}

#[test]
fn records_74_after_a_cut_the_log_goes_on() {
    on_both(|ground| {
        let (crashed, ends) = write_and_note_ends(ground, 10);
        let newest = crashed.newest_segment();
        overwrite_from(&crashed, &newest, ends[9].1 - 5, 0);

        let log = crashed.open().unwrap();
        write(&log, [entries(1, 10..=12, 50)]);
        let again = crashed.crash();

        assert_eq!(indexes(&again.open().unwrap(), 1), (1..=12).collect::<Vec<_>>());
        assert_eq!(indexes(&again.open().unwrap(), 2), (1..=9).collect::<Vec<_>>());
    });
}

#[test]
fn records_74_a_missing_segment_stops_the_store() {
    on_both(|ground| {
        let (crashed, _) = write_and_note_ends(ground, 300);
        let segments = crashed.files("seg");
        assert!(segments.len() > 3);

        for segment in &segments {
            let bytes = crashed.read(segment);
            crashed.remove(segment);
            let error = crashed.open().err();
            crashed.put(segment, &bytes);

            let error = error.unwrap_or_else(|| panic!("{} was removed and nobody noticed", segment.display()));
            assert!(error.to_string().contains("missing"), "{error}");
        }
        assert!(crashed.open().is_ok());
    });
}

#[test]
fn records_74_a_missing_log_stops_the_store() {
    on_both(|ground| {
        let (crashed, _) = write_and_note_ends(ground, 1);
        for segment in crashed.files("seg") {
            crashed.remove(&segment);
        }

        let opened = SegmentLog::open(crashed.disk(), crashed.dir(), OWNER, Start::Again, SMALL);
        let error = opened.err().unwrap();

        assert!(matches!(error, Error::LogGone { .. }), "{error}");
    });
}

#[test]
fn a_missing_segment_that_nobody_needs_is_no_loss() {
    on_both(|ground| {
        let log = ground.open().unwrap();
        for index in 1..=200 {
            write(&log, [entries(1, [index], 900)]);
        }
        truncate(&log, 1, 190);

        let (_crashed, again) = ground.crash_and_open();

        assert_eq!(indexes(&again, 1), (190..=200).collect::<Vec<_>>());
    });
}

#[test]
fn segments_that_were_being_freed_may_go_in_any_order() {
    let ground = Ground::Memory(MemoryDisk::new(1));
    let Ground::Memory(disk) = &ground else { unreachable!() };
    let log = ground.open().unwrap();
    for index in 1..=200 {
        write(&log, [entries(1, [index], 900)]);
    }
    let before = ground.files("seg").len();
    // The truncation itself is a write and a sync; then names change, and are synced.
    disk.fail_after(2 + before as u64 - 1, Fault::Stop);
    assert!(log.append(vec![Change::Truncate { shard: ShardId(1), below: 200 }]).is_err());

    let mut gaps = 0;
    for seed in 0..100 {
        let (crashed, choices) = (disk.fork(), MemoryDisk::new(seed));
        crashed.crash(&mut |end| choices.draw() % end);
        let crashed = Ground::Memory(crashed);
        let left: Vec<u64> = crashed.files("seg").iter().map(|path| number_of(path)).collect();
        gaps += usize::from(left.windows(2).any(|pair| pair[0] + 1 != pair[1]));

        let log = crashed.open().unwrap_or_else(|error| panic!("{left:?}: {error}"));

        assert_eq!(indexes(&log, 1), [200]);
        drop(log);
        assert!(crashed.open().is_ok());
    }
    assert!(gaps > 10, "{gaps}");
}

fn number_of(segment: &Path) -> u64 {
    segment.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}

#[test]
fn leftovers_of_a_recycled_segment_are_not_read() {
    on_both(|ground| {
        let log = ground.open().unwrap();
        // Frames of equal length: in a recycled segment the old ones stand exactly where new ones would.
        for index in 1..=500 {
            write(&log, [entries(1, [index], 900)]);
            truncate(&log, 1, index);
            if index % 50 == 0 {
                let (_crashed, again) = ground.crash_and_open();

                assert_eq!(indexes(&again, 1), [index]);
            }
        }
    });
}
