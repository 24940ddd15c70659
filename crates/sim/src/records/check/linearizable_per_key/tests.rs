//! Small histories with a known verdict.

mod all_orders;

use shardine_model::{TableId, Version};

use super::resolve::{Item, items};
use super::search::{Search, Verdict};
use super::{Tolerance, check};
use crate::clock::WALL_START_MS;
use crate::records::ask::{Ask, Expiry, Job, Saw};
use crate::records::history::{Call, Touch};
use crate::records::model::State;
use crate::records::universe::{Content, Row};

const TOLERANCE: Tolerance = Tolerance { early_ms: 10, late_ms: 10 };
const MS: u64 = 1_000;

fn row() -> Row {
    let key = shardine_model::RowKey { table: TableId(1), key: b"a", sort: b"" }.to_owned();
    Row { key, home: 0, expires: false, partner: None, stored: None }
}

/// An operation as (what, begins, ends, saw); without an end nobody knows what became of it. Times in milliseconds.
type Told = (Ask, u64, Option<u64>, Saw);

fn verdict(operations: &[Told]) -> bool {
    let jobs: Vec<Job> = operations.iter().map(|(ask, ..)| Job::One { row: 0, ask: *ask }).collect();
    let calls: Vec<Call<'_>> = operations
        .iter()
        .zip(&jobs)
        .enumerate()
        .map(|(operation, ((_, begins, ends, saw), job))| {
            let (returned, seen) = ends.map_or((u64::MAX, None), |ends| (ends * MS, Some(vec![*saw])));
            Call { operation, job, invoked: begins * MS, returned, seen }
        })
        .collect();
    check(&calls, &[row()], |_| false, TOLERANCE).is_ok()
}

fn live(value: i64) -> Option<Content> {
    Some(Content { value, count: 0 })
}

fn read(now: Option<Content>) -> Saw {
    Saw::Read { version: Version(1), now }
}

fn changed(before: Option<Content>) -> Saw {
    Saw::Changed { version: Version(1), before }
}

fn set(value: i64) -> Ask {
    Ask::Set { value, expires: None }
}

#[test]
fn a_read_beside_a_write_may_see_either() {
    let write = (set(7), 0, Some(10), changed(None));

    assert!(verdict(&[write, (Ask::Get, 5, Some(6), read(None))]));
    assert!(verdict(&[write, (Ask::Get, 5, Some(6), read(live(7)))]));
}

#[test]
fn a_stale_read_has_no_place() {
    let write = (set(7), 0, Some(10), changed(None));

    assert!(!verdict(&[write, (Ask::Get, 11, Some(12), read(None))]));
}

#[test]
fn a_lost_update_has_no_place() {
    let first = (set(7), 0, Some(10), changed(None));
    let second = (set(8), 11, Some(12), changed(None));

    assert!(!verdict(&[first, second]));
}

/// reliability I20.
#[test]
fn a_value_that_nobody_wrote_has_no_place() {
    assert!(!verdict(&[(Ask::Get, 5, Some(6), read(live(9)))]));
}

#[test]
fn an_unknown_write_may_have_happened_late_or_never() {
    let unknown = (set(7), 0, None, changed(None));

    assert!(verdict(&[unknown, (Ask::Get, 5, Some(6), read(None))]));
    assert!(verdict(&[unknown, (Ask::Get, 5, Some(6), read(None)), (Ask::Get, 9, Some(10), read(live(7)))]));
    assert!(!verdict(&[unknown, (Ask::Get, 5, Some(6), read(live(7))), (Ask::Get, 9, Some(10), read(None))]));
}

#[test]
fn an_unknown_write_may_be_revealed_by_an_unknown_compare_and_set() {
    let unknown = (set(7), 0, None, changed(None));
    let swap = (Ask::Cas { old: 7, value: 8 }, 1, None, changed(None));

    assert!(verdict(&[unknown, swap, (Ask::Get, 5, Some(6), read(live(8)))]));
    assert!(!verdict(&[swap, (Ask::Get, 5, Some(6), read(live(8)))]));
}

#[test]
fn an_unknown_delete_may_explain_an_absence() {
    let write = (set(7), 0, Some(10), changed(None));
    let gone = (Ask::Get, 20, Some(21), read(None));

    assert!(!verdict(&[write, gone]));
    assert!(verdict(&[write, (Ask::Delete, 11, None, changed(None)), gone]));
}

#[test]
fn a_row_leaves_when_its_time_is_over_and_not_before() {
    let write = (Ask::Set { value: 7, expires: Some(Expiry::At(WALL_START_MS + 100)) }, 0, Some(10), changed(None));

    assert!(!verdict(&[write, (Ask::Get, 50, Some(51), read(None))]), "too early");
    assert!(verdict(&[write, (Ask::Get, 95, Some(96), read(None))]));
    assert!(verdict(&[write, (Ask::Get, 105, Some(106), read(live(7)))]));
    assert!(!verdict(&[write, (Ask::Get, 150, Some(151), read(live(7)))]), "too late");
}

#[test]
fn a_time_to_live_counts_from_when_it_was_given() {
    let write = (Ask::Set { value: 7, expires: Some(Expiry::After(100)) }, 20, Some(50), changed(None));

    assert!(!verdict(&[write, (Ask::Get, 100, Some(101), read(None))]), "too early");
    assert!(verdict(&[write, (Ask::Get, 111, Some(112), read(None))]));
    assert!(verdict(&[write, (Ask::Get, 159, Some(160), read(live(7)))]));
    assert!(!verdict(&[write, (Ask::Get, 170, Some(171), read(live(7)))]), "too late");
}

/// Two hundred writers of one row at the same time, all certain, each meeting the one before: more than any machine word has
/// bits, and more orders than could be tried one by one.
fn crowd() -> Vec<Told> {
    let before = |number: i64| if number == 0 { None } else { live(number) };
    (0..200).map(|number| (set(number + 1), 0, Some(900), changed(before(number)))).rev().collect()
}

#[test]
fn a_crowd_is_put_in_order() {
    assert!(verdict(&crowd()));
}

#[test]
fn a_crowd_with_a_lost_update_is_refuted() {
    let mut told = crowd();
    told.push((set(999), 0, Some(900), changed(live(100))));

    assert!(!verdict(&told));
}

#[test]
fn many_that_may_never_have_happened_cost_little() {
    let expires = |number| Some(Expiry::At(WALL_START_MS + 100 * number));
    let mut told = vec![(set(1), 0, Some(1), changed(None))];
    for number in 0..60 {
        told.push((Ask::Touch { expires: Expiry::At(WALL_START_MS + 100 * number) }, 2 + number, None, changed(None)));
        told.push((
            Ask::Set { value: 1_000 + number as i64, expires: expires(number) },
            2 + number,
            None,
            changed(None),
        ));
        told.push((Ask::Delete, 2 + number, None, changed(None)));
        told.push((Ask::Get, 100 + number, Some(101 + number), read(live(1))));
    }

    assert!(verdict(&told));
    told.push((Ask::Get, 9_000, Some(9_001), read(live(2))));
    assert!(!verdict(&told), "nobody wrote it");
}

#[test]
fn a_search_that_gives_up_says_so() {
    let touch = |(ask, begins, ends, saw): Told| Touch {
        operation: 0,
        ask,
        invoked: begins,
        returned: ends.unwrap_or(u64::MAX),
        saw: Some(saw),
    };
    let items: Vec<Item> = items(&crowd().into_iter().map(touch).collect::<Vec<_>>());
    let start = State { live: None, expires: None };

    assert_eq!(Search::new(&items, TOLERANCE).at_most(20).run(start), Verdict::TooLarge);
}
