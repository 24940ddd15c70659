//! The clean end of a node: what it does with rows that SQL does not have.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::time::{Duration, Instant};

use shardine_testkit::sql_server::{Kind, SqlServer, Sync};
use shardine_testkit::{Client, Options, PATIENCE, Reply, Shardine, Sql, wait_for};

fn start(sql: Sql, args: &[&str]) -> Shardine {
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    let args = args.iter().map(ToString::to_string).collect();
    let server = Shardine::start_with(Options { sql, binary, args, ..Options::default() }).unwrap();
    let made = server.command(&["table", "create", "users", "--field", "age:int64"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    server
}

fn write(client: &mut Client, rows: usize, age: &str) {
    for row in 0..rows {
        client.send(&["HSET", &format!("users:{row}"), "age", age]).unwrap();
    }
    for _ in 0..rows {
        assert!(matches!(client.receive().unwrap(), Reply::Int(_)));
    }
}

#[test]
fn write_back_116_a_clean_stop_leaves_everything_in_sql() {
    let postgres = SqlServer::start(Kind::Postgres, Sync::Off, &[]).unwrap();
    let database = postgres.database().unwrap();
    let mut server = start(Sql::Url(database.url()), &[]);
    write(&mut server.client().unwrap(), 5_000, "7");

    server.stop().unwrap();

    assert_eq!(database.sql("SELECT count(*) FROM users WHERE age = 7").unwrap(), "5000\n");
    let told = server.process().output();
    assert!(told.contains("stopped") && !told.contains("not in SQL yet"), "{told}");
}

#[test]
fn write_back_116_a_clean_stop_says_what_sql_does_not_have_and_loses_nothing() {
    let postgres = SqlServer::start(Kind::Postgres, Sync::Off, &[]).unwrap();
    let database = postgres.database().unwrap();
    let mut server = start(Sql::Url(database.url()), &["--flush-timeout", "2"]);
    let mut client = server.client().unwrap();
    write(&mut client, 300, "1");
    assert_eq!(client.call(&["REC.FLUSH", "users"]).unwrap(), Reply::ok());
    postgres.pause().unwrap();
    write(&mut client, 300, "7");

    let began = Instant::now();
    server.stop().unwrap();

    let (took, told) = (began.elapsed(), server.process().output());
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(30), "{took:?}\n{told}");
    assert!(told.contains("300 rows of users are not in SQL yet"), "{told}");
    assert!(told.contains("0 of 300 rows written to SQL"), "tells how far it is: {told}");
    postgres.resume().unwrap();
    server.restart().unwrap();
    let there = || Ok((database.sql("SELECT count(*) FROM users WHERE age = 7")? == "300\n").then_some(()));
    wait_for("the rows in SQL", PATIENCE, there).unwrap();
}

#[test]
fn write_back_116_a_stopping_node_takes_no_more_requests() {
    let postgres = SqlServer::start(Kind::Postgres, Sync::Off, &[]).unwrap();
    let mut server = start(Sql::Url(postgres.database().unwrap().url()), &["--flush-timeout", "5"]);
    let mut client = server.client().unwrap();
    write(&mut client, 10, "1");
    assert_eq!(client.call(&["REC.FLUSH", "users"]).unwrap(), Reply::ok());
    postgres.pause().unwrap();
    write(&mut client, 10, "7");

    server.process().signal(rustix::process::Signal::TERM).unwrap();
    wait_for("the end of the connection", PATIENCE, || Ok(client.call(&["PING"]).is_err().then_some(()))).unwrap();

    assert!(server.process().is_running(), "it still waits for SQL");
    assert!(server.client().and_then(|mut client| client.ping()).is_err());
    let refused = server.command(&["status"]).output().unwrap();
    assert!(!refused.status.success());
    // A second signal means now.
    let began = Instant::now();
    server.process().signal(rustix::process::Signal::INT).unwrap();
    let status = server.process().wait(PATIENCE).unwrap();
    assert!(status.success(), "{status}");
    assert!(began.elapsed() < Duration::from_secs(20));
}
