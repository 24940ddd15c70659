//! The group of the map, which changes its own members by its own entries.

mod cluster;
#[path = "../support/files.rs"]
mod files;

use std::collections::BTreeSet;

use cluster::Cluster;
use shardine_model::{ErrorCode, NodeId, ShardId};
use shardine_shard::meta::{Command, Map, Reply, Stage};

/// Where the voters and the learners of the map's group are.
fn members(map: &Map) -> (Vec<u64>, Vec<u64>) {
    let group = &map.groups[&ShardId::META];
    let nodes = |list: &[shardine_model::Placement]| {
        let mut nodes: Vec<u64> = list.iter().map(|placement| placement.node.0).collect();
        nodes.sort_unstable();
        nodes
    };
    (nodes(&group.voters), nodes(&group.learners))
}

fn grown_to(count: usize) -> Cluster {
    let mut cluster = Cluster::of_one();
    for name in ["b", "c", "d", "e"].into_iter().take(count - 1) {
        cluster.join(name);
        cluster.settle();
    }
    cluster
}

fn set(value: &str) -> Command {
    Command::Set { name: "x".to_owned(), value: Some(value.to_owned()) }
}

#[test]
fn it_grows_with_the_nodes() {
    let mut cluster = Cluster::of_one();
    let expected: [(Vec<u64>, Vec<u64>); 5] = [
        (vec![1], vec![]),
        (vec![1], vec![2]),
        (vec![1, 2, 3], vec![]),
        (vec![1, 2, 3], vec![]),
        (vec![1, 2, 3, 4, 5], vec![]),
    ];

    for (count, expected) in (1..).zip(expected) {
        if count > 1 {
            cluster.join(&format!("n{count}"));
        }
        cluster.settle();
        let leader = cluster.leader();
        assert_eq!(members(cluster.nodes[&leader].map()), expected, "{count} nodes");
        let group = cluster.nodes[&leader].group().membership();
        assert_eq!((group.voters.len(), group.learners.len()), (expected.0.len(), expected.1.len()), "as its log says");
    }

    cluster.run(20);
    let digests: BTreeSet<u64> = cluster.nodes.values().map(|replica| replica.meta().digest()).collect();
    assert_eq!(cluster.nodes.len(), 5);
    assert_eq!(digests.len(), 1, "replicas have parted");
    assert!(cluster.installed > 0, "whoever joins gets a snapshot");
}

#[test]
fn nothing_that_was_answered_is_lost_with_the_leader() {
    let mut cluster = grown_to(3);
    assert_eq!(cluster.ask(&set("kept")), Ok(Reply::Done));

    let old = cluster.leader();
    cluster.cut_off(old);
    let ticket = cluster.ask_of(old, &set("lost"));
    let new = cluster.leader();
    assert_ne!(new, old);
    assert_eq!(cluster.nodes[&new].map().settings["x"], "kept");

    cluster.run(100);
    cluster.heal(old);
    cluster.run(40);
    let refusal = cluster.reply(ticket).unwrap().as_ref().unwrap_err();
    assert!([ErrorCode::InDoubt, ErrorCode::NotLeader].contains(&refusal.code), "{refusal}");
    assert_eq!(cluster.nodes[&old].map().settings["x"], "kept");
}

#[test]
fn an_operation_goes_on_under_the_next_leader() {
    let mut cluster = grown_to(4);
    cluster.join("e");
    let stage = |cluster: &mut Cluster| {
        let leader = cluster.leader();
        let operation = cluster.nodes[&leader].map().operation_on(ShardId::META);
        operation.and_then(|(_, operation)| Some(operation.replace()?.stage))
    };
    while stage(&mut cluster) != Some(Stage::CatchingUp) {
        cluster.run(1);
    }

    let old = cluster.leader();
    cluster.cut_off(old);
    assert_ne!(cluster.leader(), old);
    cluster.settle();

    let leader = cluster.leader();
    assert_eq!(members(cluster.nodes[&leader].map()).0, [1, 2, 3, 4, 5]);
}

#[test]
fn a_removed_node_is_replaced_under_a_new_number() {
    let mut cluster = grown_to(4);
    let victim = NodeId(3);
    cluster.cut_off(victim);
    assert_eq!(cluster.ask(&Command::RemoveNode { node: victim }), Ok(Reply::Done));

    cluster.settle();

    let leader = cluster.leader();
    assert_eq!(members(cluster.nodes[&leader].map()).0, [1, 2, 4]);
    let numbers: BTreeSet<_> = cluster.placed.iter().map(|(replica, _)| *replica).collect();
    assert_eq!(numbers.len(), cluster.placed.len(), "a number was given twice");
}

/// It hands the lead over before it loses its vote.
#[test]
fn a_leader_can_be_replaced() {
    let mut cluster = grown_to(4);
    let leader = cluster.leader();
    let group = &cluster.nodes[&leader].map().groups[&ShardId::META];
    let replica = group.voters.iter().find(|voter| voter.node == leader).unwrap().replica;

    let begun = cluster.ask(&Command::Replace { shard: ShardId::META, replica, node: NodeId(4) });
    assert!(matches!(begun, Ok(Reply::Begun(_))), "{begun:?}");
    cluster.settle();

    let next = cluster.leader();
    assert_ne!(next, leader);
    let (voters, _) = members(cluster.nodes[&next].map());
    assert!(voters.contains(&4) && !voters.contains(&leader.0), "{voters:?}");
    cluster.run(60);
    assert!(!cluster.nodes.contains_key(&leader), "it has learned that it is out");
}

#[test]
fn a_follower_says_that_it_does_not_lead() {
    let mut cluster = grown_to(3);
    let leader = cluster.leader();
    let other = *cluster.nodes.keys().find(|node| **node != leader).unwrap();

    let ticket = cluster.ask_of(other, &set("no"));

    assert_eq!(cluster.reply(ticket).unwrap().as_ref().unwrap_err().code, ErrorCode::NotLeader);
}
