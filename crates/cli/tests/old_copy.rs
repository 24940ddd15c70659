//! A data directory that was put back from an old copy, or that is not the one a database belongs to: nothing in SQL is
//! overwritten, and the operator is told.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::path::Path;
use std::process::Command;

use serde_json::Value as Json;
use shardine_testkit::sql_server::{Database, Kind, Shared, SqlServer, Sync};
use shardine_testkit::{Client, Dir, Options, PATIENCE, Reply, Shardine, Sql, wait_for};

/// A database behind the node, which is not in its data directory.
enum Behind {
    File(Dir),
    Server { database: Database, _shared: Option<Shared> },
}

impl Behind {
    fn each() -> impl Iterator<Item = Behind> {
        let makers: [fn() -> Behind; 3] =
            [|| Behind::File(Dir::new().unwrap()), || Behind::shared(Kind::Postgres), || Behind::shared(Kind::MariaDb)];
        makers.into_iter().map(|make| make())
    }

    fn shared(kind: Kind) -> Behind {
        let shared = Shared::database(kind).unwrap();
        Behind::Server { database: shared.database.clone(), _shared: Some(shared) }
    }

    fn url(&self) -> String {
        match self {
            Behind::File(dir) => format!("sqlite:{}", dir.join("rows.db").display()),
            Behind::Server { database, .. } => database.url(),
        }
    }

    /// Version and age of every row, by key.
    fn rows(&self) -> String {
        let ask = |key: &str| format!("SELECT {key}, __version__, age FROM users ORDER BY 1");
        match self {
            Behind::File(dir) => {
                let statement = ask("CAST(__key__ AS TEXT)");
                let sqlite = Command::new("sqlite3").arg("-tabs").arg(dir.join("rows.db")).arg(statement).output();
                String::from_utf8(sqlite.unwrap().stdout).unwrap()
            }
            Behind::Server { database, .. } => match database.kind {
                Kind::Postgres => database.sql(&ask("convert_from(__key__, 'UTF8')")).unwrap(),
                Kind::MariaDb => database.sql(&ask("__key__")).unwrap(),
            },
        }
    }
}

fn options(url: String, more: &[&str]) -> Options {
    let args = ["--shards", "3", "--lanes", "2"].iter().chain(more).map(ToString::to_string).collect();
    Options { sql: Sql::Url(url), binary: Some(env!("CARGO_BIN_EXE_shardine").into()), args, ..Options::default() }
}

fn start(url: String) -> Shardine {
    let server = Shardine::start_with(options(url, &[])).unwrap();
    for table in ["users", "posts"] {
        let made = server.command(&["table", "create", table, "--field", "age:int64"]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    server
}

fn set(client: &mut Client, table: &str, age: i64) {
    for key in ["a", "b", "c", "d", "e", "f"] {
        let reply = client.call(&["HSET", &format!("{table}:{key}"), "age", &age.to_string()]).unwrap();
        assert!(matches!(reply, Reply::Int(_)), "{reply:?}");
    }
}

fn flush(client: &mut Client, table: &str) {
    assert_eq!(client.call(&["REC.FLUSH", table]).unwrap(), Reply::ok());
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

/// A copy of the directory as it is at one moment: the node stands still meanwhile, for a file that it renames is in nobody's list.
fn copy_of(server: &mut Shardine, to: &Path) {
    server.process().pause().unwrap();
    copy(&server.data(), to);
    server.process().resume().unwrap();
}

/// Puts a copy of the directory in its place.
fn put_back(server: &Shardine, kept: &Path) {
    std::fs::remove_dir_all(server.data()).unwrap();
    copy(kept, &server.data());
}

fn json(server: &Shardine, words: &[&str]) -> Json {
    let output = server.command(words).arg("--json").output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What `doctor` says of the table.
fn diagnosis(server: &Shardine) -> Option<String> {
    let (data, redis) = (server.data(), server.redis().address().to_string());
    let words = ["doctor", "--data", data.to_str().unwrap(), "--redis", &redis];
    let report = json(server, &words);
    let finding = report["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == "SQL ahead")?;
    Some(finding["found"].as_str().unwrap().to_owned())
}

fn table(server: &Shardine, name: &str) -> Json {
    let status = json(server, &["writeback", "status"]);
    status["tables"].as_array().unwrap().iter().find(|table| table["table"] == name).unwrap().clone()
}

/// What the operator is told about `users`, and that nothing of it is written while `posts` is.
fn is_told_and_nothing_is_written(server: &Shardine, behind: &Behind, rows: &str) {
    let mut client = server.client().unwrap();
    set(&mut client, "users", 6);
    set(&mut client, "posts", 6);
    flush(&mut client, "posts");
    wait_for("a try to write users", PATIENCE, || Ok(table(server, "users")["last_error"].is_string().then_some(())))
        .unwrap();

    assert_eq!(behind.rows(), rows, "nothing was overwritten");
    let (users, posts) = (table(server, "users"), table(server, "posts"));
    assert!(users["ahead"].as_str().unwrap().contains("SQL is ahead of this node"), "{users}");
    assert!(users["last_error"].as_str().unwrap().contains("SQL is ahead of this node"), "{users}");
    assert_eq!((&posts["ahead"], &posts["dirty_rows"]), (&Json::Null, &0.into()), "{posts}");
    assert_eq!(json(server, &["status"])["writeback"]["tables_ahead"], Json::from(vec!["users"]));
}

/// Copied while it ran, so that the directory knows of no later start.
#[test]
fn write_back_135_an_old_copy_overwrites_nothing_in_sql() {
    for behind in Behind::each() {
        let mut server = start(behind.url());
        let mut client = server.client().unwrap();
        set(&mut client, "users", 1);
        set(&mut client, "posts", 1);
        flush(&mut client, "users");
        flush(&mut client, "posts");
        let safe = Dir::new().unwrap();
        copy_of(&mut server, &safe.join("copy"));
        for age in 2..=5 {
            set(&mut client, "users", age);
        }
        flush(&mut client, "users");
        server.kill9().unwrap();
        let rows = behind.rows();
        assert!(rows.contains("a\t5\t5"), "{rows}");

        put_back(&server, &safe.join("copy"));
        server.start_again().unwrap();
        server.wait_until_serving().unwrap();

        let told = diagnosis(&server).expect("doctor has found it");
        assert!(told.contains("SQL holds a newer version of 6 of 6 rows compared: users:"), "{told}");
        assert!(told.contains("(SQL 5, memory 1)"), "{told}");
        is_told_and_nothing_is_written(&server, &behind, &rows);

        // Its log grows past what SQL has seen, and it is an old copy all the same.
        for _ in 0..2 {
            server.kill9().unwrap();
            server.restart().unwrap();
            is_told_and_nothing_is_written(&server, &behind, &rows);
        }
    }
}

/// The start that finds out is not the first one: SQL was down at that.
#[test]
fn write_back_135_an_old_copy_that_was_started_without_sql_overwrites_nothing_when_it_is_back() {
    let mut sql = SqlServer::start(Kind::Postgres, Sync::Off, &[]).unwrap();
    let behind = Behind::Server { database: sql.database().unwrap(), _shared: None };
    let mut server = start(behind.url());
    let mut client = server.client().unwrap();
    set(&mut client, "users", 1);
    flush(&mut client, "users");
    let safe = Dir::new().unwrap();
    copy_of(&mut server, &safe.join("copy"));
    set(&mut client, "users", 5);
    flush(&mut client, "users");
    server.kill9().unwrap();
    let rows = behind.rows();
    sql.stop().unwrap();
    put_back(&server, &safe.join("copy"));
    server.restart().unwrap();
    let mut client = server.client().unwrap();
    for age in 10..20 {
        set(&mut client, "users", age);
    }
    server.kill9().unwrap();

    server.restart().unwrap();
    sql.start_again().unwrap();

    is_told_and_nothing_is_written(&server, &behind, &rows);
}

/// What a start that fails says.
fn refusal(server: &mut Shardine) -> String {
    server.start_again().unwrap();
    let status = server.process().wait(PATIENCE).unwrap();
    assert!(!status.success(), "it has started");
    server.process().output()
}

#[test]
fn write_back_133_an_empty_directory_does_not_begin_over_the_database_of_another_cluster() {
    for behind in Behind::each() {
        let mut first = start(behind.url());
        let mut client = first.client().unwrap();
        set(&mut client, "users", 5);
        flush(&mut client, "users");
        first.kill9().unwrap();
        let rows = behind.rows();

        let refused = Shardine::start_with(options(behind.url(), &[])).err().expect("it is refused").to_string();

        assert!(refused.contains("the SQL database belongs to cluster"), "{refused}");
        assert!(refused.contains("--adopt-sql"), "{refused}");
        assert_eq!(behind.rows(), rows);

        // The first one is gone for good: docs/damage.md, step 5.
        let second = Shardine::start_with(options(behind.url(), &["--adopt-sql"])).unwrap();
        let made = second.command(&["table", "create", "users", "--field", "age:int64"]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut client = second.client().unwrap();
        assert_eq!(client.call(&["HGET", "users:a", "age"]).unwrap(), Reply::bulk("5"));
        set(&mut client, "users", 6);
        flush(&mut client, "users");
        assert!(behind.rows().contains("a\t2\t6"), "{}", behind.rows());
        let back = refusal(&mut first);
        assert!(back.contains("the SQL database belongs to cluster"), "{back}");
    }
}
