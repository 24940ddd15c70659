//! Nodes are emptied and taken out while clients write, leads go where an operator wants them; each node a real process.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod counting;

use std::collections::BTreeMap;

use anyhow::Context;
use serde_json::{Value as Json, json};
use shardine_testkit::{Cluster, PATIENCE, Reply, wait_for};

use counting::{Writers, await_that, check, json, node, refusal};

/// sharding B-33, B-35, reliability F28: leads and replicas of every kind of group leave a node, nobody who writes notices, and the node can be
/// taken out.
#[test]
fn a_drain_empties_a_node_under_load_and_loses_nothing() {
    let mut cluster = Cluster::form(4, &[], &[]).unwrap();
    for group in ["meta", "coordination", "1"] {
        json(&cluster, 0, &["shard", "transfer-leader", group, "--to", "n3"]);
    }
    let writers = Writers::begin(&cluster, &[0, 2, 3]);

    let report = json(&cluster, 1, &["node", "drain", "n3", "--watch"]);

    assert_eq!((&report["mode"], &report["left"]), (&json!("draining"), &json!([])), "{report}");
    let written = writers.end();
    for written in &written {
        assert_eq!(written.refusals, BTreeMap::new());
    }
    for asked in 0..4 {
        let drained = node(&cluster, asked, "n3");
        assert_eq!((&drained["replicas"], &drained["leads"]), (&json!(0), &json!(0)), "{asked}: {drained}");
    }
    // A door is left open to it: whoever is connected there goes on.
    check(&cluster, 2, &written);

    json(&cluster, 0, &["node", "remove", "n3", "--yes"]);

    await_that(&cluster, "n3 to be forgotten", || node(&cluster, 3, "n3").is_null());
    await_that_ended(&mut cluster, 2);
    // The copies are whole without it.
    cluster.kill9(0).unwrap();
    check(&cluster, 1, &written);
    check(&cluster, 3, &written);
}

fn await_that_ended(cluster: &mut Cluster, place: usize) {
    let ended = wait_for("the node to end", PATIENCE, || Ok((!cluster.process(place)?.is_running()).then_some(())));
    ended.with_context(|| cluster.tails()).unwrap();
}

/// sharding B-33: it goes on under the next leader of the map, and can be taken back.
#[test]
fn a_drain_survives_the_loss_of_meta_s_leader() {
    let mut cluster = Cluster::form(4, &[], &[]).unwrap();
    json(&cluster, 0, &["shard", "transfer-leader", "meta", "--to", "n1"]);
    let writers = Writers::begin(&cluster, &[1, 3]);

    json(&cluster, 1, &["node", "drain", "n3"]);
    cluster.kill9(0).unwrap();
    cluster.start(0).unwrap();
    let report = json(&cluster, 1, &["node", "drain", "n3", "--watch"]);

    assert_eq!(report["left"], json!([]));
    check(&cluster, 3, &writers.end());
    json(&cluster, 0, &["node", "mode", "n3", "rw"]);
    assert_eq!(node(&cluster, 3, "n3")["mode"], "rw");
}

/// sharding B-34
#[test]
fn a_drain_that_cannot_go_on_says_why() {
    let mut cluster = Cluster::form(4, &[], &[]).unwrap();
    cluster.kill9(3).unwrap();
    await_that(&cluster, "n4 to be silent", || node(&cluster, 0, "n4")["state"] == "silent");

    // Groups without a replica on n4 can go nowhere; the others go to whoever is free.
    await_that(&cluster, "what is left to be stuck", || {
        let report = json(&cluster, 0, &["node", "drain", "n3"]);
        let left = report["left"].as_array().unwrap();
        let is_stuck = |left: &Json| left["stuck"] == true && text(&left["waits_for"]).contains("n4 is silent");
        assert!(!left.is_empty(), "meta has no replica on n4");
        left.iter().all(is_stuck)
    });
    // It comes back, and the drain with it.
    cluster.start(3).unwrap();
    let report = json(&cluster, 0, &["node", "drain", "n3", "--watch"]);
    assert_eq!(report["left"], json!([]));
}

/// records 128: a node that lives and holds replicas is not thrown out, and copies are not given up for a drain. One that is dead can go.
#[test]
fn a_node_leaves_only_if_nothing_is_lost_with_it() {
    let mut cluster = Cluster::form(3, &[], &[]).unwrap();

    let said = refusal(&cluster, 0, &["node", "remove", "n3", "--yes"]);
    assert!(said.starts_with("forbidden: node n3 lives and holds replicas"), "{said}");
    let said = refusal(&cluster, 0, &["node", "remove", "n3"]);
    assert!(said.contains("node n3 was not removed"), "{said}");
    let said = refusal(&cluster, 1, &["node", "drain", "n3"]);
    assert!(said.contains("cannot be emptied") && said.contains("add 1 first"), "{said}");
    let said = refusal(&cluster, 1, &["node", "remove", "n9", "--yes"]);
    assert!(said.starts_with("not_found: no node of the cluster is called n9"), "{said}");
    assert_eq!(node(&cluster, 0, "n3")["mode"], "rw", "a refused order has done nothing");

    cluster.kill9(2).unwrap();
    await_that(&cluster, "n3 to be silent", || node(&cluster, 0, "n3")["state"] == "silent");
    json(&cluster, 0, &["node", "remove", "n3", "--yes"]);
    assert!([Json::Null, json!(true)].contains(&node(&cluster, 1, "n3")["removed"]));
    await_that(&cluster, "its replicas to be given up", || node(&cluster, 1, "n3").is_null());
    assert_eq!(cluster.client(1).unwrap().call(&["SET", "k", "v"]).unwrap(), Reply::ok());
    // Its directory is of no use any more.
    cluster.start(2).unwrap();
    await_that_ended(&mut cluster, 2);
}

/// Orders are seen at every node when they are answered.
#[test]
fn modes_and_weights_are_shown_everywhere() {
    let cluster = Cluster::form(3, &[], &[]).unwrap();

    json(&cluster, 0, &["node", "weight", "n2", "0"]);
    json(&cluster, 1, &["node", "mode", "n3", "ro"]);

    for asked in 0..3 {
        assert_eq!(node(&cluster, asked, "n2")["weight"], 0, "{asked}");
        assert_eq!(node(&cluster, asked, "n3")["mode"], "ro", "{asked}");
    }
    let table = cluster.command(2, &["nodes"]).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.lines().next().unwrap().contains("MODE") && table.contains(" ro "), "{table}");
    // Only n1 is left to lead.
    let mut list = Json::Null;
    let led = wait_for("n1 to lead everything", PATIENCE, || {
        list = json(&cluster, 0, &["status"]);
        let leads = |name: &str| {
            list["nodes"].as_array().unwrap().iter().any(|node| node["name"] == name && node["leads"] != 0)
        };
        Ok((!leads("n2") && !leads("n3")).then_some(()))
    });
    led.with_context(|| format!("{list:#}")).unwrap();
    let said = refusal(&cluster, 0, &["shard", "transfer-leader", "1", "--to", "n3"]);
    assert!(said.starts_with("forbidden: node n3 is ro"), "{said}");
    let said = refusal(&cluster, 0, &["node", "weight", "n2", "1001"]);
    assert!(said.contains("a weight is 0 to 1000"), "{said}");
    // They hold what they held: three nodes have nobody to give it to.
    assert_eq!(node(&cluster, 0, "n2")["replicas"], node(&cluster, 0, "n1")["replicas"]);
}

#[test]
fn a_lead_goes_where_it_is_ordered() {
    let cluster = Cluster::form(4, &[], &[]).unwrap();
    let shards = json(&cluster, 0, &["shards"]);
    let shard = &shards["shards"][0];
    let voters: Vec<String> = shard["replicas"].as_array().unwrap().iter().map(|one| text(&one["name"])).collect();
    let stranger = ["n1", "n2", "n3", "n4"].into_iter().find(|name| !voters.iter().any(|voter| voter == name)).unwrap();
    let id = shard["id"].to_string();

    let first = ["n1", "n2", "n3"].map(str::to_owned).to_vec();
    for (group, voters) in [(id.as_str(), &voters), ("coordination", &first), ("meta", &first)] {
        for (asked, voter) in voters.iter().enumerate() {
            let done = json(&cluster, asked, &["shard", "transfer-leader", group, "--to", voter]);
            assert_eq!(done["leader_name"], **voter, "{group}");
        }
    }
    await_that(&cluster, "the last one to say that it leads", || {
        json(&cluster, 0, &["shards"])["shards"][0]["leader_name"] == *voters.last().unwrap().as_str()
    });
    // Nobody is named: somebody else leads.
    let done = json(&cluster, 0, &["shards", "transfer-leader", &id]);
    assert_ne!(done["leader_name"], *voters.last().unwrap().as_str());

    let said = refusal(&cluster, 0, &["shard", "transfer-leader", &id, "--to", stranger]);
    assert!(said.contains(&format!("node {stranger} has no vote in shard {id}")), "{said}");
    let said = refusal(&cluster, 0, &["shard", "transfer-leader", "4711"]);
    assert!(said.starts_with("not_found: there is no shard 4711"), "{said}");
}

fn text(json: &Json) -> String {
    json.as_str().unwrap().to_owned()
}
