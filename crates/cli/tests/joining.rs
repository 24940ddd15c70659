//! What a cluster refuses of a node that wants to join or to come back: `doctor` sees it beforehand, and `start` says it.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value as Json;
use shardine_testkit::{Cluster, Dir, PATIENCE, Reply, wait_for};

/// What `doctor` finds of a node with this name and directory: the grade and the words of each check.
fn doctor(cluster: &Cluster, name: &str, data: &Path) -> Json {
    let output = doctor_command(cluster, name, data).output().unwrap();
    let findings: Json = serde_json::from_slice(&output.stdout).unwrap();
    findings["findings"].clone()
}

fn doctor_command(cluster: &Cluster, name: &str, data: &Path) -> Command {
    let join = cluster.grpc(0).to_string();
    let mut command = cluster.command(0, &["doctor", "--json", "--name", name, "--join", &join, "--data"]);
    command.arg(data);
    command
}

#[track_caller]
fn assert_finding(findings: &Json, check: &str, grade: &str, words: &str) {
    let found = findings.as_array().unwrap().iter().find(|found| found["check"] == check);
    let found = found.unwrap_or_else(|| panic!("no check {check}: {findings:#}"));
    assert!(found["grade"] == grade && found["found"].as_str().unwrap().contains(words), "{found:#}");
}

/// `start` on a directory, at any free ports.
fn start(cluster: &Cluster, name: &str, data: &Path) -> Command {
    let mut command = cluster.command(0, &["start", "--name", name, "--join", &cluster.grpc(0).to_string()]);
    command.arg("--data").arg(data);
    for door in ["--redis", "--grpc", "--http", "--peer"] {
        command.args([door, "127.0.0.1:0"]);
    }
    command
}

/// What a start that fails says.
fn refusal(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

#[test]
fn doctor_sees_what_a_join_refuses() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();
    let dir = Dir::new().unwrap();

    // Nothing is wrong with a new node, and a directory that is there already is not touched.
    let findings = doctor(&cluster, "n4", &dir.join("new"));
    for check in ["directory", "name", "clocks", "protocol"] {
        assert_finding(&findings, check, "ok", "");
    }
    assert!(!dir.join("new").exists());

    // A name that is used, and a directory that is.
    assert_finding(&doctor(&cluster, "n2", &dir.join("new")), "name", "failed", "is called n2 and lives");
    let used = cluster.dir().join("n1");
    assert_finding(&doctor(&cluster, "n1", &used), "directory", "failed", "another process");
    let said = refusal(start(&cluster, "n1", &used));
    assert!(said.contains("another process"), "{said}");

    // A copy of a directory, and one that is another node's.
    let starts = starts_of(&cluster, "n3");
    cluster.kill9(2).unwrap();
    assert_finding(&doctor(&cluster, "n3", &cluster.dir().join("n3")), "membership", "ok", "expected back");
    copy(&cluster.dir().join("n3"), &dir.join("copy"));
    copy(&cluster.dir().join("n3"), &dir.join("older"));
    cluster.start(2).unwrap();
    cluster.wait_until_serving().unwrap();
    assert_finding(&doctor(&cluster, "n3", &dir.join("copy")), "membership", "failed", "this is a copy");
    assert_finding(&doctor(&cluster, "n4", &dir.join("copy")), "directory", "failed", "belongs to the node \"n3\"");
    let said = refusal(start(&cluster, "n4", &dir.join("copy")));
    assert!(said.contains("belongs to the node \"n3\""), "{said}");
    let said = refusal(start(&cluster, "n3", &dir.join("copy")));
    assert!(said.contains("old or second copy"), "{said}");

    // Also while nobody else runs under the name: it is older than its last start.
    wait_for("the map to hear of the last start", PATIENCE, || Ok((starts_of(&cluster, "n3") > starts).then_some(())))
        .unwrap();
    cluster.kill9(2).unwrap();
    wait_for("the node to be missed", PATIENCE, || {
        let findings = doctor(&cluster, "n3", &dir.join("older"));
        let found = findings.as_array().unwrap().iter().find(|finding| finding["check"] == "membership").cloned();
        Ok(found.filter(|found| found["grade"] == "failed" && found.to_string().contains("it is an old copy")))
    })
    .unwrap();
    let newest = cluster.dir().join("n3");
    assert_finding(&doctor(&cluster, "n3", &newest), "membership", "ok", "expected back");

    // It was turned away once, and counts its starts: it is not let in when it has tried often enough.
    let refused = dir.join("copy");
    assert_finding(&doctor(&cluster, "n3", &refused), "membership", "failed", "turned away");
    let said = refusal(start(&cluster, "n3", &refused));
    assert!(said.contains("turned away") && said.contains("old or second copy"), "{said}");

    // One that was removed.
    wait_for("the node to be removed", PATIENCE, || {
        Ok(cluster.command(0, &["node", "remove", "n3", "--yes"]).output()?.status.success().then_some(()))
    })
    .unwrap();
    let removed = cluster.dir().join("n3");
    assert_finding(&doctor(&cluster, "n3", &removed), "membership", "failed", "was removed");
    let said = refusal(start(&cluster, "n3", &removed));
    assert!(said.contains("has been removed") || said.contains("was removed"), "{said}");
}

/// How many starts of a node the map knows of.
fn starts_of(cluster: &Cluster, name: &str) -> u64 {
    let output = cluster.command(0, &["node", "show", name, "--json"]).output().unwrap();
    let node: Json = serde_json::from_slice(&output.stdout).unwrap();
    node["starts"].as_u64().unwrap()
}

/// It is cut while it takes its place, as soon as its directory has a name.
#[test]
fn a_join_that_stops_half_way_goes_on_when_it_is_started_again() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();
    let place = cluster.add().unwrap();
    let identity = cluster.dir().join("n4").join("IDENTITY");
    wait_for("its directory to have a name", PATIENCE, || Ok(identity.exists().then_some(()))).unwrap();
    cluster.kill9(place).unwrap();

    cluster.start(place).unwrap();

    cluster.wait_until_serving().unwrap();
    let mut client = cluster.client(place).unwrap();
    assert_eq!(client.call(&["SET", "k", "v"]).unwrap(), Reply::ok());
    let nodes = cluster.command(0, &["node", "list", "--json"]).output().unwrap();
    let nodes: Json = serde_json::from_slice(&nodes.stdout).unwrap();
    // A number that nobody was told is removed; it is listed until the replicas that the map meant for it are placed elsewhere.
    let is_member = |node: &&Json| node["name"] == "n4" && node["removed"] == false;
    let named = nodes["nodes"].as_array().unwrap().iter().filter(is_member).count();
    assert_eq!(named, 1, "{nodes}");
}

#[test]
fn doctor_sees_another_cluster_s_directory_and_a_clock_that_is_wrong() {
    let cluster = Cluster::form(1, &[], &[]).unwrap();
    let mut other = Cluster::form(1, &[], &[]).unwrap();
    other.kill9(0).unwrap();

    let findings = doctor(&cluster, "n1", &other.dir().join("n1"));
    assert_finding(&findings, "membership", "failed", "belongs to the cluster");

    let mut command = doctor_command(&cluster, "n2", &other.dir().join("new"));
    let output = command.env("LD_PRELOAD", library()).env("FAKETIME", "+90s").output().unwrap();
    let findings: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_finding(&findings["findings"], "clocks", "failed", "ahead of");
}

fn library() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path());
    let mut found = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).filter(|path| path.exists());
    found.next().expect("libfaketime is installed by `cargo xtask setup`")
}
