//! Reading rows in order, a page at a time.

use std::sync::Arc;

use shardine_model::key::Interval;
use shardine_model::{Position, RowImage, RowKeyBuf, Table, Value, limits, sort};
use shardine_writeback::Scope;

use crate::rig::{Rig, aged, at, image, message, messages, user, users};

/// All rows of a scope, page by page.
fn walk(rig: &Rig, table: &Arc<Table>, scope: &Scope, rows_max: usize) -> Vec<RowKeyBuf> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let (found, next) = rig.scan(table, scope.clone(), after, rows_max);
        assert!(found.rows.len() <= rows_max);
        rows.extend(found.rows.into_iter().map(|loaded| loaded.row));
        after = next;
        if after.is_none() {
            return rows;
        }
    }
}

fn routed(mut rows: Vec<RowKeyBuf>) -> Vec<RowKeyBuf> {
    rows.sort_by_key(|row| (row.as_ref().position(), row.clone()));
    rows
}

fn part(number: i64) -> Option<Box<[u8]>> {
    Some(sort::encode(&[Value::Int(number)]).into())
}

#[test]
fn a_table_is_read_in_routing_order_whatever_the_page() {
    for rig in Rig::each() {
        rig.create(&users());
        let rows = routed((0..97).map(|number| user(format!("u{number}"))).collect());
        rig.flush(&users(), rows.iter().map(|row| at(row.clone(), 1, aged(1))).collect());

        for rows_max in [1, 7, 97, 98, limits::SCAN_ROWS_MAX] {
            assert_eq!(walk(&rig, &users(), &Scope::Positions(Interval::ALL), rows_max), rows, "pages of {rows_max}");
        }
    }
}

#[test]
fn shards_read_their_own_rows_and_together_all_of_them() {
    for rig in Rig::each() {
        rig.create(&messages());
        let keys = (0..40).map(|number| format!("room{number}"));
        let rows = routed(keys.flat_map(|key| (0..3).map(move |number| message(&key, number, "x"))).collect());
        rig.flush(&messages(), rows.iter().map(|row| at(row.clone(), 1, RowImage::default())).collect());

        let mut together = Vec::new();
        for interval in Interval::cut_evenly(4) {
            let part = walk(&rig, &messages(), &Scope::Positions(interval), 5);
            assert!(part.iter().all(|row| interval.contains(row.as_ref().position())));
            together.extend(part);
        }

        assert_eq!(together, rows);
    }
}

#[test]
fn keys_of_one_position_are_neighbours_in_the_order_of_their_bytes() {
    for rig in Rig::each() {
        rig.create(&users());
        let rows = routed(["a{1}", "b{1}", "{1}", "1", "z", "y"].map(user).to_vec());
        rig.flush(&users(), rows.iter().map(|row| at(row.clone(), 1, aged(1))).collect());

        assert_eq!(walk(&rig, &users(), &Scope::Positions(Interval::ALL), 2), rows);
    }
}

#[test]
fn a_cursor_before_the_interval_begins_at_the_interval() {
    for rig in Rig::each() {
        rig.create(&users());
        let rows = routed((0..20).map(|number| user(format!("u{number}"))).collect());
        rig.flush(&users(), rows.iter().map(|row| at(row.clone(), 1, aged(1))).collect());
        let interval = Interval { lo: rows[10].as_ref().position(), hi: Some(rows[12].as_ref().position()) };

        let (found, next) = rig.scan(&users(), Scope::Positions(interval), Some(rows[3].clone()), 100);

        let found: Vec<_> = found.rows.into_iter().map(|loaded| loaded.row).collect();
        assert_eq!((found, next), (rows[10..12].to_vec(), None));
    }
}

#[test]
fn tombstones_are_left_out() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("live"), 1, aged(1)), at(user("dead"), -1, aged(1))]);

        assert_eq!(walk(&rig, &users(), &Scope::Positions(Interval::ALL), 10), [user("live")]);
    }
}

#[test]
fn a_partition_is_read_by_sort_key_in_both_directions() {
    for rig in Rig::each() {
        rig.create(&messages());
        let rows: Vec<_> = [-5, -1, 0, 1, 2, 300].map(|number| message("room", number, "x")).into();
        let others = [message("roo", 0, "x"), message("room2", 0, "x")];
        rig.flush(&messages(), rows.iter().chain(&others).map(|row| at(row.clone(), 1, RowImage::default())).collect());
        let scope = |from, to, descending| Scope::Partition { key: (*b"room").into(), from, to, descending };
        let mut backwards = rows.clone();
        backwards.reverse();

        for rows_max in [1, 4, 100] {
            let all = |descending| walk(&rig, &messages(), &scope(None, None, descending), rows_max);
            let some = |descending| walk(&rig, &messages(), &scope(part(-1), part(2), descending), rows_max);

            assert_eq!(all(false), rows);
            assert_eq!(all(true), backwards);
            // A bound that is the first part alone is a prefix: rows of -1 begin with it, rows of 2 are behind it.
            assert_eq!(some(false), rows[1..4]);
            assert_eq!(some(true), backwards[2..5]);
        }
    }
}

#[test]
fn a_partition_without_sort_key_is_its_one_row() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 1, aged(1)), at(user("bob"), 1, aged(1))]);
        let scope = Scope::Partition { key: (*b"lili").into(), from: None, to: None, descending: false };

        assert_eq!(walk(&rig, &users(), &scope, 1), [user("lili")]);
    }
}

#[test]
fn a_page_ends_early_when_it_is_large() {
    for rig in Rig::each() {
        rig.create(&users());
        let large = image(&[(5, Value::Blob(vec![7; limits::SCAN_BYTES_MAX / 4]))]);
        rig.flush(&users(), (0..10).map(|number| at(user(number.to_string()), 1, large.clone())).collect());

        let (found, next) = rig.scan(&users(), Scope::Positions(Interval::ALL), None, 100);

        assert_eq!(found.rows.len(), 4);
        assert!(next.is_some());
        assert_eq!(walk(&rig, &users(), &Scope::Positions(Interval::ALL), 100).len(), 10);
    }
}

#[test]
fn a_row_at_a_place_that_is_not_its_own_is_set_aside() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 1, aged(1))]);
        rig.sql(rig.say(
            "INSERT INTO users (__key__, __version__, __position__) VALUES (CAST('hand' AS BLOB), 1, 5)",
            "INSERT INTO users (__key__, __version__, __position__) VALUES ('hand', 1, 5)",
            "INSERT INTO users (__key__, __version__, __position__) VALUES ('hand', 1, 5)",
        ));

        let (found, next) = rig.scan(&users(), Scope::Positions(Interval::ALL), None, 100);

        assert_eq!((found.rows.len(), next), (1, None));
        assert_eq!(found.quarantined[0].row, user("hand"));
        assert!(user("hand").as_ref().position() != Position(5));
    }
}
