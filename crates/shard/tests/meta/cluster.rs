//! Nodes in one thread: a network without delay that can be cut, disks that confirm at once. A node makes a replica of the map's
//! group as soon as the map has one for it, and whoever leads does what operations ask for.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::log::{Membership, SnapshotMeta};
use shardine_model::{
    Bounds, ClusterMap, ConfVersion, Descriptor, DoorAddresses, Epoch, Generation, NodeEntry, NodeId, Placement,
    RangeVersion, Refusal, ReplicaId, ShardId, ShardState, Timestamp,
};
use shardine_shard::meta::{
    Actions, Command, Joiner, Map, Meta, Options, Replica, Reply, Sight, Ticket, Work, work_of,
};
use shardine_shard::{Message, Restored};

use crate::files::Files;

const TICK_MS: u64 = 50;

pub struct Cluster {
    pub nodes: BTreeMap<NodeId, Replica>,
    cut: BTreeSet<NodeId>,
    /// What every node has heard of: the newest map that anybody has had.
    map: Map,
    replies: BTreeMap<Ticket, Result<Reply, Refusal>>,
    now_ms: u64,
    next: u64,
    pub installed: u64,
    files: Files,
    /// Every replica number that ever was, with its node.
    pub placed: BTreeSet<(ReplicaId, NodeId)>,
}

impl Cluster {
    /// One node, which leads the group alone.
    pub fn of_one() -> Self {
        let snapshot = SnapshotMeta { membership: Membership::of([ReplicaId(1)]), ..SnapshotMeta::default() };
        let first = replica(ReplicaId(1), Restored { snapshot, ..Restored::default() });
        let mut cluster = Self {
            nodes: BTreeMap::from([(NodeId(1), first)]),
            cut: BTreeSet::new(),
            map: Map::default(),
            replies: BTreeMap::new(),
            now_ms: 0,
            next: 0,
            installed: 0,
            files: Files::default(),
            placed: BTreeSet::new(),
        };
        cluster.with(NodeId(1), |replica, actions| replica.campaign(actions));
        assert_eq!(cluster.ask(&Command::Init { map: first_map(), starts: Vec::new() }), Ok(Reply::Done));
        cluster
    }

    /// Asks whoever leads, and gives the answer once it is there.
    pub fn ask(&mut self, command: &Command) -> Result<Reply, Refusal> {
        let (leader, ticket) = (self.leader(), self.ticket());
        self.with(leader, |replica, actions| replica.submit(ticket, command, actions));
        for _ in 0..200 {
            if let Some(reply) = self.replies.remove(&ticket) {
                return reply;
            }
            self.run(1);
        }
        panic!("nobody answers {command:?}");
    }

    /// Asks a node, whether or not it leads, and does not wait.
    pub fn ask_of(&mut self, node: NodeId, command: &Command) -> Ticket {
        let ticket = self.ticket();
        self.with(node, |replica, actions| replica.submit(ticket, command, actions));
        ticket
    }

    pub fn reply(&self, ticket: Ticket) -> Option<&Result<Reply, Refusal>> {
        self.replies.get(&ticket)
    }

    fn ticket(&mut self) -> Ticket {
        self.next += 1;
        Ticket(self.next)
    }

    pub fn join(&mut self, name: &str) -> NodeId {
        let joiner = Joiner {
            name: name.to_owned(),
            addresses: DoorAddresses::default(),
            zone: String::new(),
            labels: BTreeMap::new(),
            is_gateway: false,
            incarnation: 1,
            start: self.next + 1,
        };
        match self.ask(&Command::Join { joiner, replaces: None }) {
            Ok(Reply::Node(node)) => node,
            other => panic!("{other:?}"),
        }
    }

    pub fn cut_off(&mut self, node: NodeId) {
        self.cut.insert(node);
    }

    pub fn heal(&mut self, node: NodeId) {
        self.cut.remove(&node);
    }

    /// The one that serves and can be reached.
    pub fn leader(&mut self) -> NodeId {
        for _ in 0..200 {
            let serves = |(node, replica): &(&NodeId, &Replica)| !self.cut.contains(node) && replica.is_serving();
            if let Some((node, _)) = self.nodes.iter().find(serves) {
                return *node;
            }
            self.run(1);
        }
        panic!("nobody leads");
    }

    /// Lets time pass until the planner and all leaders have nothing more to do.
    pub fn settle(&mut self) {
        for _ in 0..400 {
            self.run(1);
            let leader = self.leader();
            let map = self.nodes[&leader].map();
            let sight = Sight { silent: self.cut.clone(), ..Sight::default() };
            let is_planned = shardine_meta::plan(map, &sight).iter().any(is_about_meta);
            let has_work = work_of(map, ShardId::META, self.nodes[&leader].group()).is_some();
            if map.operation_on(ShardId::META).is_none() && !is_planned && !has_work {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.map.operations);
    }

    pub fn run(&mut self, ticks: u64) {
        for _ in 0..ticks {
            self.now_ms += TICK_MS;
            let (now_ms, nodes): (u64, Vec<NodeId>) = (self.now_ms, self.nodes.keys().copied().collect());
            for node in nodes {
                self.with(node, |replica, actions| replica.tick(now_ms, actions));
                self.do_work(node);
            }
            self.hear_of_the_map();
        }
    }

    /// What a leader's host does beside its ticks: the planner, and operations on its own group.
    fn do_work(&mut self, node: NodeId) {
        let sight = Sight { silent: self.cut.clone(), ..Sight::default() };
        self.with(node, |replica, actions| {
            replica.plan(&sight, Timestamp(0), actions);
            match work_of(replica.map(), ShardId::META, replica.group()) {
                Some(Work::Change(change)) => drop(replica.change_members(&change, actions)),
                Some(Work::Report(command)) => replica.submit(Ticket::NOBODY, &command, actions),
                Some(Work::HandOver(heir)) => drop(replica.hand_over(Some(heir), actions)),
                Some(Work::Split(..)) | None => {}
            }
        });
    }

    /// Nodes hear of a new map, make room for replicas that they are to have, and drop those that are removed.
    fn hear_of_the_map(&mut self) {
        let newest = self.nodes.iter().filter(|(node, _)| !self.cut.contains(node)).map(|(_, replica)| replica);
        let newest = newest.max_by_key(|replica| replica.map().version).unwrap();
        if newest.map().version > self.map.version {
            self.map = newest.map().clone();
        }
        let map = self.map.cluster_map();
        let group = map.group(ShardId::META).unwrap();
        for placement in group.voters.iter().chain(&group.learners) {
            if self.placed.insert((placement.replica, placement.node)) && placement.replica != ReplicaId(1) {
                self.nodes.insert(placement.node, replica(placement.replica, Restored::default()));
            }
        }
        self.nodes.retain(|_, replica| replica.group().removed().is_none());
    }

    /// Lets a replica act, and does what comes of it until nothing more does.
    fn with(&mut self, node: NodeId, act: impl FnOnce(&mut Replica, &mut Actions)) {
        let mut actions = Actions::default();
        let Some(replica) = self.nodes.get_mut(&node) else { return };
        act(replica, &mut actions);
        replica.propose_gathered(&mut actions);
        let mut messages = self.perform(node, actions);
        while let Some(message) = messages.pop() {
            let place =
                |id: ReplicaId| self.nodes.iter().find(|(_, replica)| replica.id() == id).map(|(node, _)| *node);
            let (Some(from), Some(to)) = (place(message.from()), place(message.to())) else { continue };
            if self.cut.contains(&from) || self.cut.contains(&to) {
                continue;
            }
            let mut actions = Actions::default();
            self.nodes.get_mut(&to).unwrap().step(message, &mut actions);
            messages.splice(0..0, self.perform(to, actions));
        }
    }

    /// Writes, cuts and hears; what is left is for the network.
    fn perform(&mut self, node: NodeId, mut actions: Actions) -> Vec<Message> {
        let replica = self.nodes.get_mut(&node).unwrap();
        loop {
            let last = actions.persists.last().map(|persist| persist.number);
            self.installed += actions.persists.iter().filter(|persist| persist.install.is_some()).count() as u64;
            actions.persists.clear();
            if let Some(number) = last {
                replica.persisted(number, &mut actions);
            }
            if replica.is_cutting() {
                replica.snapshot_step(usize::MAX, &mut actions);
            }
            for part in actions.snapshot.drain(..) {
                self.files.write(node.0, part).into_iter().for_each(|index| replica.snapshot_saved(index));
            }
            replica.propose_gathered(&mut actions);
            if actions.persists.is_empty() {
                break;
            }
        }
        self.replies.extend(actions.replies);
        assert_eq!(actions.stop, None);
        actions.messages.reverse();
        actions.messages.retain_mut(|message| self.files.fill(node.0, message));
        actions.messages
    }
}

fn is_about_meta(command: &Command) -> bool {
    matches!(command, Command::Reconfigure { shard: ShardId::META, .. })
}

fn replica(id: ReplicaId, restored: Restored) -> Replica {
    Replica::new(Options { seed: 7, window_entries: 10, ..Options::new(id) }, Meta::new(), restored)
}

fn first_map() -> ClusterMap {
    let (name, zone, addresses) = ("a".to_owned(), String::new(), DoorAddresses::default());
    let nodes = vec![NodeEntry { node: NodeId(1), name, zone, addresses }];
    let group = |shard| {
        let epoch = Epoch { generation: Generation::FIRST, range: RangeVersion::FIRST, conf: ConfVersion(1) };
        let (voters, learners) = (vec![Placement { node: NodeId(1), replica: ReplicaId(1) }], Vec::new());
        Descriptor { shard, epoch, state: ShardState::Serving, bounds: Bounds::default(), voters, learners }
    };
    // There has to be one of records; nobody plays it.
    let groups = vec![group(ShardId(1)), group(ShardId::META)];
    ClusterMap { cluster: 9, version: 1, nodes, groups, sql: "none".to_owned() }
}
