//! What the log keeps, forgets and gives back when nothing is wrong with the disk.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use common::{
    Ground, OWNER, SMALL, entries, entry, hard_state, indexes, loaded, on_both, reset, truncate, try_write, write,
};
use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::LogWrite;
use shardine_store::log::{Change, GroupLog, Start};
use shardine_store::{Error, MemoryDisk, Options, SegmentLog};

#[test]
fn what_was_written_is_there_after_a_crash() {
    on_both(|ground| {
        let log = ground.open().unwrap();
        let with_state = LogWrite { hard_state: Some(hard_state(2)), ..entries(1, 1..=2, 100) };

        write(&log, [with_state, entries(2, 1..=1, 0)]);
        let (_crashed, again) = ground.crash_and_open();

        assert_eq!(again.shards(), [ShardId(1), ShardId(2)]);
        let entries = vec![entry(1, 100), entry(2, 100)];
        let expected = GroupLog { replica: ReplicaId(1), hard_state: hard_state(2), first: 1, entries };
        assert_eq!(again.load(ShardId(1)).unwrap(), Some(expected));
        assert_eq!(loaded(&again, 2).entries, [entry(1, 0)]);
        assert_eq!(again.load(ShardId(3)).unwrap(), None);
    });
}

#[test]
fn entries_replace_the_end_of_the_log() {
    on_both(|ground| {
        let log = ground.open().unwrap();
        write(&log, [entries(1, 1..=9, 10)]);

        write(&log, [entries(1, 4..=5, 20)]);

        let expected = [entry(3, 10), entry(4, 20), entry(5, 20)];
        assert_eq!(loaded(&log, 1).entries[2..], expected);
        assert_eq!(indexes(&ground.crash_and_open().1, 1), [1, 2, 3, 4, 5]);
    });
}

#[test]
fn one_group_may_come_twice_in_a_write() {
    on_both(|ground| {
        let log = ground.open().unwrap();

        write(&log, [entries(1, 1..=2, 10), entries(1, 3..=3, 10)]);

        assert_eq!(indexes(&log, 1), [1, 2, 3]);
    });
}

#[test]
fn a_gap_is_refused_and_stops_the_log() {
    on_both(|ground| {
        let log = ground.open().unwrap();
        write(&log, [entries(1, 1..=2, 10)]);

        let error = try_write(&log, [entries(1, 4..=4, 10)]).unwrap_err();

        assert!(matches!(error, Error::OutOfOrder { expected: 3, found: 4, .. }), "{error}");
        let later = try_write(&log, [entries(1, 3..=3, 10)]).unwrap_err();
        assert!(matches!(later, Error::Stopped { .. }), "{later}");
        assert_eq!(indexes(&ground.crash_and_open().1, 1), [1, 2]);
    });
}

#[test]
fn many_segments_are_read_in_order() {
    on_both(|ground| {
        let log = ground.open().unwrap();

        for index in 1..=100 {
            write(&log, [entries(1, [index], 900), entries(2, [index], 90)]);
        }

        assert!(ground.files("seg").len() > 5);
        let (_crashed, again) = ground.crash_and_open();
        assert_eq!(indexes(&again, 1), (1..=100).collect::<Vec<_>>());
        assert_eq!(indexes(&again, 2), (1..=100).collect::<Vec<_>>());
    });
}

#[test]
fn a_write_larger_than_a_segment_is_kept() {
    on_both(|ground| {
        let log = ground.open().unwrap();

        write(&log, [entries(1, [1], 3 * SMALL.segment_bytes)]);
        write(&log, [entries(1, [2], 10)]);

        let (_crashed, again) = ground.crash_and_open();
        assert_eq!(indexes(&again, 1), [1, 2]);
    });
}

#[test]
fn what_is_too_much_for_one_frame_goes_into_several() {
    on_both(|ground| {
        let options = Options { frame_bytes: 2_000, ..SMALL };
        let log = SegmentLog::open(ground.disk(), ground.dir(), OWNER, Start::New, options).unwrap();

        // A lane's shards behind a stalled disk: each of them has more than fits, and all together much more.
        let writes = (1..=17).map(|shard| LogWrite { hard_state: Some(hard_state(9)), ..entries(shard, 1..=9, 700) });
        log.append(writes.map(Change::Write).collect()).unwrap();

        let (_crashed, again) = ground.crash_and_open();
        for shard in 1..=17 {
            assert_eq!(indexes(&again, shard), (1..=9).collect::<Vec<_>>());
        }
    });
}

#[test]
fn many_groups_fill_the_heads_of_segments_and_the_log_goes_on() {
    on_both(|ground| {
        let log = ground.open().unwrap();
        let count = SMALL.segment_bytes as u32 / 50;
        log.append((1..=count).map(|shard| Change::Write(entries(shard, 1..=1, 1))).collect()).unwrap();

        for index in 2..=100 {
            write(&log, [entries(1, [index], 100)]);
        }

        assert!(ground.files("seg").len() < 10, "not every write begins a segment");
        let (_crashed, again) = ground.crash_and_open();
        assert_eq!(again.shards().len(), count as usize);
        assert_eq!(indexes(&again, 1), (1..=100).collect::<Vec<_>>());
    });
}

#[test]
fn truncated_segments_are_written_over() {
    on_both(|ground| {
        let log = ground.open().unwrap();

        for index in 1..=1_000 {
            write(&log, [entries(1, [index], 900)]);
            if index % 20 == 0 {
                truncate(&log, 1, index - 4);
            }
        }

        assert!(log.bytes_on_disk() <= 6 * SMALL.segment_bytes as u64, "{}", log.bytes_on_disk());
        let (_crashed, again) = ground.crash_and_open();
        assert_eq!(indexes(&again, 1), [996, 997, 998, 999, 1_000]);
    });
}

#[test]
fn a_quiet_group_keeps_its_entries_and_is_named() {
    on_both(|ground| {
        let log = ground.open().unwrap();
        let with_state = LogWrite { hard_state: Some(hard_state(1)), ..entries(5, [1], 10) };
        write(&log, [with_state]);
        for index in 1..=100 {
            write(&log, [entries(1, [index], 900)]);
        }

        truncate(&log, 1, 101);
        let pinned = log.bytes_on_disk();
        let oldest = log.oldest_shard();
        truncate(&log, 5, 2);

        assert_eq!(oldest, Some(ShardId(5)));
        assert!(log.bytes_on_disk() < pinned);
        assert_eq!(log.oldest_shard(), None);
        // Its hard state outlives the segment that it was written in.
        let (_crashed, again) = ground.crash_and_open();
        assert_eq!(loaded(&again, 5).hard_state, hard_state(1));
        assert!(indexes(&again, 5).is_empty());
    });
}

#[test]
fn after_a_reset_the_log_goes_on_behind_the_snapshot() {
    on_both(|ground| {
        let log = ground.open().unwrap();
        write(&log, [entries(1, 1..=9, 10)]);

        reset(&log, 1, 50);
        write(&log, [entries(1, 51..=52, 10)]);

        let (_crashed, again) = ground.crash_and_open();
        assert_eq!(loaded(&again, 1).hard_state, hard_state(50));
        assert_eq!(indexes(&again, 1), [51, 52]);
    });
}

#[test]
fn a_group_is_loaded_as_often_as_asked() {
    on_both(|ground| {
        write(&ground.open().unwrap(), [entries(1, 1..=3, 10)]);
        let log = ground.open().unwrap();

        let first = log.load(ShardId(1)).unwrap();
        let second = log.load(ShardId(1)).unwrap();
        write(&log, [entries(1, 4..=4, 10)]);

        assert_eq!(first, second);
        assert_eq!(indexes(&log, 1), [1, 2, 3, 4]);
    });
}

#[test]
fn what_was_written_before_the_first_load_is_loaded() {
    on_both(|ground| {
        write(&ground.open().unwrap(), [entries(1, 1..=3, 10)]);
        let log = ground.open().unwrap();

        write(&log, [entries(1, 3..=4, 20)]);

        assert_eq!(loaded(&log, 1).entries[2..], [entry(3, 20), entry(4, 20)]);
    });
}

#[test]
fn many_threads_write_at_once_and_each_is_told_when_its_own_is_there() {
    on_both(|ground| {
        let log = ground.open().unwrap();

        std::thread::scope(|scope| {
            for shard in 1..=4 {
                let log = &log;
                scope.spawn(move || (1..=50).for_each(|index| write(log, [entries(shard, [index], 100)])));
            }
        });

        let (_crashed, again) = ground.crash_and_open();
        for shard in 1..=4 {
            assert_eq!(indexes(&again, shard), (1..=50).collect::<Vec<_>>());
        }
    });
}

/// reliability F7.
#[test]
fn a_fault_of_one_caller_ends_the_log_for_all() {
    let ground = Ground::Memory(MemoryDisk::new(1));
    let log = ground.open().unwrap();

    let told: Vec<bool> = std::thread::scope(|scope| {
        let writers: Vec<_> = (1..=4)
            .map(|shard| {
                let log = &log;
                let gap = move |index| index + u64::from(shard == 3 && index == 20);
                scope.spawn(move || (1..=400).all(|index| try_write(log, [entries(shard, [gap(index)], 10)]).is_ok()))
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });

    assert!(!told[2]);
    assert!(matches!(try_write(&log, [entries(9, [1], 10)]), Err(Error::Stopped { .. })));
    assert_eq!(indexes(&ground.crash().open().unwrap(), 3), (1..=19).collect::<Vec<_>>());
}

#[test]
fn opening_and_closing_changes_nothing() {
    on_both(|ground| {
        write(&ground.open().unwrap(), [entries(1, 1..=3, 10)]);

        for _ in (0..2_000).step_by(ground.step(1)) {
            drop(ground.open().unwrap());
        }

        assert_eq!(indexes(&ground.open().unwrap(), 1), [1, 2, 3]);
        assert_eq!(ground.files("seg").len(), 1);
    });
}
