//! Scans over tables that live in SQL, of which memory holds a part: as users make them, against every database.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use shardine_testkit::sql_server::{Kind, Shared, SqlServer, Sync};
use shardine_testkit::{Client, Options, Reply, Shardine, Sql};

/// A server with a table, and what its rows are in. The database goes after the server.
struct Stage {
    server: Shardine,
    _shared: Option<Shared>,
}

fn start(sql: Sql) -> Shardine {
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    let args = ["--shards", "3", "--lanes", "2"].map(String::from).to_vec();
    let server = Shardine::start_with(Options { sql, binary, args, ..Options::default() }).unwrap();
    run(server.command(&["table", "create", "users", "--field", "age:int64", "--field", "name:string"]));
    run(server.command(&["table", "create", "posts", "--field", "text:string", "--sort", "at:int64"]));
    server
}

/// The same stage on SQLite, PostgreSQL and MariaDB.
fn each(mut play: impl FnMut(&Shardine)) {
    for kind in [None, Some(Kind::Postgres), Some(Kind::MariaDb)] {
        let shared = kind.map(|kind| Shared::database(kind).unwrap());
        let sql = shared.as_ref().map_or(Sql::Sqlite, |shared| Sql::Url(shared.database.url()));
        let stage = Stage { server: start(sql), _shared: shared };
        play(&stage.server);
    }
}

fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn call(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&str> = line.split(' ').collect();
    client.call(&words).unwrap()
}

fn all(client: &mut Client, lines: impl IntoIterator<Item = String>) {
    let mut sent = 0;
    for line in lines {
        client.send(&line.split(' ').collect::<Vec<_>>()).unwrap();
        sent += 1;
    }
    for _ in 0..sent {
        let reply = client.receive().unwrap();
        assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
    }
}

/// Rows in the order given, with their versions, page by page by `REC.SCAN`.
fn walk(client: &mut Client, scan: &str, limit: usize) -> Vec<(String, i64)> {
    let line = format!("REC.SCAN {scan} LIMIT {limit}");
    let (mut rows, mut cursor) = (Vec::new(), None);
    loop {
        let mut words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        words.extend(cursor.iter().flat_map(|cursor: &Vec<u8>| [b"CURSOR", cursor.as_slice()]));
        let reply = client.call(&words).unwrap();
        let Reply::Array(page) = reply else { panic!("{line} was answered {reply:?}") };
        let Reply::Array(found) = &page[1] else { panic!("{page:?}") };
        assert!(found.len() <= limit, "a page holds what was asked for");
        for row in found {
            let Reply::Array(parts) = row else { panic!("{row:?}") };
            let Reply::Int(version) = parts[1] else { panic!("{parts:?}") };
            rows.push((parts[0].text().unwrap(), version));
        }
        cursor = match &page[0] {
            Reply::Nil => return rows,
            Reply::Bulk(next) => Some(next.clone()),
            other => panic!("a cursor is no {other:?}"),
        };
    }
}

/// Keys by Redis `SCAN`.
fn redis_scan(client: &mut Client, options: &str) -> Vec<String> {
    let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let Reply::Array(page) = call(client, &format!("SCAN {cursor}{options}")) else { panic!("SCAN is a page") };
        let Reply::Array(found) = &page[1] else { panic!("{page:?}") };
        keys.extend(found.iter().map(|key| key.text().unwrap()));
        cursor = page[0].text().unwrap();
        if cursor == "0" {
            return keys;
        }
    }
}

/// Rows in every state: 0 only in SQL, 1 clean, 2 changed in memory, 3 deleted in memory, 4 deleted and kicked, 5 new in
/// memory only. Gives the live ones.
fn mix(client: &mut Client, name: impl Fn(i64) -> String, change: &str, rows: i64) -> BTreeMap<String, i64> {
    let of = |state: &'static [i64]| (0..rows).filter(move |row| state.contains(&(row % 6))).map(&name);
    all(client, of(&[0, 1, 2, 3, 4]).map(|row| format!("HSET {row} {change} 1")));
    all(client, of(&[4]).map(|row| format!("DEL {row}")));
    assert_eq!(call(client, "REC.FLUSH"), Reply::ok());
    all(client, of(&[0, 4]).map(|row| format!("REC.KICK {row}")));
    all(client, of(&[2, 5]).map(|row| format!("HSET {row} {change} 2")));
    all(client, of(&[3]).map(|row| format!("DEL {row}")));
    let live = |state: &'static [i64], version: i64| of(state).map(move |row| (row, version));
    live(&[0, 1, 5], 1).chain(live(&[2], 2)).collect()
}

#[test]
fn records_132_each_live_record_once_wherever_it_is() {
    each(|server| {
        let mut client = server.client().unwrap();
        let live = mix(&mut client, |row| format!("users:u{row}"), "age", 180);

        for limit in [1, 7, 50, 1_000] {
            let rows = walk(&mut client, "users", limit);
            assert_eq!(rows.len(), live.len(), "pages of {limit}");
            assert_eq!(rows.into_iter().collect::<BTreeMap<_, _>>(), live, "pages of {limit}");
        }
        let mut keys = redis_scan(&mut client, " COUNT 7");
        keys.sort();
        assert_eq!(keys, live.keys().cloned().collect::<Vec<_>>(), "SCAN of all tables");
        let mut keys = redis_scan(&mut client, " MATCH users:* COUNT 20");
        keys.sort();
        assert_eq!(keys, live.keys().cloned().collect::<Vec<_>>(), "SCAN of one table");
        let lines = run(server.command(&["scan", "users", "--limit", "1000", "--json"]));
        assert!(live.keys().all(|key| lines.contains(&key["users:".len()..])), "{lines}");
    });
}

#[test]
fn records_132_rows_of_one_key_in_both_directions() {
    each(|server| {
        let mut client = server.client().unwrap();
        let live = mix(&mut client, |row| format!("posts:room@{}", 100 + row), "text", 90);
        let within = |from: i64, to: i64| {
            let names = (from..=to).map(|row| format!("posts:room@{row}"));
            names.filter_map(|name| live.get(&name).map(|version| (name.clone(), *version))).collect::<Vec<_>>()
        };

        for limit in [1, 4, 1_000] {
            for (range, from, to) in [("", 100, 189), (" FROM 110 TO 150", 110, 150), (" FROM (110 TO (150", 111, 149)]
            {
                let mut expected = within(from, to);
                assert_eq!(walk(&mut client, &format!("posts:room{range}"), limit), expected, "{range} by {limit}");
                expected.reverse();
                assert_eq!(walk(&mut client, &format!("posts:room{range} DESC"), limit), expected, "down{range}");
            }
        }
        assert_eq!(walk(&mut client, "posts", 4), within(100, 189), "the table that has no other key");
    });
}

/// Positions are shared by keys with one tag: pages of `SCAN` end between positions only.
#[test]
fn records_132_a_position_with_more_rows_than_a_page() {
    each(|server| {
        let mut client = server.client().unwrap();
        let live = mix(&mut client, |row| format!("users:{{tag}}{row}"), "age", 60);

        let mut keys = redis_scan(&mut client, " COUNT 5");

        keys.sort();
        assert_eq!(keys, live.keys().cloned().collect::<Vec<_>>());
    });
}

/// reliability I23.
#[test]
fn records_132_scans_among_writers_and_kicks() {
    const ROWS: usize = 240;
    each(|server| {
        let mut client = server.client().unwrap();
        all(&mut client, (0..ROWS).map(|row| format!("HSET users:u{row} age 1")));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for part in 0..2 {
                let (stop, mut client) = (&stop, server.client().unwrap());
                scope.spawn(move || {
                    for round in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                        // Rows below 200 always live; the others come and go.
                        let rows = (part..ROWS).step_by(2).filter(|row| row % 5 == round % 5);
                        all(&mut client, rows.clone().map(|row| format!("HINCRBY users:u{row} age 1")));
                        all(&mut client, rows.clone().map(|row| format!("REC.KICK users:u{row}")));
                        all(&mut client, rows.filter(|row| *row >= 200).map(|row| format!("DEL users:u{row}")));
                    }
                });
            }
            let check = std::panic::catch_unwind(|| (0..25).for_each(|round| scan_once(server, 1 + 11 * (round % 7))));
            stop.store(true, Ordering::Relaxed);
            check.unwrap();
        });
    });

    fn scan_once(server: &Shardine, limit: usize) {
        let mut client = server.client().unwrap();
        // Explaining looks at a row without loading it; what is not in memory has at least the version it had before.
        let mut before = BTreeMap::new();
        for row in 0..200 {
            let Reply::Array(parts) = call(&mut client, &format!("REC.GET users:u{row}")) else { panic!("REC.GET") };
            let Reply::Int(version) = parts[0] else { panic!("{parts:?}") };
            before.insert(format!("users:u{row}"), version);
        }
        let rows = walk(&mut client, "users", limit);
        let count = rows.len();
        let found: BTreeMap<String, i64> = rows.into_iter().collect();
        assert_eq!(found.len(), count, "a row was given twice");
        for (key, version) in before {
            let given = found.get(&key).unwrap_or_else(|| panic!("{key} was missed by pages of {limit}"));
            assert!(*given >= version, "{key} was given at {given}, it was at {version} before");
        }
    }
}

#[test]
fn records_132_without_sql_a_scan_is_refused_whole() {
    let mut postgres = SqlServer::start(Kind::Postgres, Sync::Off, &[]).unwrap();
    let server = start(Sql::Url(postgres.database().unwrap().url()));
    let mut client = server.client().unwrap();
    call(&mut client, "HSET users:lili age 1");
    call(&mut client, "SET plain 1");
    assert_eq!(call(&mut client, "REC.FLUSH users"), Reply::ok());

    postgres.stop().unwrap();

    let Reply::Error(told) = call(&mut client, "REC.SCAN users") else { panic!("a part is not the whole") };
    assert!(told.contains("backend_unavailable") || told.contains("BACKEND_UNAVAILABLE"), "{told}");
    assert!(matches!(call(&mut client, "SCAN 0 MATCH users:*"), Reply::Error(_)));
    assert_eq!(call(&mut client, "HGET users:lili age"), Reply::bulk("1"), "what is in memory is served");
    assert_eq!(walk(&mut client, "kv", 10).len(), 1, "a table without SQL is scanned");
    let refused = server.command(&["scan", "users"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));

    postgres.start_again().unwrap();
    assert_eq!(walk(&mut client, "users", 10), [("users:lili".to_owned(), 1)]);
}
