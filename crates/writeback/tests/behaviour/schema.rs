//! Tables that follow their definitions.

use std::sync::Arc;

use shardine_model::sql::{Class, FlushResult};
use shardine_model::{Deletes, Field, FieldId, FieldType, Mapping, Table, Value};
use shardine_writeback::{Change, Drift, JobOutcome};

use crate::rig::{Rig, aged, at, image, messages, user, users};

/// `users` with one more field.
fn wider(name: &str, default: Value) -> Arc<Table> {
    let mut table = (*users()).clone();
    table.fields.push(Field::of(FieldId(6), name, default));
    (table.version, table.next_field) = (2, FieldId(7));
    Arc::new(table)
}

pub fn drift(rig: &Rig, table: &Arc<Table>) -> Vec<Drift> {
    match rig.change(table, Change::Check) {
        JobOutcome::Checked { drift, .. } => drift,
        other => panic!("not checked: {other:?}"),
    }
}

pub fn definition_error(done: &JobOutcome) -> String {
    match done {
        JobOutcome::Failed { error, .. } if error.class == Class::Definition => error.message.clone(),
        other => panic!("not a definition error: {other:?}"),
    }
}

#[test]
fn records_130_every_change_may_be_repeated() {
    for rig in Rig::each() {
        let wide = wider("city", Value::Str("here".into()));
        for _ in 0..2 {
            rig.create(&users());
        }
        for _ in 0..2 {
            assert!(matches!(rig.change(&wide, Change::AddField(FieldId(6))), JobOutcome::FieldAdded { .. }));
        }
        assert_eq!(drift(&rig, &wide), []);
        for _ in 0..2 {
            assert!(matches!(rig.change(&wide, Change::Drop), JobOutcome::Dropped { .. }));
        }

        let found = drift(&rig, &wide);
        assert!(matches!(&found[..], [Drift::NoTable { table, .. }] if table == "users"), "{found:?}");
    }
}

#[test]
fn creating_again_keeps_the_rows() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 1, aged(1))]);

        rig.create(&users());

        assert_eq!(rig.load_one(&users(), &user("lili")).fields, aged(1));
    }
}

#[test]
fn records_129_old_rows_answer_the_default_of_a_new_field() {
    let defaults = [
        Value::Int(i64::MIN),
        Value::Uint(u64::MAX),
        Value::Float(-2.5e300),
        Value::Str("it's \"here\"".into()),
        Value::Blob(vec![0, 39, 255]),
    ];
    for default in defaults {
        for rig in Rig::each() {
            rig.create(&users());
            rig.flush(&users(), vec![at(user("old"), 1, aged(1))]);
            let wide = wider("extra", default.clone());

            let added = rig.change(&wide, Change::AddField(FieldId(6)));
            assert!(matches!(added, JobOutcome::FieldAdded { .. }), "{default:?}: {added:?}");

            // A default is left out of the image; under a definition with another default it shows.
            assert_eq!(rig.load_one(&wide, &user("old")).fields, aged(1), "{default:?}");
            let other = wider("extra", default.as_ref().field_type().unwrap().zero());
            let shown = rig.load_one(&other, &user("old")).fields;
            assert_eq!(shown, image(&[(1, Value::Int(1)), (6, default.clone())]));
        }
    }
}

#[test]
fn rows_of_the_old_definition_are_still_written_after_a_field_was_added() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.change(&wider("city", Value::Str("here".into())), Change::AddField(FieldId(6)));

        let results = rig.flush(&users(), vec![at(user("lili"), 1, aged(1))]);

        assert_eq!(results, [FlushResult::Written]);
        assert_eq!(rig.ask("SELECT city FROM users"), "here");
    }
}

/// What the remedy for a missing column says to do.
fn statement(drift: &Drift) -> &str {
    let Drift::NoColumn { remedy, .. } = drift else { panic!("{drift:?}") };
    remedy.strip_prefix("add it with ").unwrap()
}

/// The complaint of a statement is about the statement; whoever has lost a column wants to hear of the column.
/// reliability F20, I54.
#[test]
fn a_job_that_meets_another_table_than_the_defined_one_says_what_is_wrong_with_it() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 1, aged(1))]);
        rig.sql("ALTER TABLE users RENAME COLUMN age TO years");

        for done in
            [rig.try_load(&users(), vec![user("lili")]), rig.try_flush(&users(), vec![at(user("lili"), 2, aged(2))])]
        {
            let told = definition_error(&done);
            assert!(told.contains("table users has no column age: add it with ALTER TABLE"), "{told}");
            assert!(told.contains("DEFAULT"), "{told}");
        }

        rig.sql("DROP TABLE users");
        let done = rig.try_load(&users(), vec![user("lili")]);
        assert!(definition_error(&done).contains("SQL has no table users: restore it, or"), "{done:?}");
    }
}

/// The column that a mapping was made with is gone: rows are there, and it gets a value in each of them.
#[test]
fn a_lost_version_column_can_be_added_as_told() {
    for rig in Rig::each() {
        let mapping = Mapping {
            table: "people".into(),
            key: "id".into(),
            key_type: FieldType::Int64,
            version: Some("rev".into()),
            columns: ["age".to_owned()].into(),
            deletes: Deletes::Row,
        };
        let mut table = (*users()).clone();
        table.fields.truncate(1);
        table.sql.mapping = Some(mapping);
        rig.sql("CREATE TABLE people (id BIGINT NOT NULL PRIMARY KEY, age BIGINT NOT NULL)");
        rig.sql("INSERT INTO people VALUES (7, 42)");

        let found = drift(&rig, &Arc::new(table.clone()));
        rig.sql(statement(&found[0]));

        assert_eq!(drift(&rig, &Arc::new(table.clone())), []);
        let loaded = rig.load_one(&Arc::new(table), &user("7"));
        assert_eq!((loaded.version.0, loaded.fields), (1, aged(42)));
    }
}

#[test]
fn a_missing_column_is_found_and_the_remedy_named() {
    for rig in Rig::each() {
        rig.create(&users());

        let found = drift(&rig, &wider("city", Value::Str("here".into())));

        assert!(matches!(&found[..], [Drift::NoColumn { column, .. }] if column == "city"), "{found:?}");
        rig.sql(statement(&found[0]));
        assert_eq!(drift(&rig, &wider("city", Value::Str("here".into()))), []);
    }
}

#[test]
fn a_column_of_another_type_is_found() {
    for rig in Rig::each() {
        rig.create(&wider("city", Value::Int(0)));
        let expected = wider("city", Value::Str(String::new()));

        let found = drift(&rig, &expected);
        let added = rig.change(&expected, Change::AddField(FieldId(6)));
        let created = rig.change(&expected, Change::Create);

        let is_integer = rig.say("users.city is INTEGER", "users.city is bigint", "users.city is bigint");
        assert!(matches!(&found[..], [Drift::OtherType { column, .. }] if column == "city"), "{found:?}");
        assert!(definition_error(&added).contains(is_integer), "{added:?}");
        assert!(definition_error(&created).contains(is_integer), "{created:?}");
    }
}

#[test]
fn somebody_elses_table_of_the_same_name_is_left_alone() {
    for rig in Rig::each() {
        rig.sql("CREATE TABLE users (id INTEGER PRIMARY KEY, age INTEGER)");
        rig.sql("INSERT INTO users VALUES (1, 30)");

        let created = rig.change(&users(), Change::Create);
        let dropped = rig.change(&users(), Change::Drop);

        assert!(definition_error(&created).contains("primary key"), "{created:?}");
        assert!(definition_error(&dropped).contains("not made by Shardine"), "{dropped:?}");
        assert_eq!(rig.ask("SELECT age FROM users"), "30");
    }
}

#[test]
fn columns_of_others_are_welcome_if_a_row_can_do_without_them() {
    for rig in Rig::each() {
        rig.create(&users());
        rig.flush(&users(), vec![at(user("lili"), 1, aged(1))]);
        rig.sql("ALTER TABLE users ADD COLUMN note TEXT; UPDATE users SET note = 'kept'");

        rig.flush(&users(), vec![at(user("lili"), 2, aged(2))]);

        assert_eq!(drift(&rig, &users()), []);
        assert_eq!(rig.ask("SELECT note FROM users WHERE age = 2"), "kept");
    }
}

#[test]
fn a_column_that_every_row_must_fill_is_found() {
    for rig in Rig::each() {
        rig.create(&messages());
        let narrow = Arc::new(Table { fields: Vec::new(), ..(*messages()).clone() });
        rig.sql(rig.say(
            "CREATE TABLE users (__key__ BLOB NOT NULL PRIMARY KEY, __version__ INTEGER NOT NULL, __position__ INTEGER, \
             must TEXT NOT NULL)",
            "CREATE TABLE users (__key__ BYTEA PRIMARY KEY, __version__ BIGINT, __position__ BIGINT, must TEXT NOT NULL)",
            "CREATE TABLE users (__key__ VARBINARY(1024) PRIMARY KEY, __version__ BIGINT, __position__ BIGINT, \
             must TEXT NOT NULL)",
        ));
        let bare = Arc::new(Table { fields: Vec::new(), ..(*users()).clone() });

        assert_eq!(drift(&rig, &narrow), []);
        assert_eq!(drift(&rig, &bare), [Drift::Unfilled { table: "users".into(), column: "must".into() }]);
    }
}

#[test]
fn sort_parts_are_columns_of_their_own_type() {
    for rig in Rig::each() {
        rig.create(&messages());
        let mut other = (*messages()).clone();
        other.sort[0].kind = FieldType::String;

        let found = drift(&rig, &Arc::new(other));

        assert!(matches!(&found[..], [Drift::OtherType { column, .. }] if column == "number"), "{found:?}");
    }
}

#[test]
fn write_back_112_a_missing_table_or_column_is_a_definition_error() {
    for rig in Rig::each() {
        let loaded = rig.try_load(&users(), vec![user("lili")]);
        let flushed = rig.try_flush(&users(), vec![at(user("lili"), 1, aged(1))]);
        rig.create(&users());
        let wide = wider("city", Value::Str(String::new()));
        let narrow_load = rig.try_load(&wide, vec![user("lili")]);
        let narrow_flush = rig.try_flush(&wide, vec![at(user("lili"), 1, aged(1))]);

        for done in [loaded, flushed, narrow_load, narrow_flush] {
            definition_error(&done);
        }
        // The next job on a table that is there is not concerned.
        assert_eq!(rig.flush(&users(), vec![at(user("lili"), 1, aged(1))]), [FlushResult::Written]);
        assert!(rig.handle.status().connected);
    }
}
