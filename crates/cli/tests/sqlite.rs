//! The way between memory and SQLite as a user sees it: rows written with a Redis client, looked at with the `sqlite3`
//! program. What the statements are is the business of `crates/writeback` and its own suite.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
    process::{Command, Output},
};

use shardine_testkit::{Client, Options, PATIENCE, Reply, Shardine, Sql, wait_for};

const LOOK: &str = "select cast(__key__ as text), __version__, name, age from users order by 1";

fn start(sql: Sql) -> Shardine {
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    Shardine::start_with(Options { sql, binary, ..Options::default() }).unwrap()
}

fn create_users(server: &Shardine) -> Output {
    let words = ["table", "create", "users", "--field", "name:string=anonymous", "--field", "age:int64"];
    server.command(&words).output().unwrap()
}

fn start_with_users() -> Shardine {
    let server = start(Sql::Sqlite);
    let output = create_users(&server);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server
}

/// What the `sqlite3` program prints. Waits for locks, because the server writes at the same time.
fn sqlite(server: &Shardine, statement: &str) -> String {
    let mut command = Command::new("sqlite3");
    let output = command.args(["-cmd", ".timeout 10000"]).arg(server.sqlite_path()).arg(statement).output().unwrap();
    assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The number of `name` in `/metrics`.
fn metric(server: &Shardine, name: &str) -> u64 {
    let mut stream = TcpStream::connect(server.http().address()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in\n{page}")).parse().unwrap()
}

fn rows_read(server: &Shardine) -> u64 {
    metric(server, "shardine_sql_rows_read_total")
}

fn call(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&str> = line.split(' ').collect();
    client.call(&words).unwrap()
}

#[test]
fn the_first_session_of_the_readme() {
    let server = start_with_users();
    let mut client = server.client().unwrap();

    assert_eq!(call(&mut client, "HSET users:lili name Lili age 10"), Reply::Int(2));
    assert_eq!(call(&mut client, "HINCRBY users:lili age 1"), Reply::Int(11));
    assert_eq!(call(&mut client, "HGETALL users:lili"), Reply::bulks(&["name", "Lili", "age", "11"]));

    // Without being asked for: rows follow by themselves.
    let there = || Ok((sqlite(&server, LOOK) == "lili|2|Lili|11\n").then_some(()));
    wait_for("the row in SQLite", PATIENCE, there).unwrap();
    let known = || match call(&mut client, "REC.GET users:lili") {
        Reply::Array(parts) => Ok((parts[..2] == [Reply::Int(2), Reply::Int(2)]).then_some(())),
        other => anyhow::bail!("REC.GET was answered {other:?}"),
    };
    wait_for("REC.GET to know what SQL holds", PATIENCE, known).unwrap();
}

#[test]
fn a_kicked_record_is_loaded_again_with_its_version() {
    let server = start_with_users();
    let mut client = server.client().unwrap();
    call(&mut client, "HSET users:lili age 10");
    assert_eq!(call(&mut client, "REC.KICK users:lili"), Reply::ok());
    assert_eq!(sqlite(&server, LOOK), "lili|1|anonymous|10\n", "what is kicked is in SQL");
    let before = rows_read(&server);

    let loaded = call(&mut client, "HGETALL users:lili");

    assert_eq!(loaded, Reply::bulks(&["name", "anonymous", "age", "10"]));
    assert_eq!(rows_read(&server), before + 1);
    assert_eq!(call(&mut client, "HINCRBY users:lili age 1"), Reply::Int(11));
    assert_eq!(call(&mut client, "REC.FLUSH users"), Reply::ok());
    assert_eq!(sqlite(&server, LOOK), "lili|2|anonymous|11\n");
}

#[test]
fn a_row_that_was_in_sql_already_is_found() {
    let server = start_with_users();
    let mut client = server.client().unwrap();
    call(&mut client, "HSET users:lili name Lili age 10");
    call(&mut client, "REC.KICK users:lili");
    sqlite(&server, "update users set age = 20, __version__ = 7");

    assert_eq!(call(&mut client, "HGET users:lili age"), Reply::bulk("20"));
    assert_eq!(call(&mut client, "HSET users:lili age 21"), Reply::Int(0));
    assert_eq!(call(&mut client, "REC.FLUSH users"), Reply::ok());
    assert_eq!(sqlite(&server, LOOK), "lili|8|Lili|21\n");
}

/// reliability I48.
#[test]
fn a_deleted_record_leaves_a_tombstone_and_lives_again_above_it() {
    let server = start_with_users();
    let mut client = server.client().unwrap();
    call(&mut client, "HSET users:lili name Lili age 10");
    assert_eq!(call(&mut client, "REC.FLUSH users:lili"), Reply::ok());

    assert_eq!(call(&mut client, "DEL users:lili"), Reply::Int(1));
    assert_eq!(call(&mut client, "REC.FLUSH users:lili"), Reply::ok());
    assert_eq!(sqlite(&server, LOOK), "lili|-2|anonymous|0\n");

    // Also when only SQL remembers the tombstone.
    assert_eq!(call(&mut client, "REC.KICK users:lili"), Reply::ok());
    assert_eq!(call(&mut client, "EXISTS users:lili"), Reply::Int(0));
    assert_eq!(call(&mut client, "HSET users:lili age 1"), Reply::Int(1));
    assert_eq!(call(&mut client, "REC.FLUSH users:lili"), Reply::ok());
    assert_eq!(sqlite(&server, LOOK), "lili|3|anonymous|1\n");
}

/// Memory is at version 2 and SQL, raised by somebody else, at 9: what becomes of the row is the table's policy.
fn after_a_conflict(policy: &str) -> (Shardine, Client) {
    let server = start(Sql::Sqlite);
    let words = ["table", "create", "users", "--field", "name:string=anonymous", "--field", "age:int64"];
    let made = server.command(&[&words[..], &["--on-conflict", policy]].concat()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut client = server.client().unwrap();
    call(&mut client, "HSET users:{a}lili name Lili age 10");
    assert_eq!(call(&mut client, "REC.FLUSH users"), Reply::ok());
    // As a node that has taken over meanwhile would have left it.
    sqlite(&server, "update users set age = 90, __version__ = 9");
    assert_eq!(call(&mut client, "HSET users:{a}lili age 11"), Reply::Int(0));
    // A row of the same shard that waits behind it: when it is there, the other one has had its turn.
    assert_eq!(call(&mut client, "HSET users:{a}mimi age 1"), Reply::Int(1));
    let there = || Ok(sqlite(&server, LOOK).contains("{a}mimi|1|").then_some(()));
    wait_for("the row behind it", PATIENCE, there).unwrap();
    (server, client)
}

#[test]
fn write_back_117_a_newer_row_in_sql_is_not_written_over_unless_the_table_says_so() {
    let (server, mut client) = after_a_conflict("stop");
    assert_eq!(sqlite(&server, LOOK), "{a}lili|9|Lili|90\n{a}mimi|1|anonymous|1\n", "version 2 stops at the fence");
    assert_eq!(call(&mut client, "HGET users:{a}lili age"), Reply::bulk("11"), "and is still readable");

    let (server, mut client) = after_a_conflict("cache-wins");
    assert_eq!(call(&mut client, "REC.FLUSH users"), Reply::ok());
    assert_eq!(sqlite(&server, LOOK), "{a}lili|10|Lili|11\n{a}mimi|1|anonymous|1\n");

    let (server, mut client) = after_a_conflict("sql-wins");
    let taken = || Ok((call(&mut client, "HGET users:{a}lili age") == Reply::bulk("90")).then_some(()));
    wait_for("SQL's row in memory", PATIENCE, taken).unwrap();
    assert_eq!(sqlite(&server, LOOK), "{a}lili|9|Lili|90\n{a}mimi|1|anonymous|1\n");
}

#[test]
fn absence_is_remembered() {
    let server = start_with_users();
    let mut client = server.client().unwrap();
    let before = rows_read(&server);
    assert_eq!(call(&mut client, "EXISTS users:nobody"), Reply::Int(0));
    let once = rows_read(&server);
    assert!(once > before, "the first miss asks SQL");

    for _ in 0..50 {
        assert_eq!(call(&mut client, "HGETALL users:nobody"), Reply::Array(Vec::new()));
        assert_eq!(call(&mut client, "HGET users:nobody name"), Reply::Nil);
    }

    assert_eq!(rows_read(&server), once, "later misses do not");
}

#[test]
fn a_table_kept_in_sql_needs_sql() {
    let server = start(Sql::None);

    let refused = create_users(&server);
    let unbacked = ["table", "create", "users", "--field", "name:string", "--backing", "none"];
    let made = server.command(&unbacked).output().unwrap();

    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "a table without a place for its rows");
    assert!(told.contains("--backing none") || told.contains("--sql"), "names the way out: {told}");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert_eq!(call(&mut server.client().unwrap(), "HSET users:lili name Lili"), Reply::Int(1));
}

/// Rows of `users` as memory has them, by key: version, name, age.
fn memory(client: &mut Client, keys: impl Iterator<Item = String>) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for key in keys {
        let Reply::Array(parts) = client.call(&["REC.GET", &format!("users:{key}")]).unwrap() else {
            panic!("REC.GET of {key} must be answered with an array")
        };
        let Reply::Int(version) = parts[0] else { panic!("{parts:?}") };
        let row = match client.call(&["HMGET", &format!("users:{key}"), "name", "age"]).unwrap() {
            Reply::Array(fields) if version > 0 => {
                let texts: Vec<String> = fields.iter().map(|field| field.text().unwrap()).collect();
                format!("{version}|{}", texts.join("|"))
            }
            _ => format!("{version}|anonymous|0"),
        };
        rows.insert(key, row);
    }
    rows
}

#[test]
fn rows_that_sql_had_not_when_the_process_died_reach_it_after_the_start() {
    const ROWS: usize = 200;
    let mut server = start_with_users();
    let mut client = server.client().unwrap();
    for round in 0..3 {
        for row in 0..ROWS {
            let key = format!("users:{row}");
            client.send(&["HSET", &key, "name", &format!("name-{round}")]).unwrap();
            client.send(&["HINCRBY", &key, "age", "1"]).unwrap();
            if row % 5 == round {
                client.send(&["DEL", &key]).unwrap();
            }
        }
        let replies = 2 * ROWS + ROWS / 5;
        for _ in 0..replies {
            assert!(matches!(client.receive().unwrap(), Reply::Int(_)));
        }

        // How many rows SQL lacks at this moment is chance; the test with a locked database makes certain of one.
        let before = memory(&mut client, (0..ROWS).map(|row| row.to_string()));
        server.kill9().unwrap();
        server.restart().unwrap();
        client = server.client().unwrap();

        assert_eq!(call(&mut client, "REC.FLUSH users"), Reply::ok());
        assert_eq!(memory(&mut client, (0..ROWS).map(|row| row.to_string())), before);
        let stored = sqlite(&server, LOOK);
        let stored = stored.lines().filter_map(|line| line.split_once('|'));
        let stored: BTreeMap<_, _> = stored.map(|(key, row)| (key.to_owned(), row.to_owned())).collect();
        assert_eq!(stored, before);
    }
}

#[test]
fn a_locked_database_delays_rows_and_not_answers() {
    let mut server = start_with_users();
    let mut client = server.client().unwrap();
    call(&mut client, "HSET users:lili age 1");
    assert_eq!(call(&mut client, "REC.FLUSH users"), Reply::ok());
    // Another program holds the write lock until its input ends, and says so.
    let mut holder = Command::new("sqlite3");
    holder.args(["-cmd", ".timeout 10000"]).arg(server.sqlite_path());
    let mut holder = holder.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut input = holder.stdin.take().unwrap();
    input.write_all(b"begin immediate;\n.print locked\n").unwrap();
    let mut said = [0; 6];
    holder.stdout.take().unwrap().read_exact(&mut said).unwrap();

    for age in 2..100 {
        assert_eq!(call(&mut client, &format!("HSET users:lili age {age}")), Reply::Int(0));
    }
    assert_eq!(sqlite(&server, LOOK), "lili|1|anonymous|1\n");
    server.kill9().unwrap();
    drop(input);
    holder.wait().unwrap();
    server.restart().unwrap();

    let mut client = server.client().unwrap();
    assert_eq!(call(&mut client, "HGET users:lili age"), Reply::bulk("99"));
    assert_eq!(call(&mut client, "REC.FLUSH users"), Reply::ok());
    assert_eq!(sqlite(&server, LOOK), "lili|99|anonymous|99\n");
}

/// The last line of a command's JSON, and how it ended.
fn told(server: &Shardine, words: &[&str]) -> (Option<i32>, serde_json::Value) {
    let output = server.command(words).arg("--json").output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), serde_json::from_str(lines.lines().last().unwrap()).unwrap())
}

#[test]
fn verify_and_status_look_at_a_file_as_at_a_server() {
    let server = start_with_users();
    let mut client = server.client().unwrap();
    for row in 0..20 {
        call(&mut client, &format!("HSET users:{row} age 7"));
    }
    assert_eq!(call(&mut client, "REC.FLUSH users"), Reply::ok());

    let (ended, sums) = told(&server, &["verify", "users"]);
    assert_eq!((ended, &sums["tables"][0]["equal"]), (Some(0), &20.into()), "{sums}");
    let (_, status) = told(&server, &["writeback", "status"]);
    assert_eq!((&status["database"]["connected"], &status["database"]["dirty"]), (&true.into(), &0.into()), "{status}");
    assert!(status["tables"][0]["written_rows"].as_u64().unwrap() >= 20, "{status}");
    sqlite(&server, "delete from users where __key__ = cast('3' as blob)");
    sqlite(&server, "update users set age = 8 where __key__ = cast('4' as blob)");
    sqlite(&server, "update users set __version__ = 9 where __key__ = cast('5' as blob)");

    let (ended, sums) = told(&server, &["verify", "users"]);

    assert_eq!((ended, &sums["tables"][0]["different"]), (Some(1), &3.into()), "{sums}");
}
