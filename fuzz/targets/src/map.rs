//! The cluster's map under bytes that nobody would send or write.

use shardine_meta::{Command, Delta, Feed, Map, Meta};
use shardine_model::{
    Bounds, ClusterMap, ConfVersion, Descriptor, DoorAddresses, Epoch, Generation, NodeEntry, NodeId, Placement,
    RangeVersion, ReplicaId, ShardId, ShardState,
};

/// The first byte chooses the reader: a node that is told of the map, a replica that applies an entry, or one that takes a
/// snapshot in. Whatever was accepted leaves a map that is one.
pub fn map(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    match choice % 3 {
        0 => delta(rest),
        1 => entry(rest),
        _ => snapshot(rest),
    }
}

fn delta(bytes: &[u8]) {
    let Ok(delta) = Delta::decode(bytes) else { return };
    let written = delta.to_bytes();
    assert_eq!(
        Delta::decode(&written).map(|again| again.to_bytes()),
        Ok(written),
        "a delta must not change on its way"
    );
    let mut map = begun().map().clone();
    let before = map.whole();
    match map.take(&delta) {
        Ok(()) => assert_eq!(map.check(), Ok(())),
        Err(_) => assert_eq!(map.whole(), before, "what is not taken changes nothing"),
    }
}

/// Two replicas, and a node that follows, have the same after whatever can be read.
fn entry(bytes: &[u8]) {
    let (mut meta, mut other) = (begun(), begun());
    let applied = meta.apply(bytes, |_| ()).is_ok();
    assert_eq!(other.apply(bytes, |_| ()).is_ok(), applied);
    assert_eq!(meta.digest(), other.digest(), "replicas have parted");
    assert_eq!(meta.map().check(), Ok(()));
    let mut view = begun().map().clone();
    loop {
        let bytes = match meta.feed(view.version) {
            Feed::Nothing => break,
            Feed::Delta { change, .. } => change,
            Feed::Whole { map, .. } => map,
        };
        view.take(&Delta::decode(&bytes).expect("a delta")).expect("it leads on");
    }
    assert_eq!(view.whole(), meta.map().whole(), "a node that follows has another map");
}

fn snapshot(bytes: &[u8]) {
    let Ok(mut meta) = Meta::new().restored([bytes]) else { return };
    assert_eq!(meta.map().check(), Ok(()));
    meta.begin_cut();
    let chunks: Vec<Vec<u8>> = std::iter::from_fn(|| meta.next_chunk()).collect();
    let again = Meta::new().restored(&chunks).expect("a snapshot that was written can be read");
    assert_eq!(again.digest(), meta.digest(), "a snapshot must not change by being passed on");
    if meta.map().is_formed() {
        Map::decode(&meta.map().whole().to_bytes()).expect("a whole map");
    }
}

/// A cluster of one node.
#[must_use]
pub fn begun() -> Meta {
    let mut meta = Meta::new();
    meta.apply(&Command::Init { map: first_map(), starts: Vec::new() }.to_entry(), |_| ()).expect("an entry");
    meta
}

#[must_use]
pub fn first_map() -> ClusterMap {
    let (name, zone, addresses) = ("a".to_owned(), String::new(), DoorAddresses::default());
    let nodes = vec![NodeEntry { node: NodeId(1), name, zone, addresses }];
    let group = |shard| {
        let epoch = Epoch { generation: Generation::FIRST, range: RangeVersion::FIRST, conf: ConfVersion(1) };
        let (voters, learners) = (vec![Placement { node: NodeId(1), replica: ReplicaId(1) }], Vec::new());
        Descriptor { shard, epoch, state: ShardState::Serving, bounds: Bounds::default(), voters, learners }
    };
    let groups = [ShardId(1), ShardId::FIRST_COORDINATION, ShardId::META].map(group).to_vec();
    ClusterMap { cluster: 9, version: 1, nodes, groups, sql: "none".to_owned() }
}
