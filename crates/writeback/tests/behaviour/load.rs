//! Reading rows that memory lacks.

use shardine_model::sql::FlushResult;
use shardine_model::{RowImage, Value, Version, limits};
use shardine_writeback::JobOutcome;

use crate::rig::{Rig, aged, at, image, message, messages, user, users};

#[test]
fn records_39_many_keys_are_read_at_once_and_answered_in_order() {
    for rig in Rig::each() {
        rig.create(&users());
        let rows = (0..150).map(|age| at(user(format!("u{age}")), 1 + age, aged(age))).collect();
        rig.flush(&users(), rows);

        let asked: Vec<_> = (0..limits::LOAD_ROWS_MAX as i64).rev().map(|age| user(format!("u{age}"))).collect();
        let found = rig.load(&users(), &asked);

        assert!(found.rows.iter().map(|loaded| &loaded.row).eq(&asked));
        for loaded in &found.rows {
            let age: i64 = std::str::from_utf8(&loaded.row.key[1..]).unwrap().parse().unwrap();
            let expected = if age < 150 { Version(1 + age) } else { Version::NEVER };
            assert_eq!(loaded.version, expected, "u{age}");
        }
    }
}

#[test]
fn more_keys_than_one_statement_takes_are_read_by_several() {
    for rig in Rig::each() {
        rig.create(&users());
        let asked: Vec<_> = (0..2 * limits::LOAD_ROWS_MAX + 1).map(|number| user(number.to_string())).collect();
        rig.flush(&users(), vec![at(asked[2 * limits::LOAD_ROWS_MAX].clone(), 4, aged(1))]);

        let found = rig.load(&users(), &asked);

        assert_eq!(found.rows.len(), asked.len());
        assert_eq!(found.rows.last().unwrap().version, Version(4));
    }
}

#[test]
fn a_row_asked_for_twice_is_answered_once() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 1, aged(1))]);

        let found = rig.load(&users(), &[user("lili"), user("nobody"), user("lili"), user("nobody")]);

        let versions: Vec<i64> = found.rows.iter().map(|loaded| loaded.version.0).collect();
        assert_eq!(versions, [1, 0]);
    }
}

#[test]
fn records_43_a_row_that_is_not_there_is_version_0() {
    for rig in Rig::each() {
        rig.create(&users());

        let loaded = rig.load_one(&users(), &user("nobody"));

        assert_eq!(loaded.version, Version::NEVER);
        assert_eq!(loaded.fields, RowImage::default());
    }
}

#[test]
fn records_44_a_tombstone_loads_as_absent_with_its_negative_version() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 1, aged(10))]);
        rig.flush(&users(), vec![at(user("lili"), -2, RowImage::default())]);

        let loaded = rig.load_one(&users(), &user("lili"));

        assert_eq!(loaded.version, Version(-2));
        assert_eq!(loaded.fields, RowImage::default());
    }
}

#[test]
fn records_51_any_bytes_are_a_key() {
    let keys: [&[u8]; 7] = [b"'; DROP TABLE users; --", b"\"", b"", b"\0\xff\0", "ключ".as_bytes(), b"%_\\", b"?1"];
    for rig in Rig::each() {
        rig.create(&users());
        let rows = keys.iter().zip(1..).map(|(key, version)| at(user(key), version, aged(version))).collect();
        rig.flush(&users(), rows);

        let found = rig.load(&users(), &keys.map(user));

        let versions: Vec<i64> = found.rows.iter().map(|loaded| loaded.version.0).collect();
        assert_eq!(versions, [1, 2, 3, 4, 5, 6, 7]);
    }
}

#[test]
fn write_back_103_keys_differ_by_case_and_trailing_space() {
    for rig in Rig::each() {
        rig.create(&users());
        let keys = ["Bob", "bob", "Bob "];
        rig.flush(&users(), keys.iter().zip(1..).map(|(key, version)| at(user(key), version, aged(1))).collect());

        let found = rig.load(&users(), &keys.map(user));

        let versions: Vec<i64> = found.rows.iter().map(|loaded| loaded.version.0).collect();
        assert_eq!(versions, [1, 2, 3]);
    }
}

#[test]
fn write_back_104_values_of_every_type_come_back_to_the_bit() {
    let images = [
        image(&[(1, Value::Int(i64::MIN)), (2, Value::Uint(u64::MAX)), (3, Value::Float(f64::MAX))]),
        image(&[(1, Value::Int(i64::MAX)), (2, Value::Uint(1 << 63)), (3, Value::Float(5e-324))]),
        image(&[(3, Value::Float(2.0)), (4, Value::Str("ключ '\"\\".into())), (5, Value::Blob(vec![0, 0xff, 0]))]),
        image(&[(1, Value::Int(0)), (2, Value::Uint(0)), (3, Value::Float(0.0)), (4, Value::Str(String::new()))]),
        image(&[(4, Value::Str("x".repeat(1 << 20))), (5, Value::Blob(Vec::new()))]),
    ];
    for rig in Rig::each() {
        rig.create(&users());
        for (number, fields) in images.iter().enumerate() {
            let row = user(number.to_string());

            let written = rig.flush(&users(), vec![at(row.clone(), 1, fields.clone())]);

            assert_eq!(written, [FlushResult::Written]);
            assert_eq!(rig.load_one(&users(), &row).fields, *fields, "image {number}");
        }
    }
}

#[test]
fn write_back_104_a_text_with_a_nul_is_kept_or_refused_never_cut() {
    for rig in Rig::each() {
        rig.create(&users());
        let fields = image(&[(4, Value::Str("a\0b".into()))]);

        let written = rig.flush(&users(), vec![at(user("lili"), 1, fields.clone())]);

        match &written[..] {
            [FlushResult::Written] => assert_eq!(rig.load_one(&users(), &user("lili")).fields, fields),
            [FlushResult::Refused(message)] => assert!(message.contains("NUL"), "{message}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_sort_key_is_part_of_the_address() {
    for rig in Rig::each() {
        rig.create(&messages());
        let body = |text: &str| image(&[(1, Value::Str(text.into()))]);
        let rows =
            [("room", 1, "lili"), ("room", 1, "bob"), ("room", -1, "lili"), ("engine", 1, "lili"), ("engine", 7, "")];
        let rows = rows.map(|(key, number, author)| message(key, number, author));
        let written = rows.iter().take(4).zip(1..).map(|(row, version)| at(row.clone(), version, body("hi")));
        rig.flush(&messages(), written.collect());

        let found = rig.load(&messages(), &rows);

        let versions: Vec<i64> = found.rows.iter().map(|loaded| loaded.version.0).collect();
        assert_eq!(versions, [1, 2, 3, 4, 0]);
        assert_eq!(rig.ask("SELECT max(number) FROM messages WHERE author = 'lili'"), "1");
    }
}

#[test]
fn a_dynamic_table_has_no_sql_form() {
    for rig in Rig::each() {
        let kv = std::sync::Arc::new(shardine_model::Table::kv());

        let done = rig.try_load(&kv, vec![user("x")]);

        assert!(matches!(done, JobOutcome::Failed { .. }), "{done:?}");
    }
}

#[test]
fn records_39_loads_that_wait_are_joined_and_each_gets_its_own_rows() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), (0..300).map(|age| at(user(format!("u{age}")), 1 + age, aged(age))).collect());

        let tickets: Vec<_> =
            (0..300).map(|age| (rig.submit_load(&users(), vec![user(format!("u{age}"))]), age)).collect();
        let mut answers = std::collections::BTreeMap::new();
        for _ in &tickets {
            let done = rig.outcome();
            let JobOutcome::Loaded { ticket, found } = done else { panic!("{done:?}") };
            answers.insert(ticket, found.rows);
        }

        for (ticket, age) in tickets {
            let rows = &answers[&ticket];
            assert_eq!((rows.len(), rows[0].version), (1, Version(1 + age)), "u{age}");
        }
        let statements = rig.handle.status().statements_read;
        assert!(statements < 300, "{statements} statements for 300 loads that were there at once");
    }
}
