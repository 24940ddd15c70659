//! SQLite's own ways: its file, its locks, its types, its errors.

use std::fs;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use shardine_model::sql::{Class, FlushResult};
use shardine_model::{FieldId, FieldRef, Table, Value, Version};
use shardine_writeback::{Backend, Change, Error, JobOutcome, Options, Url};

use crate::rig::{Rig, aged, at, image, message, messages, user, users};
use crate::schema::{definition_error, drift};

fn failure(done: JobOutcome) -> Error {
    match done {
        JobOutcome::Failed { error, .. } => error,
        other => panic!("not failed: {other:?}"),
    }
}

fn path(rig: &Rig) -> &std::path::Path {
    let Url::Sqlite(path) = &rig.url else { panic!("not a file") };
    path
}

fn try_start(url: Url) -> Result<(), Error> {
    Backend::start(&Options::new(url), |_| {}).map(|handle| handle.stop())
}

#[test]
fn people_read_keys_and_sort_parts_with_plain_sql() {
    let rig = Rig::sqlite(|_| {});
    rig.create(&messages());
    rig.flush(&messages(), vec![at(message("room", 3, "lili"), 1, image(&[(1, Value::Str("hi".into()))]))]);

    let read = "SELECT CAST(__key__ AS TEXT) || ' ' || number || ' ' || author || ' ' || body FROM messages \
                WHERE __key__ = CAST('room' AS BLOB)";

    assert_eq!(rig.ask(read), "room 3 lili hi");
}

#[test]
fn numbers_that_sqlite_writes_in_its_own_way_are_as_documented() {
    let rig = Rig::sqlite(|_| {});
    rig.create(&users());
    let fields = image(&[(2, Value::Uint(u64::MAX)), (3, Value::Float(-0.0))]);
    rig.flush(&users(), vec![at(user("lili"), 1, fields)]);

    assert_eq!(rig.ask("SELECT printf('%llu', flags) FROM users"), u64::MAX.to_string());
    let score = rig.load_one(&users(), &user("lili")).fields.value(FieldRef::Id(FieldId(3)));
    assert_eq!(score.unwrap(), Value::Float(0.0));
}

#[test]
fn the_file_is_a_write_ahead_log_of_strict_tables() {
    let rig = Rig::sqlite(|_| {});
    rig.create(&users());

    assert_eq!(rig.ask("PRAGMA journal_mode"), "wal");
    assert_eq!(rig.ask("SELECT strict FROM pragma_table_list('users')"), "1");
}

#[test]
fn records_49_a_row_that_does_not_fit_is_set_aside_and_the_others_are_read() {
    let rig = Rig::sqlite(|_| {});
    // Not ours, so not strict: SQLite takes anything anywhere.
    rig.sql(
        "CREATE TABLE users (__key__ BLOB PRIMARY KEY, __version__ INTEGER, __position__ INTEGER, age INTEGER, \
         flags INTEGER, score REAL, name TEXT, photo BLOB); \
         INSERT INTO users VALUES (x'61', 1, 0, 'old', 1, 0.5, 'a', x''), (x'62', 1, 0, 7, 1, 0.5, 'b', x''), \
         (x'63', 1, 0, 7, 1, 0.5, CAST(x'ff' AS TEXT), x''), (x'64', 0, 0, 7, 1, 0.5, 'd', x''), \
         (x'65', 'x', 0, 7, 1, 0.5, 'e', x''), (x'66', -9223372036854775808, 0, 7, 1, 0.5, 'f', x''), \
         (x'67', 1, 0, 7, 1, x'00', 'g', x'')",
    );

    let found = rig.load(&users(), &["a", "b", "c", "d", "e", "f", "g", "h"].map(user));

    let read: Vec<_> = found.rows.iter().map(|loaded| (loaded.row.clone(), loaded.version.0)).collect();
    assert_eq!(read, [(user("b"), 1), (user("h"), 0)]);
    let said: Vec<&str> = found.quarantined.iter().map(|row| row.message.as_str()).collect();
    let expected = [
        "column age: Text where int64 is needed",
        "column name: text that is not UTF-8",
        "the version is 0, which means that there is no row",
        "the version is Text",
        "the version -9223372036854775808 leaves no room for a next one",
        "column score: Blob where float64 is needed",
    ];
    assert_eq!(said, expected);
    assert_eq!(rig.handle.status().rows_quarantined, 6);
}

#[test]
fn records_50_null_is_read_as_the_default_and_counted() {
    let rig = Rig::sqlite(|_| {});
    rig.sql(
        "CREATE TABLE users (__key__ BLOB PRIMARY KEY, __version__ INTEGER, __position__ INTEGER, age INTEGER, \
         flags INTEGER, score REAL, name TEXT, photo BLOB); \
         INSERT INTO users VALUES (x'61', 4, 0, 7, NULL, NULL, 'nobody', x'ff')",
    );

    let found = rig.load(&users(), &[user("a")]);

    assert_eq!(found.rows[0].fields, aged(7));
    assert_eq!((found.nulls, rig.handle.status().nulls), (2, 2));
}

#[test]
fn a_version_beyond_reason_concerns_one_row() {
    let rig = Rig::sqlite(|_| {});
    rig.create(&users());
    rig.flush(&users(), vec![at(user("a"), 1, aged(1)), at(user("b"), 1, aged(1))]);
    rig.sql("UPDATE users SET __version__ = -9223372036854775808 WHERE __key__ = x'61'");

    let results = rig.flush(&users(), vec![at(user("a"), 2, aged(2)), at(user("b"), 2, aged(2))]);

    assert!(matches!(&results[..], [FlushResult::Refused(_), FlushResult::Written]), "{results:?}");
}

#[test]
fn a_trigger_that_swallows_rows_is_not_believed() {
    let rig = Rig::sqlite(|_| {});
    rig.create(&users());
    rig.sql("CREATE TRIGGER swallow BEFORE INSERT ON users BEGIN SELECT RAISE(IGNORE); END");

    let results = rig.flush(&users(), vec![at(user("a"), 1, aged(1))]);

    assert!(matches!(&results[..], [FlushResult::Refused(message)] if message.contains("trigger")), "{results:?}");
}

/// reliability F19, I52.
#[test]
fn write_back_112_a_lock_held_by_another_is_retryable_and_passes() {
    let rig = Rig::sqlite(|options| options.busy_timeout = Duration::from_millis(20));
    rig.create(&users());
    let blocker = rig.direct();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();

    let error = failure(rig.try_flush(&users(), vec![at(user("lili"), 1, aged(1))]));
    let is_connected = rig.handle.status().connected;
    blocker.execute_batch("ROLLBACK").unwrap();

    assert_eq!(error.class, Class::Retryable, "{error}");
    assert!(!is_connected);
    assert_eq!(rig.flush(&users(), vec![at(user("lili"), 1, aged(1))]), [FlushResult::Written]);
    assert!(rig.handle.status().connected);
}

#[test]
fn a_lock_held_briefly_is_waited_for() {
    let rig = Rig::sqlite(|_| {});
    rig.create(&users());
    let blocker = rig.direct();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (sender, released) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            sender.send(()).unwrap();
            blocker.execute_batch("ROLLBACK").unwrap();
        });

        assert_eq!(rig.flush(&users(), vec![at(user("lili"), 1, aged(1))]), [FlushResult::Written]);
        assert!(released.try_recv().is_ok(), "the write came after the lock was let go");
    });
}

#[test]
fn a_wrong_path_is_told_at_once() {
    let rig = Rig::sqlite(|_| {});
    let folder = path(&rig).parent().unwrap();

    let missing = try_start(Url::Sqlite(folder.join("no/such/rows.db"))).unwrap_err();
    let not_a_file = try_start(Url::Sqlite(folder.into())).unwrap_err();

    for error in [missing, not_a_file] {
        assert_eq!(error.class, Class::Retryable);
        assert!(error.message.starts_with("SQLite file "), "{error}");
    }
}

#[test]
fn write_back_112_a_file_that_is_no_database_is_fatal() {
    let rig = Rig::sqlite(|_| {});
    let other = path(&rig).with_file_name("notes.txt");
    fs::write(&other, "dear diary, ".repeat(1_000)).unwrap();

    let error = try_start(Url::Sqlite(other.clone())).unwrap_err();

    assert_eq!(error.class, Class::Fatal, "{error}");
    assert!(fs::read_to_string(other).unwrap().starts_with("dear diary"));
}

#[test]
fn a_reader_sees_what_was_just_confirmed() {
    let rig = Rig::sqlite(|_| {});
    rig.create(&users());
    for version in 1..50 {
        rig.flush(&users(), vec![at(user("lili"), version, aged(version))]);

        assert_eq!(rig.load_one(&users(), &user("lili")).version, Version(version));
    }
}

#[test]
fn a_deleted_file_takes_no_writes_until_it_is_back() {
    let rig = Rig::sqlite(|_| {});
    rig.create(&users());
    rig.flush(&users(), vec![at(user("lili"), 1, aged(1))]);
    let (file, elsewhere) = (path(&rig), path(&rig).with_file_name("elsewhere.db"));
    rig.direct().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    fs::rename(file, &elsewhere).unwrap();

    let flushed = failure(rig.try_flush(&users(), vec![at(user("lili"), 2, aged(2))]));
    let loaded = failure(rig.try_load(&users(), vec![user("lili")]));
    let is_made_anew = file.exists();
    fs::rename(&elsewhere, file).unwrap();

    for error in [flushed, loaded] {
        assert_eq!(error.class, Class::Retryable, "{error}");
        assert!(error.message.contains("restore it"), "{error}");
    }
    assert!(!is_made_anew, "an empty database in its place would look like lost rows");
    assert_eq!(rig.load_one(&users(), &user("lili")).version, Version(1));
    assert_eq!(rig.flush(&users(), vec![at(user("lili"), 2, aged(2))]), [FlushResult::Written]);
}

/// A node that leads nothing asks nothing of SQL, and says all the same when it is there again.
#[test]
fn what_nobody_asks_is_found_to_be_back() {
    let rig = Rig::sqlite(|options| options.recheck = Duration::from_millis(5));
    rig.create(&users());
    rig.direct().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let away = path(&rig).with_extension("away");
    fs::rename(path(&rig), &away).unwrap();
    let error = failure(rig.try_load(&users(), vec![user("lili")]));
    assert!(!rig.handle.status().connected, "{error}");

    fs::rename(&away, path(&rig)).unwrap();

    while !rig.handle.status().connected {
        std::thread::yield_now();
    }
}

#[test]
fn names_that_differ_in_case_are_one_table_in_sql() {
    let rig = Rig::sqlite(|_| {});
    rig.create(&users());
    let other = Arc::new(Table { name: "Users".into(), ..(*users()).clone() });

    let created = rig.change(&other, Change::Create);

    assert!(definition_error(&created).contains("differ only in case"), "{created:?}");
    let dropped = rig.change(&other, Change::Drop);
    assert!(definition_error(&dropped).contains("differ only in case"), "{dropped:?}");
    assert_eq!(drift(&rig, &users()), []);
}
