//! A scan gives each live row once, in order, whatever the size of its pages; a partition both ways and between bounds.

use std::ops::Bound;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use shardine_model::{Position, RowKeyBuf, TableId, Value, sort};
use shardine_records::{Page, Records, Scan, ScanBound, ScanFrom};

use crate::history::{Leader, Step};

type Addressed = (Position, Box<[u8]>, TableId, Box<[u8]>);

/// All rows, page by page.
fn scan(records: &Records, table: Option<TableId>, limit: usize, whole_positions: bool) -> Vec<Addressed> {
    let mut rows: Vec<Addressed> = Vec::new();
    let mut last: Option<(Position, RowKeyBuf)> = None;
    loop {
        let before = last.clone();
        let from = match &before {
            None => ScanFrom::Position(Position(0)),
            // With whole positions a position alone is cursor enough.
            Some((position, _)) if whole_positions => ScanFrom::Position(Position(position.0 + 1)),
            Some((position, row)) => ScanFrom::After { position: *position, row: row.as_ref() },
        };
        let mut given = 0;
        let page = records.scan(&Scan { table, from, limit, whole_positions }, |position, row, _| {
            given += 1;
            rows.push((position, row.key.into(), row.table, row.sort.into()));
            last = Some((position, row.to_owned()));
        });
        assert!(whole_positions || given <= limit, "a page holds what was asked for");
        match page {
            Page::Finished => return rows,
            Page::More => assert!(given > 0, "a page that is not the last moves on"),
        }
    }
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => (0..400u32).prop_map(|number| format!("k{number}")),
        1 => (0..60u32).prop_map(|number| format!("{{tag}}{number}")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// reliability I23.
    #[test]
    fn every_live_row_comes_once_and_in_order(
        keys in btree_map(key(), 0..4u8, 1..200),
        limit in 1..40usize,
        whole_positions in any::<bool>(),
    ) {
        let mut leader = Leader::new(1);
        let mut expected: Vec<Addressed> = Vec::new();
        for (key, fate) in &keys {
            let (table, address) = match fate {
                0 | 1 => ("users", format!("users:{key}")),
                2 => ("kv", format!("kv:{key}")),
                _ => ("users", format!("users:{key}")),
            };
            leader.take(&Step::Requests(vec![format!("set {address} n=1")], 1));
            if *fate == 3 {
                leader.take(&Step::Requests(vec![format!("delete {address}")], 1));
                continue;
            }
            let id = leader.records.catalogue().named(table).unwrap().id;
            expected.push((Position::of_key(key.as_bytes()), key.as_bytes().into(), id, Box::default()));
        }
        expected.sort();

        prop_assert_eq!(&scan(&leader.records, None, limit, whole_positions), &expected);
        let users = leader.records.catalogue().named("users").unwrap().id;
        expected.retain(|(_, _, table, _)| *table == users);
        prop_assert_eq!(&scan(&leader.records, Some(users), limit, whole_positions), &expected);
    }

    #[test]
    fn a_partition_is_walked_both_ways_between_bounds(
        sorts in vec(-50..50i64, 1..60),
        deleted in vec(any::<prop::sample::Index>(), 0..10),
        bounds in (bound(), bound()),
        limit in 1..10usize,
        descending in any::<bool>(),
    ) {
        let mut leader = Leader::new(1);
        let mut live: std::collections::BTreeSet<i64> = sorts.iter().copied().collect();
        for at in &live {
            leader.take(&Step::Requests(vec![format!("set chat:room@{at} n=1"), format!("set chat:hall@{at} n=2")], 1));
        }
        for index in &deleted {
            let at = sorts[index.index(sorts.len())];
            leader.take(&Step::Requests(vec![format!("delete chat:room@{at}")], 1));
            live.remove(&at);
        }
        let mut expected: Vec<i64> = live.into_iter().filter(|at| within(&bounds, *at)).collect();
        if descending {
            expected.reverse();
        }

        prop_assert_eq!(walk(&leader.records, &bounds, limit, descending), expected);
    }
}

fn bound() -> impl Strategy<Value = Bound<i64>> {
    prop_oneof![Just(Bound::Unbounded), (-60..60i64).prop_map(Bound::Included), (-60..60i64).prop_map(Bound::Excluded),]
}

fn within((from, to): &(Bound<i64>, Bound<i64>), at: i64) -> bool {
    let above = match from {
        Bound::Unbounded => true,
        Bound::Included(from) => at >= *from,
        Bound::Excluded(from) => at > *from,
    };
    above
        && match to {
            Bound::Unbounded => true,
            Bound::Included(to) => at <= *to,
            Bound::Excluded(to) => at < *to,
        }
}

/// Pages of one partition, each beginning behind the last row of the one before.
fn walk(records: &Records, bounds: &(Bound<i64>, Bound<i64>), limit: usize, descending: bool) -> Vec<i64> {
    let chat = records.catalogue().named("chat").unwrap().id;
    let encoded = |bound: &Bound<i64>| bound.map(|at| sort::encode(&[Value::Int(at)]));
    let (mut from, mut to) = (encoded(&bounds.0), encoded(&bounds.1));
    let mut walked = Vec::new();
    loop {
        let (mut given, mut last) = (0, None);
        let range: (ScanBound<'_>, ScanBound<'_>) = (borrowed(&from), borrowed(&to));
        let page = records.scan_partition(chat, b"room", range, descending, limit, |row, _| {
            (given, last) = (given + 1, Some(row.sort.to_vec()));
            walked.push(at(row.sort));
        });
        assert!(given <= limit, "a page holds what was asked for");
        match (page, last) {
            (Page::Finished, _) => return walked,
            (Page::More, Some(last)) if descending => to = Bound::Excluded(last),
            (Page::More, Some(last)) => from = Bound::Excluded(last),
            (Page::More, None) => panic!("a page that is not the last moves on"),
        }
    }
}

fn borrowed(bound: &Bound<Vec<u8>>) -> ScanBound<'_> {
    bound.as_ref().map(Vec::as_slice)
}

fn at(sort: &[u8]) -> i64 {
    match sort::decode(&[shardine_model::FieldType::Int64], sort).unwrap()[0] {
        Value::Int(at) => at,
        ref other => panic!("chat is sorted by int64, not {other:?}"),
    }
}
