//! What each node says of the cluster is put together as one picture.

use shardine_model::{Bounds, Epoch, NodeEntry, Placement, ReplicaId, ShardState};

use super::*;

/// Three nodes, one shard on all of them.
fn map() -> ClusterMap {
    let node = |number: u64| NodeEntry {
        node: NodeId(number),
        name: format!("n{number}"),
        zone: String::new(),
        addresses: DoorAddresses::default(),
    };
    // Replicas have numbers of their own.
    let voters = (1..=3).map(|number| Placement { node: NodeId(number), replica: ReplicaId(number + 10) }).collect();
    let group = Descriptor {
        shard: ShardId(1),
        epoch: Epoch::default(),
        state: ShardState::default(),
        bounds: Bounds::default(),
        voters,
        learners: Vec::new(),
    };
    let (nodes, groups) = ((1..=3).map(node).collect(), vec![group]);
    ClusterMap { cluster: 1, version: 1, nodes, groups, sql: "none".into() }
}

/// What a node says: whom it takes for the leader, in which term, and how many records it has.
fn says(node: u64, leader: Option<u64>, term: u64, records: u64) -> EngineStatus {
    let leader = leader.map(NodeId);
    let shard = ShardStatus { shard: ShardId(1), leader, term, records, ..ShardStatus::default() };
    EngineStatus { node: NodeId(node), protocol: 1, shards: vec![shard], ..EngineStatus::default() }
}

fn heard(status: EngineStatus) -> (NodeId, Heard) {
    (status.node, Heard::Status(Box::new(status)))
}

#[test]
fn the_leader_is_believed() {
    let others = vec![heard(says(2, Some(2), 5, 70)), heard(says(3, Some(2), 5, 69))];

    let status = join(&map(), says(1, Some(1), 4, 60), others);

    let shard = &status.shards[0];
    assert_eq!((shard.leader, shard.leader_name.as_str(), shard.records), (Some(NodeId(2)), "n2", 70));
    assert_eq!(shard.replicas.iter().map(|replica| replica.name.as_str()).collect::<Vec<_>>(), ["n1", "n2", "n3"]);
    assert_eq!(
        status.nodes.iter().map(|node| (node.state.name(), node.leads)).collect::<Vec<_>>(),
        [("here", 0), ("up", 1), ("up", 0)]
    );
    assert_eq!(status.absences(), [""; 0]);
}

#[test]
fn a_silent_node_is_told_of_and_the_rest_is_shown() {
    let others = vec![heard(says(2, Some(2), 5, 70)), (NodeId(3), Heard::Silent { for_ms: 12_300 })];

    let status = join(&map(), says(1, Some(2), 5, 70), others);

    assert_eq!(status.shards[0].leader, Some(NodeId(2)));
    assert_eq!(status.absences(), ["node n3 has been silent for 12 s", "shard 1 is down to 2 of 3 replicas"]);
}

#[test]
fn nobody_believes_in_a_leader_that_is_silent() {
    let silent = (NodeId(3), Heard::Silent { for_ms: 400 });
    let status = join(&map(), says(1, Some(3), 5, 70), vec![heard(says(2, None, 5, 70)), silent]);

    assert_eq!(status.shards[0].leader, None);

    let mute = (NodeId(3), Heard::Nothing);
    let status = join(&map(), says(1, Some(3), 5, 70), vec![heard(says(2, Some(3), 5, 70)), mute]);
    assert_eq!(status.shards[0].leader, Some(NodeId(3)), "it may be busy");
    assert!(!status.absences().is_empty());
}

#[test]
fn a_node_that_is_alone_needs_nobody() {
    assert_eq!(says(1, Some(1), 1, 7).absences(), [""; 0]);
}

#[test]
fn many_are_counted() {
    let numbers: Vec<u32> = (1..=20).collect();

    let said = sentence("shard", &numbers, "down to 2 of 3 replicas").unwrap();

    assert_eq!(said, "shards 1, 2, 3, 4, 5, 6, 7, 8 and 12 more are down to 2 of 3 replicas");
}
