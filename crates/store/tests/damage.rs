//! What the log does when the disk does not give back what was written. The contract is records 74:
//! a torn tail is cut, damage elsewhere stops what it concerns. Damage to one shard is told in `section_damage.rs`.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::fs::{self, OpenOptions};
use std::path::Path;

use common::{crash, crash_and_open, entries, files, indexes, open};
use shardine_model::ids::ShardId;
use shardine_store::LogStore;

/// Writes one entry per frame and returns where each frame ended in the newest segment: nothing up to there may be lost by a cut
/// behind it.
fn write_and_note_ends(dir: &Path, count: u64) -> (tempfile::TempDir, Vec<(u64, usize)>) {
    let log = open(dir).unwrap();
    let mut ends = Vec::new();
    for index in 1..=count {
        log.write(&[entries(1, [index], 150), entries(2, [index], 30)]).unwrap();
        let newest = files(dir, "seg").pop().unwrap();
        ends.push((index, end_of_frames(&newest)));
    }
    (crash(dir), ends)
}

/// Segments here begin as zeros, and the last byte of an entry is made not to be one.
fn end_of_frames(segment: &Path) -> usize {
    let bytes = fs::read(segment).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1
}

fn cut(path: &Path, len: usize) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(len as u64).unwrap();
}

fn overwrite_from(path: &Path, from: usize, with: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[from..].fill(with);
    fs::write(path, bytes).unwrap();
}

fn torn_everywhere(step: usize, tear: impl Fn(&Path, usize)) {
    let dir = tempfile::tempdir().unwrap();
    let (crashed, ends) = write_and_note_ends(dir.path(), 40);
    let name = files(crashed.path(), "seg").pop().unwrap();
    let original = fs::read(&name).unwrap();
    let end = ends.last().unwrap().1;

    for at in (end - 2_048..=end).rev().step_by(step) {
        fs::write(&name, &original).unwrap();
        tear(&name, at);
        let log = open(crashed.path()).unwrap_or_else(|error| panic!("torn at {at}: {error}"));

        let kept = ends.iter().rev().find(|(_, end)| *end <= at).unwrap().0;
        for shard in [1, 2] {
            assert_eq!(indexes(&log, shard), (1..=kept).collect::<Vec<_>>(), "torn at {at}");
        }
    }
}

#[test]
fn records_74_torn_tail_is_cut() {
    torn_everywhere(1, cut);
}

#[test]
fn records_74_torn_tail_of_zeros_is_cut() {
    torn_everywhere(5, |path, at| overwrite_from(path, at, 0));
}

#[test]
fn records_74_torn_tail_of_garbage_is_cut() {
    torn_everywhere(5, |path, at| overwrite_from(path, at, 0xa5));
}

#[test]
fn records_74_after_a_cut_the_log_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (crashed, ends) = write_and_note_ends(dir.path(), 10);
    let newest = files(crashed.path(), "seg").pop().unwrap();
    overwrite_from(&newest, ends[9].1 - 5, 0);

    let log = open(crashed.path()).unwrap();
    log.write(&[entries(1, 10..=12, 50)]).unwrap();
    let again = crash(crashed.path());

    assert_eq!(indexes(&open(again.path()).unwrap(), 1), (1..=12).collect::<Vec<_>>());
    assert_eq!(indexes(&open(again.path()).unwrap(), 2), (1..=9).collect::<Vec<_>>());
}

#[test]
fn records_74_a_missing_segment_stops_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let (crashed, _) = write_and_note_ends(dir.path(), 300);
    let segments = files(crashed.path(), "seg");
    assert!(segments.len() > 3);

    for segment in &segments {
        let bytes = fs::read(segment).unwrap();
        fs::remove_file(segment).unwrap();
        let error = open(crashed.path()).err();
        fs::write(segment, bytes).unwrap();

        let error = error.unwrap_or_else(|| panic!("{} was removed and nobody noticed", segment.display()));
        assert!(error.to_string().contains("missing"), "{error}");
    }
    assert!(open(crashed.path()).is_ok());
}

#[test]
fn records_74_a_missing_log_stops_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let (crashed, _) = write_and_note_ends(dir.path(), 1);
    for segment in files(crashed.path(), "seg") {
        fs::remove_file(segment).unwrap();
    }

    let error = open(crashed.path()).err().unwrap();

    assert!(error.to_string().contains("no segment of it is left"), "{error}");
}

#[test]
fn a_missing_segment_that_nobody_needs_is_no_loss() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    for index in 1..=200 {
        log.write(&[entries(1, [index], 900)]).unwrap();
    }
    log.truncate_before(ShardId(1), 190).unwrap();

    let (_crashed, again) = crash_and_open(dir.path());

    assert_eq!(indexes(&again, 1), (190..=200).collect::<Vec<_>>());
}

#[test]
fn leftovers_of_a_recycled_segment_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    // Frames of equal length: in a recycled segment the old ones stand exactly where new ones would.
    for index in 1..=500 {
        log.write(&[entries(1, [index], 900)]).unwrap();
        log.truncate_before(ShardId(1), index).unwrap();
        if index % 50 == 0 {
            let (_crashed, again) = crash_and_open(dir.path());

            assert_eq!(indexes(&again, 1), [index]);
        }
    }
}
