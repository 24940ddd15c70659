//! Reads that may be old, over three real nodes: followers answer by their weights, whoever is lost leaves the choice, and what only
//! the leader knows is asked of it.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::Context;
use serde_json::Value as Json;
use shardine_testkit::{Client, Cluster, PATIENCE, Reply, wait_for};

const READS: u64 = 2_000;
const READ: &[&str] = &["REC.GET", "k", "FIELDS", "1", "f", "STALE"];

fn json(cluster: &Cluster, place: usize, args: &[&str]) -> Json {
    let output = cluster.command(place, args).arg("--json").output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn order(cluster: &Cluster, args: &[&str]) {
    let output = cluster.command(0, args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A cluster of one shard that the first node leads, and a gateway: it prefers nobody.
fn cluster() -> (Cluster, usize) {
    let mut cluster = Cluster::form(3, &["--shards", "1"], &[]).unwrap();
    let gateway = cluster.add_with(&["--gateway"]).unwrap();
    cluster.wait_until_serving().unwrap();
    order(&cluster, &["shard", "transfer-leader", "1", "--to", "n1"]);
    let mut client = cluster.client(gateway).unwrap();
    assert_eq!(client.call(&["HSET", "k", "f", "v"]).unwrap(), Reply::Int(1));
    await_record(&mut client);
    (cluster, gateway)
}

/// A follower may be behind for a moment, and says so by the index that it has applied. So many reads in a row ask all.
fn await_record(client: &mut Client) {
    wait_for("all who are asked to have the record", PATIENCE, || {
        let mut replies = (0..20).map(|_| client.call(READ).unwrap());
        Ok(replies.all(|reply| has_record(&reply)).then_some(()))
    })
    .unwrap();
}

/// The reads that a node's own replicas have answered.
fn answered(cluster: &Cluster, place: usize) -> u64 {
    json(cluster, place, &["status"])["counters"]["stale_reads"].as_u64().unwrap()
}

fn read(client: &mut Client) {
    let reply = client.call(READ).unwrap();
    assert!(has_record(&reply), "{reply:?}");
}

fn has_record(reply: &Reply) -> bool {
    let record = Reply::Array(vec![Reply::bulk("f"), Reply::bulk("v")]);
    matches!(reply, Reply::Array(parts) if parts.get(2) == Some(&record))
}

/// How many of many reads at a node each of these nodes has answered.
fn spread(cluster: &Cluster, asked: usize, places: &[usize]) -> Vec<u64> {
    let before: Vec<u64> = places.iter().map(|place| answered(cluster, *place)).collect();
    let mut client = cluster.client(asked).unwrap();
    (0..READS).for_each(|_| read(&mut client));
    places.iter().zip(before).map(|(place, before)| answered(cluster, *place) - before).collect()
}

fn is_near(found: u64, wanted: u64) -> bool {
    found.abs_diff(wanted) <= READS * 3 / 100
}

/// sharding C-12, C-15, C-16, C-17: 100 and 300 are a quarter and three quarters, whichever node is asked; the leader and whoever
/// weighs nothing are left alone while another one is up.
#[test]
fn followers_answer_by_their_weights() {
    let (cluster, gateway) = cluster();
    order(&cluster, &["node", "weight", "n3", "300"]);

    for asked in [gateway, 0, 1] {
        let is_right =
            |spread: &[u64]| spread[0] == 0 && is_near(spread[1], READS / 4) && spread[1] + spread[2] == READS;
        await_spread(&cluster, asked, &[0, 1, 2], "a quarter and three quarters, and none for the leader", is_right);
    }

    order(&cluster, &["node", "weight", "n2", "0"]);
    await_spread(&cluster, gateway, &[0, 1, 2], "only who weighs something to be asked", |spread| {
        spread == [0, 0, READS]
    });
    // On every door.
    let before = answered(&cluster, 2);
    assert_eq!(json(&cluster, gateway, &["get", "kv:k", "--stale"])["version"], 1);
    let mut stream = TcpStream::connect(cluster.http(gateway)).unwrap();
    let path = "/v1/tables/kv/records/k?stale=true";
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", cluster.http(gateway)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("applied-index"), "{answer}");
    assert_eq!(answered(&cluster, 2), before + 2);
}

/// sharding C-15, C-18: a node that is lost leaves the choice, no read fails, the leader answers when nobody else is up, and whoever
/// comes back is asked again.
#[test]
fn a_lost_node_leaves_the_choice() {
    let (mut cluster, gateway) = cluster();
    let mut client = cluster.client(gateway).unwrap();

    // A process that stands still is not known to be lost before it has been silent for a while.
    cluster.process(2).unwrap().pause().unwrap();
    wait_for("the choice to leave it", PATIENCE, || {
        read(&mut client);
        let nodes = json(&cluster, gateway, &["node", "list"]);
        Ok(nodes["nodes"].as_array().unwrap().iter().any(|node| node["state"] == "silent").then_some(()))
    })
    .unwrap();
    await_spread(&cluster, gateway, &[0, 1], "only the other follower to be asked", |spread| spread[..2] == [0, READS]);
    cluster.process(2).unwrap().resume().unwrap();
    await_half(&cluster, gateway);

    cluster.kill9(2).unwrap();
    (0..100).for_each(|_| read(&mut client));
    order(&cluster, &["node", "weight", "n2", "0"]);
    await_spread(&cluster, gateway, &[0, 1], "the leader before one that weighs nothing", |spread| {
        spread[..2] == [READS, 0]
    });
    order(&cluster, &["node", "weight", "n2", "100"]);
    cluster.start(2).unwrap();
    cluster.wait_until_serving().unwrap();
    await_record(&mut client);
    await_half(&cluster, gateway);
    // The rest can change nothing without the other one, and still reads what may be old.
    for victim in [0, 2] {
        cluster.kill9(victim).unwrap();
    }
    read(&mut client);
}

/// Waits until both followers are asked again.
fn await_half(cluster: &Cluster, gateway: usize) {
    let is_half = |spread: &[u64]| spread[0] == 0 && is_near(spread[1], READS / 2);
    await_spread(cluster, gateway, &[0, 1], "both followers to be asked", is_half);
}

/// Waits until many reads in a row are answered by whom they should be; none of them fails meanwhile. On a busy machine a node may be
/// silent for long enough to be suspected, and the choice then leaves it too, for a moment. A lost node has nothing to tell.
fn await_spread(cluster: &Cluster, asked: usize, places: &[usize], what: &str, is_right: impl Fn(&[u64]) -> bool) {
    wait_for(what, PATIENCE, || Ok(is_right(&spread(cluster, asked, places)).then_some(())))
        .with_context(|| cluster.tails())
        .unwrap();
}
