//! What a node makes of what it hears about the map and about leaders.

use shardine_model::{ConfVersion, DoorAddresses, Generation, NodeEntry, RangeVersion, ShardState, TableId};

use super::*;

const HALF: Position = Position(1 << 63);

fn entry(number: u64) -> NodeEntry {
    let (node, name) = (NodeId(number), format!("n{number}"));
    NodeEntry { node, name, zone: String::new(), addresses: DoorAddresses::default() }
}

/// Replica numbers are the shard's times ten, and the node's.
fn shard(number: u32, range: u64, lo: Bound, hi: Option<Bound>) -> Descriptor {
    let at = |node| Placement { node: NodeId(node), replica: ReplicaId(u64::from(number) * 10 + node) };
    Descriptor {
        shard: ShardId(number),
        epoch: Epoch { generation: Generation(1), range: RangeVersion(range), conf: ConfVersion(1) },
        state: ShardState::Serving,
        bounds: Bounds { lo, hi },
        voters: vec![at(1), at(2), at(3)],
        learners: Vec::new(),
    }
}

fn halves(version: u64) -> Arc<ClusterMap> {
    let groups = vec![shard(1, 1, Bound::default(), Some(Bound::at(HALF))), shard(2, 1, Bound::at(HALF), None)];
    let nodes = vec![entry(1), entry(2), entry(3)];
    Arc::new(ClusterMap { cluster: 7, version, nodes, groups, sql: String::new() })
}

fn routes() -> Routes {
    let mut routes = Routes::new(NodeId(1), halves(1));
    routes.seat(ShardId(1), Some(4));
    routes.seat(ShardId(2), Some(5));
    routes
}

#[test]
fn a_shard_without_a_known_leader_leads_nowhere() {
    let mut routes = routes();

    assert_eq!(routes.route(Position(0)), Route::Unknown);
    routes.hear(ShardId(1), 3, Some(ReplicaId(11)));
    routes.hear(ShardId(2), 3, Some(ReplicaId(22)));
    assert_eq!(routes.route(Position(0)), Route::Here { lane: 4 });
    assert_eq!(routes.route(HALF), Route::There(NodeId(2)));
}

#[test]
fn the_highest_term_wins_in_whatever_order_it_is_heard() {
    let mut routes = routes();

    assert!(routes.hear(ShardId(2), 5, Some(ReplicaId(23))));
    assert!(!routes.hear(ShardId(2), 4, Some(ReplicaId(22))));
    assert_eq!(routes.route(HALF), Route::There(NodeId(3)));
    assert!(routes.hear(ShardId(2), 6, None));
    assert_eq!(routes.route(HALF), Route::Unknown, "a vote for a new term, and nobody elected yet");
    assert!(routes.hear(ShardId(2), 6, Some(ReplicaId(22))));
    assert_eq!(routes.route(HALF), Route::There(NodeId(2)));
}

#[test]
fn a_hint_of_an_old_term_is_not_followed() {
    let mut routes = routes();
    routes.hear(ShardId(2), 5, Some(ReplicaId(23)));

    let old = Moved { leader: Some(NodeId(2)), term: 4, descriptors: Vec::new() };
    assert!(!routes.heed(ShardId(2), old.clone()));
    assert_eq!(routes.route(HALF), Route::There(NodeId(3)));
    assert!(routes.heed(ShardId(2), Moved { term: 6, ..old }));
    assert_eq!(routes.route(HALF), Route::There(NodeId(2)));
}

#[test]
fn a_node_that_is_suspected_is_not_asked() {
    let mut routes = routes();
    routes.hear(ShardId(2), 5, Some(ReplicaId(23)));

    routes.suspect(NodeId(3));
    assert_eq!(routes.route(HALF), Route::Unknown);
    routes.trust(NodeId(3));
    assert_eq!(routes.route(HALF), Route::There(NodeId(3)));
    routes.forget(ShardId(2), 5);
    assert_eq!(routes.route(HALF), Route::Unknown, "it has said so itself");
}

#[test]
fn a_newer_descriptor_takes_the_place_of_all_that_it_overlaps() {
    let mut routes = routes();
    let quarter = Position(3 << 62);
    let child = shard(9, 2, Bound::at(quarter), None);

    assert!(routes.learn(vec![child.clone()]));
    assert_eq!(routes.find(quarter).map(|place| place.shard), Some(ShardId(9)));
    assert_eq!(routes.find(HALF), None, "the parent has changed too, and nobody has said how");
    let parent = shard(2, 2, Bound::at(HALF), Some(Bound::at(quarter)));
    assert!(routes.learn(vec![parent]));
    assert_eq!(routes.find(HALF).map(|place| place.shard), Some(ShardId(2)));
    assert!(!routes.learn(vec![shard(2, 1, Bound::at(HALF), None)]), "what was before the split");

    assert!(routes.adopt(halves(2)));
    assert!(!routes.adopt(halves(2)));
    assert_eq!(routes.find(quarter).map(|place| place.shard), Some(ShardId(9)), "meta has not heard of the split yet");
}

#[test]
fn a_bound_inside_of_a_position_parts_its_rows() {
    let mut routes = routes();
    let row = |key: &'static [u8]| RowKey { table: TableId(1), key, sort: b"" };
    let inside = Bound { position: HALF, key: (*b"m").into(), ..Bound::default() };
    routes.learn(vec![shard(2, 2, Bound::at(HALF), Some(inside.clone())), shard(9, 2, inside, None)]);

    assert_eq!(routes.find(HALF).map(|place| place.shard), Some(ShardId(2)));
    assert_eq!(routes.find_row(HALF, row(b"a")).map(|place| place.shard), Some(ShardId(2)));
    assert_eq!(routes.find_row(HALF, row(b"z")).map(|place| place.shard), Some(ShardId(9)));
    assert_eq!(routes.find(Position(HALF.0 + 1)).map(|place| place.shard), Some(ShardId(9)));
}
