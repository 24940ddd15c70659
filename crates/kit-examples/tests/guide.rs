//! The guide (`docs/kit.md`), held to its word: its program is the one that is built here, and its session is what happens.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use shardine_testkit::{Dir, PATIENCE, Port, Process, workspace_root};

const NAMES: &str = env!("CARGO_BIN_EXE_names");

fn guide() -> String {
    fs::read_to_string(workspace_root().join("docs/kit.md")).unwrap()
}

fn own(path: &str) -> String {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The guide's blocks in one language, in their order.
fn blocks(language: &str) -> Vec<String> {
    let (guide, fence) = (guide(), format!("```{language}\n"));
    let begun = guide.split(&fence).skip(1);
    begun.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_guides_program_is_the_one_that_is_built_here() {
    let [build, request, server] = blocks("rust").try_into().unwrap();

    assert!(own("src/bin/names.rs").ends_with(&format!("{request}\n{server}")), "copy src/bin/names.rs into the guide");
    assert_eq!(blocks("protobuf"), [own("proto/names.proto")]);
    let compiles = build.lines().find(|line| line.contains("extern_path")).unwrap();
    assert!(own("build.rs").contains(compiles), "{compiles}");
}

/// What stands between quotes first: a version.
fn version(line: &str) -> Option<&str> {
    line.split('"').nth(1)
}

#[test]
fn the_guides_dependencies_are_those_of_the_workspace() {
    let workspace = fs::read_to_string(workspace_root().join("Cargo.toml")).unwrap();
    let [manifest] = blocks("toml").try_into().unwrap();
    let is_ours = |line: &&str| line.starts_with("shardine-kit");

    let named: Vec<&str> = manifest.lines().filter(|line| line.contains(" = ") && !is_ours(line)).collect();

    for line in &named {
        let name = line.split('=').next().unwrap();
        let here =
            workspace.lines().find(|ours| ours.split('=').next() == Some(name)).unwrap_or_else(|| panic!("{line}"));
        assert!(version(here).unwrap().starts_with(version(line).unwrap()), "{line} in the guide, {here} here");
    }
    assert!(named.len() > 5, "{named:?}");
}

fn start(dir: &Path, dc: &str, port: &Port) -> Process {
    let mut server = Command::new(NAMES);
    server.args(["server", dc, &port.address().to_string()]).current_dir(dir);
    Process::spawn(dc, &mut server, &dir.join(format!("{}.log", port.number()))).unwrap()
}

fn ask(dir: &Path) -> Vec<String> {
    let asked = Command::new(NAMES).args(["ask", "lili", "bob"]).current_dir(dir).output().unwrap();
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    sorted(String::from_utf8(asked.stdout).unwrap().lines().map(str::to_owned))
}

fn sorted(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

/// kit A-38, A-45: a second service beside `goals`, with types of its own; and a restart that need not wait.
#[test]
fn the_guides_session_is_what_happens() {
    let [session] = blocks("console").try_into().unwrap();
    // Each line once: the second answer is the first one's.
    let printed = |text: &str| -> Vec<String> {
        let lines: BTreeSet<&str> = session.lines().filter(|line| line.contains(text)).collect();
        lines.into_iter().map(str::to_owned).collect()
    };
    let names = printed("the name of");
    let dir = Dir::new().unwrap();
    let places: Vec<(&str, Port)> =
        ["vla", "sas", "vla", "sas"].into_iter().map(|dc| (dc, Port::free().unwrap())).collect();

    let mut servers: Vec<Process> = places.iter().map(|(dc, port)| start(dir.path(), dc, port)).collect();
    let serving: Vec<String> =
        servers.iter_mut().map(|server| server.wait_for_line("serving", PATIENCE).unwrap()).collect();
    assert_eq!(sorted(serving.clone().into_iter()), printed("serving"));
    assert_eq!(ask(dir.path()), names);
    servers[0].kill9().unwrap();
    assert_eq!(ask(dir.path()), names);
    let mut again = start(dir.path(), "vla", &places[0].1);

    // Others could have the shard after thirty seconds.
    assert_eq!(again.wait_for_line("serving", Duration::from_secs(20)).unwrap(), serving[0]);
}

#[test]
fn a_second_server_on_an_address_ends_before_it_takes_the_firsts_shard() {
    let dir = Dir::new().unwrap();
    let port = Port::free().unwrap();
    let mut first = start(dir.path(), "vla", &port);
    first.wait_for_line("serving", PATIENCE).unwrap();

    let second =
        Command::new(NAMES).args(["server", "vla", &port.address().to_string()]).current_dir(dir.path()).output();

    assert!(!second.unwrap().status.success());
    assert!(first.is_running());
    let rows = rusqlite::Connection::open(dir.join("locks.sqlite")).unwrap();
    let generation: i64 = rows.query_row("SELECT max(generation) FROM locks", [], |row| row.get(0)).unwrap();
    assert_eq!(generation, 1);
}
