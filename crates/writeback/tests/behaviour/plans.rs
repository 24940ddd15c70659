//! Schemas of applications as many have them, looked at and planned on every database. The files are written anew with
//! `UPDATE_SCRIPTS=1`; whoever does that reads what has changed.

use std::path::{Path, PathBuf};

use shardine_testkit::apps::{self, Words};
use shardine_testkit::sql_server::Kind;
use shardine_writeback::{PlanOptions, Survey, plan};

use crate::rig::Rig;

/// An application's tables, in this rig's words.
fn make(rig: &Rig, app: &str) {
    let words = match rig.say("sqlite", "postgres", "mariadb") {
        "sqlite" => Words::Sqlite,
        "postgres" => Words::Postgres,
        _ => Words::MariaDb,
    };
    apps::schema(app, words).iter().for_each(|statement| rig.sql(statement));
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/apps")
}

fn plan_of(app: &str) {
    for rig in Rig::each() {
        make(&rig, app);
        let before = Survey::of(&rig.url).unwrap();

        let told = format!("{}\n", plan(&before, &PlanOptions::default()));

        assert_eq!(Survey::of(&rig.url).unwrap(), before, "nothing is changed by looking");
        let path = folder().join(format!("{app}.{}.plan", rig.say("sqlite", "postgres", "mariadb")));
        if std::env::var_os("UPDATE_SCRIPTS").is_some() {
            std::fs::write(&path, &told).unwrap();
        }
        assert_eq!(told, std::fs::read_to_string(&path).unwrap_or_default(), "{}", path.display());
    }
}

#[test]
fn the_tables_of_a_shop() {
    plan_of("shop");
}

#[test]
fn the_tables_of_an_issue_tracker() {
    plan_of("tracker");
}

#[test]
fn the_tables_of_a_content_management_system() {
    plan_of("cms");
}

/// What a file of SQLite's is opened for reading only by, since the journal of one that is opened for writing is changed.
#[test]
fn looking_at_a_file_leaves_its_bytes() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("theirs.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        .unwrap();
    let before = std::fs::read(&path).unwrap();

    let survey = Survey::of(&format!("sqlite:{}", path.display()).parse().unwrap()).unwrap();

    assert_eq!(survey.tables.len(), 1);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn what_postgresql_has_besides_is_told() {
    let rig = Rig::server(Kind::Postgres, |_| {});
    rig.sql("CREATE DOMAIN positive AS bigint CHECK (value > 0)");
    rig.sql("CREATE TABLE accounts (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, rev BIGINT NOT NULL DEFAULT 1, amount positive NOT NULL, tags TEXT[])");
    rig.sql("ALTER TABLE accounts ENABLE ROW LEVEL SECURITY");
    rig.sql(
        "CREATE TABLE events (id BIGINT PRIMARY KEY, rev BIGINT NOT NULL DEFAULT 1, n INT) PARTITION BY RANGE (id)",
    );
    rig.sql("CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (1000)");

    let told = plan(&Survey::of(&rig.url).unwrap(), &PlanOptions::default()).to_string();

    for part in [
        "row-level security",
        "GENERATED ALWAYS",
        "tags (text[]) is left out: arrays",
        "--field amount:int64",
        "it is a part of events",
        "it is partitioned",
    ] {
        assert!(told.contains(part), "no {part} in {told}");
    }
}
