//! A cut of what is large: rows above the size of a step, records of many fields, partitions in several segments, kept
//! results. Whatever happens while it is written, it is the state at its beginning (records 72).

use proptest::collection::vec;
use proptest::prelude::*;
use shardine_model::entry::open_commands;
use shardine_model::{Entry, RowKeyBuf, Timestamp};
use shardine_records::{CutStep, Nobody, Records};

use crate::history::tables;
use crate::snapshots::{restore, sum, sum_of};
use shardine_story::words;

fn ask(records: &mut Records, line: &str) {
    let mut entry = Vec::new();
    open_commands(&mut entry, Timestamp(1_000), records.epoch());
    words::request(records.catalogue(), line).unwrap().encode(&mut entry);
    records.apply(&entry, &mut Nobody).unwrap();
}

/// So many fields of so many bytes.
fn fields(numbers: std::ops::Range<usize>, bytes: usize) -> String {
    numbers.map(|number| format!(" f{number}={}", "v".repeat(bytes))).collect()
}

fn large_state() -> Records {
    let mut records = Records::new(1);
    for table in tables() {
        records.apply(&Entry::definition(table).to_bytes(), &mut Nobody).unwrap();
    }
    let big = "b".repeat(100_000);
    for key in 0..3 {
        ask(&mut records, &format!("set kv:big{key} n={big}"));
        ask(&mut records, &format!("set kv:wide{key}{}", fields(0..200, 500)));
    }
    for sort in 0..1_500 {
        ask(&mut records, &format!("set chat:room@{sort} n={sort}"));
    }
    for client in 1..40 {
        ask(&mut records, &format!("set kv:small n={client} as={client}/1"));
    }
    records
}

/// Something that happens to one of those.
fn act() -> impl Strategy<Value = String> {
    let key = 0..3usize;
    prop_oneof![
        1 => key.clone().prop_map(|key| format!("set kv:big{key} n=small")),
        1 => key.clone().prop_map(|key| format!("set kv:big{key} more=1")),
        1 => key.clone().prop_map(|key| format!("delete kv:big{key}")),
        1 => (key.clone(), 0..400usize).prop_map(|(key, field)| format!("set kv:wide{key} f{field}=new")),
        1 => (key.clone(), 0..200usize).prop_map(|(key, field)| format!("update kv:wide{key} f{field}.unset")),
        1 => (key.clone(), 0..60usize).prop_map(|(key, left)| {
            let unset: String = (left..400).map(|field| format!(" f{field}.unset")).collect();
            format!("update kv:wide{key}{unset}")
        }),
        1 => key.clone().prop_map(|key| format!("delete kv:wide{key}")),
        1 => key.prop_map(|key| format!("replace kv:wide{key}{}", fields(100..300, 600))),
        1 => (0..1_600usize).prop_map(|sort| format!("set chat:room@{sort} n=-1")),
        1 => (0..1_600usize).prop_map(|sort| format!("delete chat:room@{sort}")),
        4 => (1..45u64, 2..5u64).prop_map(|(client, number)| format!("set kv:small n=9 as={client}/{number}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn records_72_a_cut_of_large_things_is_one_moment(acts in vec((act(), 0..6usize), 1..60), bytes in prop_oneof![1..60usize, 1..100_000usize]) {
        let mut records = large_state();
        let expected = (records.state_hash(), records.bytes(), records.live_count(None));
        let summed = sum(&mut records);

        records.begin_cut();
        let mut written = Vec::new();
        let mut step = |records: &mut Records| {
            if records.is_cutting() && let CutStep::Chunk(chunk) = records.cut_step_of(bytes) {
                written.push(chunk);
            }
        };
        for (act, steps) in &acts {
            (0..*steps).for_each(|_| step(&mut records));
            ask(&mut records, act);
        }
        while records.is_cutting() {
            step(&mut records);
        }

        let mut restored = restore(2, &written);
        prop_assert_eq!(sum_of(&written), summed);
        prop_assert_eq!(sum(&mut restored), summed, "whatever form its rows have here");
        prop_assert_eq!((restored.state_hash(), restored.bytes(), restored.live_count(None)), expected);
    }
}

/// Rows of one partition lie in several segments, and are found, counted and scanned as if they lay in one.
#[test]
fn a_partition_in_several_segments_is_one_partition() {
    let records = large_state();
    assert!(records.segment_count() > 2, "the partition is too large for one");
    let table = records.catalogue().named("chat").unwrap().id;
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);

    for descending in [false, true] {
        let mut seen: Vec<RowKeyBuf> = Vec::new();
        records.scan_partition(table, b"room", all, descending, usize::MAX, |row, _| seen.push(row.to_owned()));
        assert_eq!(seen.len(), 1_500);
        if descending {
            seen.reverse();
        }
        assert!(seen.is_sorted());
    }
    assert_eq!(records.live_count(Some(table)), 1_500);
}
