//! What the log keeps, forgets and gives back when nothing is wrong with the disk.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use common::{SMALL, crash_and_open, entries, entry, files, hard_state, indexes, open};
use shardine_model::ids::ShardId;
use shardine_model::log::LogWrite;
use shardine_store::{Error, GroupLog, LogStore, SegmentLog};

#[test]
fn what_was_written_is_there_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    let with_state = LogWrite { hard_state: Some(hard_state(2)), ..entries(1, 1..=2, 100) };

    log.write(&[with_state, entries(2, 7..=7, 0)]).unwrap();
    let (_crashed, again) = crash_and_open(dir.path());

    assert_eq!(again.shards(), [ShardId(1), ShardId(2)]);
    let expected = GroupLog { hard_state: hard_state(2), entries: vec![entry(1, 100), entry(2, 100)] };
    assert_eq!(again.load(ShardId(1)).unwrap(), expected);
    assert_eq!(again.load(ShardId(2)).unwrap().entries, [entry(7, 0)]);
    assert_eq!(again.load(ShardId(3)).unwrap(), GroupLog::default());
}

#[test]
fn entries_replace_the_end_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    log.write(&[entries(1, 1..=9, 10)]).unwrap();

    log.write(&[entries(1, 4..=5, 20)]).unwrap();

    let expected = [entry(3, 10), entry(4, 20), entry(5, 20)];
    assert_eq!(log.load(ShardId(1)).unwrap().entries[2..], expected);
    assert_eq!(indexes(&crash_and_open(dir.path()).1, 1), [1, 2, 3, 4, 5]);
}

#[test]
fn one_group_may_come_twice_in_a_write() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();

    log.write(&[entries(1, 1..=2, 10), entries(1, 3..=3, 10)]).unwrap();

    assert_eq!(indexes(&log, 1), [1, 2, 3]);
}

#[test]
fn a_gap_is_refused_and_stops_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    log.write(&[entries(1, 1..=2, 10)]).unwrap();

    let error = log.write(&[entries(1, 4..=4, 10)]).unwrap_err();

    assert!(matches!(error, Error::OutOfOrder { expected: 3, found: 4, .. }), "{error}");
    let later = log.write(&[entries(1, 3..=3, 10)]).unwrap_err();
    assert!(matches!(later, Error::Stopped { .. }), "{later}");
    assert_eq!(indexes(&crash_and_open(dir.path()).1, 1), [1, 2]);
}

#[test]
fn many_segments_are_read_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();

    for index in 1..=100 {
        log.write(&[entries(1, [index], 900), entries(2, [index], 90)]).unwrap();
    }

    assert!(files(dir.path(), "seg").len() > 5);
    let (_crashed, again) = crash_and_open(dir.path());
    assert_eq!(indexes(&again, 1), (1..=100).collect::<Vec<_>>());
    assert_eq!(indexes(&again, 2), (1..=100).collect::<Vec<_>>());
}

#[test]
fn a_write_larger_than_a_segment_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();

    log.write(&[entries(1, [1], 3 * SMALL.segment_bytes)]).unwrap();
    log.write(&[entries(1, [2], 10)]).unwrap();

    let (_crashed, again) = crash_and_open(dir.path());
    assert_eq!(indexes(&again, 1), [1, 2]);
}

#[test]
fn truncated_segments_are_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();

    for index in 1..=1_000 {
        log.write(&[entries(1, [index], 900)]).unwrap();
        if index % 20 == 0 {
            log.truncate_before(ShardId(1), index - 4).unwrap();
        }
    }

    assert!(log.bytes_on_disk() <= 6 * SMALL.segment_bytes as u64, "{}", log.bytes_on_disk());
    let (_crashed, again) = crash_and_open(dir.path());
    assert_eq!(indexes(&again, 1), [996, 997, 998, 999, 1_000]);
}

#[test]
fn a_quiet_group_keeps_its_entries_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    let with_state = LogWrite { hard_state: Some(hard_state(1)), ..entries(5, [1], 10) };
    log.write(&[with_state]).unwrap();
    for index in 1..=100 {
        log.write(&[entries(1, [index], 900)]).unwrap();
    }

    log.truncate_before(ShardId(1), 101).unwrap();
    let pinned = log.bytes_on_disk();
    let oldest = log.oldest_shard();
    log.truncate_before(ShardId(5), 2).unwrap();

    assert_eq!(oldest, Some(ShardId(5)));
    assert!(log.bytes_on_disk() < pinned);
    assert_eq!(log.oldest_shard(), None);
    // Its hard state outlives the segment that it was written in.
    let (_crashed, again) = crash_and_open(dir.path());
    assert_eq!(again.load(ShardId(5)).unwrap().hard_state, hard_state(1));
    assert!(indexes(&again, 5).is_empty());
}

#[test]
fn after_a_reset_the_log_goes_on_behind_the_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path()).unwrap();
    log.write(&[entries(1, 1..=9, 10)]).unwrap();

    log.reset(ShardId(1), hard_state(50)).unwrap();
    log.write(&[entries(1, 51..=52, 10)]).unwrap();

    let (_crashed, again) = crash_and_open(dir.path());
    assert_eq!(again.load(ShardId(1)).unwrap().hard_state, hard_state(50));
    assert_eq!(indexes(&again, 1), [51, 52]);
}

#[test]
fn a_group_is_loaded_as_often_as_asked() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().write(&[entries(1, 1..=3, 10)]).unwrap();
    let log = open(dir.path()).unwrap();

    let first = log.load(ShardId(1)).unwrap();
    let second = log.load(ShardId(1)).unwrap();
    log.write(&[entries(1, 4..=4, 10)]).unwrap();

    assert_eq!(first, second);
    assert_eq!(indexes(&log, 1), [1, 2, 3, 4]);
}

#[test]
fn what_was_written_before_the_first_load_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().write(&[entries(1, 1..=3, 10)]).unwrap();
    let log = open(dir.path()).unwrap();

    log.write(&[entries(1, 3..=4, 20)]).unwrap();

    assert_eq!(log.load(ShardId(1)).unwrap().entries[2..], [entry(3, 20), entry(4, 20)]);
}

#[test]
fn opening_and_closing_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().write(&[entries(1, 1..=3, 10)]).unwrap();

    for _ in 0..2_000 {
        drop(SegmentLog::open(dir.path(), SMALL).unwrap());
    }

    assert_eq!(indexes(&open(dir.path()).unwrap(), 1), [1, 2, 3]);
    assert_eq!(files(dir.path(), "seg").len(), 1);
}
