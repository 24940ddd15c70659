//! What can only be seen from inside: which tree a query goes down, and a connection that is made to fail.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::Value as Parameter;
use shardine_model::key::Interval;
use shardine_model::sql::Class;
use shardine_model::table::SortPart;
use shardine_model::{
    Backing, ChangedFields, Field, FieldRef, FieldType, FieldValue, RowImage, TableId, Value, ValueRef,
};
use tempfile::TempDir;

use super::*;
use crate::job::{JobId, Scope};

fn table(sort: &[(&str, FieldType)]) -> Table {
    let field = Field::of(FieldId(1), "body", Value::Blob(Vec::new()));
    let part = |&(name, kind): &(&str, FieldType)| SortPart { name: name.into(), kind };
    Table {
        id: TableId(2),
        name: "posts".into(),
        version: 1,
        fields: vec![field],
        sort: sort.iter().map(part).collect(),
        backing: Backing::Sql,
        sql: Default::default(),
        dynamic: false,
        dropped: false,
        next_field: FieldId(2),
    }
}

fn open(dir: &TempDir) -> File {
    connect(dir, Role::Writer)
}

fn connect(dir: &TempDir, role: Role) -> File {
    let connector = Sqlite { path: dir.path().join("rows.db"), busy_timeout: Duration::from_millis(20) };
    connector.prepare().unwrap();
    File::open(&connector.path, connector.busy_timeout, role).unwrap()
}

fn row(key: &str) -> RowKeyBuf {
    RowKeyBuf { table: TableId(2), key: key.as_bytes().into(), sort: Box::default() }
}

fn large(key: &str, version: i64) -> FlushRow {
    let value = ValueRef::Blob(&[7; 10_000]);
    let fields = RowImage::of(&[FieldValue { field: FieldRef::Id(FieldId(1)), value }]);
    FlushRow { row: row(key), version: Version(version), fields, changed: ChangedFields::ALL }
}

/// How SQLite means to answer a query, all steps in one line.
fn steps(file: &File, query: &str) -> String {
    let mut statement = file.connection.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
    let nulls = vec![Parameter::Null; query.matches('?').count()];
    let steps = statement.query_map(rusqlite::params_from_iter(nulls), |row| row.get::<_, String>(3)).unwrap();
    steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}

fn scan_steps(file: &File, table: &Table, scope: Scope, after: Option<RowKeyBuf>) -> String {
    let job = ScanJob { ticket: JobId(1), table: Arc::new(table.clone()), scope, after, rows_max: 10 };
    steps(file, &crate::pages::select(&text::SqliteText, &job, "__key__").unwrap().0)
}

#[test]
fn loads_search_the_tree_of_the_primary_key() {
    for (sort, expected) in [
        (&[][..], "INDEX sqlite_autoindex_posts_1 (__key__=?)"),
        (&[("number", FieldType::Int64)][..], "INDEX sqlite_autoindex_posts_1 (__key__=? AND __sort__=?)"),
    ] {
        let dir = TempDir::new().unwrap();
        let mut file = open(&dir);
        file.create(&table(sort)).unwrap();

        let steps = steps(&file, &read::select(&table(sort), 200));

        assert!(steps.contains(expected), "{steps}");
    }
}

#[test]
fn scans_walk_one_tree_and_sort_nothing() {
    let dir = TempDir::new().unwrap();
    let mut file = open(&dir);
    let sorted = table(&[("number", FieldType::Int64)]);
    file.create(&sorted).unwrap();
    let shard = Scope::Positions(Interval::cut_evenly(4)[1]);
    let partition =
        |descending| Scope::Partition { key: (*b"k").into(), from: Some((*b"a").into()), to: None, descending };

    let walks = [
        (
            scan_steps(&file, &sorted, shard.clone(), None),
            "INDEX __position__posts (__position__>? AND __position__<?)",
        ),
        (
            scan_steps(&file, &sorted, shard, Some(row("lili"))),
            "((__position__,__key__,__sort__)>(?,?,?) AND __position__<?)",
        ),
        (
            scan_steps(&file, &sorted, partition(false), None),
            "INDEX sqlite_autoindex_posts_1 (__key__=? AND __sort__>?)",
        ),
        (
            scan_steps(&file, &sorted, partition(true), Some(row("k"))),
            "INDEX sqlite_autoindex_posts_1 (__key__=? AND __sort__>? AND __sort__<?)",
        ),
    ];

    for (steps, expected) in walks {
        assert!(steps.contains(expected), "{steps}");
        assert!(!steps.contains("TEMP B-TREE"), "{steps}");
    }
}

#[test]
fn a_commit_is_synced() {
    let dir = TempDir::new().unwrap();
    let file = open(&dir);

    let synchronous: i64 = file.connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();

    assert_eq!(synchronous, 2, "2 is FULL");
}

#[test]
fn write_back_112_a_full_disk_is_retryable_and_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let mut file = open(&dir);
    let posts = table(&[]);
    file.create(&posts).unwrap();
    file.write(&posts, &[large("before", 1)], None).unwrap();
    let pages: i64 = file.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    file.connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();

    let rows: Vec<FlushRow> = (0..20).map(|number| large(&number.to_string(), 1)).collect();
    let error = file.write(&posts, &rows, None).unwrap_err();
    let found = file.load(&posts, &[row("before"), row("0")]).unwrap();
    file.connection.query_row("PRAGMA max_page_count = 1000000", [], |_| Ok(())).unwrap();

    assert_eq!(error.class, Class::Retryable, "{error}");
    assert_eq!((found.rows[0].version, found.rows[1].version), (Version(1), Version(0)));
    assert_eq!(file.write(&posts, &rows, None).unwrap(), vec![Version(1); 20]);
}

/// By the connection's own switch: the owner of the machine, as whom tests often run, may write to a read-only file.
#[test]
fn write_back_112_a_database_that_takes_no_writes_is_retryable() {
    let dir = TempDir::new().unwrap();
    let mut file = open(&dir);
    let posts = table(&[]);
    file.create(&posts).unwrap();
    file.connection.pragma_update(None, "query_only", true).unwrap();

    let error = file.write(&posts, &[large("lili", 1)], None).unwrap_err();
    let loaded = file.load(&posts, &[row("lili")]);

    assert_eq!(error.class, Class::Retryable, "{error}");
    assert!(loaded.is_ok(), "reading goes on");
}

#[test]
fn a_reading_connection_cannot_write() {
    let dir = TempDir::new().unwrap();
    open(&dir).create(&table(&[])).unwrap();
    let mut reader = connect(&dir, Role::Loader);

    assert!(reader.write(&table(&[]), &[large("lili", 1)], None).is_err());
}
