//! A cluster that grows takes the new node into use by itself; each node a real process.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod counting;

use std::collections::BTreeMap;

use serde_json::Value as Json;
use shardine_testkit::{Cluster, Reply};

use counting::{Writers, await_that, check, json, node, refusal};

/// How many replicas each node holds.
fn replicas(cluster: &Cluster) -> Vec<u64> {
    let nodes = json(cluster, 0, &["node", "list"]);
    nodes["nodes"].as_array().unwrap().iter().map(|node| node["replicas"].as_u64().unwrap()).collect()
}

/// Sixteen shards, coordination and the map have three copies each, and nothing is being moved; the map's own group counts for nothing.
fn are_balanced(replicas: &[u64]) -> bool {
    replicas.len() == 4 && replicas.iter().all(|count| (12..=14).contains(count)) && replicas.iter().sum::<u64>() == 54
}

/// sharding B-30: without a word from anybody, while clients write, and nothing is lost, doubled or refused.
#[test]
fn a_fourth_node_takes_its_share_by_itself() {
    let mut cluster = Cluster::form(3, &["--shards", "16"], &[]).unwrap();
    let writers = Writers::begin(&cluster, &[0, 1, 2]);

    let place = cluster.add().unwrap();
    cluster.wait_until_serving().unwrap();
    await_that(&cluster, "the fourth node to hold its share", || are_balanced(&replicas(&cluster)));

    let written = writers.end();
    for written in &written {
        assert_eq!(written.refusals, BTreeMap::new());
    }
    (0..4).for_each(|place| check(&cluster, place, &written));
    // Every shard has three copies that are whole: any node may go.
    cluster.kill9(1).unwrap();
    check(&cluster, place, &written);
    assert_eq!(cluster.client(0).unwrap().call(&["SET", "k", "v"]).unwrap(), Reply::ok());
}

/// sharding B-43
#[test]
fn moves_survive_the_loss_of_meta_s_leader() {
    let mut cluster = Cluster::form(3, &["--shards", "16"], &[]).unwrap();
    json(&cluster, 0, &["shard", "transfer-leader", "meta", "--to", "n1"]);
    let writers = Writers::begin(&cluster, &[1, 2]);
    cluster.add().unwrap();
    cluster.wait_until_serving().unwrap();
    await_that(&cluster, "the fourth node to be given something", || replicas(&cluster)[3] > 1);

    cluster.kill9(0).unwrap();
    cluster.start(0).unwrap();
    cluster.wait_until_serving().unwrap();

    await_that(&cluster, "the fourth node to hold its share", || are_balanced(&replicas(&cluster)));
    let written = writers.end();
    (0..4).for_each(|place| check(&cluster, place, &written));
}

/// What the cluster did, oldest first.
fn events(cluster: &Cluster, place: usize) -> Vec<String> {
    let events = json(cluster, place, &["events"]);
    events["events"].as_array().unwrap().iter().map(|event| event["text"].as_str().unwrap().to_owned()).collect()
}

fn is_at_rest(cluster: &Cluster) -> bool {
    json(cluster, 0, &["balancer", "status"])["running"] == Json::Array(Vec::new())
}

/// sharding B-41: while it is off nothing moves but what is ordered. It says what it would do, and why, and every node knows what was done.
#[test]
fn the_balancer_is_switched_off_and_asked_what_it_would_do() {
    let mut cluster = Cluster::form(3, &["--shards", "8"], &[]).unwrap();
    json(&cluster, 1, &["balancer", "off"]);
    cluster.add().unwrap();
    cluster.wait_until_serving().unwrap();

    await_that(&cluster, "the plan for the fourth node", || {
        let report = json(&cluster, 3, &["balancer", "plan"]);
        let planned = &report["planned"][0];
        report["on"] == false && planned["for_balance"] == true && planned["why"] == "n3 holds 9 replicas, n4 0"
    });
    let order = |to: &'static str| vec!["shard", "move", "1", "--from", "n1", "--to", to];
    let said = refusal(&cluster, 0, &order("n2"));
    assert!(said.contains("node n2 has a replica of shard 1 already"), "{said}");
    let rehearsed = json(&cluster, 0, &[order("n4"), vec!["--dry-run"]].concat());
    assert_eq!(rehearsed["what"], "shard 1: n4 in place of n1");
    json(&cluster, 2, &order("n4"));
    await_that(&cluster, "the move that was ordered", || replicas(&cluster) == [9, 10, 10, 1] && is_at_rest(&cluster));

    for place in 0..4 {
        await_that(&cluster, "everybody to know of it", || {
            let told = events(&cluster, place);
            let moves: Vec<&String> = told.iter().filter(|text| text.contains(" begins to move: ")).collect();
            assert!(moves.len() <= 1, "{told:?}");
            moves == ["shard 1 begins to move: n4 in place of n1"]
                && told.iter().any(|text| text == "setting balancer is off")
                && told.iter().any(|text| text == "node n4 has joined as number 4")
                && told.last().is_some_and(|text| text == "shard 1 has moved: it is on n2, n3, n4")
        });
    }
    let said = refusal(&cluster, 0, &["balancer", "speed", "0"]);
    assert!(said.contains("balancer.speed cannot be 0"), "{said}");
    json(&cluster, 0, &["balancer", "on"]);
    await_that(&cluster, "the fourth node to hold its share", || {
        let replicas = replicas(&cluster);
        replicas.iter().sum::<u64>() == 30 && replicas.iter().all(|count| (6..=8).contains(count))
    });
}

/// What a node held that is gone is made again, also while the balancer is off. If it comes back it has nothing, and is given its share.
#[test]
fn what_a_node_held_that_is_gone_is_made_again_elsewhere() {
    let mut cluster = Cluster::form(4, &[], &[]).unwrap();
    let before = replicas(&cluster).iter().sum::<u64>();
    json(&cluster, 0, &["balancer", "off"]);
    json(&cluster, 0, &["balancer", "gone-after", "2"]);
    let writers = Writers::begin(&cluster, &[0, 3]);

    cluster.kill9(2).unwrap();
    await_that(&cluster, "what n3 held to be elsewhere", || node(&cluster, 0, "n3")["replicas"] == 0);

    json(&cluster, 0, &["balancer", "gone-after", "default"]);
    cluster.start(2).unwrap();
    cluster.wait_until_serving().unwrap();
    json(&cluster, 0, &["balancer", "on"]);
    await_that(&cluster, "n3 to hold its share again", || {
        let replicas = replicas(&cluster);
        replicas.iter().sum::<u64>() == before && replicas.iter().all(|count| *count >= 3)
    });
    let written = writers.end();
    (0..4).for_each(|place| check(&cluster, place, &written));
    assert!(events(&cluster, 2).iter().any(|text| text.contains("n3 has been silent for too long")));
}

/// How many shards each of three nodes leads.
fn leads(cluster: &Cluster) -> Vec<usize> {
    let shards = json(cluster, 0, &["shards"]);
    let led =
        |name: &str| shards["shards"].as_array().unwrap().iter().filter(|shard| shard["leader_name"] == name).count();
    ["n1", "n2", "n3"].map(led).to_vec()
}

/// Leads move where a vote is there already; nothing is copied, and nobody who writes notices.
#[test]
fn leads_come_to_be_equal() {
    let cluster = Cluster::form(3, &["--shards", "9"], &[]).unwrap();
    (1..=9).for_each(|shard| drop(json(&cluster, 0, &["shard", "transfer-leader", &shard.to_string(), "--to", "n1"])));
    await_that(&cluster, "n1 to lead everything", || leads(&cluster) == [9, 0, 0]);
    let writers = Writers::begin(&cluster, &[0, 1, 2]);

    json(&cluster, 1, &["balancer", "leads-after", "1"]);

    await_that(&cluster, "everybody to lead as much", || leads(&cluster) == [3, 3, 3]);
    let written = writers.end();
    for written in &written {
        assert_eq!(written.refusals, BTreeMap::new());
    }
    (0..3).for_each(|place| check(&cluster, place, &written));
}
