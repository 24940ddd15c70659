//! Nodes come to a running cluster, lose their disks and are replaced, each a real process. Nothing is restarted for their sake.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeSet;

use anyhow::Context;
use serde_json::Value as Json;
use shardine_testkit::{Cluster, Dir, PATIENCE, Reply, wait_for};

const KEYS: usize = 60;

fn json(cluster: &Cluster, place: usize, args: &[&str]) -> Json {
    let output = cluster.command(place, args).arg("--json").output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The number that a name has.
fn number(cluster: &Cluster, asked: usize, name: &str) -> Option<u64> {
    let nodes = json(cluster, asked, &["node", "list"]);
    let named =
        nodes["nodes"].as_array().unwrap().iter().filter(|node| node["name"] == name && node["state"] != "silent");
    named.filter_map(|node| node["id"].as_u64()).max()
}

fn write(cluster: &Cluster, place: usize, round: &str) {
    let mut client = cluster.client(place).unwrap();
    for key in 0..KEYS {
        assert_eq!(client.call(&["SET", &format!("k{key}"), round]).unwrap(), Reply::ok(), "k{key}");
    }
}

fn check(cluster: &Cluster, place: usize, round: &str) {
    let mut client = cluster.client(place).unwrap();
    for key in 0..KEYS {
        assert_eq!(client.call(&["GET", &format!("k{key}")]).unwrap(), Reply::bulk(round), "k{key} at {place}");
    }
}

/// Waits until every shard has just so many replicas, all of them alive and on these nodes where any are named.
fn await_replicas(cluster: &mut Cluster, asked: usize, count: usize, on: &[u64]) {
    let on: BTreeSet<u64> = on.iter().copied().collect();
    let mut last = Json::Null;
    let settled = wait_for("replicas to be where they belong", PATIENCE, || {
        let status = json(cluster, asked, &["status"]);
        let is_settled = status["shards"].as_array().unwrap().iter().all(|shard| {
            let replicas = shard["replicas"].as_array().unwrap();
            let nodes: BTreeSet<u64> = replicas.iter().map(|replica| replica["node"].as_u64().unwrap()).collect();
            let lives = replicas.iter().all(|replica| replica["lives"] == true);
            lives && replicas.len() == count && (on.is_empty() || nodes == on)
        });
        last = status;
        Ok((is_settled && last["health"] == "HEALTHY").then_some(()))
    });
    settled.with_context(|| format!("{last:#}\n{}", cluster.tails())).unwrap();
    let rested = wait_for("members of groups to stay as they are", PATIENCE, || {
        let said = cluster.process(asked)?.output();
        let last = said.lines().rev().find(|line| line.contains("being changed"));
        Ok(last.is_none_or(|line| line.contains("any more")).then_some(()))
    });
    rested.with_context(|| cluster.tails()).unwrap();
}

/// An empty directory with a known name has forgotten its votes, and never gets the old number again, whoever is
/// restarted meanwhile and however often it tries. It becomes a new node, and the old one's replicas are replaced.
#[test]
fn a_lost_directory_never_comes_back_under_its_old_number() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();
    write(&cluster, 0, "first");
    let mut numbers = vec![number(&cluster, 0, "n3").unwrap()];

    for round in 0..3 {
        cluster.kill9(2).unwrap();
        cluster.lose_data(2).unwrap();
        // Whoever made the cluster must not have to remember whom it has told.
        cluster.kill9(0).unwrap();
        cluster.start(0).unwrap();
        cluster.start(2).unwrap();
        let got = wait_for("the node to be let in", PATIENCE, || {
            Ok(number(&cluster, 1, "n3").filter(|number| !numbers.contains(number)))
        });
        numbers.push(got.with_context(|| cluster.tails()).unwrap());
        await_replicas(&mut cluster, 1, 3, &[1, 2, *numbers.last().unwrap()]);
        write(&cluster, 1, &format!("round {round}"));
    }
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");

    // What it holds now counts.
    cluster.kill9(0).unwrap();
    check(&cluster, 2, "round 2");
    write(&cluster, 2, "last");
    check(&cluster, 1, "last");
}

/// One that lives keeps its name.
#[test]
fn a_name_belongs_to_the_node_that_lives() {
    let cluster = Cluster::form(3, &[], &[]).unwrap();
    let (join, data) = (cluster.grpc(0).to_string(), Dir::new().unwrap());
    let mut command = cluster.command(0, &["start", "--name", "n2", "--join", &join]);
    command.arg("--data").arg(data.path());
    for door in ["--redis", "--grpc", "--http", "--peer"] {
        command.args([door, "127.0.0.1:0"]);
    }

    let output = command.output().unwrap();

    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("give this one another --name"), "{said}");
}

#[test]
fn a_fourth_node_is_useful_at_once() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();
    let table = ["table", "create", "users", "--field", "age:int64", "--backing", "none"];
    assert!(cluster.command(1, &table).output().unwrap().status.success());
    write(&cluster, 0, "first");

    let place = cluster.add().unwrap();
    cluster.wait_until_serving().unwrap();

    check(&cluster, place, "first");
    write(&cluster, place, "second");
    check(&cluster, 1, "second");
    let mut client = cluster.client(place).unwrap();
    assert_eq!(client.call(&["HSET", "users:1", "age", "7"]).unwrap(), Reply::Int(1));
    // What it made known is known everywhere, and the other way round.
    let table = ["table", "create", "pets", "--field", "legs:int64", "--backing", "none"];
    let made = cluster.command(place, &table).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for place in 0..4 {
        let mut client = cluster.client(place).unwrap();
        assert_eq!(client.call(&["HGET", "users:1", "age"]).unwrap(), Reply::bulk("7"));
        assert_eq!(client.call(&["HSET", &format!("pets:{place}"), "legs", "4"]).unwrap(), Reply::Int(1));
    }
    // It is in everybody's map also after a restart of all.
    for place in 0..4 {
        cluster.kill9(place).unwrap();
    }
    for place in [3, 1, 0, 2] {
        cluster.start(place).unwrap();
    }
    cluster.wait_until_serving().unwrap();
    check(&cluster, place, "second");
}

/// records 128: two nodes are one voter and one learner, for two voters are worse than one; three survive the loss of any.
#[test]
fn a_cluster_of_one_grows_to_three() {
    let mut cluster = Cluster::form(1, &[], &[]).unwrap();
    write(&cluster, 0, "alone");

    cluster.add().unwrap();
    cluster.wait_until_serving().unwrap();
    check(&cluster, 1, "alone");
    await_replicas(&mut cluster, 0, 2, &[1, 2]);
    cluster.add().unwrap();
    cluster.wait_until_serving().unwrap();
    await_replicas(&mut cluster, 2, 3, &[1, 2, 3]);
    write(&cluster, 2, "three");

    cluster.kill9(0).unwrap();
    check(&cluster, 1, "three");
    write(&cluster, 2, "two");
    check(&cluster, 1, "two");
    cluster.start(0).unwrap();
    cluster.wait_until_serving().unwrap();
    check(&cluster, 0, "two");
}

/// All nodes lose their power, and come back at other addresses: what each knows of the others leads nowhere.
#[test]
fn nodes_that_all_change_their_addresses_find_each_other() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();
    write(&cluster, 0, "before");

    for (order, only) in [([2, 0, 1], None), ([0, 1, 2], Some(1))] {
        for place in 0..3 {
            cluster.kill9(place).unwrap();
            cluster.relocate(place).unwrap();
            cluster.nodes[place].join = only;
        }
        for place in order {
            cluster.start(place).unwrap();
        }
        cluster.wait_until_serving().unwrap();

        for place in 0..3 {
            check(&cluster, place, "before");
        }
    }
    // It is in the map: whoever is restarted alone finds the others without being told.
    write(&cluster, 1, "after");
    cluster.kill9(2).unwrap();
    cluster.nodes[2].join = Some(2);
    cluster.start(2).unwrap();
    cluster.wait_until_serving().unwrap();
    check(&cluster, 2, "after");
}

/// A node that starts without a majority of the others knows no tables yet: it is there, and says why it does nothing.
#[test]
fn a_node_without_the_others_answers_ping_and_says_what_it_lacks() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();
    write(&cluster, 0, "before");
    for place in 0..3 {
        cluster.kill9(place).unwrap();
    }
    cluster.start(0).unwrap();

    let mut client = wait_for("the Redis door", PATIENCE, || Ok(cluster.client(0).ok())).unwrap();
    assert_eq!(client.call(&["PING"]).unwrap(), Reply::Simple("PONG".into()));
    // It is held for a while, in case that there is a leader in a moment.
    let refused = client.call(&["GET", "k1"]).unwrap();
    assert!(matches!(&refused, Reply::Error(error) if error.starts_with("TRYAGAIN no_leader")), "{refused:?}");
    assert_eq!(client.call(&["PING", "still"]).unwrap(), Reply::bulk("still"));

    cluster.start(1).unwrap();
    cluster.wait_until_serving().unwrap();
    check(&cluster, 0, "before");
    check(&cluster, 1, "before");
}
