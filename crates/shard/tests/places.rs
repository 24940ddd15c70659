//! How paths of coordination come and go, in two steps each, over the map and two groups: whatever is lost or late in between, a node
//! that there is has its place in the map, so that everybody finds it, and what is left behind is put in order.
//!
//! The steps are those of `server/src/coord/places.rs`; here they meet in any order, and maps are as old as they like to be.

use std::collections::BTreeMap;

use proptest::prelude::*;
use shardine_coord::{Command as CoordCommand, Config, Coord, Outcome, Path, Status, open_entry};
use shardine_meta::{Command, Meta, Place, Reply};
use shardine_model::key::Interval;
use shardine_model::{
    Bounds, ClusterMap, ConfVersion, Descriptor, DoorAddresses, Epoch, ErrorCode, Generation, NodeEntry, NodeId,
    Placement, RangeVersion, ReplicaId, ShardId, ShardState,
};

const PATHS: [&str; 4] = ["/a", "/a/b", "/c", "/c/d/e"];

/// Somebody who makes or drops a node, and how far that is.
#[derive(Clone, Debug)]
enum Actor {
    NeedsPlace { path: usize, instead_of: u64 },
    Makes { path: usize, place: Place },
    Drops { path: usize, place: Place },
    Forgets { path: usize, placed: u64 },
}

struct World {
    meta: Meta,
    groups: BTreeMap<ShardId, Coord>,
    /// The paths of every version of the map.
    maps: Vec<BTreeMap<String, Place>>,
    actors: Vec<Actor>,
}

#[derive(Clone, Debug)]
enum Step {
    /// By a map so many versions old.
    Make {
        path: usize,
        age: usize,
    },
    Drop {
        path: usize,
        age: usize,
    },
    GoOn {
        actor: usize,
    },
    /// It is lost where it stands.
    Lose {
        actor: usize,
    },
    Tidy {
        group: usize,
        age: usize,
        gives_up: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let age = || prop_oneof![3 => Just(0usize), 1 => 0..4usize];
    let step = prop_oneof![
        3 => (0..PATHS.len(), age()).prop_map(|(path, age)| Step::Make { path, age }),
        2 => (0..PATHS.len(), age()).prop_map(|(path, age)| Step::Drop { path, age }),
        8 => (0..6usize).prop_map(|actor| Step::GoOn { actor }),
        1 => (0..6usize).prop_map(|actor| Step::Lose { actor }),
        2 => (0..2usize, age(), any::<bool>()).prop_map(|(group, age, gives_up)| Step::Tidy { group, age, gives_up }),
    ];
    prop::collection::vec(step, 1..120)
}

fn first_map() -> ClusterMap {
    let first = ShardId::FIRST_COORDINATION.0;
    let positions = Interval::cut_evenly(1).into_iter().map(Bounds::from).next().expect("one");
    let group = |(shard, bounds)| {
        let epoch = Epoch { generation: Generation::FIRST, range: RangeVersion::FIRST, conf: ConfVersion(1) };
        let voters = vec![Placement { node: NodeId(1), replica: ReplicaId(1) }];
        Descriptor { shard, epoch, state: ShardState::Serving, bounds, voters, learners: Vec::new() }
    };
    let coordination = [first, first + 1].map(|number| (ShardId(number), Bounds::default()));
    let groups = [(ShardId(1), positions)].into_iter().chain(coordination).chain([(ShardId::META, Bounds::default())]);
    let addresses = DoorAddresses::default();
    let node = NodeEntry { node: NodeId(1), name: "a".to_owned(), zone: String::new(), addresses };
    let (nodes, groups) = (vec![node], groups.map(group).collect());
    ClusterMap { cluster: 7, version: 1, nodes, groups, sql: "none".to_owned() }
}

impl World {
    fn new() -> Self {
        let first = ShardId::FIRST_COORDINATION.0;
        let groups = [first, first + 1].map(|number| (ShardId(number), Coord::new())).into();
        let mut world = Self { meta: Meta::new(), groups, maps: Vec::new(), actors: Vec::new() };
        world.ask(&Command::Init { map: first_map(), starts: vec![1] }).expect("a first map");
        world
    }

    fn ask(&mut self, command: &Command) -> Result<Reply, ErrorCode> {
        let mut told = None;
        self.meta.apply(&command.to_entry(), |reply| told = Some(reply)).expect("an entry");
        self.maps.push(self.meta.map().paths.clone());
        told.expect("one command").map_err(|refusal| refusal.code)
    }

    fn execute(&mut self, group: ShardId, command: &CoordCommand<'_>) -> Result<(), Status> {
        let mut entry = Vec::new();
        open_entry(&mut entry);
        command.encode(&mut entry);
        let mut told = None;
        let coord = self.groups.get_mut(&group).expect("a group of the map");
        coord.apply(&entry, |_, _, outcome| told = Some(outcome)).expect("an entry");
        match told.expect("one command") {
            Outcome::Refused(refusal) => Err(refusal.status),
            _ => Ok(()),
        }
    }

    fn map_of(&self, age: usize) -> &BTreeMap<String, Place> {
        &self.maps[self.maps.len().saturating_sub(age + 1)]
    }

    fn go_on(&mut self, actor: Actor) {
        match actor {
            Actor::NeedsPlace { path, instead_of } => {
                let command = Command::PlacePath { path: PATHS[path].to_owned(), instead_of, group: None };
                if let Ok(Reply::Place(place)) = self.ask(&command) {
                    self.actors.push(Actor::Makes { path, place });
                }
            }
            Actor::Makes { path, place } => {
                let config = Config::default();
                let make = CoordCommand::CreateNode { path: PATHS[path], config, placed: place.placed };
                if self.execute(place.group, &make) == Err(Status::Unavailable) {
                    self.actors.push(Actor::NeedsPlace { path, instead_of: place.placed });
                }
            }
            Actor::Drops { path, place } => {
                let drop = CoordCommand::DropNode { path: PATHS[path], placed: place.placed };
                if self.execute(place.group, &drop).is_ok() {
                    self.actors.push(Actor::Forgets { path, placed: place.placed });
                }
            }
            Actor::Forgets { path, placed } => {
                let forget = Command::ForgetPath { path: PATHS[path].to_owned(), placed };
                self.ask(&forget).expect("it is always done");
            }
        }
    }

    /// What the leader of a group does now and then about places without nodes.
    fn tidy(&mut self, group: ShardId, age: usize, gives_up: bool) {
        let coord = &self.groups[&group];
        let empty = |(path, place): &(&String, &Place)| place.group == group && coord.find_node(path).is_none();
        let empty: Vec<(String, u64)> =
            self.map_of(age).iter().filter(empty).map(|(path, place)| (path.clone(), place.placed)).collect();
        let given_up = coord.given_up();
        for (path, placed) in empty {
            if placed <= given_up {
                self.ask(&Command::ForgetPath { path, placed }).expect("it is always done");
            } else if gives_up {
                self.execute(group, &CoordCommand::GiveUp { placed }).expect("it is always done");
            }
        }
    }

    fn act(&mut self, step: &Step) {
        match *step {
            Step::Make { path, age } => {
                let known = self.map_of(age).get(PATHS[path]).copied();
                let none = Actor::NeedsPlace { path, instead_of: 0 };
                self.actors.push(known.map_or(none, |place| Actor::Makes { path, place }));
            }
            Step::Drop { path, age } => {
                let known = self.map_of(age).get(PATHS[path]).copied();
                self.actors.extend(known.map(|place| Actor::Drops { path, place }));
            }
            Step::GoOn { actor } if actor < self.actors.len() => {
                let actor = self.actors.remove(actor);
                self.go_on(actor);
            }
            Step::Lose { actor } if actor < self.actors.len() => drop(self.actors.remove(actor)),
            Step::GoOn { .. } | Step::Lose { .. } => {}
            Step::Tidy { group, age, gives_up } => {
                let group = ShardId(ShardId::FIRST_COORDINATION.0 + group as u32);
                self.tidy(group, age, gives_up);
            }
        }
    }

    fn nodes(&self) -> Vec<(String, ShardId)> {
        let of =
            |(shard, coord): (&ShardId, &Coord)| coord.list_nodes().map(|line| (line.path, *shard)).collect::<Vec<_>>();
        self.groups.iter().flat_map(of).collect()
    }
}

proptest! {
    #[test]
    fn every_node_has_its_place_and_every_place_gets_its_node_or_goes(steps in steps()) {
        let mut world = World::new();

        for step in &steps {
            world.act(step);
            let nodes = world.nodes();
            for (path, group) in &nodes {
                let place = world.meta.map().paths.get(path);
                prop_assert_eq!(place.map(|place| place.group), Some(*group), "{} after {:?}", path, step);
                let path = Path::parse(path).expect("a path");
                let is_inside = |(other, _): &(String, ShardId)| Path::parse(other).is_some_and(|it| it.is_inside(&path));
                prop_assert!(!nodes.iter().any(is_inside), "{path} is a node and a directory");
            }
        }

        // Everybody comes to an end, or is lost; then leaders put in order what is left.
        for _ in 0..1_000 {
            let Some(actor) = world.actors.pop() else { break };
            world.go_on(actor);
        }
        prop_assert!(world.actors.is_empty(), "somebody goes on for ever");
        for group in world.groups.keys().copied().collect::<Vec<_>>() {
            world.tidy(group, 0, true);
            world.tidy(group, 0, true);
        }
        let placed: Vec<(String, ShardId)> =
            world.meta.map().paths.iter().map(|(path, place)| (path.clone(), place.group)).collect();
        let mut nodes = world.nodes();
        nodes.sort();
        prop_assert_eq!(placed, nodes);
    }
}
