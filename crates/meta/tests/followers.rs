//! Nodes that are told of the map over links that lose things.

use proptest::prelude::*;
use shardine_meta::{BadDelta, Command, Delta, Feed, Followers, Map, Meta};
use shardine_model::{
    Bounds, ClusterMap, ConfVersion, Descriptor, DoorAddresses, Epoch, Generation, NodeEntry, NodeId, Placement,
    RangeVersion, ReplicaId, ShardId, ShardState,
};

const NODE: NodeId = NodeId(1);

fn begun() -> Meta {
    let (name, zone, addresses) = ("a".to_owned(), String::new(), DoorAddresses::default());
    let nodes = vec![NodeEntry { node: NODE, name, zone, addresses }];
    let group = |shard| {
        let epoch = Epoch { generation: Generation::FIRST, range: RangeVersion::FIRST, conf: ConfVersion(1) };
        let (voters, learners) = (vec![Placement { node: NODE, replica: ReplicaId(1) }], Vec::new());
        Descriptor { shard, epoch, state: ShardState::Serving, bounds: Bounds::default(), voters, learners }
    };
    let groups = [ShardId(1), ShardId::META].map(group).to_vec();
    let map = ClusterMap { cluster: 9, version: 1, nodes, groups, sql: "none".to_owned() };
    let mut meta = Meta::new();
    apply(&mut meta, &Command::Init { map, starts: Vec::new() });
    meta
}

fn apply(meta: &mut Meta, command: &Command) {
    meta.apply(&command.to_entry(), |reply| drop(reply.expect("it is done"))).expect("an entry");
}

fn set(meta: &mut Meta, number: u64) {
    apply(meta, &Command::Set { name: "x".to_owned(), value: Some(number.to_string()) });
}

fn bytes(feed: Feed) -> Option<Vec<u8>> {
    match feed {
        Feed::Nothing => None,
        Feed::Delta { change, .. } => Some(change),
        Feed::Whole { map, .. } => Some(map),
    }
}

#[test]
fn a_node_is_sent_what_it_lacks_once() {
    let (mut meta, mut followers) = (begun(), Followers::default());
    assert_eq!(followers.due(&meta, NODE, 0), Feed::Nothing, "it has not been heard");

    followers.heard(NODE, 0);
    assert!(matches!(followers.due(&meta, NODE, 0), Feed::Whole { version: 1, .. }));
    assert_eq!(followers.due(&meta, NODE, 10), Feed::Nothing, "that is on its way");

    set(&mut meta, 1);
    assert!(matches!(followers.due(&meta, NODE, 20), Feed::Delta { from: 1, to: 2, .. }), "the next follows at once");
    followers.heard(NODE, 2);
    assert_eq!(followers.due(&meta, NODE, 60_000), Feed::Nothing);
}

#[test]
fn what_is_not_confirmed_is_sent_again() {
    let (mut meta, mut followers) = (begun(), Followers::default());
    followers.heard(NODE, 1);
    set(&mut meta, 1);

    assert!(matches!(followers.due(&meta, NODE, 0), Feed::Delta { .. }));
    assert_eq!(followers.due(&meta, NODE, 499), Feed::Nothing);
    assert!(matches!(followers.due(&meta, NODE, 500), Feed::Delta { from: 1, to: 2, .. }));

    followers.lost(NODE);
    assert!(matches!(followers.due(&meta, NODE, 501), Feed::Delta { from: 1, to: 2, .. }), "the link was lost");
}

#[test]
fn whoever_waits_for_a_version_waits_for_all() {
    let mut followers = Followers::default();
    followers.heard(NodeId(1), 7);
    followers.heard(NodeId(2), 6);

    assert!(followers.have(6, [NodeId(1), NodeId(2)]));
    assert!(!followers.have(7, [NodeId(1), NodeId(2)]));
    assert!(!followers.have(6, [NodeId(1), NodeId(3)]), "one that was never heard");
    assert!(followers.have(7, [NodeId(1)]));
}

/// One that was on its way for long, or comes from somebody who has been cut off.
#[test]
fn an_older_map_is_not_taken_back() {
    let mut meta = begun();
    let old = meta.map().whole();
    set(&mut meta, 1);
    let mut view = Map::decode(&meta.map().whole().to_bytes()).expect("a map");

    assert_eq!(view.take(&old), Err(BadDelta::Older { to: 1, version: 2 }));

    assert_eq!(view.whole(), meta.map().whole());
}

proptest! {
    /// Whatever is lost, and whenever the node begins anew, it has the map once the link holds.
    #[test]
    fn a_node_catches_up(steps in proptest::collection::vec(0..6u8, 0..80)) {
        let (mut meta, mut followers, mut view) = (begun(), Followers::default(), Map::default());
        let mut now_ms = 0;
        for (number, step) in (0..).zip(steps) {
            now_ms += 100;
            match step {
                0 | 1 => set(&mut meta, number),
                2 => followers.heard(NODE, view.version),
                3 => deliver(&mut view, followers.due(&meta, NODE, now_ms)),
                4 => drop(followers.due(&meta, NODE, now_ms)),
                _ => view = Map::default(),
            }
        }
        for _ in 0..4 {
            now_ms += 10_000;
            followers.heard(NODE, view.version);
            deliver(&mut view, followers.due(&meta, NODE, now_ms));
        }

        prop_assert_eq!(view.whole(), meta.map().whole());
    }
}

/// A node takes what leads on from what it has, and says nothing of the rest.
fn deliver(view: &mut Map, feed: Feed) {
    if let Some(bytes) = bytes(feed) {
        let _ = view.take(&Delta::decode(&bytes).expect("a delta"));
    }
}
