//! Clients that were written for Redis, unmodified: redis-py, redis-cli and redis-benchmark.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::{
    io::Write,
    process::{Command, Stdio},
};

use shardine_testkit::{Options, Reply, Shardine, Sql, python};

fn start(args: &[&str]) -> Shardine {
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    Shardine::start_with(Options { sql: Sql::Sqlite, args, binary, ..Options::default() }).unwrap()
}

/// One of Redis's programs, told where the server is.
fn tool(name: &str, server: &Shardine) -> Command {
    let mut command = Command::new(name);
    command.args(["-p", &server.redis().number().to_string()]);
    command
}

/// What redis-cli prints for `words`, with `input` on its standard input.
fn redis_cli(server: &Shardine, words: &[&str], input: &[u8]) -> String {
    let mut command = tool("redis-cli", server);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "redis-cli {words:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn redis_py_finds_what_it_relies_on() {
    let printed = python::run("redis_py.py", &start(&[])).unwrap();

    assert!(printed.contains(" 0 failed"), "{printed}");
}

#[test]
fn redis_py_finds_the_same_with_two_lanes() {
    let printed = python::run("redis_py.py", &start(&["--lanes", "2"])).unwrap();

    assert!(printed.contains(" 0 failed"), "{printed}");
}

#[test]
fn random_commands_are_answered_as_redis_answers_them() {
    let printed = python::run("compare_with_redis.py", &start(&["--lanes", "3"])).unwrap();

    assert!(printed.contains(" 0 failed"), "{printed}");
}

#[test]
fn redis_cli_runs_a_command() {
    let server = start(&[]);

    assert_eq!(redis_cli(&server, &["SET", "greeting", "hello world"], b""), "OK\n");
    assert_eq!(redis_cli(&server, &["GET", "greeting"], b""), "hello world\n");
    assert_eq!(redis_cli(&server, &["HSET", "lili", "name", "Lili", "age", "10"], b""), "2\n");
    assert_eq!(redis_cli(&server, &["HGETALL", "lili"], b""), "name\nLili\nage\n10\n");
    assert_eq!(redis_cli(&server, &["--no-raw", "GET", "none"], b""), "(nil)\n");
    assert_eq!(redis_cli(&server, &["-x", "SET", "from-input"], b"some\r\nbytes"), "OK\n");
    assert_eq!(redis_cli(&server, &["GET", "from-input"], b""), "some\r\nbytes\n");
    assert!(redis_cli(&server, &["LPUSH", "list", "x"], b"").contains("unsupported"));
}

#[test]
fn redis_cli_reads_commands_from_its_input() {
    let server = start(&[]);
    let script = b"SET n 1\nINCR n\nMULTI\nINCR n\nINCR n\nEXEC\nGET n\n";

    let printed = redis_cli(&server, &[], script);

    assert_eq!(printed, "OK\n2\nOK\nQUEUED\nQUEUED\n3\n4\n4\n");
}

#[test]
fn redis_cli_speaks_the_third_protocol() {
    let server = start(&[]);
    redis_cli(&server, &["HSET", "lili", "name", "Lili"], b"");

    let printed = redis_cli(&server, &["-3", "--no-raw", "HGETALL", "lili"], b"");

    assert_eq!(printed, "1# \"name\" => \"Lili\"\n");
    assert_eq!(redis_cli(&server, &["-3", "--no-raw", "GET", "none"], b""), "(nil)\n");
}

#[test]
fn redis_cli_finds_keys_by_scanning() {
    let server = start(&[]);
    let mut client = server.client().unwrap();
    for number in 0..300 {
        assert_eq!(client.call(&["SET", &format!("key-{number:03}"), "x"]).unwrap(), Reply::ok());
    }

    let printed = redis_cli(&server, &["--scan", "--pattern", "key-*"], b"");

    let mut found: Vec<&str> = printed.lines().collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 300);
}

#[test]
fn redis_cli_pipes_many_commands() {
    let server = start(&["--lanes", "2"]);
    let mut input = Vec::new();
    for number in 0..10_000 {
        let (key, value) = (format!("piped-{number}"), "x".repeat(number % 300));
        write!(input, "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n{value}\r\n", key.len(), value.len()).unwrap();
    }
    // Commands as typed may stand among the others.
    input.extend_from_slice(b"INCR typed\r\n");

    let printed = redis_cli(&server, &["--pipe"], &input);

    assert!(printed.contains("errors: 0, replies: 10001"), "{printed}");
    let mut client = server.client().unwrap();
    assert_eq!(client.call(&["STRLEN", "piped-9999"]).unwrap(), Reply::Int(99));
    assert_eq!(client.call(&["GET", "typed"]).unwrap(), Reply::bulk("1"));
    assert_eq!(client.call(&["DBSIZE"]).unwrap(), Reply::Int(10_001));
}

#[test]
fn redis_benchmark_runs_without_an_error() {
    let server = start(&["--lanes", "2"]);
    for pipeline in ["1", "16"] {
        let mut command = tool("redis-benchmark", &server);
        command.args(["-t", "ping,set,get,incr,hset,mset", "-n", "2000", "-r", "1000", "-q", "-P", pipeline]);

        let output = command.output().unwrap();

        let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{printed}");
        assert!(!printed.to_lowercase().contains("error"), "{printed}");
        for work in ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "HSET", "MSET (10 keys)"] {
            assert!(printed.contains(&format!("{work}: ")), "{work} is missing in {printed}");
        }
    }
}
