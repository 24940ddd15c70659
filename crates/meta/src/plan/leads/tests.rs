//! Leads come to be equal, and stay where they are then.

use shardine_model::{Bounds, Epoch, NodeMode, Placement, ReplicaId, ShardState};

use super::*;
use crate::node::NodeState;
use crate::plan::Load;

fn world(nodes: u64, shards: u32) -> (Map, Sight) {
    let mut map = Map { cluster: 7, version: 1, ..Map::default() };
    map.nodes = (1..=nodes).map(|number| (NodeId(number), node(number))).collect();
    let mut load = Load { split_bytes: 1 << 20, ..Load::default() };
    for number in 1..=shards {
        let place =
            |at: u64| Placement { node: NodeId((u64::from(number) + at) % nodes + 1), replica: ReplicaId(at + 1) };
        let (shard, bounds, state) = (ShardId(number), Bounds::default(), ShardState::Serving);
        let voters: Vec<Placement> = (0..3).map(place).collect();
        let (epoch, learners) = (Epoch::default(), Vec::new());
        load.leaders.insert(shard, voters.iter().map(|voter| voter.node).min().unwrap());
        map.groups.insert(shard, Descriptor { shard, epoch, state, bounds, voters, learners });
    }
    (map, Sight { load: Some(load), ..Sight::default() })
}

fn node(number: u64) -> Node {
    Node {
        node: NodeId(number),
        name: format!("n{number}"),
        addresses: Default::default(),
        zone: String::new(),
        labels: BTreeMap::new(),
        weight: 100,
        mode: NodeMode::ReadWrite,
        state: NodeState::Member,
        is_gateway: false,
        incarnation: 1,
        start: 1,
    }
}

/// Plans and does it until nothing is left to do; says how many shards each node leads.
fn settle(map: &Map, sight: &mut Sight) -> BTreeMap<u64, usize> {
    for _ in 0..1_000 {
        let moves = plan_leads(map, sight);
        let leaders = &mut sight.load.as_mut().unwrap().leaders;
        let mut busy = BTreeSet::new();
        for LeadMove { shard, from, to, why } in &moves {
            assert!(busy.insert(*from) && busy.insert(*to), "one at a time");
            assert!(map.groups[shard].voters.iter().any(|voter| voter.node == *to) && !why.is_empty());
            assert_eq!(leaders.insert(*shard, *to), Some(*from));
        }
        if moves.is_empty() {
            let mut leads: BTreeMap<u64, usize> = map.nodes.keys().map(|node| (node.0, 0)).collect();
            leaders.values().for_each(|leader| *leads.get_mut(&leader.0).unwrap() += 1);
            return leads;
        }
    }
    panic!("it does not come to rest");
}

#[test]
fn leads_come_to_be_equal() {
    let (map, mut sight) = world(4, 16);
    assert_eq!(plan_leads(&map, &sight)[0].why, "n1 leads 12 shards, n3 0");

    assert_eq!(settle(&map, &mut sight), BTreeMap::from([(1, 4), (2, 4), (3, 4), (4, 4)]));
}

#[test]
fn those_that_may_not_lead_are_given_nothing() {
    let (mut map, mut sight) = world(5, 40);
    map.nodes.get_mut(&NodeId(4)).unwrap().mode = NodeMode::ReadOnly;
    map.nodes.get_mut(&NodeId(5)).unwrap().weight = 300;

    let leads = settle(&map, &mut sight);

    assert_eq!(leads[&4], 0);
    assert!(leads[&5] > leads[&1] + 2, "{leads:?}");
}

#[test]
fn nothing_is_asked_for_while_somebody_is_silent_or_something_moves() {
    let (mut map, sight) = world(4, 16);
    let silent = Sight { silent: [NodeId(3)].into(), ..sight.clone() };
    assert_eq!(plan_leads(&map, &silent), []);
    assert_eq!(plan_leads(&map, &Sight { load: None, ..sight.clone() }), []);

    let nodes = [1, 2, 3].map(NodeId);
    let replace = crate::operation::Replace::new(&map.groups[&ShardId(1)], &nodes, &[], || ReplicaId(9));
    map.operations.insert(crate::OperationId(1), crate::Operation::Replace(replace));
    assert_eq!(plan_leads(&map, &sight), []);
}
