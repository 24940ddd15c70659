//! A node that holds no data: it answers for every key on every door, and nothing is lost with it.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::Context;
use serde_json::{Value as Json, json};
use shardine_testkit::{Cluster, Dir, PATIENCE, Reply, find_binary, wait_for};

fn json(cluster: &Cluster, place: usize, args: &[&str]) -> Json {
    let output = cluster.command(place, args).arg("--json").output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn node(cluster: &Cluster, asked: usize, name: &str) -> Json {
    let nodes = json(cluster, asked, &["node", "list"]);
    nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name).unwrap().clone()
}

fn get(cluster: &Cluster, place: usize, path: &str) -> String {
    let mut stream = TcpStream::connect(cluster.http(place)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", cluster.http(place)).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Every door of a node, with changes and reads that its neighbours have to execute.
fn use_every_door(cluster: &Cluster, place: usize, round: &str) {
    let mut client = cluster.client(place).unwrap();
    for key in 0..20 {
        assert_eq!(client.call(&["SET", &format!("{round}{key}"), round]).unwrap(), Reply::ok());
        assert_eq!(client.call(&["GET", &format!("{round}{key}")]).unwrap(), Reply::bulk(round));
    }
    let read = json(cluster, place, &["get", &format!("kv:{round}7")]);
    assert!(read.to_string().contains(round), "{read}");
    let answer = get(cluster, place, &format!("/v1/tables/kv/records/{round}7"));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(round), "{answer}");
    let held = ["coord", "sem", "acquire", round, "--ephemeral", "--", "true"];
    let output = cluster.command(place, &held).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A node without a replica of coordination tells what whoever leads it sees.
fn look_at_coordination(cluster: &Cluster, place: usize) {
    let made = ["coord", "sem", "create", "pool", "--limit", "2"];
    assert!(cluster.command(place, &made).output().unwrap().status.success());
    assert_eq!(json(cluster, place, &["coord", "node", "list"])["nodes"][0]["path"], "/local/locks");
    assert_eq!(json(cluster, place, &["coord", "sem", "list"])["semaphores"][0]["name"], "pool");
    assert!(json(cluster, place, &["coord", "session", "list"])["sessions"].is_array());
    let absent = cluster.command(place, &["coord", "sem", "list", "--node", "/local/absent"]).output().unwrap();
    assert!(String::from_utf8_lossy(&absent.stderr).contains("not_found"));
}

/// Replicas of any shard that are on a node.
fn placed_on(cluster: &Cluster, asked: usize, name: &str) -> usize {
    let status = json(cluster, asked, &["status"]);
    let shards = status["shards"].as_array().unwrap();
    let replicas = shards.iter().flat_map(|shard| shard["replicas"].as_array().unwrap());
    replicas.filter(|replica| replica["name"] == name).count()
}

fn await_placed(cluster: &Cluster, asked: usize, name: &str, count: usize) {
    let event = format!("{count} replicas on {name}");
    wait_for(&event, PATIENCE, || Ok((placed_on(cluster, asked, name) == count).then_some(())))
        .with_context(|| cluster.tails())
        .unwrap();
}

#[test]
fn a_gateway_answers_for_everything_and_holds_nothing() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();
    assert!(cluster.command(0, &["coord", "node", "create", "/local/locks"]).output().unwrap().status.success());
    let gateway = cluster.add_with(&["--gateway"]).unwrap();
    cluster.wait_until_serving().unwrap();

    use_every_door(&cluster, gateway, "first");
    look_at_coordination(&cluster, gateway);
    let seen = node(&cluster, 0, "n4");
    assert_eq!((&seen["gateway"], &seen["replicas"], &seen["leads"]), (&json!(true), &json!(0), &json!(0)), "{seen}");
    assert_eq!(node(&cluster, gateway, "n1")["gateway"], json!(false));
    assert_eq!(json(&cluster, gateway, &["status"])["health"], "HEALTHY");

    // It is one after a restart, and nothing is lost with it.
    cluster.kill9(gateway).unwrap();
    use_every_door(&cluster, 1, "second");
    cluster.start(gateway).unwrap();
    cluster.wait_until_serving().unwrap();
    use_every_door(&cluster, gateway, "third");
    assert_eq!(node(&cluster, gateway, "n4")["gateway"], json!(true));

    // No place for replicas: neither for those of a node that is drained, nor for those of one that is lost.
    let refused = cluster.command(0, &["node", "drain", "n3"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("2 other nodes are there to hold them"), "{said}");
    cluster.kill9(2).unwrap();
    wait_for("the node to be removed", PATIENCE, || {
        Ok(cluster.command(0, &["node", "remove", "n3", "--yes"]).output()?.status.success().then_some(()))
    })
    .unwrap();
    await_placed(&cluster, gateway, "n3", 0);
    assert_eq!(placed_on(&cluster, gateway, "n4"), 0);
    use_every_door(&cluster, gateway, "fourth");
    assert_eq!(json(&cluster, gateway, &["status"])["health"], "HEALTHY");
}

/// Files that a process has open under a name.
fn opened(cluster: &Cluster, place: usize, name: &str) -> usize {
    let files = fs::read_dir(format!("/proc/{}/fd", cluster.pid(place).unwrap())).unwrap();
    let targets = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
    targets.filter(|target| target.to_string_lossy().contains(name)).count()
}

/// It leads nothing, so it has nothing to say to SQL; tables with SQL behind them are used by it all the same.
#[test]
fn a_gateway_does_not_open_the_sql_of_the_others() {
    let dir = Dir::new().unwrap();
    let sql = format!("sqlite:{}", dir.join("behind.db").display());
    let mut cluster = Cluster::prepare(dir, find_binary().unwrap(), 4, &[]).unwrap();
    cluster.nodes[3].args.push("--gateway".to_owned());
    cluster.found(3, &["--sql", &sql]).unwrap();
    json(&cluster, 3, &["table", "create", "users", "--field", "age:int64"]);

    let mut client = cluster.client(3).unwrap();
    assert_eq!(client.call(&["HSET", "users:lili", "age", "10"]).unwrap(), Reply::Int(1));
    assert_eq!(client.call(&["REC.FLUSH"]).unwrap(), Reply::ok());

    assert!(opened(&cluster, 0, "behind.db") > 0);
    assert_eq!(opened(&cluster, 3, "behind.db"), 0);
    assert_eq!(json(&cluster, 3, &["status"])["health"], "HEALTHY");
}

/// Also before there is a cluster: it is no founder, and finds the cluster that the others make.
#[test]
fn a_gateway_founds_no_cluster_and_becomes_a_node_like_others_when_its_line_says_so() {
    let mut cluster = Cluster::prepare(Dir::new().unwrap(), find_binary().unwrap(), 4, &[]).unwrap();
    cluster.nodes[3].args.push("--gateway".to_owned());
    cluster.found(3, &[]).unwrap();
    assert_eq!(node(&cluster, 0, "n4")["gateway"], json!(true));

    cluster.kill9(3).unwrap();
    cluster.nodes[3].args.clear();
    cluster.start(3).unwrap();
    cluster.wait_until_serving().unwrap();
    wait_for("the map to hear of it", PATIENCE, || {
        Ok((node(&cluster, 0, "n4")["gateway"] == json!(false)).then_some(()))
    })
    .unwrap();
    assert!(cluster.command(0, &["node", "drain", "n3"]).output().unwrap().status.success());
    await_placed(&cluster, 3, "n3", 0);
    assert!(placed_on(&cluster, 3, "n4") > 0);

    // Whoever holds data goes on holding it, whatever its line says.
    cluster.kill9(3).unwrap();
    cluster.nodes[3].args.push("--gateway".to_owned());
    cluster.start(3).unwrap();
    let said = wait_for("the node to refuse", PATIENCE, || {
        let process = cluster.process(3)?;
        Ok((!process.is_running()).then(|| process.output()))
    })
    .unwrap();
    assert!(said.contains("cannot be a gateway"), "{said}");
}
