//! Three replicas, their disks, and the network between them. Everything is confirmed and delivered at once, but for what
//! a test holds back.

use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use shardine_model::log::{Membership, SnapshotMeta};
use shardine_model::sql::FlushResult;
use shardine_model::{Answer, Entry, ReplicaId, Request, RequestEpoch, RowKey, RowKeyBuf, ShardId, Timestamp};
use shardine_records::{Lookup, Records};
use shardine_shard::{
    Actions, Caller, LoadedRow, Message, Options, Replica, Restored, Role, SnapshotPart, SqlLoad, SqlWrite, Time,
};

use shardine_story::words;

use crate::files::Files;

pub const TICK_MS: u64 = 100;

pub struct Cluster {
    replicas: Vec<Replica>,
    network: VecDeque<Message>,
    /// Nodes whose messages, both ways, are lost.
    cut_off: BTreeSet<u64>,
    /// Messages that are lost besides.
    loses: Box<dyn Fn(&Message) -> bool>,
    /// Nodes to which messages take long, and those on their way.
    slow: BTreeSet<u64>,
    held: Vec<Message>,
    /// Nodes whose disks have stopped confirming, and what waits there.
    stuck_disks: BTreeSet<u64>,
    unconfirmed: Vec<(u64, u64)>,
    /// Nodes whose hosts do not come to propose what has gathered.
    busy_hosts: BTreeSet<u64>,
    time: Time,
    next_caller: u64,
    pub answers: Vec<(Caller, Answer)>,
    /// Who may look at the records.
    pub passed: Vec<Caller>,
    /// Short lines of everything that was sent, for counting rounds.
    pub sent: Vec<String>,
    /// What SQL was asked for, and by whom.
    pub loads: Vec<(u64, SqlLoad)>,
    /// What was to be written to SQL, and by whom.
    pub writes: Vec<(u64, SqlWrite)>,
    pub stops: Vec<String>,
    files: Files,
    /// What the snapshots that were cut say of themselves.
    pub cut_metas: Vec<SnapshotMeta>,
}

impl Cluster {
    /// Three replicas of which node 1 leads.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl Fn(&mut Options)) -> Self {
        Self::of(3, change)
    }

    /// So many replicas of which node 1 leads.
    pub fn of(nodes: u64, change: impl Fn(&mut Options)) -> Self {
        Self::beginning_with(nodes, change, Records::new)
    }

    /// The same, with what each of them has made of a log that is gone.
    pub fn beginning_with(nodes: u64, change: impl Fn(&mut Options), records: impl Fn(u64) -> Records) -> Self {
        let membership = Membership::of((1..=nodes).map(ReplicaId));
        let replica = |node: u64| {
            let mut options = Options::new(ReplicaId(node), ShardId(1));
            change(&mut options);
            let snapshot = SnapshotMeta { membership: membership.clone(), ..Default::default() };
            Replica::new(options, records(node), Restored { snapshot, ..Default::default() })
        };
        let mut cluster = Self {
            replicas: (1..=nodes).map(replica).collect(),
            network: VecDeque::new(),
            cut_off: BTreeSet::new(),
            loses: Box::new(|_| false),
            slow: BTreeSet::new(),
            held: Vec::new(),
            stuck_disks: BTreeSet::new(),
            unconfirmed: Vec::new(),
            busy_hosts: BTreeSet::new(),
            time: Time { monotonic_ms: 1_000, wall: Timestamp(1_000) },
            next_caller: 0,
            answers: Vec::new(),
            passed: Vec::new(),
            sent: Vec::new(),
            loads: Vec::new(),
            writes: Vec::new(),
            stops: Vec::new(),
            files: Files::default(),
            cut_metas: Vec::new(),
        };
        cluster.on(1, |replica, actions| replica.campaign(actions));
        cluster.settle();
        assert!(cluster.node(1).is_serving(), "the first to stand is elected");
        cluster
    }

    pub fn compare_every(&mut self, every_ms: u64) {
        self.replicas.iter_mut().for_each(|replica| replica.compare_every(every_ms));
    }

    pub fn node(&self, node: u64) -> &Replica {
        &self.replicas[node as usize - 1]
    }

    pub fn nodes(&self) -> RangeInclusive<u64> {
        1..=self.replicas.len() as u64
    }

    pub fn leader(&self) -> u64 {
        let serving = self.nodes().filter(|node| self.node(*node).is_serving());
        serving.max_by_key(|node| self.node(*node).term()).expect("somebody leads")
    }

    /// Lets a replica do something and takes care of what it asks for.
    pub fn on(&mut self, node: u64, act: impl FnOnce(&mut Replica, &mut Actions)) {
        let mut actions = Actions::default();
        self.replicas[node as usize - 1].set_time(self.time);
        act(&mut self.replicas[node as usize - 1], &mut actions);
        actions.refuse_returned();
        self.sent.extend(actions.messages.iter().map(Message::summary));
        let sent = actions.messages.into_iter();
        self.network.extend(sent.filter_map(|mut message| self.files.fill(node, &mut message).then_some(message)));
        self.unconfirmed.extend(actions.persists.iter().map(|persist| (node, persist.number)));
        self.answers.extend(actions.answers);
        self.passed.extend(actions.passed);
        self.loads.extend(actions.loads.into_iter().map(|load| (node, load)));
        self.writes.extend(actions.writes.into_iter().map(|write| (node, write)));
        self.stops.extend(actions.stop);
        for part in actions.snapshot {
            if let SnapshotPart::Begin(meta) = &part {
                self.cut_metas.push(meta.clone());
            }
            if let Some(index) = self.files.write(node, part) {
                self.replicas[node as usize - 1].snapshot_saved(index);
            }
        }
    }

    /// Delivers, confirms, proposes and cuts until nothing moves.
    pub fn settle(&mut self) {
        self.settle_until(|_| false);
    }

    /// The same, but stops at the first moment at which something holds; says whether it came to that.
    pub fn settle_until(&mut self, holds: impl Fn(&Self) -> bool) -> bool {
        while !holds(self) {
            if !(self.deliver_one() || self.confirm_one() || self.turn()) {
                return false;
            }
        }
        true
    }

    fn deliver_one(&mut self) -> bool {
        let Some(message) = self.network.pop_front() else { return false };
        let is_cut = self.cut_off.contains(&message.from().0) || self.cut_off.contains(&message.to().0);
        if self.slow.contains(&message.to().0) {
            self.held.push(message);
        } else if !is_cut && !(self.loses)(&message) && self.nodes().contains(&message.to().0) {
            self.on(message.to().0, |replica, actions| replica.step(message, actions));
        }
        true
    }

    fn confirm_one(&mut self) -> bool {
        let is_ready = |(node, _): &(u64, u64)| !self.stuck_disks.contains(node);
        let Some(place) = self.unconfirmed.iter().position(is_ready) else { return false };
        let (node, number) = self.unconfirmed.remove(place);
        self.on(node, |replica, actions| replica.persisted(number, actions));
        true
    }

    fn turn(&mut self) -> bool {
        let mut moved = false;
        for node in self.nodes() {
            let is_free = !self.stuck_disks.contains(&node) && !self.busy_hosts.contains(&node);
            if self.node(node).wants_proposal() && is_free {
                moved = true;
                self.on(node, |replica, actions| replica.propose_gathered(actions));
            }
            if self.node(node).wants_read_round() {
                moved = true;
                self.on(node, |replica, actions| replica.begin_read_round(actions));
            }
            if self.node(node).wants_sql() {
                moved = true;
                self.on(node, |replica, actions| replica.ask_sql(actions));
            }
            if self.node(node).is_cutting() {
                moved = true;
                self.on(node, |replica, actions| replica.snapshot_step(1 << 20, actions));
            }
        }
        moved
    }

    /// Delivers what a node has sent, and lets the others write it down, but brings no word back.
    pub fn deliver_to_followers(&mut self, from: u64) {
        for message in std::mem::take(&mut self.network) {
            if message.from().0 == from {
                self.on(message.to().0, |replica, actions| replica.step(message, actions));
            }
        }
        let (waiting, ready): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.unconfirmed).into_iter().partition(|(node, _)| *node == from);
        self.unconfirmed = waiting;
        for (node, number) in ready {
            self.on(node, |replica, actions| replica.persisted(number, actions));
        }
        self.network.clear();
    }

    /// Lets time pass for everybody.
    pub fn tick(&mut self, ticks: usize) {
        for _ in 0..ticks {
            self.tick_clocks();
            self.settle();
        }
    }

    pub fn now_ms(&self) -> u64 {
        self.time.monotonic_ms
    }

    pub fn tick_clocks(&mut self) {
        self.time.monotonic_ms += TICK_MS;
        self.time.wall = self.time.wall.plus_ms(TICK_MS);
        let time = self.time;
        for node in self.nodes() {
            self.on(node, |replica, actions| replica.tick(time, actions));
        }
    }

    pub fn cut_off(&mut self, node: u64) {
        self.cut_off.insert(node);
    }

    pub fn heal(&mut self) {
        self.cut_off.clear();
        self.loses = Box::new(|_| false);
    }

    /// From now on such messages are lost.
    pub fn lose(&mut self, loses: impl Fn(&Message) -> bool + 'static) {
        self.loses = Box::new(loses);
    }

    /// From now on messages to the node stay on their way.
    pub fn hold(&mut self, node: u64) {
        self.slow.insert(node);
    }

    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The oldest of the messages that were held arrive, all at once; the others never do.
    pub fn release(&mut self, count: usize) {
        self.slow.clear();
        for message in std::mem::take(&mut self.held).into_iter().take(count) {
            self.on(message.to().0, |replica, actions| replica.step(message, actions));
        }
    }

    /// Makes a node lead while the one before does not know of it: everybody else forgets that one.
    pub fn depose_unseen(&mut self, leader: u64, by: u64) {
        self.cut_off(leader);
        for node in self.nodes().filter(|node| *node != leader) {
            self.on(node, |replica, actions| replica.forget_leader(actions));
        }
        self.on(by, |replica, actions| replica.campaign(actions));
        self.settle();
        assert!(self.node(by).is_serving() && self.node(leader).is_serving(), "both believe that they lead");
    }

    pub fn stick_disk(&mut self, node: u64) {
        self.stuck_disks.insert(node);
    }

    pub fn free_disk(&mut self, node: u64) {
        self.stuck_disks.remove(&node);
    }

    /// From now on the node's host leaves lying what has gathered, or takes it up again.
    pub fn keep_busy(&mut self, node: u64, is_busy: bool) {
        if is_busy {
            self.busy_hosts.insert(node)
        } else {
            self.busy_hosts.remove(&node)
        };
    }

    /// Submits a request to a node; the answer is found under the caller.
    pub fn submit(&mut self, node: u64, line: &str) -> Caller {
        let caller = self.caller();
        let catalogue = self.node(node).records().catalogue().clone();
        let request: Request<'static> = words::request(&catalogue, line).expect("a request");
        self.on(node, |replica, actions| replica.submit(caller, &request, RequestEpoch::FIRST, actions));
        caller
    }

    pub fn propose(&mut self, node: u64, entry: &Entry<'_>) -> Caller {
        let caller = self.caller();
        self.on(node, |replica, actions| replica.propose_for(caller, entry, actions));
        caller
    }

    pub fn read(&mut self, node: u64, text: &str) -> Caller {
        let caller = self.caller();
        let row = words::address(self.node(node).records().catalogue(), text);
        self.on(node, |replica, actions| replica.read(caller, row, actions));
        caller
    }

    pub fn kick(&mut self, node: u64, text: &str) -> Caller {
        let caller = self.caller();
        let row = words::address(self.node(node).records().catalogue(), text).to_owned();
        self.on(node, |replica, actions| replica.kick(caller, row.as_ref(), false, actions));
        caller
    }

    /// Begins to hand the lead over.
    pub fn hand_over(&mut self, node: u64, to: u64) {
        self.on(node, |replica, actions| {
            assert_eq!(replica.hand_over(Some(ReplicaId(to)), actions), Ok(ReplicaId(to)))
        });
    }

    pub fn define(&mut self, definition: &str) {
        let catalogue = self.node(1).records().catalogue().clone();
        let table = words::table(&catalogue, &definition.split_whitespace().collect::<Vec<_>>());
        self.propose(self.leader(), &Entry::definition(table));
        self.settle();
    }

    /// SQL answers everything that it was asked: it holds no row.
    pub fn sql_finds_nothing(&mut self) {
        self.settle();
        self.sql_answers_with_nothing();
        self.settle();
    }

    /// The same, and nothing more happens then.
    pub fn sql_answers_with_nothing(&mut self) {
        for (node, load) in std::mem::take(&mut self.loads) {
            let absent = |row: RowKeyBuf| LoadedRow { row, version: Default::default(), fields: Default::default() };
            let rows: Vec<LoadedRow> = load.rows.into_iter().map(absent).collect();
            self.on(node, |replica, actions| replica.loaded(load.question, rows, actions));
        }
    }

    /// SQL says something to every row that it was sent.
    pub fn sql_says(&mut self, result: &FlushResult) {
        for (node, write) in std::mem::take(&mut self.writes) {
            let results: Vec<_> = write.rows.iter().map(|row| (row.row.clone(), result.clone())).collect();
            self.on(node, |replica, actions| replica.flushed(write.term, &results, actions));
        }
    }

    pub fn caller(&mut self) -> Caller {
        self.next_caller += 1;
        Caller { source: 1, sequence: self.next_caller }
    }

    pub fn answer(&self, caller: Caller) -> Option<&Answer> {
        let mut answers = self.answers.iter().filter(|(known, _)| *known == caller);
        let first = answers.next().map(|(_, answer)| answer);
        assert!(answers.next().is_none(), "nobody is answered twice");
        first
    }

    /// The version in an answer, for those that were executed.
    pub fn version(&self, caller: Caller) -> i64 {
        match self.answer(caller) {
            Some(Answer::One(reply)) => reply.version.0,
            other => panic!("no reply but {other:?}"),
        }
    }

    pub fn version_on(&self, node: u64, text: &str) -> i64 {
        let row: RowKey<'_> = words::address(self.node(node).records().catalogue(), text);
        match self.node(node).records().get(row.position(), row) {
            Lookup::Live(view) => view.version.0,
            Lookup::Absent { version, .. } => version.0,
            Lookup::NotResident | Lookup::UnknownTable => panic!("{text} is not on node {node}"),
        }
    }

    /// Makes a node stand for election until it serves. The others listen once they have missed their leader for a while.
    pub fn elect(&mut self, node: u64) {
        for _ in 0..200 {
            if self.node(node).is_serving() {
                return;
            }
            self.tick(1);
            if self.node(node).role() != Role::Leader {
                self.on(node, |replica, actions| replica.campaign(actions));
                self.settle();
            }
        }
        panic!("node {node} was not elected");
    }

    /// All replicas are at the same place with the same state.
    pub fn assert_agreement(&self) {
        let at = |node: u64| (self.node(node).applied(), self.node(node).records().state_hash());
        for node in self.nodes() {
            assert_eq!(at(1), at(node), "replicas 1 and {node} part");
        }
    }
}
