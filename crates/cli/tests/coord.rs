//! Coordination from the shell and for those who look, against a real server.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Output;

use rustix::process::Signal;
use serde_json::{Value as Json, json};
use shardine_testkit::{Dir, Options, PATIENCE, Process, Shardine, wait_for};

/// A server with these options, and commands against it.
struct Shell {
    server: Shardine,
    dir: Dir,
}

impl Shell {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(args: &[&str]) -> Self {
        let binary = Some(env!("CARGO_BIN_EXE_shardine").into());
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        let server = Shardine::start_with(Options { binary, args, ..Options::default() }).unwrap();
        Self { server, dir: Dir::new().unwrap() }
    }

    fn run(&self, line: &[&str]) -> Output {
        self.server.command(&[&["coord"], line].concat()).output().unwrap()
    }

    /// The JSON of a command that must succeed.
    fn json(&self, line: &[&str]) -> Json {
        let output = self.run(&[&["--json"], line].concat());
        assert!(output.status.success(), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The exit code and error code of a command that must fail, with nothing on stdout.
    fn failure(&self, line: &[&str]) -> (i32, String) {
        let output = self.run(&[&["--json"], line].concat());
        assert_eq!(output.stdout, b"", "{line:?}");
        let error: Json = serde_json::from_slice(&output.stderr).unwrap();
        (output.status.code().unwrap(), error["error"]["code"].as_str().unwrap().to_owned())
    }

    /// A command that runs beside the test.
    fn spawn(&self, name: &str, line: &[&str]) -> Process {
        let mut command = self.server.command(&[&["coord"], line].concat());
        Process::spawn(name, &mut command, &self.dir.join(format!("{name}.log"))).unwrap()
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.server.http().address()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

/// Holds a lock while a command runs that tells its number and the number of its own child, and ends when a file is there.
const HOLD: &str = "sleep 600 & echo pids $$ $!; while [ ! -e \"$0\" ]; do sleep 0.02; done; kill $!; exit 7";

/// Whether a process of this number runs; one that waits to be buried does not.
fn runs(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.trim().starts_with('Z')))
}

fn pids(line: &str) -> Vec<String> {
    line.split_whitespace().skip(1).map(str::to_owned).collect()
}

/// coordination 10, 20, 23, 25.
#[test]
fn nodes_are_made_shown_altered_listed_and_dropped() {
    let shell = Shell::start();

    shell.json(&["node", "create", "/local/one", "--self-check-ms", "700"]);
    assert_eq!(shell.json(&["node", "show", "/local/one"])["self_check_ms"], 700);
    assert_eq!(shell.json(&["node", "alter", "/local/one", "--reads", "strict"])["reads"], "strict");
    let nodes = shell.json(&["node", "list"]);
    assert_eq!(nodes, json!({ "nodes": [{ "path": "/local/one", "sessions": 0, "semaphores": 0 }] }));
    assert_eq!(shell.failure(&["node", "drop", "/local/one"]), (2, "bad_request".into()), "nobody confirms it");
    shell.json(&["node", "drop", "/local/one", "--yes"]);

    assert_eq!(shell.failure(&["node", "show", "/local/one"]), (1, "not_found".into()));
    assert_eq!(shell.failure(&["sem", "describe", "x", "--node", "/local/one"]), (1, "not_found".into()));
}

/// coordination 84, 85, 95, 101, 102.
#[test]
fn a_semaphore_from_create_to_delete() {
    let shell = Shell::start();

    shell.json(&["sem", "create", "jobs", "--limit", "2", "--data", "one"]);
    assert_eq!(shell.failure(&["sem", "create", "jobs", "--limit", "2"]), (1, "exists".into()));
    shell.json(&["sem", "update", "jobs", "two"]);
    let found = shell.json(&["sem", "describe", "jobs"]);
    assert_eq!((&found["data"], &found["limit"], &found["count"]), (&json!("two"), &json!(2), &json!(0)));
    shell.json(&["sem", "delete", "jobs"]);

    assert_eq!(shell.failure(&["sem", "delete", "jobs"]), (1, "not_found".into()));
    // Questions leave no sessions behind.
    assert_eq!(shell.json(&["node", "list"])["nodes"][0]["sessions"], 0);
}

/// coordination 73, 115, 119: held while the command runs, and its exit code is ours.
#[test]
fn a_command_runs_under_its_lock_and_its_exit_code_is_passed_on() {
    let shell = Shell::start();
    let file = shell.dir.join("go");
    let go = file.to_str().unwrap();
    let mut holder = shell.spawn("holder", &["sem", "acquire", "lock", "--ephemeral", "--", "sh", "-c", HOLD, go]);
    holder.wait_for_line("pids", PATIENCE).unwrap();

    let held = shell.json(&["sem", "describe", "lock"]);
    assert_eq!(held["owners"].as_array().unwrap().len(), 1);
    let now = ["sem", "acquire", "lock", "--ephemeral", "--wait", "0", "--", "true"];
    assert_eq!(shell.failure(&now), (1, "busy".into()));
    fs::write(&file, "").unwrap();
    assert_eq!(holder.wait(PATIENCE).unwrap().code(), Some(7));

    assert_eq!(shell.failure(&["sem", "describe", "lock"]), (1, "not_found".into()), "ephemeral, and free at once");
    let fence = ["sem", "acquire", "lock", "--ephemeral", "--", "sh", "-c", "echo $SHARDINE_FENCE"];
    let fence: u64 = String::from_utf8(shell.run(&fence).stdout).unwrap().trim().parse().unwrap();
    assert!(fence > held["owners"][0]["order_id"].as_u64().unwrap());
    let missing = shell.run(&["sem", "acquire", "lock", "--ephemeral", "--", "/no/such/command"]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(shell.failure(&["sem", "acquire", "none", "--", "true"]), (1, "not_found".into()));
    assert_eq!(shell.json(&["node", "list"])["nodes"][0]["sessions"], 0, "nobody is left behind");
}

/// coordination 55, reliability F23: when the session cannot be kept, the command does not outlive it, nor does what it started.
#[test]
fn a_command_is_killed_when_its_session_expires() {
    let mut shell = Shell::start();
    let file = shell.dir.join("never");
    let acquire = ["sem", "acquire", "lock", "--ephemeral", "--session-timeout", "2.5", "--", "sh", "-c", HOLD];
    let mut holder = shell.spawn("holder", &[&acquire[..], &[file.to_str().unwrap()]].concat());
    let pids = pids(&holder.wait_for_line("pids", PATIENCE).unwrap());
    assert!(pids.iter().all(|pid| runs(pid)), "{pids:?}");

    shell.server.kill9().unwrap();

    assert_eq!(holder.wait(PATIENCE).unwrap().code(), Some(1));
    assert!(holder.output().contains("the session expired, so the command was killed"), "{}", holder.output());
    for pid in &pids {
        wait_for("the command to die", PATIENCE, || Ok((!runs(pid)).then_some(()))).unwrap();
    }
}

/// What `sem acquire` runs for somebody who comes next: how the processes before it stand, one letter each.
const LOOK: &str =
    "for pid in \"$@\"; do echo \"state $(cut -d' ' -f3 /proc/$pid/stat 2>/dev/null)\"; done; echo looked";

/// coordination 55: only the process that keeps the session stands still, for longer than the session lives. The command does
/// not run beside the next one that has the lock.
#[test]
fn a_command_does_not_run_on_when_only_its_keeper_stands_still() {
    let shell = Shell::start();
    let file = shell.dir.join("never");
    let acquire = ["sem", "acquire", "lock", "--ephemeral", "--session-timeout", "2.5", "--", "sh", "-c", HOLD];
    let mut holder = shell.spawn("holder", &[&acquire[..], &[file.to_str().unwrap()]].concat());
    let pids = pids(&holder.wait_for_line("pids", PATIENCE).unwrap());

    holder.pause().unwrap();
    let numbers: Vec<&str> = pids.iter().map(String::as_str).collect();
    let look = [&["sem", "acquire", "lock", "--ephemeral", "--", "sh", "-c", LOOK, "look"], &numbers[..]].concat();
    let mut next = shell.spawn("next", &look);
    next.wait_for_line("looked", PATIENCE).unwrap();
    holder.resume().unwrap();

    // The one that waits to be buried, by the process that stood still, is as dead as the other.
    let states: Vec<String> =
        next.output().lines().filter_map(|line| Some(line.strip_prefix("state")?.trim().into())).collect();
    assert!(states.len() == 2 && states.iter().all(|state| state.is_empty() || state == "Z"), "{states:?}");
    assert_eq!(holder.wait(PATIENCE).unwrap().code(), Some(1));
    assert!(holder.output().contains("the session expired, so the command was killed"), "{}", holder.output());
}

/// The same if it is killed: nobody else would tell the command that it has lost its lock.
#[test]
fn a_command_dies_with_the_process_that_keeps_its_session() {
    let shell = Shell::start();
    let file = shell.dir.join("never");
    let acquire = ["sem", "acquire", "lock", "--ephemeral", "--session-timeout", "120", "--", "sh", "-c", HOLD];
    let mut holder = shell.spawn("holder", &[&acquire[..], &[file.to_str().unwrap()]].concat());
    let pids = pids(&holder.wait_for_line("pids", PATIENCE).unwrap());

    holder.kill9().unwrap();

    for pid in &pids {
        wait_for("the command to die", PATIENCE, || Ok((!runs(pid)).then_some(()))).unwrap();
    }
}

/// A guard that stands still itself is no harm: the session is kept, and the command ends as it likes.
#[test]
fn a_guard_that_stands_still_holds_nobody_up() {
    let shell = Shell::start();
    let file = shell.dir.join("go");
    let acquire = ["sem", "acquire", "lock", "--ephemeral", "--session-timeout", "0.9", "--", "sh", "-c", HOLD];
    let mut holder = shell.spawn("holder", &[&acquire[..], &[file.to_str().unwrap()]].concat());
    holder.wait_for_line("pids", PATIENCE).unwrap();
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", holder.pid())).unwrap();
    let is_guard =
        |pid: &&str| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("guard"));
    // Children of the process' other threads are listed there; the guard is a child of the first.
    let guard = children.split_whitespace().find(is_guard).unwrap_or_else(|| panic!("{children}"));
    let stop = std::process::Command::new("kill").args(["-STOP", guard]).status().unwrap();
    assert!(stop.success());

    fs::write(&file, "").unwrap();

    assert_eq!(holder.wait(PATIENCE).unwrap().code(), Some(7));
    assert!(!runs(guard), "it goes with whoever started it");
}

/// coordination 56: a short absence of the server is none of the command's business.
#[test]
fn a_command_runs_on_through_a_restart_of_the_server() {
    let mut shell = Shell::start();
    let file = shell.dir.join("go");
    let acquire = ["sem", "acquire", "lock", "--ephemeral", "--session-timeout", "120", "--", "sh", "-c", HOLD];
    let mut holder = shell.spawn("holder", &[&acquire[..], &[file.to_str().unwrap()]].concat());
    holder.wait_for_line("pids", PATIENCE).unwrap();

    shell.server.kill9().unwrap();
    shell.server.restart().unwrap();

    assert_eq!(shell.json(&["sem", "describe", "lock"])["owners"].as_array().unwrap().len(), 1);
    fs::write(&file, "").unwrap();
    assert_eq!(holder.wait(PATIENCE).unwrap().code(), Some(7));
}

/// coordination 146: whoever is told to end leaves the queue at once.
#[test]
fn a_signal_ends_the_wait() {
    let shell = Shell::start();
    let session = shell.json(&["sem", "acquire", "lock", "--ephemeral", "--session-timeout", "120"])["session"].clone();
    let mut waiter = shell.spawn("waiter", &["sem", "acquire", "lock", "--ephemeral", "--", "true"]);
    let waiting = |count: usize| {
        wait_for("the queue to change", PATIENCE, || {
            let found = shell.json(&["sem", "describe", "lock"]);
            Ok((found["waiters"].as_array().unwrap().len() == count).then_some(()))
        })
    };
    waiting(1).unwrap();

    waiter.signal(Signal::TERM).unwrap();

    assert_eq!(waiter.wait(PATIENCE).unwrap().code(), Some(1));
    let left = shell.json(&["sem", "describe", "lock"]);
    assert_eq!((left["waiters"].as_array().unwrap().len(), &left["owners"][0]["session_id"]), (0, &session));
}

#[test]
fn signals_go_to_the_command() {
    let shell = Shell::start();
    let script = "trap 'exit 5' TERM; echo ready; while true; do sleep 0.02; done";
    let mut holder = shell.spawn("holder", &["sem", "acquire", "lock", "--ephemeral", "--", "sh", "-c", script]);
    holder.wait_for_line("ready", PATIENCE).unwrap();

    holder.signal(Signal::TERM).unwrap();

    assert_eq!(holder.wait(PATIENCE).unwrap().code(), Some(5));
    assert_eq!(shell.failure(&["sem", "describe", "lock"]), (1, "not_found".into()));
}

/// coordination 53, 56, 149, 151.
#[test]
fn a_lock_without_a_command_is_held_by_a_session_that_can_be_come_back_to() {
    let shell = Shell::start();
    let acquire = ["sem", "acquire", "lock", "--ephemeral", "--wait", "0", "--session-timeout", "120"];

    let session = shell.json(&acquire)["session"].to_string();
    assert_eq!(shell.failure(&acquire), (1, "busy".into()));
    let renewed = shell.json(&[&acquire[..], &["--session", &session]].concat());
    assert_eq!(renewed["session"].to_string(), session);
    assert_eq!(shell.json(&["sem", "release", "lock", "--session", &session])["released"], true);

    assert_eq!(shell.failure(&["sem", "release", "lock", "--session", &session]), (1, "not_found".into()));
    shell.json(&acquire);
}

/// coordination 164, 167.
#[test]
fn a_watch_prints_every_change() {
    let shell = Shell::start();
    shell.json(&["sem", "create", "config", "--limit", "1", "--data", "one"]);

    let mut watcher = shell.spawn("watcher", &["sem", "watch", "config"]);
    let mut once = shell.spawn("once", &["sem", "watch", "config", "--once"]);
    watcher.wait_for_line("data: one", PATIENCE).unwrap();
    once.wait_for_line("data: one", PATIENCE).unwrap();
    shell.json(&["sem", "update", "config", "two"]);
    watcher.wait_for_line("data: two", PATIENCE).unwrap();
    assert!(once.wait(PATIENCE).unwrap().success());
    shell.run(&["sem", "acquire", "config", "--", "true"]);
    watcher.wait_for_line("held by session", PATIENCE).unwrap();

    assert!(watcher.is_running());
}

/// coordination 110-113, for those who only look.
#[test]
fn nodes_sessions_and_semaphores_are_shown_over_http() {
    let shell = Shell::start();
    let file = shell.dir.join("go");
    let acquire = ["sem", "acquire", "lock", "--ephemeral", "--data", "me", "--", "sh", "-c", HOLD];
    let mut holder = shell.spawn("holder", &[&acquire[..], &[file.to_str().unwrap()]].concat());
    holder.wait_for_line("pids", PATIENCE).unwrap();
    let mut waiter = shell.spawn("waiter", &["sem", "acquire", "lock", "--ephemeral", "--", "true"]);
    let address = "/v1/coord/semaphores?node=/local/locks&name=lock";
    let semaphore = wait_for("somebody to wait", PATIENCE, || {
        let found: Json = serde_json::from_str(&shell.get(address))?;
        Ok((found["semaphores"][0]["waiters_total"] == 1).then(|| found["semaphores"][0].clone()))
    })
    .unwrap();

    assert_eq!((&semaphore["ephemeral"], &semaphore["owners_total"]), (&json!(true), &json!(1)));
    assert_eq!(semaphore["owners"][0]["data"], "bWU=");
    assert_eq!(semaphore["limit"], u64::MAX.to_string());
    let nodes: Json = serde_json::from_str(&shell.get("/v1/coord/nodes")).unwrap();
    assert_eq!((&nodes["nodes"][0]["path"], &nodes["nodes"][0]["grace_ms"]), (&json!("/local/locks"), &json!(10_000)));
    let sessions: Json = serde_json::from_str(&shell.get("/v1/coord/sessions?node=/local/locks&limit=1")).unwrap();
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);
    assert_eq!((&sessions["sessions"][0]["attached"], &sessions["sessions"][0]["claims"]), (&json!(true), &json!(1)));
    assert!(shell.get("/v1/coord/sessions?node=/local/none").contains("\"not_found\""));
    let metrics = shell.get("/metrics");
    for line in ["shardine_coord_sessions", "shardine_coord_semaphores", "shardine_coord_waiters"] {
        assert!(metrics.contains(&format!("{line}{{group=\"1073741824\"}} ")), "{metrics}");
    }
    finish(&file, &mut holder);
    assert!(waiter.wait(PATIENCE).unwrap().success());
}

fn finish(file: &Path, holder: &mut Process) {
    fs::write(file, "").unwrap();
    holder.wait(PATIENCE).unwrap();
}

#[test]
fn status_has_a_line_for_the_group() {
    let shell = Shell::start();
    shell.json(&["sem", "create", "jobs", "--limit", "1"]);

    let text = shell.server.command(&["status"]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("coordination led by 1   1 nodes"), "{text}");
    let status = shell.server.command(&["status", "--json"]).output().unwrap();
    let status: Json = serde_json::from_slice(&status.stdout).unwrap();

    let group = &status["coordination"][0];
    assert_eq!((&group["leader"], &group["semaphores"], &group["sessions"]), (&json!(1), &json!(1), &json!(0)));
    assert!(group["applied"].as_u64().unwrap() > 0);
}

#[test]
fn semaphores_are_listed_page_by_page_and_so_are_sessions() {
    let shell = Shell::start();
    for name in ["a", "b", "c"] {
        shell.json(&["sem", "create", name, "--limit", "2", "--data", "x"]);
    }
    let held = shell.json(&["sem", "acquire", "b", "--session-timeout", "60"]);

    let names = |line: &[&str]| column(&shell.json(line)["semaphores"], "name");
    assert_eq!(names(&["sem", "list"]), ["a", "b", "c"]);
    assert_eq!(names(&["sem", "list", "--limit", "2"]), ["a", "b"]);
    assert_eq!(names(&["sem", "list", "--after", "b"]), ["c"]);
    assert_eq!(
        shell.json(&["sem", "list", "--after", "a", "--limit", "1"])["semaphores"],
        json!([{ "name": "b", "data": "x", "limit": 2, "count": 1, "ephemeral": false, "owners": 1, "waiters": 0 }])
    );
    let session = json!({ "id": held["session"], "attached": false, "timeout_ms": 60_000, "claims": 1 });
    let listed = &shell.json(&["session", "list"])["sessions"][0];
    for (key, value) in session.as_object().unwrap() {
        assert_eq!(&listed[key], value, "{key}");
    }
    assert_eq!(shell.failure(&["sem", "list", "--node", "/local/none"]).1, "not_found");
    assert_eq!(shell.failure(&["session", "list", "--node", "/local/none"]).1, "not_found");
}

#[test]
fn sessions_are_listed_behind_one_another_and_those_that_are_connected_are_told_apart() {
    let shell = Shell::start();
    shell.json(&["sem", "create", "jobs", "--limit", "3"]);
    let hold = || shell.json(&["sem", "acquire", "jobs", "--session-timeout", "60"])["session"].to_string();
    let (first, second) = (hold(), hold());
    let file = shell.dir.join("go");
    let acquire = ["sem", "acquire", "jobs", "--", "sh", "-c", HOLD, file.to_str().unwrap()];
    let mut holder = shell.spawn("holder", &acquire);
    holder.wait_for_line("pids", PATIENCE).unwrap();

    let list = |line: &[&str]| shell.json(&[&["session", "list"], line].concat())["sessions"].clone();
    let ids = |line: &[&str]| column(&list(line), "id");
    let third = ids(&["--after", &second]).concat();

    assert_eq!(ids(&[]), [&*first, &*second, &*third]);
    assert_eq!(ids(&["--limit", "2"]), [&*first, &*second]);
    assert_eq!(ids(&["--after", &first, "--limit", "1"]), [&*second]);
    assert_eq!(ids(&["--after", &third]), [""; 0]);
    assert_eq!(column(&list(&[]), "attached"), ["false", "false", "true"]);
    finish(&file, &mut holder);
}

/// One field of everything that was listed.
fn column(list: &Json, key: &str) -> Vec<String> {
    let text = |one: &Json| one[key].as_str().map_or_else(|| one[key].to_string(), str::to_owned);
    list.as_array().unwrap().iter().map(text).collect()
}

/// Nodes of several groups behave as if there were one, and their number is fixed with the data directory.
#[test]
fn nodes_are_dealt_out_to_groups_by_their_paths() {
    let mut shell = Shell::start_with(&["--coord-groups", "2"]);
    let paths: Vec<String> = (0..6).map(|number| format!("/local/node-{number}")).collect();
    for path in &paths {
        shell.json(&["node", "create", path]);
        shell.json(&["sem", "create", "door", "--limit", "1", "--data", path, "--node", path]);
    }
    let listed = |shell: &Shell| {
        let nodes = shell.json(&["node", "list"]);
        nodes["nodes"].as_array().unwrap().iter().map(|n| n["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut sorted = paths.clone();
    sorted.sort();

    let status = shell.server.command(&["status", "--json"]).output().unwrap();
    let groups: Json = serde_json::from_slice(&status.stdout).unwrap();
    let nodes: Vec<u64> =
        groups["coordination"].as_array().unwrap().iter().map(|group| group["nodes"].as_u64().unwrap()).collect();
    assert_eq!(nodes.len(), 2);
    assert_eq!(nodes.iter().sum::<u64>(), 6);
    assert!(nodes.iter().all(|nodes| *nodes > 0), "{nodes:?}");
    assert_eq!(listed(&shell), sorted);
    assert!(shell.get("/metrics").contains("shardine_coord_nodes{group=\"1073741825\"}"));
    assert!(shell.get("/v1/coord/semaphores?node=/local/node-3").contains("door"));

    shell.server.kill9().unwrap();
    shell.server.restart().unwrap();

    assert_eq!(listed(&shell), sorted);
    for path in &paths {
        let found = shell.json(&["sem", "describe", "door", "--node", path]);
        assert_eq!(found["data"], json!(path), "its own");
    }
    shell.server.stop().unwrap();
    let mut up = std::process::Command::new(env!("CARGO_BIN_EXE_shardine"));
    up.args(["up", "--sql", "none", "--coord-groups", "3", "--redis", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]);
    let refused = up.args(["--http", "127.0.0.1:0", "--data"]).arg(shell.server.data()).output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("was made with 2"), "{told}");
}
