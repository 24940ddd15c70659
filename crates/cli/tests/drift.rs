//! An SQL table that was changed while Shardine was away.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use shardine_testkit::sql_server::{Kind, Shared};
use shardine_testkit::{Client, Options, PATIENCE, Reply, Shardine, Sql, wait_for};

fn call(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&str> = line.split(' ').collect();
    client.call(&words).unwrap()
}

/// write-back 112: it is told at start, with what to do about it. Until that is done memory is served and keeps what
/// SQL cannot take.
/// reliability F20, I54.
#[test]
fn write_back_112_a_changed_table_is_told_at_start_with_its_remedy() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let shared = Shared::database(kind).unwrap();
        let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
        let options = Options { sql: Sql::Url(shared.database.url()), binary, ..Options::default() };
        let mut server = Shardine::start_with(options).unwrap();
        let words = ["table", "create", "users", "--field", "age:int64", "--field", "city:string"];
        assert!(server.command(&words).output().unwrap().status.success());
        assert_eq!(call(&mut server.client().unwrap(), "HSET users:lili age 1 city Rome"), Reply::Int(2));
        server.stop().unwrap();
        shared.database.sql("ALTER TABLE users DROP COLUMN city").unwrap();

        server.restart().unwrap();
        let told = server.process().wait_for_line("SQL and the definition do not agree", PATIENCE).unwrap();
        let mut client = server.client().unwrap();
        assert_eq!(call(&mut client, "HSET users:lili age 2"), Reply::Int(0));
        assert_eq!(call(&mut client, "HGET users:lili city"), Reply::bulk("Rome"));

        assert!(told.contains("table users has no column city: add it with "), "{told}");
        let (_, remedy) = told.split_once("add it with ").unwrap();
        // Behind it stands the name of the table, coloured or not.
        let remedy = remedy.split('\u{1b}').next().unwrap().trim_end_matches(" table=\"users\"");
        shared.database.sql(remedy).unwrap_or_else(|error| panic!("{remedy}: {error}"));
        let look = || Ok((shared.database.sql("SELECT age, city FROM users")? == "2\tRome\n").then_some(()));
        wait_for("the row in SQL", PATIENCE, look).unwrap();
    }
}

/// Starts, makes the table, stops, lets somebody change SQL meanwhile, starts again, and gives what the node says of it.
fn told_after(sql: Sql, table: &str, meanwhile: impl FnOnce(&Shardine)) -> String {
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    let mut server = Shardine::start_with(Options { sql, binary, ..Options::default() }).unwrap();
    let words: Vec<&str> = table.split(' ').collect();
    let made = server.command(&words).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    server.stop().unwrap();
    meanwhile(&server);
    server.restart().unwrap();
    server.process().wait_for_line("SQL and the definition do not agree", PATIENCE).unwrap()
}

/// The words between backquotes: what to type.
fn remedy(told: &str) -> Vec<String> {
    let typed = told.split('`').nth(1).unwrap_or_else(|| panic!("nothing to type in {told}"));
    typed.strip_prefix("shardine ").unwrap().split(' ').map(str::to_owned).collect()
}

fn sqlite(server: &Shardine, statement: &str) -> String {
    let output = std::process::Command::new("sqlite3").arg(server.sqlite_path()).arg(statement).output().unwrap();
    assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn start_with_users() -> Shardine {
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    let server = Shardine::start_with(Options { sql: Sql::Sqlite, binary, ..Options::default() }).unwrap();
    run(&server, &["table", "create", "users", "--field", "age:int64", "--field", "city:string=Rome"]);
    let mut client = server.client().unwrap();
    assert_eq!(call(&mut client, "HSET users:lili age 1"), Reply::Int(1));
    assert_eq!(call(&mut client, "REC.FLUSH users"), Reply::ok());
    server
}

fn run(server: &Shardine, words: &[&str]) {
    let output = server.command(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What `writeback status` says of the table, once it says something.
fn last_error(server: &Shardine) -> String {
    let look = || {
        let output = server.command(&["writeback", "status", "--json"]).output()?;
        let status: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        Ok(status["tables"][0]["last_error"].as_str().map(str::to_owned))
    };
    wait_for("an error of the table", PATIENCE, look).unwrap()
}

/// Told while it runs, told at start, and what is told to do about it works.
#[test]
fn write_back_112_a_table_that_is_gone_is_told_and_can_be_made_again() {
    let mut server = start_with_users();
    sqlite(&server, "DROP TABLE users");
    assert_eq!(call(&mut server.client().unwrap(), "HSET users:lili age 2"), Reply::Int(0));
    let told = last_error(&server);
    assert!(told.contains("SQL has no table users"), "{told}");
    server.kill9().unwrap();
    server.restart().unwrap();
    let at_start = server.process().wait_for_line("SQL and the definition do not agree", PATIENCE).unwrap();
    assert_eq!(remedy(&at_start), remedy(&told));
    let words = remedy(&told);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();

    run(&server, &words);

    let look = || Ok((sqlite(&server, "SELECT age, city FROM users") == "2|Rome\n").then_some(()));
    wait_for("the row in SQL", PATIENCE, look).unwrap();
    let again = server.command(&words).output().unwrap();
    let complaint = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(complaint.contains("there is a table users already"), "nothing is missing any more: {complaint}");
}

/// The same for the whole file: put back, it goes on by itself; else a restart and the tables again.
#[test]
fn write_back_112_a_file_that_is_gone_is_told_and_can_be_made_again() {
    let mut server = start_with_users();
    std::fs::remove_file(server.sqlite_path()).unwrap();
    assert_eq!(call(&mut server.client().unwrap(), "HSET users:lili age 2"), Reply::Int(0));
    let told = last_error(&server);
    assert!(told.contains("restore it; or restart, which makes an empty one"), "{told}");

    for side in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{side}", server.sqlite_path().display()));
    }
    server.kill9().unwrap();
    server.restart().unwrap();
    let words = remedy(&told);
    let words: Vec<&str> = words.iter().map(|word| if word == "NAME" { "users" } else { word }).collect();
    run(&server, &words);

    let look = || Ok((sqlite(&server, "SELECT age, city FROM users") == "2|Rome\n").then_some(()));
    wait_for("the row in SQL", PATIENCE, look).unwrap();
}

#[test]
fn write_back_112_a_key_that_lost_its_order_is_told_at_start() {
    let shared = Shared::database(Kind::MariaDb).unwrap();
    shared
        .database
        .sql("CREATE TABLE crm (id VARCHAR(40) COLLATE utf8mb4_bin PRIMARY KEY, age BIGINT NOT NULL)")
        .unwrap();

    let map = "table create users --field age:int64 --map crm --map-key id";
    let told = told_after(Sql::Url(shared.database.url()), map, |_| {
        shared.database.sql("ALTER TABLE crm MODIFY id VARCHAR(40) COLLATE utf8mb4_general_ci").unwrap();
    });

    assert!(told.contains("compares texts by utf8mb4_general_ci"), "{told}");
}

#[test]
fn write_back_112_a_table_whose_name_changed_its_case_is_told_at_start() {
    let told = told_after(Sql::Sqlite, "table create users --field age:int64", |server| {
        let rename = "ALTER TABLE users RENAME TO other; ALTER TABLE other RENAME TO Users";
        let done = std::process::Command::new("sqlite3").arg(server.sqlite_path()).arg(rename).status().unwrap();
        assert!(done.success());
    });

    assert!(told.contains("SQL calls the table Users"), "{told}");
}
