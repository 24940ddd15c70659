//! Groups with disks and a network between them, in one thread. Messages travel as bytes. Each replica's machine is the list of
//! what it was told, so that two that have applied the same hold the same.

// Shared by several tests, each of which needs a part.
#![allow(dead_code, clippy::unwrap_used, reason = "test support")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shardine_consensus::{Group, Keep, Message, Options, Progress, Proposed, REST_PACE, Ready, Restored, Role};
use shardine_model::ReplicaId;
use shardine_model::codec::{Reader, put_bytes};
use shardine_model::log::{HardState, LogEntry, LogEntryKind, Membership, SnapshotMeta};

pub struct Net {
    pub nodes: BTreeMap<u64, Node>,
    wire: VecDeque<Vec<u8>>,
    /// Nodes whose messages, both ways, are lost.
    cut: BTreeSet<u64>,
    /// Nodes to which snapshots take long, and those on their way.
    slow: BTreeSet<u64>,
    held: Vec<Message>,
    /// Short lines of everything that was sent.
    pub sent: Vec<String>,
    /// Applied entries kept in memory.
    pub keep: u64,
    lives: u64,
    ticks: u64,
}

pub struct Node {
    pub group: Group,
    pub lines: Vec<Vec<u8>>,
    pub applied: u64,
    applied_term: u64,
    disk: Disk,
    pub reads: Vec<u64>,
}

#[derive(Clone, Default)]
struct Disk {
    snapshot: SnapshotMeta,
    lines: Vec<Vec<u8>>,
    hard_state: HardState,
    entries: Vec<LogEntry>,
}

impl Disk {
    fn take(&mut self, ready: &Ready) {
        if let Some((meta, data)) = &ready.snapshot {
            self.save(meta.clone(), lines_of(data));
        }
        if let Some(first) = ready.entries.first() {
            self.entries.retain(|entry| entry.index < first.index);
            self.entries.extend(ready.entries.iter().cloned());
        }
        // A commit index alone is not written.
        if let Some(hard_state) = ready.hard_state.filter(|_| ready.must_sync) {
            self.hard_state = hard_state;
        }
    }

    fn save(&mut self, snapshot: SnapshotMeta, lines: Vec<Vec<u8>>) {
        self.entries.retain(|entry| entry.index > snapshot.index);
        (self.snapshot, self.lines) = (snapshot, lines);
    }
}

fn lines_of(data: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = Reader::new(data);
    let mut lines = Vec::new();
    while !reader.is_empty() {
        lines.push(reader.bytes("a line").unwrap().to_vec());
    }
    lines
}

pub fn ids(numbers: &[u64]) -> Vec<ReplicaId> {
    numbers.iter().copied().map(ReplicaId).collect()
}

impl Node {
    fn start(id: u64, life: u64, disk: Disk) -> Self {
        let restored =
            Restored { snapshot: disk.snapshot.clone(), hard_state: disk.hard_state, entries: disk.entries.clone() };
        let options = Options { id: ReplicaId(id), shard: 1, incarnation: life, seed: 1 };
        Self {
            group: Group::new(options, restored),
            lines: disk.lines.clone(),
            applied: disk.snapshot.index,
            applied_term: disk.snapshot.term,
            disk,
            reads: Vec::new(),
        }
    }

    /// Takes what is ready, with a disk that has everything at once. Gives what is to be sent.
    fn turn(&mut self, keep: u64) -> Vec<Message> {
        let mut out = Vec::new();
        while let Some(mut ready) = self.group.ready() {
            self.disk.take(&ready);
            if let Some((meta, data)) = &ready.snapshot {
                (self.lines, self.applied, self.applied_term) = (lines_of(data), meta.index, meta.term);
            }
            out.append(&mut ready.messages);
            out.append(&mut ready.persisted_messages);
            self.group.persisted(ready.number);
            for entry in &ready.committed {
                self.apply(entry);
            }
            self.group.trim(self.applied, Keep { entries: keep, bytes: u64::MAX });
            self.reads.extend(ready.reads.iter().map(|done| done.context));
            if self.group.take_snapshot_wish() {
                self.offer_snapshot();
            }
        }
        out
    }

    fn apply(&mut self, entry: &LogEntry) {
        assert_eq!(entry.index, self.applied + 1, "entries are applied without gaps");
        match entry.kind {
            LogEntryKind::Membership => self.group.apply_membership(entry).unwrap(),
            LogEntryKind::Normal if entry.data.is_empty() => {}
            LogEntryKind::Normal => self.lines.push(entry.data.to_vec()),
        }
        (self.applied, self.applied_term) = (entry.index, entry.term);
        self.group.applied(entry.index);
    }

    fn meta(&self) -> SnapshotMeta {
        SnapshotMeta {
            index: self.applied,
            term: self.applied_term,
            membership: self.group.membership().clone(),
            conf_index: self.group.conf_index(),
        }
    }

    /// Cuts a snapshot, for its own disk and for whoever needs one.
    pub fn offer_snapshot(&mut self) {
        let mut data = Vec::new();
        self.lines.iter().for_each(|line| put_bytes(&mut data, line));
        let meta = self.meta();
        self.group.offer_snapshot(&meta, data.into());
        self.disk.save(meta, self.lines.clone());
    }

    /// The commit index that its disk would give back.
    pub fn commit_on_disk(&self) -> u64 {
        self.disk.hard_state.commit
    }

    pub fn last_on_disk(&self) -> u64 {
        self.disk.entries.last().map_or(self.disk.snapshot.index, |entry| entry.index)
    }

    pub fn snapshot_on_disk(&self) -> &SnapshotMeta {
        &self.disk.snapshot
    }
}

impl Net {
    /// Founders, of which the first leads.
    pub fn of(founders: &[u64]) -> Self {
        let snapshot = SnapshotMeta { membership: Membership::of(ids(founders)), ..Default::default() };
        let node = |id: &u64| (*id, Node::start(*id, 1, Disk { snapshot: snapshot.clone(), ..Default::default() }));
        let mut net = Self {
            nodes: founders.iter().map(node).collect(),
            wire: VecDeque::new(),
            cut: BTreeSet::new(),
            slow: BTreeSet::new(),
            held: Vec::new(),
            sent: Vec::new(),
            keep: 100,
            lives: 1,
            ticks: 0,
        };
        net.node(founders[0]).group.campaign();
        net.settle();
        assert_eq!(net.leader(), founders[0]);
        net
    }

    pub fn node(&mut self, id: u64) -> &mut Node {
        self.nodes.get_mut(&id).unwrap()
    }

    pub fn leader(&self) -> u64 {
        let leads = |(_, node): &(&u64, &Node)| node.group.role() == Role::Leader;
        let newest = self.nodes.iter().filter(leads).max_by_key(|(_, node)| node.group.term());
        *newest.expect("somebody leads").0
    }

    /// A replica that has nothing, not even a membership.
    pub fn begin_empty(&mut self, id: u64) {
        self.nodes.insert(id, Node::start(id, 1, Disk::default()));
    }

    /// Loses everything that is not on disk.
    pub fn restart(&mut self, id: u64) {
        self.lives += 1;
        let disk = self.nodes[&id].disk.clone();
        self.nodes.insert(id, Node::start(id, self.lives, disk));
    }

    pub fn cut_off(&mut self, id: u64) {
        self.cut.insert(id);
    }

    pub fn join(&mut self, id: u64) {
        self.cut.remove(&id);
    }

    /// From now on snapshots to the node do not arrive.
    pub fn hold(&mut self, id: u64) {
        self.slow.insert(id);
    }

    /// They do.
    pub fn release(&mut self, id: u64) {
        self.slow.remove(&id);
        for message in std::mem::take(&mut self.held) {
            self.node(id).group.step(message);
        }
        self.settle();
    }

    /// Takes turns and carries messages until nothing moves.
    pub fn settle(&mut self) {
        self.settle_until(|_| false);
    }

    /// The same up to the first moment at which something holds; says whether it came to that.
    pub fn settle_until(&mut self, holds: impl Fn(&Self) -> bool) -> bool {
        loop {
            for id in self.nodes.keys().copied().collect::<Vec<_>>() {
                let keep = self.keep;
                let out = self.node(id).turn(keep);
                self.send(out);
            }
            if holds(self) {
                return true;
            }
            let Some(bytes) = self.wire.pop_front() else { return false };
            let message = Message::decode(&bytes).unwrap();
            let (from, to) = (message.from().0, message.to().0);
            if message.is_snapshot() && self.slow.contains(&to) {
                self.held.push(message);
                continue;
            }
            if !self.cut.contains(&from) && !self.cut.contains(&to) && self.nodes.contains_key(&to) {
                self.node(to).group.step(message);
            }
        }
    }

    fn send(&mut self, messages: Vec<Message>) {
        for message in messages {
            self.sent.push(message.summary());
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            self.wire.push_back(bytes);
        }
    }

    /// Messages that are on their way are lost.
    pub fn lose_wire(&mut self) {
        self.wire.clear();
    }

    pub fn tick(&mut self, ticks: usize) {
        for _ in 0..ticks {
            self.ticks += 1;
            let is_due = |node: &&mut Node, ticks: u64| !node.group.rests() || ticks.is_multiple_of(REST_PACE);
            let ticks = self.ticks;
            self.nodes.values_mut().filter(|node| is_due(node, ticks)).for_each(|node| node.group.tick());
            self.settle();
        }
    }

    /// Proposes a line to the leader, and lets it go round.
    pub fn write(&mut self, line: &str) -> Proposed {
        let leader = self.leader();
        let proposed = self.node(leader).group.propose(line.as_bytes().to_vec()).unwrap();
        self.settle();
        proposed
    }

    pub fn progress_of(&self, id: u64) -> Progress {
        let leader = &self.nodes[&self.leader()].group;
        leader.progress().into_iter().find(|progress| progress.replica == ReplicaId(id)).expect("it follows")
    }

    pub fn assert_same(&self, ids: &[u64]) {
        let state = |id: &u64| (self.nodes[id].applied, &self.nodes[id].lines, self.nodes[id].group.membership());
        for id in ids {
            assert_eq!(state(id), state(&ids[0]), "replicas {id} and {} part", ids[0]);
        }
    }
}
