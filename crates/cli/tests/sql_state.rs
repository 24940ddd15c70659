//! `writeback status` and `verify`: what an operator sees of the way between memory and SQL.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value as Json;
use shardine_testkit::sql_server::{Database, Kind, Shared, SqlServer, Sync};
use shardine_testkit::{Client, Options, PATIENCE, Reply, Shardine, Sql, wait_for};

fn start(database: &Database) -> Shardine {
    start_with(database, &[])
}

fn start_with(database: &Database, more: &[&str]) -> Shardine {
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    let args = ["--shards", "3", "--lanes", "2"].iter().chain(more).map(ToString::to_string).collect();
    let options = Options { sql: Sql::Url(database.url()), binary, args, ..Options::default() };
    let server = Shardine::start_with(options).unwrap();
    let made = server.command(&["table", "create", "users", "--field", "age:int64"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    server
}

fn write(client: &mut Client, rows: std::ops::Range<usize>, age: &str) {
    for row in rows.clone() {
        client.send(&["HSET", &format!("users:{row}"), "age", age]).unwrap();
    }
    for _ in rows {
        assert!(matches!(client.receive().unwrap(), Reply::Int(_)));
    }
}

fn run(server: &Shardine, words: &[&str]) -> (Output, Vec<Json>) {
    let output = server.command(words).arg("--json").output().unwrap();
    let lines = String::from_utf8(output.stdout.clone()).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output, lines)
}

#[test]
fn verify_names_every_row_that_differs() {
    for kind in [Kind::Postgres, Kind::MariaDb] {
        let shared = Shared::database(kind).unwrap();
        let server = start(&shared.database);
        let mut client = server.client().unwrap();
        write(&mut client, 0..100, "7");
        assert_eq!(client.call(&["DEL", "users:99"]).unwrap(), Reply::Int(1));
        assert_eq!(client.call(&["REC.FLUSH", "users"]).unwrap(), Reply::ok());
        assert_eq!(client.call(&["REC.KICK", "users:98"]).unwrap(), Reply::ok());
        assert_eq!(client.call(&["EXISTS", "users:nobody"]).unwrap(), Reply::Int(0));

        let (sound, lines) = run(&server, &["verify", "users", "--page", "7"]);
        assert!(sound.status.success(), "{}", String::from_utf8_lossy(&sound.stderr));
        let sums = &lines.last().unwrap()["tables"][0];
        assert_eq!((&sums["equal"], &sums["not_in_memory"], &sums["different"]), (&100.into(), &1.into(), &0.into()));

        let key = |number: usize| match kind {
            Kind::Postgres => format!("__key__ = '{number}'::bytea"),
            Kind::MariaDb => format!("__key__ = '{number}'"),
        };
        let database = &shared.database;
        database.sql(&format!("DELETE FROM users WHERE {}", key(1))).unwrap();
        database.sql(&format!("UPDATE users SET age = 8 WHERE {}", key(2))).unwrap();
        database.sql(&format!("UPDATE users SET __version__ = 5 WHERE {}", key(3))).unwrap();
        database.sql(&format!("UPDATE users SET __version__ = 1 WHERE {}", key(99))).unwrap();

        let (spoilt, lines) = run(&server, &["verify"]);
        assert_eq!(spoilt.status.code(), Some(1));
        let mut found: Vec<(String, String)> = lines[..lines.len() - 1]
            .iter()
            .map(|line| (line["row"].as_str().unwrap().into(), line["kind"].as_str().unwrap().into()))
            .collect();
        found.sort();
        let expected = [("users:1", "missing"), ("users:2", "content"), ("users:3", "newer"), ("users:99", "older")];
        assert_eq!(found, expected.map(|(row, kind)| (row.to_owned(), kind.to_owned())));
        assert_eq!(lines.last().unwrap()["tables"][0]["different"], 4);
    }
}

#[test]
fn verify_is_not_misled_by_rows_that_change() {
    let shared = Shared::database(Kind::Postgres).unwrap();
    let server = start(&shared.database);
    write(&mut server.client().unwrap(), 0..200, "1");
    let stop = AtomicBool::new(false);

    std::thread::scope(|scope| {
        let mut client = server.client().unwrap();
        let stop = &stop;
        scope.spawn(move || {
            for round in (2..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                write(&mut client, 0..100, &round.to_string());
                for row in (0..100).step_by(7) {
                    client.call(&["REC.KICK", &format!("users:{row}")]).unwrap();
                }
            }
        });
        let told: Vec<_> = (0..15).map(|_| run(&server, &["verify", "users", "--page", "20"])).collect();
        stop.store(true, Ordering::Relaxed);
        for (output, lines) in told {
            assert!(output.status.success(), "{lines:?}");
            let sums = &lines.last().unwrap()["tables"][0];
            let seen: u64 =
                ["equal", "dirty", "not_in_memory", "changing"].map(|n| sums[n].as_u64().unwrap()).iter().sum();
            assert_eq!(seen, 200, "{sums}");
        }
    });
}

/// The processes in which PostgreSQL reads for Shardine, which can be held while those that write go on.
struct Readers(Vec<String>);

impl Readers {
    fn of(database: &Database) -> Readers {
        let select = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
                      AND application_name = 'shardine' AND query LIKE 'SELECT%__key__%'";
        Readers(database.sql(select).unwrap().lines().map(str::to_owned).collect())
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").arg(signal).args(&self.0).status().unwrap().success());
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg("-CONT").args(&self.0).status();
    }
}

/// How long the processes of PostgreSQL that read for us stand still at most.
const STOPPED_MAX: Duration = Duration::from_secs(1);

/// Between a look at memory and what SQL answers the row is changed and written, at nearly every look.
#[test]
fn verify_looks_again_where_a_row_changed_while_sql_was_read() {
    let shared = Shared::database(Kind::Postgres).unwrap();
    let server = start(&shared.database);
    let mut client = server.client().unwrap();
    write(&mut client, 0..50, "1");
    // One connection has scanned, and one has loaded.
    assert_eq!(client.call(&["REC.FLUSH", "users"]).unwrap(), Reply::ok());
    assert_eq!(client.call(&["REC.KICK", "users:0"]).unwrap(), Reply::ok());
    assert_eq!(client.call(&["HGET", "users:0", "age"]).unwrap(), Reply::bulk("1"));
    assert!(run(&server, &["verify", "users"]).0.status.success());
    let readers = Readers::of(&shared.database);
    assert_eq!(readers.0.len(), 2);

    std::thread::scope(|scope| {
        let verifying = scope.spawn(|| [(); 3].map(|()| run(&server, &["verify", "users", "--page", "20"])));
        for round in (2..).take_while(|_| !verifying.is_finished()) {
            readers.signal("-STOP");
            // A process that was stopped inside PostgreSQL may hold what those that write there need: it goes on in any case.
            let (written, waits) = std::sync::mpsc::channel::<()>();
            let readers = &readers;
            let going_on = scope.spawn(move || {
                let _ = waits.recv_timeout(STOPPED_MAX);
                readers.signal("-CONT");
            });
            for age in [round * 2, round * 2 + 1] {
                write(&mut client, 0..50, &age.to_string());
                assert_eq!(client.call(&["REC.FLUSH", "users"]).unwrap(), Reply::ok());
            }
            drop(written);
            going_on.join().unwrap();
        }
        for (output, lines) in verifying.join().unwrap() {
            assert!(output.status.success(), "{lines:?} {}", String::from_utf8_lossy(&output.stderr));
            let sums = &lines.last().unwrap()["tables"][0];
            let seen = ["equal", "dirty", "changing"].map(|name| sums[name].as_u64().unwrap());
            assert_eq!(seen.iter().sum::<u64>(), 50, "{sums}");
        }
    });
}

/// reliability I55.
#[test]
fn writeback_status_says_how_far_sql_is_behind() {
    let postgres = SqlServer::start(Kind::Postgres, Sync::Off, &[]).unwrap();
    let server = start(&postgres.database().unwrap());
    let mut client = server.client().unwrap();
    write(&mut client, 0..50, "1");
    assert_eq!(client.call(&["REC.FLUSH", "users"]).unwrap(), Reply::ok());

    let (_, lines) = run(&server, &["writeback", "status"]);
    let (database, users) = (&lines[0]["database"], &lines[0]["tables"][0]);
    assert_eq!((&database["connected"], &database["dirty"]), (&true.into(), &0.into()));
    assert!(users["written_rows"].as_u64().unwrap() >= 50, "{users}");

    postgres.pause().unwrap();
    write(&mut client, 0..20, "2");
    let behind = || {
        let (_, lines) = run(&server, &["writeback", "status"]);
        let (database, users) = (&lines[0]["database"], &lines[0]["tables"][0]);
        assert_eq!(users["dirty_rows"], 20);
        assert!(users["dirty_bytes"].as_u64().unwrap() >= 20);
        Ok((database["connected"] == false && users["last_error"].is_string()).then_some(()))
    };
    wait_for("the trouble in the status", PATIENCE, behind).unwrap();
    let refused = server.command(&["verify"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("backend_unavailable"));
}

/// reliability F18, I50.
#[test]
fn write_back_113_a_row_that_sql_does_not_take_is_listed_retried_and_discarded() {
    let shared = Shared::database(Kind::Postgres).unwrap();
    let server = start(&shared.database);
    let mut client = server.client().unwrap();
    write(&mut client, 0..5, "1");
    assert_eq!(client.call(&["REC.FLUSH", "users"]).unwrap(), Reply::ok());
    shared.database.sql("ALTER TABLE users ADD CONSTRAINT young CHECK (age < 100)").unwrap();
    write(&mut client, 0..2, "200");

    let letters = |server: &Shardine| run(server, &["writeback", "dead-letters", "users"]).1[0]["dead_letters"].clone();
    let listed = || Ok((letters(&server).as_array().unwrap().len() == 2).then_some(()));
    wait_for("two dead letters", PATIENCE, listed).unwrap();
    assert!(letters(&server)[0]["error"].as_str().unwrap().contains("young"), "{}", letters(&server));
    assert_eq!(run(&server, &["writeback", "status"]).1[0]["tables"][0]["dead_letters"], 2);
    let (refused, _) = run(&server, &["writeback", "retry", "users:0"]);
    assert_eq!(refused.status.code(), Some(1), "SQL still refuses it");

    let (unsure, _) = run(&server, &["writeback", "discard", "users:0"]);
    assert_eq!(unsure.status.code(), Some(2), "losing a change needs the word");
    let (discarded, _) = run(&server, &["writeback", "discard", "users:0", "--yes"]);
    assert!(discarded.status.success(), "{}", String::from_utf8_lossy(&discarded.stderr));
    assert_eq!(client.call(&["HGET", "users:0", "age"]).unwrap(), Reply::bulk("1"));
    shared.database.sql("ALTER TABLE users DROP CONSTRAINT young").unwrap();
    let (retried, _) = run(&server, &["writeback", "retry", "users"]);
    assert!(retried.status.success(), "{}", String::from_utf8_lossy(&retried.stderr));
    assert_eq!(letters(&server).as_array().unwrap().len(), 0);
    assert_eq!(shared.database.sql("SELECT count(*) FROM users WHERE age = 200").unwrap(), "1\n");
    assert!(run(&server, &["verify", "users"]).0.status.success());
}

/// A connection waits for each kick, so there are several.
fn kick_all(server: &Shardine, rows: usize) {
    const CLIENTS: usize = 32;
    assert_eq!(server.client().unwrap().call(&["REC.FLUSH", "users"]).unwrap(), Reply::ok());
    std::thread::scope(|scope| {
        for first in 0..CLIENTS {
            scope.spawn(move || {
                let mut client = server.client().unwrap();
                for row in (first..rows).step_by(CLIENTS) {
                    assert_eq!(client.call(&["REC.KICK", &format!("users:{row}")]).unwrap(), Reply::ok());
                }
            });
        }
    });
}

fn metrics(server: &Shardine) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(server.http().address()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

fn metric(server: &Shardine, name: &str) -> u64 {
    let page = metrics(server);
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in\n{page}")).parse().unwrap()
}

#[test]
fn write_back_121_a_warm_up_brings_rows_in_at_its_rate_and_holds_up_nobody() {
    const ROWS: usize = 300;
    let shared = Shared::database(Kind::Postgres).unwrap();
    let server = start(&shared.database);
    let mut client = server.client().unwrap();
    write(&mut client, 0..ROWS, "7");
    let reads_of = |client: &mut Client, rows: std::ops::Range<usize>| {
        let before = metric(&server, "shardine_sql_rows_read_total");
        for row in rows {
            assert_eq!(client.call(&["HGET", &format!("users:{row}"), "age"]).unwrap(), Reply::bulk("7"));
        }
        metric(&server, "shardine_sql_rows_read_total") - before
    };
    kick_all(&server, ROWS);

    let began = std::time::Instant::now();
    let mut warming = server.command(&["table", "warm", "users", "--rate", "150", "--json"]);
    let warming = warming.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut slowest = std::time::Duration::ZERO;
    while began.elapsed() < std::time::Duration::from_secs(1) {
        let asked = std::time::Instant::now();
        assert_eq!(client.call(&["SET", "other", "1"]).unwrap(), Reply::ok());
        slowest = slowest.max(asked.elapsed());
    }
    let output = warming.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(began.elapsed() >= std::time::Duration::from_millis(1_500), "{:?}", began.elapsed());
    assert!(slowest < std::time::Duration::from_secs(1), "{slowest:?}");
    let told: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&told["rows"], &told["loaded"]), (&300.into(), &300.into()));
    assert_eq!(reads_of(&mut client, 0..ROWS), 0, "everything was in memory");

    kick_all(&server, ROWS);
    let keys = server.data().join("keys.txt");
    std::fs::write(&keys, "1\n2\nnobody\n3\n").unwrap();
    let (_, lines) = run(&server, &["table", "warm", "users", "--keys", keys.to_str().unwrap()]);
    assert_eq!((&lines[0]["rows"], &lines[0]["missing"]), (&3.into(), &1.into()));
    assert_eq!(reads_of(&mut client, 1..4), 0);
    assert!(reads_of(&mut client, 4..6) > 0, "the others were left where they are");
}

#[test]
fn write_back_121_a_warm_up_stops_before_memory_is_full() {
    let shared = Shared::database(Kind::Postgres).unwrap();
    let server = start_with(&shared.database, &["--memory-max", "30000"]);
    let mut client = server.client().unwrap();
    // Far more than memory holds; what SQL has goes out of it by itself.
    for part in 0..6 {
        write(&mut client, part * 500..(part + 1) * 500, "7");
        assert_eq!(client.call(&["REC.FLUSH", "users"]).unwrap(), Reply::ok());
    }
    let room = || Ok((metric_sum(&server, "shardine_shard_bytes{") <= 30_000).then_some(()));
    wait_for("eviction", PATIENCE, room).unwrap();
    kick_all(&server, 3_000);

    let (warmed, lines) = run(&server, &["table", "warm", "users", "--rate", "1000"]);

    assert!(warmed.status.success());
    assert_eq!(lines[0]["full"], true);
    let loaded = lines[0]["loaded"].as_u64().unwrap();
    assert!(loaded > 100 && loaded < 2_500, "{loaded}");
}

/// Of all shards.
fn metric_sum(server: &Shardine, name: &str) -> u64 {
    let page = metrics(server);
    page.lines().filter(|line| line.starts_with(name)).map(number).sum()
}

fn number(line: &str) -> u64 {
    line.rsplit(' ').next().unwrap().parse().unwrap()
}
