//! Clients that were written for YDB, unmodified: its Python SDK, and the stubs that it brings along.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use shardine_testkit::{Cluster, Dir, Options, Shardine, Sql, python, workspace_root};

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

/// The same of a cluster with several groups, by way of a node that leads only some of them, if any.
#[test]
fn the_ydb_sdk_finds_it_in_a_cluster_whichever_node_leads_a_path() {
    let cluster = Cluster::form(3, &["--coord-groups", "3"], &[]).unwrap();
    let mut command = python::script("ydb_sdk.py").unwrap();
    command.env("SHARDINE_GRPC_PORT", cluster.grpc(2).port().to_string());

    let output = command.output().unwrap();

    let printed = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains(" 0 failed"), "{printed}{complaints}");
}

/// What a new user tries first.
#[test]
fn the_examples_of_the_pages_run_as_they_stand() {
    let server = start(&[]);

    for page in ["README.md", "docs/coordination.md"] {
        let text = fs::read_to_string(workspace_root().join(page)).unwrap();
        let example = text.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        assert!(example.contains("127.0.0.1:7400"), "{page} has the address of a fresh server");
        let example = example.replace("127.0.0.1:7400", &server.grpc().address().to_string());
        let python = python::environment_dir().join("bin").join("python");
        let output = Command::new(python).args(["-c", &example]).output().unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{page}: {complaints}");
        assert_eq!(output.stdout, b"mine, until this block ends or this process dies\n", "{page}: {complaints}");
    }
}

/// coordination 195, 196.
#[test]
fn tokens_may_do_what_they_are_given() {
    let dir = Dir::new().unwrap();
    let file = dir.join("shardine.toml");
    let entry = |token: &str, right: &str| {
        format!("[[access]]\ntoken = '{token}'\npath = '/local/locks'\nrights = ['{right}']\n")
    };
    let entries = [entry("reader", "read"), entry("writer", "write"), entry("eraser", "erase")].concat();
    fs::write(&file, format!("token = 'master'\n{entries}")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let server = start(&["--config", file.to_str().unwrap()]);
    // Without the token that may everything they would mean nothing.
    let alone = dir.join("alone.toml");
    fs::write(&alone, &entries).unwrap();
    fs::set_permissions(&alone, fs::Permissions::from_mode(0o600)).unwrap();
    // A file is no place for data, so that nothing runs if it is not refused.
    let alone = alone.to_str().unwrap();
    let up = |more: &[&str]| {
        let line = [&["up", "--config", alone, "--data", alone], more].concat();
        let refused = server.command(&line).output().unwrap();
        (refused.status.code(), String::from_utf8_lossy(&refused.stderr).into_owned())
    };
    let (code, said) = up(&[]);
    assert!(code == Some(2) && said.contains("[[access]] needs a token"), "{said}");
    // Nor may one of them be that token, and they are secrets too.
    let (code, said) = up(&["--token", "reader"]);
    assert!(code == Some(2) && said.contains("may everything"), "{said}");
    fs::set_permissions(alone, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, said) = up(&["--token", "master"]);
    assert!(code == Some(1) && said.contains("chmod 600"), "{said}");

    let printed = python::run("_ydb_access.py", &server).unwrap();

    assert!(printed.contains("4 held"), "{printed}");
    // Nothing else opens with them.
    let status = server.command(&["status", "--token", "reader"]).output().unwrap();
    assert!(String::from_utf8_lossy(&status.stderr).contains("error[unauthenticated]"), "{status:?}");
    let checked = server.command(&["config", "check", file.to_str().unwrap()]).output();
    assert!(checked.unwrap().status.success());
}

/// coordination 56, 185.
#[test]
fn a_semaphore_is_held_through_kill_9_by_whoever_comes_back() {
    let mut server = start(&[]);
    let session = side(&server, ["hold", "20000"]);

    server.kill9().unwrap();
    server.restart().unwrap();

    assert_eq!(side(&server, ["back", &session]), "held");
}

/// coordination 55, 187.
#[test]
fn a_semaphore_is_free_after_kill_9_if_nobody_comes_back() {
    let mut server = start(&[]);
    let session = side(&server, ["hold", "6000"]);

    server.kill9().unwrap();
    server.restart().unwrap();

    assert_eq!(side(&server, ["wait", &session]), "freed");
}
