//! Tables that were there before Shardine, with keys and columns of their own.

use std::sync::Arc;

use shardine_model::sql::FlushResult;
use shardine_model::{Deletes, FieldType, Mapping, RowImage, Table, Value, Version};
use shardine_testkit::sql_server::Kind;
use shardine_writeback::{Change, Drift, JobOutcome, Scope};

use crate::rig::{Rig, at, image, user, users};
use crate::schema::drift;

/// `users` as a table of others has it: age and name only.
pub fn mapped(key_type: FieldType, version: Option<&str>) -> Arc<Table> {
    let mut table = (*users()).clone();
    table.fields.retain(|field| ["age", "name"].contains(&field.name.as_str()));
    table.sql.mapping = Some(Mapping {
        table: "customers".into(),
        key: "id".into(),
        key_type,
        version: version.map(str::to_owned),
        columns: vec!["years".into(), "full name".replace(' ', "_")],
        deletes: Deletes::Row,
    });
    Arc::new(table)
}

pub fn make(rig: &Rig, id: &str, extra: &str) {
    let name = rig.say("TEXT", "VARCHAR(40)", "VARCHAR(40)");
    rig.sql(&format!(
        "CREATE TABLE customers (id {id} NOT NULL PRIMARY KEY, rev BIGINT NOT NULL DEFAULT 1, years INTEGER NOT NULL, \
         full_name {name}, note VARCHAR(40) DEFAULT 'theirs'{extra})"
    ));
}

fn text_key(rig: &Rig) -> &'static str {
    rig.say("TEXT", "TEXT", "VARCHAR(100) COLLATE utf8mb4_bin")
}

pub fn fields(age: i64, name: &str) -> RowImage {
    image(&[(1, Value::Int(age)), (4, Value::Str(name.into()))])
}

#[test]
fn rows_of_others_are_read_and_written_by_their_own_columns() {
    for rig in Rig::each() {
        make(&rig, "BIGINT", "");
        rig.sql("INSERT INTO customers (id, years, full_name) VALUES (42, 10, 'Lili'), (-7, 30, NULL)");
        let table = mapped(FieldType::Int64, Some("rev"));
        assert_eq!(drift(&rig, &table), []);

        let found = rig.load(&table, &[user("42"), user("-7"), user("1")]);
        let results =
            rig.flush(&table, vec![at(user("42"), 2, fields(11, "Lily")), at(user("8"), 1, fields(1, "new"))]);
        let late = rig.flush(&table, vec![at(user("42"), 1, fields(99, "late"))]);

        let versions: Vec<i64> = found.rows.iter().map(|loaded| loaded.version.0).collect();
        assert_eq!(versions, [1, 1, 0]);
        assert_eq!((&found.rows[0].fields, found.nulls), (&fields(10, "Lili"), 1));
        assert_eq!(results, [FlushResult::Written, FlushResult::Written]);
        assert_eq!(late, [FlushResult::Newer(Version(2))]);
        assert_eq!(rig.ask("SELECT full_name FROM customers WHERE id = 42 AND years = 11 AND rev = 2"), "Lily");
        assert_eq!(rig.ask("SELECT note FROM customers WHERE id = 8"), "theirs");
    }
}

#[test]
fn two_keys_are_never_one_row_of_a_number() {
    for rig in Rig::each() {
        make(&rig, "BIGINT", "");
        rig.sql("INSERT INTO customers (id, years) VALUES (42, 10)");
        let table = mapped(FieldType::Int64, Some("rev"));

        let found = rig.load(&table, &[user("042"), user("42"), user("x")]);
        let results = rig.flush(&table, vec![at(user("042"), 5, fields(1, "")), at(user("43"), 1, fields(1, ""))]);

        let mut versions: Vec<(Box<[u8]>, i64)> =
            found.rows.iter().map(|loaded| (loaded.row.key.clone(), loaded.version.0)).collect();
        versions.sort();
        let expected = [("042", 0), ("42", 1), ("x", 0)].map(|(key, version)| (Box::from(key.as_bytes()), version));
        assert_eq!(versions, expected);
        assert!(matches!(&results[..], [FlushResult::Refused(why), FlushResult::Written] if why.contains("int64")));
    }
}

#[test]
fn text_keys_are_compared_by_their_bytes() {
    for rig in Rig::each() {
        make(&rig, text_key(&rig), "");
        let table = mapped(FieldType::String, Some("rev"));
        assert_eq!(drift(&rig, &table), []);
        let keys = ["Bob", "bob", "'; DROP TABLE customers; --", "ключ"];

        let rows = keys.iter().zip(1..).map(|(key, version)| at(user(key), version, fields(version, "")));
        rig.flush(&table, rows.collect());
        let found = rig.load(&table, &keys.map(user));

        let versions: Vec<i64> = found.rows.iter().map(|loaded| loaded.version.0).collect();
        assert_eq!(versions, [1, 2, 3, 4]);
        let one = Scope::Partition { key: (*b"bob").into(), from: None, to: None, descending: false };
        assert_eq!(rig.scan(&table, one, None, 10).0.rows[0].version, Version(2));
    }
}

#[test]
fn a_key_that_compares_without_case_is_found() {
    for rig in Rig::each() {
        // PostgreSQL compares by bytes unless a collation was made that does not.
        let key = rig.say("TEXT COLLATE NOCASE", "TEXT", "VARCHAR(100) COLLATE utf8mb4_general_ci");
        make(&rig, key, "");

        let found = drift(&rig, &mapped(FieldType::String, Some("rev")));

        let is_exact = rig.say("", "exact", "") == "exact";
        assert_eq!(matches!(&found[..], [Drift::Collation { .. }]), !is_exact, "{found:?}");
    }
}

#[test]
fn write_back_107_a_table_with_a_foreign_key_is_mapped_by_guests_only() {
    for rig in Rig::each() {
        rig.sql(rig.say(
            "CREATE TABLE cities (id BIGINT PRIMARY KEY)",
            "CREATE TABLE cities (id BIGINT PRIMARY KEY)",
            "CREATE TABLE cities (id BIGINT PRIMARY KEY) ENGINE = InnoDB",
        ));
        make(&rig, "BIGINT", ", city BIGINT, FOREIGN KEY (city) REFERENCES cities (id)");

        let mut table = (*mapped(FieldType::Int64, Some("rev"))).clone();
        table.sql.mapping.as_mut().expect("it is mapped").deletes = Deletes::Tombstone;
        let found = drift(&rig, &Arc::new(table));

        assert!(matches!(&found[..], [Drift::ForeignKey { .. }]), "{found:?}");
        assert_eq!(drift(&rig, &mapped(FieldType::Int64, Some("rev"))), [], "a guest's parents are written by others");
    }
}

#[test]
fn columns_that_cannot_hold_the_values_are_found() {
    for rig in Rig::each() {
        make(&rig, "BIGINT", ", must VARCHAR(10) NOT NULL");
        let mut table = (*mapped(FieldType::String, Some("rev"))).clone();
        table.sql.mapping.as_mut().unwrap().columns[0] = "full_name".into();

        let found = drift(&rig, &Arc::new(table));

        let is = |wanted: &str| found.iter().filter(|drift| format!("{drift:?}").starts_with(wanted)).count();
        assert_eq!((is("OtherType"), is("Unfilled")), (2, 2), "the key, the age; years and must: {found:?}");
    }
}

#[test]
fn a_table_without_versions_is_read_and_never_written() {
    for rig in Rig::each() {
        make(&rig, "BIGINT", "");
        rig.sql("INSERT INTO customers (id, years, full_name) VALUES (42, 10, 'Lili')");
        let table = mapped(FieldType::Int64, None);

        let loaded = rig.load_one(&table, &user("42"));
        let written = rig.try_flush(&table, vec![at(user("42"), 2, fields(11, "Lily"))]);

        assert_eq!((loaded.version, loaded.fields), (Version(1), fields(10, "Lili")));
        assert!(
            matches!(&written, JobOutcome::Failed { error, .. } if error.message.contains("only read")),
            "{written:?}"
        );
        assert_eq!(rig.ask("SELECT years FROM customers"), "10");
    }
}

#[test]
fn a_table_of_others_is_never_dropped() {
    for rig in Rig::each() {
        make(&rig, "BIGINT", "");

        let dropped = rig.change(&mapped(FieldType::Int64, Some("rev")), Change::Drop);

        assert!(matches!(&dropped, JobOutcome::Failed { .. }), "{dropped:?}");
        assert_eq!(rig.ask("SELECT count(*) FROM customers"), "0");
    }
}

#[test]
fn a_scan_in_routing_order_is_refused() {
    let rig = Rig::server(Kind::Postgres, |_| {});
    make(&rig, "BIGINT", "");

    let job =
        rig.try_scan(&mapped(FieldType::Int64, Some("rev")), Scope::Positions(shardine_model::key::Interval::ALL));

    assert!(matches!(&job, JobOutcome::Failed { error, .. } if error.message.contains("routing order")), "{job:?}");
}
