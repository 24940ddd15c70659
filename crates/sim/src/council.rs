//! Meta as the world has it for now: the real state machine and the real planner, and one who always leads it, on some machine, and
//! may be out of reach. What is asked and told goes over the same links as everything else.

use shardine_meta::{Load, Move, plan, plan_with_reasons};
use shardine_model::{
    Bound, ClusterMap, ConfVersion, Descriptor, DoorAddresses, Epoch, NodeEntry, NodeId, Placement, ReplicaId,
    RequestEpoch, ShardId,
};
use shardine_shard::meta::{Command, Feed, Followers, Joiner, Map, Meta, Mode, Operation, Replaced, Reply, Sight};

use crate::chance::Chance;
use crate::disk::{CLUSTER, Disk};
use crate::event::{Event, Input};
use crate::ground::{MS, SECOND};
use crate::moves::Chart;
use crate::tenant::Tenant;
use crate::world::World;

const LOOK_EVERY: (u64, u64) = (50 * MS, 300 * MS);
const ASK_AGAIN: (u64, u64) = (200 * MS, 600 * MS);
/// A machine whose disk was lost is called the same and is known to be a living node no longer than this.
const REPLACED_WITHIN: (u64, u64) = (300 * MS, 3 * SECOND);

/// What is told to whoever leads meta.
#[derive(Clone, Debug)]
pub enum Petition {
    /// A node has this version of the map.
    Has { node: NodeId, version: u64 },
    /// A group's leader reports.
    Command(Box<Command>),
    /// A machine with an empty disk wants to take part.
    Join { machine: usize, start: u64 },
}

pub struct Council {
    pub meta: Meta,
    chance: Chance,
    followers: Followers,
    /// The machine on which whoever leads it lives.
    at: usize,
    pub away_until: u64,
    starts: u64,
    /// The last group for which meta has given a number.
    last_child: Option<usize>,
}

impl Council {
    pub fn map(&self) -> &Map {
        self.meta.map()
    }

    fn execute(&mut self, command: &Command) -> Option<Reply> {
        let mut told = None;
        self.meta.apply(&command.to_entry(), |reply| told = reply.ok()).expect("made here");
        told
    }
}

fn name(machine: usize) -> String {
    format!("n{}", machine + 1)
}

impl<T: Tenant> World<T> {
    /// The first map.
    pub fn found_council(&mut self) {
        if !self.ground.has_council {
            return;
        }
        let chance = Chance::new(self.ground.seed ^ 0xc0_0c11);
        let mut council = Council {
            meta: Meta::new(),
            chance,
            followers: Followers::default(),
            at: 0,
            away_until: 0,
            starts: 0,
            last_child: None,
        };
        let founded = council.execute(&Command::Init { map: self.first_map(), starts: Vec::new() });
        assert!(founded.is_some(), "the first map is one");
        let chart = Chart::new(council.map().clone());
        self.nodes.iter_mut().for_each(|node| node.chart = Some(chart.clone()));
        self.council = Some(council);
        self.later(0, Event::CouncilLooks);
    }

    /// The map that all begin with.
    #[must_use]
    pub fn first_map(&self) -> ClusterMap {
        let machines = 0..self.ground.machines;
        let entry = |machine: usize| NodeEntry {
            node: NodeId(machine as u64 + 1),
            name: name(machine),
            zone: String::new(),
            addresses: DoorAddresses::default(),
        };
        let voters = |count: u64| (1..=count).map(|n| Placement { node: NodeId(n), replica: ReplicaId(n) }).collect();
        let RequestEpoch { generation, range, .. } = RequestEpoch::FIRST;
        let conf = Epoch { generation, range, conf: ConfVersion(1) };
        let group = |group: usize| Descriptor {
            shard: T::shard(group),
            epoch: conf,
            state: Default::default(),
            bounds: self.tenant.bounds(group),
            voters: voters(self.ground.voters),
            learners: Vec::new(),
        };
        let mut groups: Vec<Descriptor> = (0..self.ground.founded).map(group).collect();
        groups.push(Descriptor { shard: ShardId::META, bounds: Default::default(), ..groups[0].clone() });
        groups.sort_by_key(|group| group.shard);
        let nodes = machines.map(entry).collect();
        ClusterMap { cluster: CLUSTER, version: 1, nodes, groups, sql: String::new() }
    }

    /// Something is on its way from a node to whoever leads meta.
    pub fn petition(&mut self, from: usize, petition: &Petition) {
        let Some(council) = &self.council else { return };
        for at in self.net.send(from, council.at, self.now).arrivals.into_iter().flatten() {
            self.schedule.at(at, Event::Petition(petition.clone()));
        }
    }

    pub fn hear_petition(&mut self, petition: Petition) {
        let now = self.now;
        let Some(council) = self.council.as_mut().filter(|council| now >= council.away_until) else { return };
        if !self.nodes[council.at].is_up() {
            return;
        }
        match petition {
            Petition::Has { node, version } => council.followers.heard(node, version),
            Petition::Command(command) => drop(council.execute(&command)),
            Petition::Join { machine, start } => self.let_in(machine, start),
        }
    }

    /// A node that is known by this name is silent for good: another one takes its place.
    fn let_in(&mut self, machine: usize, start: u64) {
        let Some(council) = &mut self.council else { return };
        let known = council.map().member_named(&name(machine));
        let replaces = known.map(|known| Replaced { node: known.node, incarnation: known.incarnation });
        let joiner = Joiner {
            name: name(machine),
            addresses: DoorAddresses::default(),
            zone: String::new(),
            labels: Default::default(),
            is_gateway: false,
            incarnation: 1,
            start,
        };
        let Some(Reply::Node(node)) = council.execute(&Command::Join { joiner, replaces }) else { return };
        let (from, map) = (council.at, council.map().whole().to_bytes());
        for at in self.net.send(from, machine, self.now).arrivals.into_iter().flatten() {
            self.schedule.at(at, Event::Joined { machine, node, map: map.clone() });
        }
    }

    /// A machine without a disk of its own asks for a number, until it has one.
    pub fn ask_to_join(&mut self, machine: usize, start: u64) {
        if self.nodes[machine].is_blank {
            self.petition(machine, &Petition::Join { machine, start });
            let again = self.chance.between(ASK_AGAIN);
            self.later(again, Event::AskToJoin { machine, start });
        }
    }

    /// It has one, and begins as a node.
    pub fn joined(&mut self, machine: usize, node: NodeId, map: &[u8]) {
        if !self.nodes[machine].is_blank {
            return;
        }
        self.note(&[23, machine as u64, node.0], || format!("machine {} is node {node} now", machine + 1));
        self.counters.nodes_joined += 1;
        let map = Map::decode(map).expect("whole");
        let disk = Disk::new(&self.ground, node, T::shard);
        let joined = &mut self.nodes[machine];
        (joined.id, joined.is_blank, joined.chart, joined.disk) = (node, false, Some(Chart::new(map)), disk);
        self.start(machine);
    }

    /// Whoever leads meta looks at everything: plans, and tells nodes what they lack.
    pub fn council_looks(&mut self) {
        let Some(council) = &mut self.council else { return };
        let next = council.chance.between(LOOK_EVERY);
        let is_away = self.now < council.away_until;
        self.later(next, Event::CouncilLooks);
        self.find_council_a_place();
        if is_away {
            return;
        }
        let silent = self.silent();
        let Some(council) = &mut self.council else { return };
        let load = self.ground.balances.then(Load::default);
        for Move { command, is_for_balance, .. } in
            plan_with_reasons(council.map(), &Sight { silent, load, ..Sight::default() })
        {
            let is_of_meta = matches!(command, Command::Reconfigure { shard, .. } if shard == ShardId::META);
            if !is_of_meta && council.execute(&command).is_some() {
                self.counters.moves_planned += u64::from(matches!(command, Command::Reconfigure { .. }));
                self.counters.moves_for_balance += u64::from(is_for_balance);
            }
        }
        self.feed();
    }

    /// Where the machine of whoever leads is gone, somebody else leads after a while.
    fn find_council_a_place(&mut self) {
        let machines = self.nodes.len();
        let Some(council) = &mut self.council else { return };
        if !self.nodes[council.at].is_up() && council.chance.percent(30) || council.chance.percent(1) {
            let at = council.chance.index(machines);
            if self.nodes[at].is_up() {
                (council.at, council.followers) = (at, Followers::default());
            }
        }
    }

    /// Nodes that are taken for dead, some of them wrongly.
    fn silent(&mut self) -> std::collections::BTreeSet<NodeId> {
        let Some(council) = &mut self.council else { return Default::default() };
        let mut silent = Vec::new();
        for (machine, node) in self.nodes.iter().enumerate() {
            let is_cut = self.net.is_cut(machine, council.at, self.now);
            let is_wrong = self.faults_on && council.chance.percent(3);
            if !node.is_up() || is_cut || is_wrong {
                silent.push(node.id);
            }
        }
        silent.into_iter().collect()
    }

    fn feed(&mut self) {
        let now_ms = self.now / MS;
        for machine in 0..self.nodes.len() {
            let node = self.nodes[machine].id;
            // With its pulse every node says what it has.
            if let (Some(chart), true) = (&self.nodes[machine].chart, self.nodes[machine].is_up()) {
                let version = chart.full.version;
                self.petition(machine, &Petition::Has { node, version });
            }
            let Some(council) = &mut self.council else { return };
            let change = match council.followers.due(&council.meta, node, now_ms) {
                Feed::Nothing => continue,
                Feed::Delta { change, .. } => change,
                Feed::Whole { map, .. } => map,
            };
            for at in self.net.send(council.at, machine, self.now).arrivals.into_iter().flatten() {
                let input = Input::Map { change: change.clone() };
                self.schedule.at(at, Event::Arrive { node: machine, input });
            }
        }
    }

    /// An operator says something to whoever leads meta.
    fn operate_council(&mut self, command: &Command) {
        let now = self.now;
        if let Some(council) = self.council.as_mut().filter(|council| now >= council.away_until) {
            let done = council.execute(command).is_some();
            self.expect_children();
            self.note(&[24, u64::from(done)], || format!("an operator: {command:?}: {done}"));
        }
    }

    pub fn drain(&mut self, machine: usize) {
        let node = self.nodes[machine].id;
        self.operate_council(&Command::SetMode { node, mode: Mode::Draining });
        let length = self.chance.between((SECOND, 6 * SECOND));
        self.later(length, Event::Undrain { node });
    }

    pub fn undrain(&mut self, node: NodeId) {
        self.operate_council(&Command::SetMode { node, mode: Mode::ReadWrite });
    }

    /// A replica is to be elsewhere.
    pub fn move_some(&mut self, group: usize, to: usize) {
        let node = self.nodes[to].id;
        let Some(council) = &mut self.council else { return };
        let Some(known) = council.meta.map().groups.get(&T::shard(group)) else { return };
        let members: Vec<ReplicaId> = known.members().map(|member| member.replica).collect();
        let replica = council.chance.pick(&members);
        self.operate_council(&Command::Replace { shard: T::shard(group), replica, node });
    }

    /// A group is to be parted, if there is room for another one.
    pub fn split_some(&mut self, group: usize, at: Bound) {
        let Some(council) = &self.council else { return };
        let shards = council.map().groups.keys().filter_map(|shard| self.group_of(*shard));
        let newest = shards.chain(council.last_child).max();
        if newest.is_none_or(|newest| newest + 1 >= self.ground.groups) {
            return;
        }
        let Some(known) = council.map().groups.get(&T::shard(group)) else { return };
        let (shard, epoch) = (known.shard, known.epoch);
        self.operate_council(&Command::Split { shard, epoch, at });
    }

    /// Numbers that meta has given for what is to be born.
    fn expect_children(&mut self) {
        let Some(council) = &self.council else { return };
        let splits = council.map().operations.values().filter_map(|operation| match operation {
            Operation::Split(shard, split) => Some((*shard, split.child)),
            Operation::Replace(_) => None,
        });
        let splits: Vec<(ShardId, ShardId)> = splits.collect();
        for (parent, child) in splits {
            let (Some(parent), Some(child)) = (self.group_of(parent), self.group_of(child)) else { continue };
            if let Some(council) = &mut self.council {
                council.last_child = council.last_child.max(Some(child));
            }
            self.expect_child(parent, child);
        }
    }

    pub fn take_back(&mut self) {
        let Some(council) = &mut self.council else { return };
        let operations: Vec<_> = council.map().operations.keys().copied().collect();
        if !operations.is_empty() {
            let operation = council.chance.pick(&operations);
            self.operate_council(&Command::Cancel { operation });
        }
    }

    /// The process of a machine dies, and its disk is gone, unless that would be more than the groups can bear: what a majority held
    /// must still be held by one who has a vote, and whoever is to replace a loss must have done so before the next one.
    pub fn lose_disk(&mut self, machine: usize) {
        if !self.may_lose(machine) {
            return;
        }
        self.counters.disks_lost += 1;
        let down = self.chance.between(REPLACED_WITHIN);
        self.crash(machine, down);
        self.note(&[25, machine as u64], || format!("the disk of machine {} is gone", machine + 1));
        let empty = Disk::new(&self.ground, self.nodes[machine].id, T::shard);
        let gone = std::mem::replace(&mut self.nodes[machine].disk, empty);
        self.lost.push(gone);
        if self.ground.planted == Some(crate::ground::Planted::SameNumberAgain) {
            return;
        }
        self.nodes[machine].is_blank = true;
        let Some(council) = &mut self.council else { return };
        council.starts += 1;
        let start = council.starts;
        self.later(down, Event::AskToJoin { machine, start });
    }

    fn may_lose(&self, machine: usize) -> bool {
        let Some(council) = &self.council else { return false };
        if self.nodes[machine].is_blank {
            return false;
        }
        let id = self.nodes[machine].id;
        self.living().into_iter().all(|group| {
            let shard = T::shard(group);
            let Some(known) = council.map().groups.get(&shard) else { return false };
            let is_whole = known.members().all(|member| self.machine(member.node).is_some());
            let is_settled = council.map().operation_on(shard).is_none() && self.members_are(group, known);
            let votes = known.voters.iter().any(|voter| voter.node == id);
            is_whole && is_settled && (!votes || known.voters.len() >= 3)
        })
    }

    /// Whether every replica that is up knows exactly these members.
    fn members_are(&self, group: usize, known: &Descriptor) -> bool {
        self.nodes.iter().filter_map(|node| node.replicas.get(group)).all(|replica| {
            let membership = shardine_host::GroupReplica::group(replica).membership();
            let mut voters: Vec<ReplicaId> = known.voters.iter().map(|voter| voter.replica).collect();
            voters.sort_unstable();
            !membership.is_joint() && membership.voters == voters
        })
    }

    /// Everything that an operator has done is undone.
    pub fn calm_council(&mut self) {
        let Some(council) = &mut self.council else { return };
        council.away_until = 0;
        let nodes: Vec<NodeId> = council.map().nodes.keys().copied().collect();
        for node in nodes {
            council.execute(&Command::SetMode { node, mode: Mode::ReadWrite });
        }
        self.nodes.iter_mut().for_each(|node| node.map_deaf_until = 0);
    }

    /// What is still missing until members and maps are at rest.
    #[must_use]
    pub fn council_misses(&self) -> Option<String> {
        let council = self.council.as_ref()?;
        if let Some(node) = self.nodes.iter().position(|node| node.is_blank) {
            return Some(format!("machine {} has not joined", node + 1));
        }
        if let Some((id, operation)) = council.map().operations.first_key_value() {
            return Some(format!("operation {id} is not over: {operation:?}"));
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let version = node.chart.as_ref().map(|chart| chart.full.version);
            if version != Some(council.map().version) {
                return Some(format!("node {} has version {version:?} of the map", number + 1));
            }
        }
        let groups = self.living().into_iter();
        let differs = |group: &usize| {
            council.map().groups.get(&T::shard(*group)).is_none_or(|known| !self.members_are(*group, known))
        };
        let found = groups.clone().find(differs).map(|group| format!("members of group {group} are not as in the map"));
        let load = self.ground.balances.then(Load::default);
        let to_do = plan(council.map(), &Sight { load, ..Sight::default() });
        let open = to_do
            .into_iter()
            .find(|command| !matches!(command, Command::Reconfigure { shard, .. } if *shard == ShardId::META));
        found.or_else(|| open.map(|command| format!("there is still to do: {command:?}")))
    }
}
