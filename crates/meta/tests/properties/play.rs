//! Moves of operators, nodes and leaders of groups, and a stage that makes commands of them that often fit.

use std::collections::BTreeMap;

use proptest::prelude::*;
use shardine_meta::{Command, Joiner, Meta, Mode, Operation, Replaced, Todo};
use shardine_model::key::Interval;
use shardine_model::log::Membership;
use shardine_model::{
    Bounds, ClusterMap, ConfVersion, Descriptor, DoorAddresses, Epoch, Field, FieldId, FieldType, Generation,
    NodeEntry, NodeId, Placement, RangeVersion, ReplicaId, ShardId, ShardState, SqlOptions, Table, TableId,
};

/// A kind, and numbers that choose among what there is.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    kind: u8,
    one: u64,
    other: u64,
}

pub fn moves() -> impl Strategy<Value = Vec<Move>> {
    let step = (0..14u8, 0..40u64, 0..40u64).prop_map(|(kind, one, other)| Move { kind, one, other });
    proptest::collection::vec(step, 0..120)
}

/// A cluster, and what the groups' own logs say.
pub struct Stage {
    pub meta: Meta,
    logs: BTreeMap<ShardId, (u64, Membership)>,
    starts: u64,
}

fn shards() -> Vec<ShardId> {
    vec![ShardId(1), ShardId(2), ShardId(3), ShardId::FIRST_COORDINATION, ShardId::META]
}

impl Stage {
    pub fn new() -> Self {
        let logs = shards().into_iter().map(|shard| (shard, (1, Membership::of([ReplicaId(1)])))).collect();
        let mut stage = Self { meta: Meta::new(), logs, starts: 100 };
        stage.apply(&Command::Init { map: first_map(), starts: Vec::new() });
        stage
    }

    pub fn apply(&mut self, command: &Command) {
        self.meta.apply(&command.to_entry(), |_| ()).expect("an entry");
    }

    /// Does one thing, and gives the entry that it made.
    pub fn act(&mut self, step: &Move) -> Option<Vec<u8>> {
        let entry = self.command(step)?.to_entry();
        self.meta.apply(&entry, |_| ()).expect("an entry");
        Some(entry)
    }

    /// Leaders do what operations ask of them, as long as there is something to do.
    pub fn work(&mut self) {
        for _ in 0..20 {
            for shard in shards() {
                if let Some(command) = self.lead(shard) {
                    self.apply(&command);
                }
            }
        }
    }

    fn command(&mut self, step: &Move) -> Option<Command> {
        let Move { kind, one, other } = *step;
        let (node, shard) = (NodeId(one % 9 + 1), shards()[other as usize % 5]);
        let map = self.meta.map();
        let group = &map.groups[&shard];
        let nodes: Vec<NodeId> = map.nodes.keys().copied().collect();
        let pick = |number: u64| nodes[number as usize % nodes.len()];
        Some(match kind {
            0 => Command::Join { joiner: self.joiner(one, other), replaces: None },
            1 => {
                let name = format!("n{}", one % 7);
                let old = map.member_named(&name)?;
                let replaces = Some(Replaced { node: old.node, incarnation: old.incarnation });
                Command::Join { joiner: self.joiner(one, other), replaces }
            }
            2 => {
                let known = map.nodes.get(&node)?;
                let name = known.name.clone();
                let incarnation = known.incarnation + other % 3;
                Command::Announce { node, joiner: Joiner { name, incarnation, ..self.joiner(one, other) } }
            }
            3 => Command::SetMode { node, mode: Mode::ALL[other as usize % 3] },
            4 => Command::SetWeight { node, weight: (other * 40) as u16 },
            5 => Command::RemoveNode { node },
            6 => {
                let replica = group.voters[one as usize % group.voters.len()].replica;
                Command::Replace { shard, replica, node: pick(one + other) }
            }
            7 => {
                let voters: Vec<NodeId> = (0..one % 4 + 1).map(|place| pick(other + place)).collect();
                let learners = if other % 3 == 0 { vec![pick(one)] } else { Vec::new() };
                Command::Reconfigure { shard, conf: group.epoch.conf, voters, learners }
            }
            8..=10 => return self.lead(shard),
            11 => Command::Cancel { operation: *map.operations.keys().next()? },
            12 => match one % 3 {
                0 => Command::CreateTable { table: table(other) },
                1 => Command::DropTable { table: format!("t{}", other % 5) },
                _ => {
                    let (table, name) = (format!("t{}", other % 5), format!("f{}", one % 6));
                    Command::AddField { table, field: Field::of(FieldId(0), name, FieldType::Int64.zero()) }
                }
            },
            _ => match one % 3 {
                0 => Command::PlacePath {
                    path: if other % 2 == 0 { format!("/p{}", other % 6) } else { format!("/p{}/q", other % 3) },
                    instead_of: other % 40,
                    group: None,
                },
                1 => {
                    let path = format!("/p{}", other % 6);
                    let placed = self.meta.map().paths.get(&path).map_or(other, |place| place.placed);
                    Command::ForgetPath { path, placed }
                }
                _ => Command::Set { name: format!("s{}", other % 4), value: (one % 2 == 0).then(|| other.to_string()) },
            },
        })
    }

    /// What the group's leader does next; its log changes at once.
    fn lead(&mut self, shard: ShardId) -> Option<Command> {
        let map = self.meta.map();
        let (conf, log) = self.logs.get_mut(&shard)?;
        let strays = map.strays(shard, log);
        let Some((id, Operation::Replace(replace))) = map.operation_on(shard) else {
            *conf += u64::from(!strays.is_empty());
            log.learners.retain(|replica| !strays.contains(replica));
            return None;
        };
        let report = |conf: u64, log: &Membership| {
            let (voters, learners) = (log.voters.clone(), log.learners.clone());
            Some(Command::ConfChanged { shard, conf: ConfVersion(conf), voters, learners })
        };
        match replace.todo(log, &map.groups[&shard]) {
            Todo::Learn(replica) => log.learners.push(replica),
            Todo::Remove(replica) => log.learners.retain(|learner| *learner != replica),
            Todo::Joint { vote, learn, remove } => {
                let goes =
                    |replica: &ReplicaId| vote.contains(replica) || learn.contains(replica) || remove.contains(replica);
                log.voters.retain(|replica| !goes(replica));
                log.learners.retain(|replica| !goes(replica));
                log.voters.extend(vote);
                log.learners.extend(learn);
            }
            Todo::WatchProgress(behind) => return Some(Command::CaughtUp { operation: id, replica: *behind.first()? }),
            Todo::Wait => return None,
            Todo::Report => return report(*conf, log),
        }
        *conf += 1;
        report(*conf, log)
    }

    fn joiner(&mut self, one: u64, other: u64) -> Joiner {
        self.starts += 1;
        Joiner {
            name: format!("n{}", one % 7),
            addresses: DoorAddresses { peer: format!("h{other}:7500"), ..DoorAddresses::default() },
            zone: format!("z{}", other % 3),
            labels: BTreeMap::new(),
            is_gateway: other.is_multiple_of(11),
            incarnation: 1,
            start: self.starts,
        }
    }
}

fn first_map() -> ClusterMap {
    let (name, zone, addresses) = ("n0".to_owned(), "z0".to_owned(), DoorAddresses::default());
    let nodes = vec![NodeEntry { node: NodeId(1), name, zone, addresses }];
    let mut cuts = Interval::cut_evenly(3).into_iter().map(Bounds::from);
    let group = |shard: ShardId| {
        let epoch = Epoch { generation: Generation::FIRST, range: RangeVersion::FIRST, conf: ConfVersion(1) };
        let bounds = if shard.0 < 4 { cuts.next().expect("three") } else { Bounds::default() };
        let (voters, learners) = (vec![Placement { node: NodeId(1), replica: ReplicaId(1) }], Vec::new());
        Descriptor { shard, epoch, state: ShardState::Serving, bounds, voters, learners }
    };
    let groups = shards().into_iter().map(group).collect();
    ClusterMap { cluster: 9, version: 1, nodes, groups, sql: "none".to_owned() }
}

fn table(number: u64) -> Table {
    let field = Field::of(FieldId(0), "f0", FieldType::Int64.zero());
    Table {
        id: TableId(0),
        name: format!("t{}", number % 5),
        version: 0,
        fields: vec![field],
        sort: Vec::new(),
        backing: shardine_model::Backing::None,
        sql: SqlOptions::default(),
        dynamic: false,
        dropped: false,
        next_field: FieldId(0),
    }
}
