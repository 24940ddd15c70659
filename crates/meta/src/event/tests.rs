//! The history says what was done, when and why, and has an end.

use std::collections::BTreeMap;

use shardine_model::{ClusterMap, DoorAddresses, Epoch, NodeEntry, NodeMode, Placement, ReplicaId};

use super::*;
use crate::command::Command;
use crate::limits::EVENTS_MAX;
use crate::{Delta, Joiner, Meta};

const SHARD: ShardId = ShardId(1);

fn meta() -> Meta {
    let node = |number: u64| NodeEntry {
        node: NodeId(number),
        name: format!("n{number}"),
        zone: String::new(),
        addresses: DoorAddresses::default(),
    };
    let placed = |number: u64| Placement { node: NodeId(number), replica: ReplicaId(number) };
    let group = |shard: ShardId| Descriptor {
        shard,
        epoch: Epoch { conf: shardine_model::ConfVersion(1), ..Epoch::default() },
        state: Default::default(),
        bounds: Default::default(),
        voters: (1..=3).map(placed).collect(),
        learners: Vec::new(),
    };
    let nodes = (1..=3).map(node).collect();
    let groups = vec![group(SHARD), group(ShardId::META)];
    let map = ClusterMap { cluster: 7, version: 1, nodes, groups, sql: "none".to_owned() };
    let mut meta = Meta::new();
    meta.apply(&Command::Init { map, starts: Vec::new() }.to_entry(), |reply| drop(reply.unwrap())).unwrap();
    meta
}

fn give(meta: &mut Meta, at: u64, why: &str, command: Command) {
    let dated = Command::At { at: Timestamp(at), why: why.to_owned(), command: Box::new(command) };
    let mut done = None;
    meta.apply(&dated.to_entry(), |reply| done = Some(reply)).unwrap();
    done.unwrap().unwrap();
}

fn lines(meta: &Meta) -> Vec<(u64, String)> {
    meta.map().events.iter().map(|event| (event.at.0, event.text.clone())).collect()
}

fn join(meta: &mut Meta, at: u64) {
    let joiner = Joiner {
        name: "n4".to_owned(),
        addresses: DoorAddresses::default(),
        zone: String::new(),
        labels: BTreeMap::new(),
        is_gateway: false,
        incarnation: 1,
        start: 1,
    };
    give(meta, at, "", Command::Join { joiner, replaces: None });
}

#[test]
fn the_history_says_what_was_done_when_and_why() {
    let mut meta = meta();
    join(&mut meta, 10);
    let voters = [1, 2, 4].map(NodeId).to_vec();
    let conf = meta.map().groups[&SHARD].epoch.conf;
    let learners = Vec::new();
    give(&mut meta, 20, "n3 holds 16 replicas, n4 0", Command::Reconfigure { shard: SHARD, conf, voters, learners });
    let operation = *meta.map().operations.keys().next().unwrap();
    give(&mut meta, 30, "", Command::Cancel { operation });
    give(&mut meta, 40, "", Command::SetMode { node: NodeId(4), mode: NodeMode::Draining });

    let told: Vec<(u64, String)> = [
        (10, "node n4 has joined as number 4"),
        (20, "shard 1 begins to move: n4 in place of n3: n3 holds 16 replicas, n4 0"),
        (30, "shard 1 stays where it is, the move is given up"),
        (40, "node n4 is draining, it was rw"),
    ]
    .map(|(at, text)| (at, text.to_owned()))
    .to_vec();
    assert_eq!(lines(&meta), told);
    // It is in the map that other nodes and later starts get.
    let whole = Delta::decode(&meta.map().whole().to_bytes()).unwrap();
    let mut map = Map::default();
    map.take(&whole).unwrap();
    assert_eq!(map.events, meta.map().events);
}

#[test]
fn the_history_ends_where_it_is_too_long() {
    let mut meta = meta();
    for turn in 0..EVENTS_MAX as u64 + 5 {
        give(
            &mut meta,
            turn + 1,
            "",
            Command::Set { name: "s".to_owned(), value: Some(format!("{turn}{}", "é".repeat(900))) },
        );
    }

    let events = &meta.map().events;
    assert_eq!(events.len(), EVENTS_MAX);
    assert_eq!((events.front().unwrap().number, events.back().unwrap().number), (6, EVENTS_MAX as u64 + 5));
    assert!(events.iter().all(|event| event.text.len() <= EVENT_BYTES_MAX));
}

#[test]
fn what_nobody_has_dated_is_not_told() {
    let mut meta = meta();
    let command = Command::SetMode { node: NodeId(3), mode: NodeMode::ReadOnly };
    meta.apply(&command.to_entry(), |_| ()).unwrap();

    assert_eq!(lines(&meta), []);
}
