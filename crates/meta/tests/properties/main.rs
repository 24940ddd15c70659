//! What holds after any commands in any order: replicas agree, a snapshot tells all, a node that follows has the same map, every
//! position is covered once, and no number is given twice.

mod play;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use shardine_meta::{Command, Delta, Feed, Map, Meta, Operation, Sight, plan};
use shardine_model::{Epoch, GroupKind, NodeId, Placement, ReplicaId, ShardId};

use play::{Stage, moves};

fn chunks(meta: &mut Meta) -> Vec<Vec<u8>> {
    meta.begin_cut();
    std::iter::from_fn(|| meta.next_chunk()).collect()
}

fn follow(view: &mut Map, meta: &Meta) {
    loop {
        let bytes = match meta.feed(view.version) {
            Feed::Nothing => return,
            Feed::Delta { change, .. } => change,
            Feed::Whole { map, .. } => map,
        };
        view.take(&Delta::decode(&bytes).expect("a delta")).expect("it leads on");
    }
}

proptest! {
    #[test]
    fn replicas_agree_whether_they_applied_followed_or_were_restored(moves in moves(), cut in 0..60usize) {
        let (mut stage, mut follower) = (Stage::new(), Stage::new().meta);
        let (mut restored, mut view) = (None::<Meta>, Map::default());
        for (at, step) in moves.iter().enumerate() {
            let Some(entry) = stage.act(step) else { continue };
            follower.apply(&entry, |_| ()).expect("an entry");
            if let Some(restored) = &mut restored {
                restored.apply(&entry, |_| ()).expect("an entry");
            }
            if at == cut {
                restored = Some(Meta::new().restored(chunks(&mut stage.meta)).expect("a snapshot"));
            }
            if at % 3 == 0 {
                follow(&mut view, &stage.meta);
            }
        }
        follow(&mut view, &stage.meta);

        prop_assert_eq!(follower.digest(), stage.meta.digest());
        prop_assert_eq!(restored.map_or(stage.meta.digest(), |restored| restored.digest()), stage.meta.digest());
        prop_assert_eq!(view.whole(), stage.meta.map().whole());
        let again = Map::decode(&view.whole().to_bytes()).expect("a whole map");
        prop_assert_eq!(again.whole(), view.whole());
    }

    #[test]
    fn there_is_one_map_and_no_number_is_given_twice(moves in moves()) {
        let mut stage = Stage::new();
        let mut placed: BTreeSet<(ShardId, ReplicaId, NodeId)> = BTreeSet::new();
        let (mut version, mut epochs) = (0, BTreeMap::<ShardId, Epoch>::new());
        for step in &moves {
            stage.act(step);
            let map = stage.meta.map();
            for (shard, group) in &map.groups {
                let before = epochs.insert(*shard, group.epoch).unwrap_or_default();
                prop_assert!(before <= group.epoch, "epochs only grow");
            }
            prop_assert_eq!(map.check(), Ok(()), "after {:?}", step);
            prop_assert!(map.version >= version, "versions only grow");
            version = map.version;
            for (shard, Placement { node, replica }) in members(map) {
                placed.insert((shard, replica, node));
            }
            for path in map.paths.keys() {
                prop_assert!(!map.is_directory(path), "{} is a node and a directory", path);
            }
            let names: BTreeSet<&str> = map.members().map(|node| node.name.as_str()).collect();
            prop_assert_eq!(names.len(), map.members().count(), "names are unique among members");
        }
        let numbers: BTreeSet<(ShardId, ReplicaId)> = placed.iter().map(|(shard, replica, _)| (*shard, *replica)).collect();
        prop_assert_eq!(numbers.len(), placed.len(), "a replica has lived on two nodes");
    }

    /// Whatever has happened, as long as a group has not lost its majority to nodes that came back empty: once everybody lives and does its part, the planner comes to rest, with as many voters as there
    /// should be, none of them on a node that was removed, nor on one that is to be emptied if others can hold them.
    #[test]
    fn the_planner_comes_to_rest(moves in moves()) {
        let mut stage = Stage::new();
        moves.iter().for_each(|step| drop(stage.act(step)));
        for _ in 0..200 {
            stage.work();
            let commands = plan(stage.meta.map(), &Sight::default());
            if commands.is_empty() && stage.meta.map().operations.is_empty() {
                break;
            }
            for command in &commands {
                if let Command::Reconfigure { shard, voters, .. } = command {
                    let present = stage.meta.map().groups[shard].voters.len();
                    prop_assert!(voters.len() % 2 == 1 || voters.len() == present, "an even number of voters is nobody's wish");
                }
                stage.apply(command);
            }
        }

        let map = stage.meta.map();
        prop_assert_eq!(plan(map, &Sight::default()), Vec::<Command>::new());
        prop_assert!(map.operations.is_empty());
        let can_hold = map.nodes.values().filter(|node| node.keeps_data()).count();
        let holding = map.nodes.values().filter(|node| node.holds_data()).count();
        for group in map.groups.values() {
            let meta_voters = if can_hold >= 5 { 5 } else { 3 };
            let wanted = if group.shard.kind() == GroupKind::Meta { meta_voters } else { 3 };
            let is_lost = |voter: &&Placement| !map.nodes[&voter.node].is_member();
            let lost = group.voters.iter().filter(is_lost).count();
            if group.voters.len() - lost <= group.voters.len() / 2 {
                continue;
            }
            // A node that is to be emptied counts for how many copies there should be, and takes none: then the two that are left of
            // three stay as they are, for fewer would be one.
            prop_assert!(lost == 0 || (can_hold < 3 && holding >= 3), "{:?} {:?}", group, map.nodes);
            if can_hold >= wanted {
                prop_assert!(group.voters.len() >= wanted, "{:?}", group);
                let is_emptied = |member: &Placement| map.nodes[&member.node].is_draining();
                prop_assert!(!group.members().any(is_emptied), "{:?}", group);
            }
        }
    }
}

fn members(map: &Map) -> Vec<(ShardId, Placement)> {
    let placed = map
        .groups
        .values()
        .flat_map(|group| group.voters.iter().chain(&group.learners).map(move |placement| (group.shard, *placement)));
    let planned = map
        .operations
        .values()
        .filter_map(Operation::replace)
        .flat_map(|replace| replace.new.iter().map(move |placement| (replace.shard, *placement)));
    placed.chain(planned).collect()
}
