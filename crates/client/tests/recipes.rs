//! The recipes as a user runs them: each example is a process of its own, and dies like one.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::process::Command;

use shardine_testkit::{Dir, PATIENCE, Process, Shardine, find_example};

struct Stage {
    server: Shardine,
    dir: Dir,
}

impl Stage {
    fn new() -> Self {
        Self { server: Shardine::start().unwrap(), dir: Dir::new().unwrap() }
    }

    fn command(&self, example: &str, words: &[&str]) -> Command {
        let mut command = Command::new(find_example(example).unwrap());
        command.args(words).env("SHARDINE_SERVER", self.server.grpc().address().to_string());
        command
    }

    fn run(&self, example: &str, words: &[&str]) -> Process {
        let log = self.dir.join(format!("{}.log", words.join("-").replace(':', "-")));
        Process::spawn(example, &mut self.command(example, words), &log).unwrap()
    }

    /// What an example printed that ends by itself.
    fn output(&self, example: &str, words: &[&str]) -> String {
        let output = self.command(example, words).output().unwrap();
        assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// coordination 55, 115, 167, 168.
/// reliability I71.
#[test]
fn the_next_worker_leads_when_the_leader_has_died() {
    let stage = Stage::new();
    let mut first = stage.run("leader_election", &["first"]);
    let order = first.wait_for_line("I lead, with order", PATIENCE).unwrap();
    let mut second = stage.run("leader_election", &["second"]);
    second.wait_for_line("first leads", PATIENCE).unwrap();
    assert!(!second.output().contains("I lead"));

    first.kill9().unwrap();

    let next_order = second.wait_for_line("I lead, with order", PATIENCE).unwrap();
    second.wait_for_line("second leads", PATIENCE).unwrap();
    let number = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(number(&next_order) > number(&order), "{next_order} after {order}");
}

/// coordination 88, 157.
#[test]
fn endpoints_come_and_go_with_their_workers() {
    let stage = Stage::new();
    let mut one = stage.run("service_discovery", &["publish", "10.0.0.1:80"]);
    one.wait_for_line("published", PATIENCE).unwrap();

    let mut follower = stage.run("service_discovery", &["follow"]);
    follower.wait_for_line("endpoints: 10.0.0.1:80", PATIENCE).unwrap();
    let mut two = stage.run("service_discovery", &["publish", "10.0.0.2:80"]);
    follower.wait_for_line("endpoints: 10.0.0.1:80 10.0.0.2:80", PATIENCE).unwrap();
    one.kill9().unwrap();
    follower.wait_for_line("endpoints: 10.0.0.2:80", PATIENCE).unwrap();

    assert!(two.is_running());
}

/// coordination 95, 164.
#[test]
fn a_published_configuration_reaches_its_followers() {
    let mut stage = Stage::new();
    let mut follower = stage.run("configuration", &["follow"]);
    follower.wait_for_line("configuration: ", PATIENCE).unwrap();

    stage.output("configuration", &["publish", "workers = 8"]);
    follower.wait_for_line("configuration: workers = 8", PATIENCE).unwrap();
    // It is there after a restart, and so is whoever follows it.
    stage.server.restart().unwrap();
    stage.output("configuration", &["publish", "workers = 9"]);

    follower.wait_for_line("configuration: workers = 9", PATIENCE).unwrap();
}

/// coordination 115: the number that makes it work.
#[test]
fn a_stale_owners_write_is_refused() {
    let stage = Stage::new();
    let table = ["table", "create", "jobs", "--backing", "none", "--field", "fence:uint64", "--field", "result:string"];
    assert!(stage.server.command(&table).status().unwrap().success());

    let printed = stage.output("fencing", &[]);

    let verdicts: Vec<&str> = printed.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(verdicts, ["written", "written", "written", "refused"], "{printed}");
    let record = stage.server.command(&["get", "jobs:nightly", "result"]).output().unwrap();
    assert!(String::from_utf8_lossy(&record.stdout).contains("from the second"));
}
