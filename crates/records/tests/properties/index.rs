//! Many keys: the index parts its segments, and keys that share a tag, which cannot be parted, do no harm.

use shardine_model::{Position, RowKey, table::KV};
use shardine_records::{Lookup, Page, Records, Scan, ScanFrom};

use crate::history::{Leader, Step};
use crate::snapshots::{chunks, restore};

const KEYS: usize = 20_000;

/// Every third key has the tag `hot`, so that a third of all records share one position.
fn key(number: usize) -> String {
    if number.is_multiple_of(3) { format!("{{hot}}{number}") } else { format!("k{number}") }
}

fn filled() -> Leader {
    let mut leader = Leader::new(11);
    for first in (0..KEYS).step_by(500) {
        let lines = (first..first + 500).map(|number| format!("set kv:{} n={number}", key(number))).collect();
        leader.take(&Step::Requests(lines, 0));
    }
    leader
}

fn is_there(records: &Records, number: usize) -> bool {
    let key = key(number);
    let row = RowKey { table: KV, key: key.as_bytes(), sort: b"" };
    matches!(records.get(row.position(), row), Lookup::Live(_))
}

#[test]
fn all_keys_are_found_after_many_splits() {
    let leader = filled();

    assert_eq!(leader.records.live_count(None), KEYS as u64);
    assert!((0..KEYS).all(|number| is_there(&leader.records, number)));
    assert!(!is_there(&leader.records, KEYS));
}

#[test]
fn positions_rise_through_the_whole_index() {
    let leader = filled();
    let mut seen: Vec<(Position, Vec<u8>)> = Vec::new();

    let mut page = Page::More;
    while page == Page::More {
        let last = seen.last().cloned();
        let from = match &last {
            None => ScanFrom::Position(Position(0)),
            Some((position, key)) => ScanFrom::After { position: *position, row: RowKey { table: KV, key, sort: b"" } },
        };
        let scan = Scan { table: None, from, limit: 7_000, whole_positions: false };
        page = leader.records.scan(&scan, |position, row, _| seen.push((position, row.key.to_vec())));
    }

    assert_eq!(seen.len(), KEYS);
    assert!(seen.is_sorted(), "rows come in routing order");
}

#[test]
fn deleting_half_leaves_the_other_half() {
    let mut leader = filled();

    for number in (0..KEYS).step_by(2) {
        leader.take(&Step::Requests(vec![format!("delete kv:{}", key(number))], 1));
    }
    leader.take(&Step::Purge);

    assert!((0..KEYS).all(|number| is_there(&leader.records, number) != number.is_multiple_of(2)));
    let restored = restore(12, &chunks(&mut leader.records));
    assert_eq!(restored.state_hash(), leader.records.state_hash());
    assert_eq!(restored.bytes(), leader.records.bytes());
}
