//! Whom damage in the log stops (records 74): a group if it is in the group's section of a frame, the node
//! if it is in a head, nobody if it is in a last frame that may have been torn.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::path::{Path, PathBuf};

use common::{Ground, SMALL, entries, hard_state, indexes, loaded, on_both, reset, truncate, try_write, write};
use shardine_model::ids::ShardId;
use shardine_store::Error;

const SEGMENT_HEAD: usize = 72;
const FRAME_HEAD: usize = 24 + 2 * 20;
/// A kind, a first index and a count, then an entry's head and data.
const FIRST_SECTION: usize = 1 + 12 + 13 + 150;
const SECOND_SECTION: usize = 1 + 12 + 13 + 30;
const FRAME: usize = FRAME_HEAD + FIRST_SECTION + SECOND_SECTION;

/// What a byte of the first segment belongs to.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Head,
    Section(u32),
}

fn part_of(byte: usize) -> Part {
    let Some(inside) = byte.checked_sub(SEGMENT_HEAD).map(|byte| byte % FRAME) else { return Part::Head };
    match inside {
        0..FRAME_HEAD => Part::Head,
        inside if inside < FRAME_HEAD + FIRST_SECTION => Part::Section(1),
        _ => Part::Section(2),
    }
}

/// A log of shards 1 and 2 with as many frames, as a crash leaves it, and its first segment.
fn crashed_log(ground: &Ground, frames: u64) -> (Ground, PathBuf) {
    let log = ground.open().unwrap();
    for index in 1..=frames {
        write(&log, [entries(1, [index], 150), entries(2, [index], 30)]);
    }
    let crashed = ground.crash();
    let first = crashed.files("seg").remove(0);
    (crashed, first)
}

fn with_flipped_bit(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

fn flip(ground: &Ground, path: &Path, byte: usize) {
    ground.put(path, &with_flipped_bit(&ground.read(path), byte * 8 + 4));
}

/// Opens a log with damage at `byte` and checks who is stopped by it and that nobody else is.
fn check_damage_stops_its_own(ground: &Ground, byte: usize, frames: u64) {
    let whole: Vec<u64> = (1..=frames).collect();
    match (part_of(byte), ground.open()) {
        (Part::Head, Err(error)) => {
            let told = error.to_string();
            assert!(told.contains("0000000000000001.seg"), "byte {byte}: {told}");
            // A flip in the version itself reads as a newer one; both refuse and say what to do.
            let remedy = told.contains("put this data directory back") || told.contains("start the version");
            assert!(remedy, "byte {byte}: {told}");
        }
        (Part::Section(shard), Ok(log)) => {
            let told = log.load(ShardId(shard)).unwrap_err().to_string();
            let section =
                byte - (byte - SEGMENT_HEAD) % FRAME + FRAME_HEAD + if shard == 2 { FIRST_SECTION } else { 0 };
            assert!(told.starts_with(&format!("shard {shard}: log file ")), "{told}");
            assert!(told.contains(&format!("0000000000000001.seg is damaged at byte {section}: ")), "{byte}: {told}");
            assert!(told.contains("put this data directory back") && told.contains("docs/damage.md"), "{told}");
            assert_eq!(indexes(&log, 3 - shard), whole, "byte {byte}");
            assert_eq!(log.shards(), [ShardId(1), ShardId(2)]);
        }
        (part, outcome) => panic!("byte {byte} of {part:?} was flipped: {:?}", outcome.map(|_| "opened")),
    }
}

/// reliability I29.
#[test]
fn records_74_every_flipped_bit_before_the_last_write_stops_its_own() {
    on_both(|ground| {
        let (crashed, segment) = crashed_log(ground, 2);
        let original = crashed.read(&segment);

        for bit in (0..(SEGMENT_HEAD + FRAME) * 8).step_by(ground.step(1)) {
            crashed.put(&segment, &with_flipped_bit(&original, bit));

            check_damage_stops_its_own(&crashed, bit / 8, 2);
        }
    });
}

#[test]
fn records_74_a_flipped_bit_in_an_older_segment_stops_its_own() {
    on_both(|ground| {
        let (crashed, segment) = crashed_log(ground, 200);
        assert!(crashed.files("seg").len() > 2);
        let frames = (SMALL.segment_bytes - SEGMENT_HEAD - 24) / FRAME;

        for byte in (0..SEGMENT_HEAD + frames * FRAME).step_by(97) {
            flip(&crashed, &segment, byte);
            check_damage_stops_its_own(&crashed, byte, 200);
            flip(&crashed, &segment, byte);
        }
        assert!(crashed.open().unwrap().load(ShardId(1)).is_ok());
    });
}

#[test]
fn records_74_every_flipped_bit_in_the_last_write_of_a_crash_cuts_all_of_it() {
    on_both(|ground| {
        let (crashed, segment) = crashed_log(ground, 2);
        let original = crashed.read(&segment);
        let last = SEGMENT_HEAD + FRAME;

        for bit in (last * 8..(last + FRAME) * 8).step_by(ground.step(1)) {
            crashed.put(&segment, &with_flipped_bit(&original, bit));
            let log = crashed.open().unwrap();

            assert_eq!((indexes(&log, 1), indexes(&log, 2)), (vec![1], vec![1]), "bit {bit}");
        }
    });
}

#[test]
fn records_74_a_last_write_of_which_any_piece_is_missing_is_cut() {
    on_both(|ground| {
        let (crashed, segment) = crashed_log(ground, 2);
        let original = crashed.read(&segment);
        let last = SEGMENT_HEAD + FRAME;

        // The disk may write the sectors of a frame in any order: its head, or one section, may be all that arrived.
        for from in (last..last + FRAME).step_by(ground.step(8)) {
            for to in (from + 1..=last + FRAME).step_by(8) {
                let mut torn = original.clone();
                torn[from..to].fill(0);
                if torn == original {
                    continue;
                }
                crashed.put(&segment, &torn);
                let log = crashed.open().unwrap();

                assert_eq!((indexes(&log, 1), indexes(&log, 2)), (vec![1], vec![1]), "{from}..{to}");
            }
        }
    });
}

#[test]
fn records_74_a_torn_write_proves_the_one_before_it() {
    on_both(|ground| {
        let (crashed, segment) = crashed_log(ground, 3);
        let mut damaged = crashed.read(&segment);
        damaged[SEGMENT_HEAD + FRAME + FRAME_HEAD] ^= 1;
        let last = SEGMENT_HEAD + 2 * FRAME;

        // Of the last write only the first bytes have arrived; with its nonce there, it was begun.
        for arrived in (16..FRAME).step_by(7) {
            let mut torn = damaged.clone();
            torn[last + arrived..].fill(0);
            crashed.put(&segment, &torn);
            let log = crashed.open().unwrap_or_else(|error| panic!("{arrived} arrived: {error}"));

            assert!(matches!(log.load(ShardId(1)), Err(Error::ShardLogDamaged { .. })), "{arrived} arrived");
            assert_eq!(indexes(&log, 2), [1, 2], "{arrived} arrived");
        }
    });
}

#[test]
fn records_74_after_a_good_stop_even_the_last_write_is_covered() {
    on_both(|ground| {
        let log = ground.open().unwrap();
        write(&log, [entries(1, [1], 150), entries(2, [1], 30)]);
        drop(log);
        let segment = ground.files("seg").remove(0);

        flip(ground, &segment, SEGMENT_HEAD + FRAME - 1);

        let log = ground.open().unwrap();
        assert!(matches!(log.load(ShardId(2)), Err(Error::ShardLogDamaged { .. })));
        assert_eq!(indexes(&log, 1), [1]);
    });
}

#[test]
fn a_write_that_was_cut_and_lies_behind_a_full_segment_is_no_damage() {
    on_both(|ground| {
        let (crashed, segment) = crashed_log(ground, 3);
        let last = SEGMENT_HEAD + 2 * FRAME;
        flip(&crashed, &segment, last + FRAME_HEAD);
        let torn = crashed.read(&segment);

        // The next write has no room here; the crash that follows it comes before the seal reaches the disk.
        let log = crashed.open().unwrap();
        write(&log, [entries(1, [3], SMALL.segment_bytes - 200)]);
        let again = crashed.crash();
        let sealed = again.files("seg").remove(0);
        again.put(&sealed, &torn);

        let log = again.open().unwrap();
        assert_eq!((indexes(&log, 1), indexes(&log, 2)), (vec![1, 2, 3], vec![1, 2]));
    });
}

#[test]
fn the_others_go_on_and_what_is_left_of_a_damaged_group_is_kept() {
    on_both(|ground| {
        let (crashed, segment) = crashed_log(ground, 10);
        let good = crashed.read(&segment);
        flip(&crashed, &segment, SEGMENT_HEAD + 4 * FRAME + FRAME_HEAD + 20);
        let damaged = crashed.read(&segment);

        let log = crashed.open().unwrap();
        for index in 11..=200 {
            write(&log, [entries(2, [index], 900)]);
        }
        truncate(&log, 2, 150);
        assert_eq!(log.oldest_shard(), Some(ShardId(1)));
        drop(log);

        // Segments have been begun and freed where possible; the damage is still there and still told.
        for _ in 0..2 {
            let log = crashed.open().unwrap();
            let told = log.load(ShardId(1)).unwrap_err().to_string();
            assert!(told.contains("its part of write 5 does not match its checksum"), "{told}");
            assert_eq!(indexes(&log, 2), (150..=200).collect::<Vec<_>>());
        }
        // Who has a good copy of the file puts it back, with what was written behind it.
        let mut repaired = crashed.read(&segment);
        for (byte, (good, damaged)) in repaired.iter_mut().zip(good.iter().zip(&damaged)) {
            *byte ^= good ^ damaged;
        }
        crashed.put(&segment, &repaired);
        let log = crashed.open().unwrap();
        assert_eq!(indexes(&log, 1), (1..=10).collect::<Vec<_>>());
        write(&log, [entries(1, [11], 900)]);
        assert_eq!(indexes(&log, 1), (1..=11).collect::<Vec<_>>());
    });
}

#[test]
fn a_damaged_group_takes_no_writes() {
    on_both(|ground| {
        let (crashed, segment) = crashed_log(ground, 10);
        flip(&crashed, &segment, SEGMENT_HEAD + FRAME_HEAD);
        let log = crashed.open().unwrap();

        let error = try_write(&log, [entries(1, [11], 10)]).unwrap_err();

        assert!(matches!(error, Error::ShardLogDamaged { shard: ShardId(1), .. }), "{error}");
    });
}

#[test]
fn a_snapshot_from_a_peer_ends_the_damage() {
    on_both(|ground| {
        let (crashed, segment) = crashed_log(ground, 10);
        flip(&crashed, &segment, SEGMENT_HEAD + FRAME_HEAD);
        let log = crashed.open().unwrap();
        assert!(log.load(ShardId(1)).is_err());

        reset(&log, 1, 50);
        write(&log, [entries(1, [51], 10)]);

        assert_eq!(indexes(&log, 1), [51]);
        let again = crashed.crash();
        let log = again.open().unwrap();
        assert_eq!(loaded(&log, 1).hard_state, hard_state(50));
        assert_eq!((indexes(&log, 1), indexes(&log, 2)), (vec![51], (1..=10).collect()));
        // And the segment is free to go, like any other.
        for index in 11..=100 {
            write(&log, [entries(2, [index], 900)]);
        }
        truncate(&log, 1, 52);
        truncate(&log, 2, 101);
        assert!(!again.files("seg").contains(&again.dir().join(segment.file_name().unwrap())));
    });
}

#[test]
fn damage_that_comes_while_the_log_is_open_is_noticed_by_the_next_reader() {
    on_both(|ground| {
        let log = ground.open().unwrap();
        write(&log, [entries(1, [1], 150), entries(2, [1], 30)]);
        let segment = ground.files("seg").remove(0);

        // The last write, which would look torn to a process that starts.
        flip(ground, &segment, SEGMENT_HEAD + FRAME_HEAD);

        assert!(matches!(log.load(ShardId(1)), Err(Error::LogDamaged { .. })));
    });
}
