//! Where a shard would be parted by its size.

use shardine_model::{Position, RequestEpoch, Timestamp};
use shardine_records::{Nobody, Records};
use shardine_story::words;

fn with(lines: impl Iterator<Item = String>) -> Records {
    let mut records = Records::new(7);
    for line in lines {
        let mut entry = Vec::new();
        shardine_model::entry::open_commands(&mut entry, Timestamp(1), RequestEpoch::FIRST);
        words::request(records.catalogue(), &line).expect("a request").encode(&mut entry);
        records.apply(&entry, &mut Nobody).expect("an entry");
    }
    records
}

/// sharding B-22, redis-cluster A-25: at a slot edge, and with each half between 40 and 60 parts of a hundred.
#[test]
fn sharding_b_22_many_keys_are_parted_in_the_middle_at_a_slot_edge() {
    for count in [100, 3_000] {
        let mut records =
            with((0..count).map(|number| format!("set kv:key{number} f={}", "v".repeat(number % 50 + 1))));
        let whole = records.bytes();

        let at = records.middle().expect("there is a middle");

        assert_eq!(at.position, at.position.slot().start());
        let right = records.split_off(&at).right.bytes();
        assert!((40..=60).contains(&(right * 100 / whole)), "{right} of {whole}");
        assert_eq!(right + records.bytes(), whole);
    }
}

/// redis-cluster A-25: one slot has most of it, so it is cut inside.
#[test]
fn redis_cluster_a_25_a_slot_with_more_than_half_is_cut_inside() {
    let in_slot = |key: &str| shardine_model::Slot::of_key(key.as_bytes()).0 == 7;
    let keys: Vec<String> =
        (0..2_000_000).map(|number| format!("k{number}")).filter(|key| in_slot(key)).take(60).collect();
    assert_eq!(keys.len(), 60);
    let mut records = with(keys.iter().map(|key| format!("set kv:{key} f=1")));

    let at = records.middle().expect("there is a middle");

    assert_ne!(at.position, at.position.slot().start());
    let right = records.split_off(&at).right;
    assert!((40..=60).contains(&(right.bytes() * 100 / (right.bytes() + records.bytes()))));
}

/// sharding B-28: nothing can be parted between partitions where there is one.
#[test]
fn one_partition_has_no_middle() {
    assert_eq!(with(std::iter::empty()).middle(), None);
    assert_eq!(with(std::iter::once("set kv:{a}:1 f=1".to_owned())).middle(), None);
    let records = with((0..50).map(|number| format!("set kv:{{a}}:{number} f=1")));
    assert_eq!(records.middle(), None);
    assert_eq!(records.bounds().lo.position, Position(0));
}
