//! Writing rows behind the version fence.

use std::sync::Arc;

use shardine_model::sql::{Class, FlushResult};
use shardine_model::{FieldId, RowImage, RowKeyBuf, Table, Value, Version, limits, sort};
use shardine_writeback::JobOutcome;

use crate::rig::{Rig, aged, at, image, message, messages, user, users};

#[test]
fn a_field_that_is_missing_is_written_as_its_default() {
    for rig in Rig::each() {
        rig.create(&users());

        rig.flush(&users(), vec![at(user("lili"), 1, aged(10))]);

        let row = rig.say(
            "SELECT age || ' ' || flags || ' ' || score || ' ' || name || ' ' || hex(photo) FROM users",
            "SELECT concat_ws(' ', age, flags, score, name, upper(encode(photo, 'hex'))) FROM users",
            "SELECT concat_ws(' ', age, flags, score, name, hex(photo)) FROM users",
        );
        assert_eq!(rig.ask(row), "10 1 0.5 nobody FF");
    }
}

#[test]
fn write_back_92_the_full_row_is_written_every_time() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 1, image(&[(1, Value::Int(10)), (4, Value::Str("Lili".into()))]))]);

        rig.flush(&users(), vec![at(user("lili"), 2, aged(11))]);

        assert_eq!(rig.load_one(&users(), &user("lili")).fields, aged(11));
    }
}

/// reliability I51.
#[test]
fn write_back_93_an_older_write_changes_nothing_and_says_what_stands_there() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 7, aged(70))]);

        let late = rig.flush(&users(), vec![at(user("lili"), 6, aged(60))]);
        let late_delete = rig.flush(&users(), vec![at(user("lili"), -5, RowImage::default())]);

        assert_eq!(late, [FlushResult::Newer(Version(7))]);
        assert_eq!(late_delete, [FlushResult::Newer(Version(7))]);
        assert_eq!(rig.load_one(&users(), &user("lili")).fields, aged(70));
    }
}

#[test]
fn write_back_93_a_repeated_write_is_written() {
    for rig in Rig::each() {
        rig.create(&users());
        for _ in 0..3 {
            let results = rig.flush(&users(), vec![at(user("lili"), 7, aged(70))]);

            assert_eq!(results, [FlushResult::Written]);
        }
    }
}

#[test]
fn write_back_101_a_delete_leaves_a_tombstone_of_defaults() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 1, aged(10))]);

        // The image of a tombstone is not looked at.
        let results = rig.flush(&users(), vec![at(user("lili"), -2, aged(99)), at(user("never"), -1, aged(99))]);

        assert_eq!(results, [FlushResult::Written, FlushResult::Written]);
        assert_eq!(rig.ask("SELECT age FROM users WHERE __version__ = -2"), "18");
        assert_eq!(rig.ask("SELECT age FROM users WHERE __version__ = -1"), "18");
    }
}

#[test]
fn a_record_made_again_rises_above_its_tombstone() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), -2, RowImage::default())]);

        let results = rig.flush(&users(), vec![at(user("lili"), 3, aged(1))]);

        assert_eq!(results, [FlushResult::Written]);
        assert_eq!(rig.load_one(&users(), &user("lili")).version, Version(3));
    }
}

/// reliability F20.
#[test]
fn write_back_117_a_row_raised_behind_our_back_is_reported_not_overwritten() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 1, aged(10))]);
        rig.sql("UPDATE users SET __version__ = 50, age = 33");

        let results = rig.flush(&users(), vec![at(user("lili"), 2, aged(11)), at(user("bob"), 1, aged(1))]);

        assert_eq!(results, [FlushResult::Newer(Version(50)), FlushResult::Written]);
        assert_eq!(rig.ask("SELECT age FROM users WHERE __version__ = 50"), "33");
        assert_eq!(rig.handle.status().rows_newer, 1);
    }
}

#[test]
fn a_tombstone_of_our_number_is_not_our_row() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), -4, RowImage::default())]);

        let results = rig.flush(&users(), vec![at(user("lili"), 4, aged(1))]);

        assert_eq!(results, [FlushResult::Newer(Version(-4))]);
    }
}

/// reliability F18, I50.
#[test]
fn write_back_99_a_bad_row_is_alone_and_the_others_are_written() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.sql(rig.say(
            "CREATE TRIGGER adults BEFORE INSERT ON users WHEN new.age < 0 \
             BEGIN SELECT RAISE(ABORT, 'nobody is that young'); END",
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'nobody is that young'; END $$; \
             CREATE TRIGGER adults BEFORE INSERT ON users FOR EACH ROW WHEN (new.age < 0) EXECUTE FUNCTION refuse()",
            "CREATE TRIGGER adults BEFORE INSERT ON users FOR EACH ROW IF new.age < 0 THEN \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'nobody is that young'; END IF",
        ));
        let is_bad = |number: i64| [0, 137, 138, 999].contains(&number);
        let age = |number: i64| if is_bad(number) { -1 } else { number };
        let rows = (0..limits::FLUSH_ROWS_MAX as i64).map(|number| at(user(number.to_string()), 1, aged(age(number))));

        let results = rig.flush(&users(), rows.collect());

        for (result, number) in results.iter().zip(0..) {
            match result {
                FlushResult::Refused(message) => assert!(is_bad(number) && message.contains("that young"), "{message}"),
                FlushResult::Written => assert!(!is_bad(number)),
                FlushResult::Newer(_) | FlushResult::Orphan(_) => panic!("nothing else wrote, nothing refers"),
            }
        }
        assert_eq!(rig.ask("SELECT count(*) FROM users"), "996");
        assert_eq!(rig.handle.status().rows_refused, 4);
    }
}

#[test]
fn write_back_99_values_that_do_not_fit_are_refused_one_by_one() {
    for rig in Rig::each() {
        rig.create(&users());
        let rows = vec![
            at(user("good"), 1, aged(1)),
            at(user("text for a number"), 1, image(&[(1, Value::Str("7".into()))])),
            at(user("not a number"), 1, image(&[(3, Value::Float(f64::NAN))])),
            at(user("no version"), 0, aged(1)),
            at(user("also good"), 1, aged(1)),
        ];

        let results = rig.flush(&users(), rows);

        assert!(
            matches!(
                &results[..],
                [
                    FlushResult::Written,
                    FlushResult::Refused(_),
                    FlushResult::Refused(_),
                    FlushResult::Refused(_),
                    FlushResult::Written
                ]
            ),
            "{results:?}"
        );
    }
}

#[test]
fn a_sort_key_of_another_table_is_refused() {
    for rig in Rig::each() {
        rig.create(&messages());
        let mut odd = message("room", 1, "lili");
        odd.sort = (*b"odd").into();

        let results = rig.flush(&messages(), vec![at(odd, 1, RowImage::default())]);

        assert!(matches!(&results[..], [FlushResult::Refused(_)]), "{results:?}");
    }
}

#[test]
fn a_row_newer_than_the_definition_waits_for_it() {
    for rig in Rig::each() {
        rig.create(&users());
        let newer = image(&[(6, Value::Int(1))]);

        let done = rig.try_flush(&users(), vec![at(user("lili"), 1, newer)]);

        // Written without the field it would look safe in SQL, and the value would be lost at the next kick.
        assert!(matches!(&done, JobOutcome::Failed { error, .. } if error.class == Class::Definition), "{done:?}");
        assert_eq!(rig.ask("SELECT count(*) FROM users"), "0");
    }
}

#[test]
fn a_dropped_field_is_left_out() {
    for rig in Rig::each() {
        let narrow = Arc::new(Table { next_field: FieldId(8), ..(*users()).clone() });
        rig.create(&narrow);

        let results = rig.flush(&narrow, vec![at(user("lili"), 1, image(&[(1, Value::Int(3)), (7, Value::Int(1))]))]);

        assert_eq!(results, [FlushResult::Written]);
        assert_eq!(rig.load_one(&narrow, &user("lili")).fields, aged(3));
    }
}

#[test]
fn more_rows_than_one_transaction_takes_are_written_by_several() {
    for rig in Rig::each() {
        rig.create(&users());
        let count = 2 * limits::FLUSH_ROWS_MAX + 1;

        let results = rig.flush(&users(), (0..count).map(|number| at(user(number.to_string()), 1, aged(1))).collect());

        assert_eq!(results, vec![FlushResult::Written; count]);
        assert_eq!(rig.handle.status().rows_written, count as u64);
    }
}

#[test]
fn what_was_written_is_there_after_a_restart() {
    for mut rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 3, aged(10))]);

        rig.restart();

        assert_eq!(rig.load_one(&users(), &user("lili")).version, Version(3));
    }
}

/// write-back 96: a row that a trigger keeps as it was counts as changed in one database, as unchanged in another and
/// as touched in a third; what stands there in the end is what counts.
#[test]
fn write_back_96_success_is_what_sql_holds_and_not_a_count() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 1, aged(1)), at(user("bob"), 1, aged(1))]);
        rig.sql(rig.say(
            "CREATE TRIGGER keep BEFORE UPDATE ON users WHEN old.age = 1 AND old.__key__ = CAST('lili' AS BLOB) \
             BEGIN SELECT RAISE(IGNORE); END",
            "CREATE FUNCTION keep() RETURNS trigger AS 'BEGIN IF old.__key__ = ''lili''::bytea THEN RETURN NULL; END IF; \
             RETURN new; END' LANGUAGE plpgsql; \
             CREATE TRIGGER keep BEFORE UPDATE ON users FOR EACH ROW EXECUTE FUNCTION keep()",
            "CREATE TRIGGER keep BEFORE UPDATE ON users FOR EACH ROW \
             IF old.__key__ = 'lili' THEN SET new.__version__ = old.__version__, new.age = old.age; END IF",
        ));

        let results = rig.flush(&users(), vec![at(user("lili"), 2, aged(2)), at(user("bob"), 2, aged(2))]);

        assert!(
            matches!(&results[..], [FlushResult::Refused(why), FlushResult::Written] if why.contains("trigger")),
            "{results:?}"
        );
        assert_eq!(rig.load_one(&users(), &user("lili")).version, Version(1));
        assert_eq!(rig.load_one(&users(), &user("bob")).version, Version(2));
    }
}

/// write-back 105: whatever the doors let through fits into its column: the longest key, the longest sort key and a
/// value beyond what a smaller text type would hold.
#[test]
fn write_back_105_the_limits_of_the_doors_fit_into_the_columns() {
    let key = "k".repeat(limits::KEY_BYTES_MAX);
    let sort = sort::encode(&[Value::Int(1), Value::Str("a".repeat(limits::SORT_BYTES_MAX - 20))]);
    assert!(sort.len() > limits::SORT_BYTES_MAX - 20 && sort.len() <= limits::SORT_BYTES_MAX, "{}", sort.len());
    for rig in Rig::each() {
        rig.create(&users());
        rig.create(&messages());
        let large = image(&[(4, Value::Str("x".repeat(1 << 20))), (5, Value::Blob(vec![0xff; 1 << 20]))]);
        let message = RowKeyBuf { table: messages().id, key: key.as_bytes().into(), sort: sort.clone().into() };

        let written = rig.flush(&users(), vec![at(user(&key), 1, large.clone())]);
        let sorted = rig.flush(&messages(), vec![at(message.clone(), 1, RowImage::default())]);

        assert_eq!((written, sorted), (vec![FlushResult::Written], vec![FlushResult::Written]));
        assert_eq!(rig.load_one(&users(), &user(&key)).fields, large);
        assert_eq!(rig.load_one(&messages(), &message).version, Version(1));
    }
}
