//! Clients that were written for YDB, unmodified: its Python SDK, and the stubs that it brings along.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use shardine_testkit::{Options, Shardine, Sql, python};

fn start(args: &[&str]) -> Shardine {
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
    Shardine::start_with(Options { sql: Sql::None, args, binary, ..Options::default() }).unwrap()
}

/// One side of a restart; returns what it printed.
fn side(server: &Shardine, words: [&str; 2]) -> String {
    let mut command = python::script("_ydb_restart.py").unwrap();
    command.args(words).env("SHARDINE_GRPC_PORT", server.grpc().number().to_string());
    let output = command.output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {complaints}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn the_ydb_sdk_finds_what_it_relies_on() {
    let printed = python::run("ydb_sdk.py", &start(&[])).unwrap();

    assert!(printed.contains(" 0 failed"), "{printed}");
}

/// coordination-semantics 56, 185.
#[test]
fn a_semaphore_is_held_through_kill_9_by_whoever_comes_back() {
    let mut server = start(&[]);
    let session = side(&server, ["hold", "20000"]);

    server.kill9().unwrap();
    server.restart().unwrap();

    assert_eq!(side(&server, ["back", &session]), "held");
}

/// coordination-semantics 55, 187.
#[test]
fn a_semaphore_is_free_after_kill_9_if_nobody_comes_back() {
    let mut server = start(&[]);
    let session = side(&server, ["hold", "6000"]);

    server.kill9().unwrap();
    server.restart().unwrap();

    assert_eq!(side(&server, ["wait", &session]), "freed");
}
