//! Types of SQL and NULL on their way into a database and back: what comes back is what went in, digit by digit.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use shardine_model::sql::FlushResult;
use shardine_model::{
    Deletes, Field, FieldId, FieldRef, FieldType, FieldValue, Mapping, RowImage, Table, Value, row, text,
};
use shardine_writeback::Drift;

use crate::rig::{Rig, at, image, user, users};
use crate::schema::drift;

const MONEY: FieldType = FieldType::Decimal { precision: 12, scale: 2 };
const KINDS: [(&str, FieldType); 14] = [
    ("i", FieldType::Int64),
    ("u", FieldType::Uint64),
    ("f", FieldType::Float64),
    ("s", FieldType::String),
    ("b", FieldType::Blob),
    ("truth", FieldType::Bool),
    ("money", MONEY),
    ("big", FieldType::Decimal { precision: 38, scale: 0 }),
    ("moment", FieldType::Timestamp { digits: 6 }),
    ("second", FieldType::Timestamp { digits: 0 }),
    ("day", FieldType::Date),
    ("clock", FieldType::Time { digits: 3 }),
    ("name", FieldType::Uuid),
    ("doc", FieldType::Json),
];

/// A table with two fields of every type: one that may be NULL, and one that may not.
fn table() -> Table {
    let mut table = (*users()).clone();
    table.fields.clear();
    for (place, (name, kind)) in (1..).zip(KINDS) {
        table.fields.push(Field::of(FieldId(place), name, kind.zero()));
        table.fields.last_mut().unwrap().kind = kind;
        let (id, name) = (FieldId(100 + place), format!("{name}_or_null"));
        table.fields.push(Field { id, name, kind, nullable: true, default: Value::Null });
    }
    table.next_field = FieldId(200);
    table
}

fn any_of(kind: FieldType) -> BoxedStrategy<Value> {
    let texts: BoxedStrategy<String> = match kind {
        FieldType::Int64 => any::<i64>().prop_map(|number| number.to_string()).boxed(),
        FieldType::Uint64 => any::<u64>().prop_map(|number| number.to_string()).boxed(),
        FieldType::Float64 => (-1e300..1e300_f64).prop_map(|number| number.to_string()).boxed(),
        FieldType::String => "[^\\x00]{0,12}|NULL".boxed(),
        FieldType::Blob => return any::<Vec<u8>>().prop_map(Value::Blob).boxed(),
        FieldType::Bool => "true|false".boxed(),
        FieldType::Decimal { scale: 0, .. } => "-?[1-9][0-9]{0,37}|0".boxed(),
        FieldType::Decimal { .. } => "-?[0-9]{1,10}\\.[0-9]{2}".boxed(),
        FieldType::Timestamp { digits: 0 } => {
            "(19[7-9][1-9]|20[0-9][1-9])-1[0-2]-[012][1-8]T[01][0-9]:[0-5][0-9]:[0-5][0-9]Z".boxed()
        }
        FieldType::Timestamp { .. } => {
            "(1[1-9]|[2-8][0-9])[0-9]{2}-0[1-9]-[012][1-8]T2[0-3]:[0-5][0-9]:[0-5][0-9]\\.[0-9]{6}Z".boxed()
        }
        FieldType::Date => "(1[1-9]|[2-9][0-9])[0-9]{2}-(0[1-9]|1[0-2])-[012][1-8]".boxed(),
        FieldType::Time { .. } => "[01][0-9]:[0-5][0-9]:[0-5][0-9]\\.[0-9]{3}".boxed(),
        FieldType::Uuid => "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}".boxed(),
        FieldType::Json => "\\{\"b\" :  \\[1\\.00,\"é\"\\], \"a\":null\\}|null|\"NULL\"| 7 ".boxed(),
    };
    texts
        .prop_map(move |text| text::parse(kind, &text).unwrap_or_else(|| panic!("{text} is no {}", kind.name())))
        .boxed()
}

fn any_row(table: &Table, runner: &mut TestRunner) -> RowImage {
    let mut packed = Vec::new();
    for field in &table.fields {
        let value = any_of(field.kind);
        let value = if field.nullable { prop_oneof![Just(Value::Null), value].boxed() } else { value };
        let value = value.new_tree(runner).unwrap().current();
        if value != field.default {
            FieldValue { field: FieldRef::Id(field.id), value: value.as_ref() }.encode(&mut packed);
        }
    }
    RowImage { packed: packed.into() }
}

/// The text of each field: as a door takes it, and as a door gives it back.
fn texts(image: &RowImage) -> Vec<(FieldRef<'_>, Option<String>)> {
    row::packed(&image.packed).map(|entry| (entry.field, text::print(entry.value).map(Into::into))).collect()
}

#[test]
fn every_value_of_every_type_comes_back_as_it_was() {
    let table = Arc::new(table());
    table.check().unwrap();
    for rig in Rig::each() {
        rig.create(&table);
        assert_eq!(drift(&rig, &table), []);
        let mut runner = TestRunner::deterministic();
        let rows: Vec<RowImage> = (0..200).map(|_| any_row(&table, &mut runner)).collect();

        let written = rows.iter().enumerate().map(|(key, image)| at(user(key.to_string()), 1, image.clone())).collect();
        let results = rig.flush(&table, written);
        let asked: Vec<_> = (0..rows.len()).map(|key| user(key.to_string())).collect();
        let found = rig.load(&table, &asked);

        assert!(results.iter().all(|result| *result == FlushResult::Written), "{results:?}");
        assert_eq!((found.quarantined.len(), found.nulls), (0, 0), "{:?}", found.quarantined.first());
        for (loaded, image) in found.rows.iter().zip(&rows) {
            assert_eq!(texts(&loaded.fields), texts(image));
            assert_eq!(&loaded.fields, image);
        }
    }
}

#[test]
fn defaults_and_null_are_what_sql_gives_a_row_that_names_nothing() {
    let mut table = table();
    let defaults = [
        ("truth", "true"),
        ("money", "-12.50"),
        ("day", "2024-02-29"),
        ("moment", "2026-11-19T19:47:45.5Z"),
        ("doc", "{\"it's\": 1}"),
    ];
    for (name, given) in defaults {
        let field = table.fields.iter_mut().find(|field| field.name == name).unwrap();
        field.default = text::parse(field.kind, given).unwrap();
    }
    let table = Arc::new(table);
    for rig in Rig::each() {
        rig.create(&table);
        let key = rig.say("x'61'", "'a'::bytea", "x'61'");
        rig.sql(&format!("INSERT INTO users (__key__, __version__, __position__) VALUES ({key}, 3, 0)"));

        let loaded = rig.load_one(&table, &user("a"));

        assert_eq!((loaded.version.0, loaded.fields), (3, RowImage::default()));
        // SQLite keeps decimals as texts.
        let money = rig.say("'-12.50'", "-12.50", "-12.50");
        let count = format!("SELECT count(*) FROM users WHERE money_or_null IS NULL AND money = {money}");
        assert_eq!(rig.ask(&count), "1");
    }
}

/// A table of somebody else's, with columns as people declare them.
fn theirs() -> Arc<Table> {
    let field = |id, name: &str, kind, nullable| Field {
        id: FieldId(id),
        name: name.into(),
        kind,
        nullable,
        default: Field::unnamed_default(kind, nullable),
    };
    let mut table = (*users()).clone();
    table.fields = vec![
        field(1, "paid", FieldType::Bool, false),
        field(2, "total", FieldType::Decimal { precision: 10, scale: 2 }, true),
        field(3, "made", FieldType::Timestamp { digits: 0 }, true),
        field(4, "note", FieldType::String, true),
    ];
    table.sql.mapping = Some(Mapping {
        table: "orders".into(),
        key: "id".into(),
        key_type: FieldType::Int64,
        version: Some("rev".into()),
        columns: ["paid", "total", "made", "note"].map(str::to_owned).to_vec(),
        deletes: Deletes::Row,
    });
    Arc::new(table)
}

#[test]
fn a_null_that_nobody_touched_stays_null_in_a_table_of_others() {
    let table = theirs();
    for rig in Rig::each() {
        rig.sql(rig.say(
            "CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, rev INTEGER NOT NULL DEFAULT 1, paid BOOLEAN NOT NULL, \
             total TEXT, made DATETIME, note VARCHAR(40))",
            "CREATE TABLE orders (id bigint PRIMARY KEY, rev bigint NOT NULL DEFAULT 1, paid boolean NOT NULL, \
             total numeric(14,4), made timestamp, note varchar(40))",
            "CREATE TABLE orders (id BIGINT PRIMARY KEY, rev BIGINT NOT NULL DEFAULT 1, paid BOOLEAN NOT NULL, \
             total DECIMAL(14,2), made TIMESTAMP NULL, note VARCHAR(40))",
        ));
        rig.sql(rig.say(
            "INSERT INTO orders (id, paid) VALUES (1, 0); INSERT INTO orders VALUES (2, 1, 1, '5.5', '2026-11-19 19:47:45', 'x')",
            "INSERT INTO orders (id, paid) VALUES (1, false); INSERT INTO orders VALUES (2, 1, true, 5.5, '2026-11-19 19:47:45', 'x')",
            "INSERT INTO orders (id, paid) VALUES (1, 0); INSERT INTO orders VALUES (2, 1, 1, 5.5, '2026-11-19 19:47:45', 'x')",
        ));
        assert_eq!(drift(&rig, &table), []);

        let found = rig.load(&table, &[user("1"), user("2")]);
        let paid = image(&[(1, Value::Bool(true))]);
        let results = rig.flush(&table, vec![at(user("1"), 2, paid)]);

        assert_eq!((found.nulls, &found.rows[0].fields), (0, &RowImage::default()));
        let read = |id| found.rows[1].fields.view().get(FieldRef::Id(FieldId(id))).and_then(text::print).unwrap();
        assert_eq!([read(1), read(2), read(3), read(4)], ["true", "5.50", "2026-11-19T19:47:45Z", "x"]);
        assert_eq!(results, [FlushResult::Written]);
        let untouched =
            "SELECT count(*) FROM orders WHERE id = 1 AND rev = 2 AND total IS NULL AND made IS NULL AND note IS NULL";
        assert_eq!(rig.ask(untouched), "1");
    }
}

#[test]
fn a_column_that_would_change_a_value_or_refuse_null_is_told() {
    for rig in Rig::each() {
        rig.sql(rig.say(
            "CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, rev INTEGER NOT NULL DEFAULT 1, paid TEXT, \
             total DECIMAL(10,2), made INTEGER, note VARCHAR(40) NOT NULL)",
            "CREATE TABLE orders (id bigint PRIMARY KEY, rev bigint NOT NULL DEFAULT 1, paid text, \
             total numeric(9,2), made date, note varchar(40) NOT NULL)",
            "CREATE TABLE orders (id BIGINT PRIMARY KEY, rev BIGINT NOT NULL DEFAULT 1, paid INT, \
             total DECIMAL(10,1), made DATE, note VARCHAR(40) NOT NULL)",
        ));

        let told = drift(&rig, &theirs());

        let columns: Vec<&str> = told
            .iter()
            .filter_map(|drift| match drift {
                Drift::OtherType { column, .. } | Drift::NotNull { column, .. } => Some(&column[..]),
                _ => None,
            })
            .collect();
        assert_eq!(columns, ["paid", "total", "made", "note"], "{told:?}");
    }
}

/// records 49: what a field could only take by changing it is set aside, and the rows beside it are read.
#[test]
fn records_49_what_does_not_fit_is_set_aside() {
    let table = theirs();
    for rig in Rig::each() {
        rig.sql(rig.say(
            "CREATE TABLE orders (id INTEGER NOT NULL PRIMARY KEY, rev INTEGER NOT NULL, paid BOOLEAN NOT NULL, \
             total TEXT, made DATETIME, note VARCHAR(40)); \
             INSERT INTO orders VALUES (1, 1, 1, '5.555', NULL, NULL), (2, 1, 1, NULL, '2026-11-19 19:47:45.5', NULL), (3, 1, 0, '1', NULL, NULL)",
            "CREATE TABLE orders (id bigint PRIMARY KEY, rev bigint NOT NULL, paid boolean NOT NULL, \
             total numeric, made timestamptz, note varchar(40)); \
             INSERT INTO orders VALUES (1, 1, true, 5.555, NULL, NULL), (2, 1, true, NULL, 'infinity', NULL), (3, 1, false, 1, NULL, NULL)",
            "CREATE TABLE orders (id BIGINT PRIMARY KEY, rev BIGINT NOT NULL, paid BOOLEAN NOT NULL, \
             total DECIMAL(14,3), made DATETIME(3), note VARCHAR(40)); \
             INSERT INTO orders VALUES (1, 1, 1, 5.555, NULL, NULL), (2, 1, 1, NULL, '2026-11-19 19:47:45.5', NULL), (3, 1, 0, 1, NULL, NULL)",
        ));

        let found = rig.load(&table, &[user("1"), user("2"), user("3")]);

        assert_eq!((found.rows.len(), found.quarantined.len()), (1, 2), "{found:?}");
        assert!(found.quarantined[0].message.contains("5.555"), "{:?}", found.quarantined);
    }
}
