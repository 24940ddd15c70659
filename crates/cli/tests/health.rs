//! Whether a node is well, as a person, a balancer and a scraper are told.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value as Json;
use shardine_testkit::sql_server::{Kind, SqlServer, Sync};
use shardine_testkit::{Options, PATIENCE, Reply, Shardine, Sql, wait_for};

fn start(sql: Sql) -> Shardine {
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    Shardine::start_with(Options { sql, binary, ..Options::default() }).unwrap()
}

fn run(server: &Shardine, words: &[&str]) -> String {
    let output = server.command(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn get(server: &Shardine, path: &str) -> String {
    let address = server.http().address();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_node_without_its_sql_is_not_called_healthy() {
    let mut postgres = SqlServer::start(Kind::Postgres, Sync::Off, &[]).unwrap();
    let server = start(Sql::Url(postgres.database().unwrap().url()));
    run(&server, &["table", "create", "users", "--field", "age:int64"]);
    assert!(run(&server, &["status"]).contains("HEALTHY"));
    assert!(get(&server, "/readyz").ends_with("\r\nready\n"));

    postgres.kill9().unwrap();
    server.client().unwrap().call(&["HSET", "users:lili", "age", "10"]).unwrap();
    let status = || -> Json { serde_json::from_str(&run(&server, &["status", "--json"])).unwrap() };
    wait_for("SQL to be missed", PATIENCE, || Ok((status()["health"] == "DEGRADED").then_some(()))).unwrap();

    let text = run(&server, &["status"]);
    assert!(text.contains("DEGRADED") && text.contains("! SQL cannot be reached"), "{text}");
    let ready = get(&server, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 200") && ready.contains("degraded: SQL cannot be reached"), "{ready}");
    assert!(get(&server, "/metrics").contains("\nshardine_healthy 0\n"));
}

/// The database answers, but what it is asked for is not there any more.
#[test]
fn a_table_that_sql_has_lost_is_told_until_it_is_back() {
    let postgres = SqlServer::start(Kind::Postgres, Sync::Off, &[]).unwrap();
    let database = postgres.database().unwrap();
    let sqlite = |server: &Shardine, statement: &str| {
        let asked = std::process::Command::new("sqlite3").arg(server.sqlite_path()).arg(statement).output().unwrap();
        assert!(asked.status.success(), "{asked:?}");
    };
    for sql in [Sql::Sqlite, Sql::Url(database.url())] {
        let is_sqlite = matches!(sql, Sql::Sqlite);
        let server = start(sql);
        let mut client = server.client().unwrap();
        run(&server, &["table", "create", "users", "--field", "age:int64"]);
        client.call(&["HSET", "users:lili", "age", "10"]).unwrap();
        run(&server, &["flush", "users"]);
        match is_sqlite {
            true => sqlite(&server, "DROP TABLE users"),
            false => drop(database.sql("DROP TABLE users").unwrap()),
        }

        client.call(&["HSET", "users:lili", "age", "11"]).unwrap();

        let tells = |what: &'static str| move |text: String| Ok(text.contains(what).then_some(()));
        let status = || run(&server, &["status"]);
        wait_for("the table to be missed", PATIENCE, || tells("! 1 rows of table users wait for SQL")(status()))
            .unwrap();
        assert!(status().contains("DEGRADED"));
        let ready = get(&server, "/readyz");
        assert!(ready.starts_with("HTTP/1.1 200") && ready.contains("degraded: 1 rows of table users"), "{ready}");
        assert!(get(&server, "/metrics").contains("\nshardine_healthy 0\n"));

        run(&server, &["table", "create", "users"]);
        wait_for("the row to be in SQL", PATIENCE, || tells("HEALTHY")(status())).unwrap();
    }
}

/// SQL that refuses a row is nothing that passes by itself.
#[test]
fn dead_letters_are_told() {
    let server = start(Sql::Sqlite);
    run(&server, &["table", "create", "users", "--field", "age:int64"]);
    let limit =
        "create trigger old before insert on users when new.age > 100 begin select raise(abort, 'too old'); end";
    let made = std::process::Command::new("sqlite3").arg(server.sqlite_path()).arg(limit).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    server.client().unwrap().call(&["HSET", "users:lili", "age", "101"]).unwrap();

    wait_for("a dead letter", PATIENCE, || Ok(run(&server, &["status"]).contains("dead letters").then_some(())))
        .unwrap();

    assert!(run(&server, &["status"]).contains("DEGRADED"));
}

/// Every door and the log have been used, and each has something to tell.
#[test]
fn measures_move_with_the_work() {
    let server = start(Sql::Sqlite);
    let mut client = server.client().unwrap();
    run(&server, &["table", "create", "users", "--field", "age:int64"]);
    assert_eq!(client.call(&["HSET", "users:lili", "age", "10"]).unwrap(), Reply::Int(1));
    // Nothing of the row is on its way any more: a read that waits for something is no read from memory.
    run(&server, &["flush", "users"]);
    assert_eq!(client.call(&["HGET", "users:lili", "age"]).unwrap(), Reply::bulk("10"));
    assert_eq!(client.call(&["HGET", "users:nobody", "age"]).unwrap(), Reply::Nil);
    run(&server, &["kick", "users:lili"]);
    get(&server, "/v1/tables/nowhere");

    let text = get(&server, "/metrics");
    let value = |line: &str| -> f64 {
        let found = text.lines().find_map(|it| it.strip_prefix(line)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("no {line} in\n{text}")).parse().unwrap()
    };
    for line in [
        "shardine_request_duration_seconds_count{door=\"redis\",kind=\"read\"}",
        "shardine_request_duration_seconds_count{door=\"redis\",kind=\"write\"}",
        "shardine_request_duration_seconds_count{door=\"grpc\",kind=\"write\"}",
        "shardine_request_duration_seconds_count{door=\"http\",kind=\"read\"}",
        "shardine_log_sync_duration_seconds_count",
        "shardine_commit_duration_seconds_sum",
        "shardine_sql_statement_duration_seconds_count{kind=\"write\"}",
        "shardine_sql_statement_duration_seconds_count{kind=\"load\"}",
        "shardine_read_hits_total",
        "shardine_read_misses_total",
        "shardine_evictions_total{reason=\"kick\"}",
        "shardine_errors_total{door=\"http\",code=\"unknown_table\"}",
        "process_resident_memory_bytes",
        "process_open_fds",
    ] {
        assert!(value(line) > 0.0, "{line}");
    }
    assert_eq!(value("shardine_healthy"), 1.0);
    assert!(value("process_start_time_seconds") > 1.7e9);
}
