//! What the planner does with clusters of one to five nodes.

use shardine_model::{Bounds, ConfVersion, Epoch, Generation, RangeVersion, ReplicaId, ShardId, ShardState};

use super::*;
use shardine_model::NodeMode as Mode;

use crate::node::NodeState;

const SHARD: ShardId = ShardId(1);

fn node(number: u64, zone: &str) -> Node {
    Node {
        node: NodeId(number),
        name: format!("n{number}"),
        addresses: Default::default(),
        zone: zone.to_owned(),
        labels: BTreeMap::new(),
        weight: 100,
        mode: Mode::ReadWrite,
        state: NodeState::Member,
        is_gateway: false,
        incarnation: 1,
        start: 1,
    }
}

fn group(shard: ShardId, voters: &[u64], learners: &[u64]) -> Descriptor {
    let place = |nodes: &[u64]| -> Vec<Placement> {
        nodes.iter().map(|node| Placement { node: NodeId(*node), replica: ReplicaId(*node) }).collect()
    };
    let epoch = Epoch { generation: Generation::FIRST, range: RangeVersion::FIRST, conf: ConfVersion(7) };
    let (voters, learners) = (place(voters), place(learners));
    Descriptor { shard, epoch, state: ShardState::Serving, bounds: Bounds::default(), voters, learners }
}

/// A cluster of nodes in these zones, with one group on these.
fn map(zones: &[&str], shard: ShardId, voters: &[u64], learners: &[u64]) -> Map {
    let mut map = Map { cluster: 7, version: 1, ..Map::default() };
    map.nodes = (1..).zip(zones).map(|(number, zone)| (NodeId(number), node(number, zone))).collect();
    map.groups.insert(shard, group(shard, voters, learners));
    map
}

fn remove(map: &mut Map, number: u64) {
    map.nodes.get_mut(&NodeId(number)).unwrap().state = NodeState::Removed;
}

/// The target of the only change, as numbers.
fn target(map: &Map, silent: &[u64]) -> Option<(Vec<u64>, Vec<u64>)> {
    let sight = Sight { silent: silent.iter().copied().map(NodeId).collect(), ..Sight::default() };
    let commands = plan(map, &sight);
    assert!(commands.len() <= 1, "{commands:?}");
    let numbers = |nodes: Vec<NodeId>| nodes.into_iter().map(|node| node.0).collect();
    commands.into_iter().next().map(|command| match command {
        Command::Reconfigure { voters, learners, conf, .. } => {
            assert_eq!(conf, ConfVersion(7));
            (numbers(voters), numbers(learners))
        }
        other => panic!("{other:?}"),
    })
}

#[test]
fn one_node_is_enough_for_itself() {
    assert_eq!(target(&map(&[""], SHARD, &[1], &[]), &[]), None);
}

#[test]
fn with_two_nodes_one_votes_and_one_learns() {
    assert_eq!(target(&map(&["", ""], SHARD, &[1], &[]), &[]), Some((vec![1], vec![2])));
    assert_eq!(target(&map(&["", ""], SHARD, &[1], &[2]), &[]), None);
    assert_eq!(target(&map(&["", ""], SHARD, &[1], &[]), &[2]), None, "not one that is silent");
}

#[test]
fn the_third_node_makes_three_voters_at_once() {
    assert_eq!(target(&map(&["", "", ""], SHARD, &[1], &[2]), &[]), Some((vec![1, 2, 3], vec![])));
    assert_eq!(target(&map(&["", "", ""], SHARD, &[1], &[2]), &[3]), None, "two would be worse than one");
}

#[test]
fn meta_grows_to_five_and_others_do_not() {
    let zones = ["", "", "", "", ""];

    assert_eq!(target(&map(&zones, ShardId::META, &[1, 2, 3], &[]), &[]), Some((vec![1, 2, 3, 4, 5], vec![])));
    assert_eq!(target(&map(&zones, ShardId::META, &[1, 2, 3], &[]), &[5]), None, "four are no better than three");
    assert_eq!(target(&map(&zones, SHARD, &[1, 2, 3], &[]), &[]), None);
    assert_eq!(target(&map(&zones[..4], ShardId::META, &[1, 2, 3], &[]), &[]), None);
}

#[test]
fn zones_come_first() {
    let map = map(&["a", "a", "a", "b", "c"], SHARD, &[1], &[]);

    assert_eq!(target(&map, &[]), Some((vec![1, 4, 5], vec![])));
    assert_eq!(target(&map, &[5]), Some((vec![1, 2, 4], vec![])), "then anybody");
}

#[test]
fn a_removed_node_is_replaced_while_the_others_are_a_quorum() {
    let mut map = map(&["", "", "", ""], SHARD, &[1, 2, 3], &[]);
    remove(&mut map, 3);

    assert_eq!(target(&map, &[]), Some((vec![1, 2, 4], vec![])));
    assert_eq!(target(&map, &[2]), None, "one of three cannot decide");
}

#[test]
fn a_silent_node_is_left_alone() {
    assert_eq!(target(&map(&["", "", "", ""], SHARD, &[1, 2, 3], &[]), &[3]), None);
}

#[test]
fn with_nobody_to_take_a_removed_ones_place_one_votes_and_one_learns() {
    let mut map = map(&["", "", ""], SHARD, &[1, 2, 3], &[]);
    remove(&mut map, 3);

    assert_eq!(target(&map, &[]), Some((vec![1], vec![2])));
}

#[test]
fn a_removed_ones_place_waits_for_a_silent_node_rather_than_cost_a_copy() {
    let mut map = map(&["", "", "", ""], SHARD, &[1, 2, 3], &[]);
    remove(&mut map, 3);

    assert_eq!(target(&map, &[4]), None);
    assert_eq!(target(&map, &[]), Some((vec![1, 2, 4], vec![])), "when it is back");
}

#[test]
fn gateways_and_draining_nodes_get_nothing() {
    let mut map = map(&["", "", "", ""], SHARD, &[1], &[]);
    map.nodes.get_mut(&NodeId(2)).unwrap().is_gateway = true;
    map.nodes.get_mut(&NodeId(3)).unwrap().mode = Mode::Draining;

    assert_eq!(target(&map, &[]), None);
}

#[test]
fn an_operation_that_waits_for_a_removed_node_is_given_up() {
    let mut map = map(&["", ""], SHARD, &[1], &[]);
    let replace = crate::operation::Replace::new(&map.groups[&SHARD], &[NodeId(1)], &[NodeId(2)], || ReplicaId(9));
    map.operations.insert(crate::OperationId(4), Operation::Replace(replace));
    assert_eq!(plan(&map, &Sight::default()), [], "one at a time");

    remove(&mut map, 2);

    assert_eq!(plan(&map, &Sight::default()), [Command::Cancel { operation: crate::OperationId(4) }]);
}

#[test]
fn replicas_go_to_those_that_have_the_least() {
    let mut map = map(&["", "", "", ""], SHARD, &[1, 2, 3], &[]);
    map.groups.insert(ShardId(2), group(ShardId(2), &[1], &[]));

    assert_eq!(target(&map, &[]), Some((vec![1, 2, 4], vec![])));
}

fn drain(map: &mut Map, number: u64) {
    map.nodes.get_mut(&NodeId(number)).unwrap().mode = Mode::Draining;
}

/// sharding B-33
#[test]
fn a_draining_node_s_replicas_go_to_whoever_is_free() {
    let mut map = map(&["", "", "", ""], SHARD, &[1, 2, 3], &[]);
    drain(&mut map, 3);

    assert_eq!(target(&map, &[]), Some((vec![1, 2, 4], vec![])));
    assert_eq!(target(&map, &[1]), Some((vec![1, 2, 4], vec![])), "it counts while it is there");
    assert_eq!(target(&map, &[1, 2]), None, "one of three cannot decide");
    assert_eq!(target(&map, &[4]), None, "never fewer copies");
}

/// sharding B-42
#[test]
fn weight_0_drains_as_far_as_there_are_others() {
    let mut four = map(&["", "", "", ""], SHARD, &[1, 2, 3], &[]);
    four.nodes.get_mut(&NodeId(3)).unwrap().weight = 0;
    assert_eq!(target(&four, &[]), Some((vec![1, 2, 4], vec![])));

    let mut three = map(&["", "", ""], SHARD, &[1, 2, 3], &[]);
    three.nodes.get_mut(&NodeId(3)).unwrap().weight = 0;
    assert_eq!(target(&three, &[]), None);

    let mut two = map(&["", ""], SHARD, &[1], &[2]);
    two.nodes.get_mut(&NodeId(2)).unwrap().weight = 0;
    assert_eq!(target(&two, &[]), None, "the second copy stays");
    two.nodes.get_mut(&NodeId(2)).unwrap().weight = 100;
    two.nodes.get_mut(&NodeId(1)).unwrap().weight = 0;
    assert_eq!(target(&two, &[]), Some((vec![2], vec![1])), "and the vote goes to the other");
}

#[test]
fn meta_does_with_three_where_the_fifth_is_drained() {
    let mut map = map(&["", "", "", "", ""], ShardId::META, &[1, 2, 3, 4, 5], &[]);
    drain(&mut map, 2);

    assert_eq!(target(&map, &[]), Some((vec![1, 3, 4], vec![])));
    assert_eq!(target(&map, &[1]), Some((vec![3, 4, 5], vec![])), "those that live stay");
}

/// sharding B-34
#[test]
fn what_is_stuck_says_why() {
    let left = |map: &Map, silent: &[u64]| {
        let sight = Sight { silent: silent.iter().copied().map(NodeId).collect(), ..Sight::default() };
        let left = left_on(map, &sight, NodeId(3));
        left.into_iter().map(|left| (left.is_stuck, left.waits_for)).collect::<Vec<_>>()
    };
    let mut map = map(&["", "", "", ""], SHARD, &[1, 2, 3], &[]);
    drain(&mut map, 3);

    assert_eq!(left(&map, &[]), [(false, "its turn: 4 shards are moved at a time".to_owned())]);
    assert_eq!(left(&map, &[4]), [(true, "no other node can hold it: n4 is silent".to_owned())]);
    assert_eq!(left(&map, &[1, 2]), [(true, "it has no quorum: n1, n2 must come back first".to_owned())]);
    let nodes = [NodeId(1), NodeId(2), NodeId(4)];
    let replace = crate::operation::Replace::new(&map.groups[&SHARD], &nodes, &[], || ReplicaId(9));
    map.operations.insert(crate::OperationId(4), Operation::Replace(replace));
    assert_eq!(left(&map, &[]), [(false, "it is being copied to n4".to_owned())]);
    assert_eq!(left(&map, &[4]), [(true, "it is being copied to n4, which is silent".to_owned())]);
    drain(&mut map, 4);
    map.operations.clear();
    let nowhere = "no other node can hold it: every one has a replica, or is to be emptied itself";
    assert_eq!(left(&map, &[]), [(true, nowhere.to_owned())]);
    map.groups.insert(SHARD, group(SHARD, &[1, 2, 4], &[]));
    assert_eq!(left(&map, &[]), []);
}

#[test]
fn a_move_to_a_node_that_is_to_be_emptied_is_given_up() {
    let mut map = map(&["", ""], SHARD, &[1], &[]);
    let replace = crate::operation::Replace::new(&map.groups[&SHARD], &[NodeId(1)], &[NodeId(2)], || ReplicaId(9));
    map.operations.insert(crate::OperationId(4), Operation::Replace(replace));

    drain(&mut map, 2);

    assert_eq!(plan(&map, &Sight::default()), [Command::Cancel { operation: crate::OperationId(4) }]);
}

#[test]
fn the_group_that_can_lose_the_fewest_comes_first() {
    let mut map = map(&["", "", "", "", ""], SHARD, &[1, 2, 3], &[]);
    map.groups.insert(ShardId(2), group(ShardId(2), &[1, 4, 5], &[]));
    map.groups.insert(ShardId(3), group(ShardId(3), &[1, 2, 4], &[]));
    drain(&mut map, 1);
    let sight = Sight { silent: [NodeId(3)].into(), ..Sight::default() };

    let first = plan(&map, &sight).into_iter().next();

    assert!(matches!(first, Some(Command::Reconfigure { shard: SHARD, .. })), "{first:?}");
}
