//! Changes that are answered when SQL has them, and waiting for SQL later, as a user sees them.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::time::{Duration, Instant};

use shardine_testkit::sql_server::{Database, Kind, SqlServer, Sync};
use shardine_testkit::{Client, Options, Reply, Shardine, Sql};

fn start(database: &Database) -> Shardine {
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    let server = Shardine::start_with(Options { sql: Sql::Url(database.url()), binary, ..Options::default() }).unwrap();
    let tables = [["users", "through"], ["notes", "behind"]];
    for [table, mode] in tables {
        let words = ["table", "create", table, "--field", "age:int64", "--write", mode, "--write-delay", "60000"];
        let made = server.command(&words).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    server
}

fn call(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&str> = line.split(' ').collect();
    client.call(&words).unwrap()
}

fn ints(numbers: &[i64]) -> Vec<Reply> {
    numbers.iter().map(|number| Reply::Int(*number)).collect()
}

/// write-back 108: when a change of a table that is written through is answered, SQL has it, whatever the delay. One
/// that says `raft` does not wait.
#[test]
fn write_back_108_a_table_is_written_through() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let sql = SqlServer::start(kind, Sync::Off, &[]).unwrap();
        let database = sql.database().unwrap();
        let server = start(&database);
        let mut client = server.client().unwrap();
        let look = "SELECT __version__, age FROM users";

        assert_eq!(call(&mut client, "HSET users:lili age 10"), Reply::Int(1));
        assert_eq!(database.sql(look).unwrap(), "1\t10\n");
        assert_eq!(call(&mut client, "HINCRBY users:lili age 5"), Reply::Int(15));
        assert_eq!(database.sql(look).unwrap(), "2\t15\n");
        assert_eq!(call(&mut client, "REC.SET users:lili age 20 ACK raft"), Reply::Array(ints(&[3, 2])));
        assert_eq!(database.sql(look).unwrap(), "2\t15\n");
        assert_eq!(call(&mut client, "DEL users:lili"), Reply::Int(1));
        assert_eq!(database.sql(look).unwrap(), "-4\t0\n");
    }
}

/// records 32, write-back 108: SQL does not answer: the change is made, and told within the deadline with SQL's version
/// behind.
#[test]
fn write_back_108_without_sql_the_change_is_told_as_pending() {
    let sql = SqlServer::start(Kind::Postgres, Sync::Off, &[]).unwrap();
    let server = start(&sql.database().unwrap());
    let mut client = server.client().unwrap();
    assert_eq!(call(&mut client, "HSET users:lili age 10"), Reply::Int(1));
    sql.pause().unwrap();

    let began = Instant::now();
    let words = ["set", "users:lili", "age=11", "--timeout", "2", "--json"];
    let told = server.command(&words).output().unwrap();
    let took = began.elapsed();
    let late = call(&mut client, "REC.SET users:lili age 12 ACK sql");

    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!((&told["version"], &told["sql_version"]), (&2.into(), &1.into()));
    assert!(took > Duration::from_secs(1) && took < Duration::from_secs(10), "{took:?}");
    let pending = [ints(&[3, 1]), vec![Reply::bulk("pending")]].concat();
    assert_eq!(late, Reply::Array(pending));
    sql.resume().unwrap();
    assert_eq!(call(&mut client, "REC.FLUSH users:lili VERSION 3"), Reply::ok());
}

/// records 32: the version of a reply is a token, on any connection.
#[test]
fn records_32_a_token_waits_for_its_version() {
    let sql = SqlServer::start(Kind::Postgres, Sync::Off, &[]).unwrap();
    let database = sql.database().unwrap();
    let server = start(&database);
    let (mut writer, mut waiter) = (server.client().unwrap(), server.client().unwrap());
    assert_eq!(call(&mut writer, "REC.SET notes:1 age 7"), Reply::Array(ints(&[1, 0])));
    assert_eq!(database.sql("SELECT count(*) FROM notes").unwrap(), "0\n");

    assert_eq!(call(&mut waiter, "REC.FLUSH notes:1 VERSION 1"), Reply::ok());
    assert_eq!(database.sql("SELECT __version__, age FROM notes").unwrap(), "1\t7\n");

    call(&mut writer, "REC.SET notes:1 age 8");
    assert_eq!(call(&mut waiter, "REC.FLUSH notes:1 VERSION 1"), Reply::ok());
    assert_eq!(database.sql("SELECT age FROM notes").unwrap(), "7\n", "a newer version is not his concern");
    let unheard = call(&mut waiter, "REC.FLUSH notes:1 VERSION 9");
    assert!(matches!(&unheard, Reply::Error(text) if text.contains("version_mismatch")), "{unheard:?}");
    sql.pause().unwrap();
    let late = call(&mut waiter, "REC.FLUSH notes:1 VERSION 2 TIMEOUT 300");
    assert!(matches!(&late, Reply::Error(text) if text.contains("expired")), "{late:?}");
    sql.resume().unwrap();
}
