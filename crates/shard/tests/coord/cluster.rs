//! Three replicas in one thread: a network without delay that can be cut, disks that confirm at once.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::{BTreeMap, BTreeSet};

use shardine_coord::NodeNumber;
use shardine_model::log::{Membership, SnapshotMeta};
use shardine_model::{ReplicaId, ShardId};
use shardine_shard::coord::{
    Actions, Ask, Config, Coord, NodeCall, NodeReply, Opening, Options, Replica, SessionId, StreamId, StreamMessage,
    Ticket,
};
use shardine_shard::{Message, Restored, Role};

use crate::files::Files;

pub const PATH: &str = "/local/locks";
const TICK_MS: u64 = 100;

pub struct Cluster {
    replicas: BTreeMap<u64, Replica>,
    cut: BTreeSet<u64>,
    now_ms: u64,
    next: u64,
    heard: BTreeMap<StreamId, Vec<StreamMessage>>,
    replies: BTreeMap<Ticket, NodeReply>,
    installed: u64,
    files: Files,
}

impl Cluster {
    pub fn led_by(first: u64) -> Self {
        let restored = || Restored {
            snapshot: SnapshotMeta { membership: Membership::of([1, 2, 3].map(ReplicaId)), ..SnapshotMeta::default() },
            ..Restored::default()
        };
        let replica = |id| {
            let options = Options { seed: 7, window_entries: 10, ..Options::new(ReplicaId(id), ShardId(9)) };
            (id, Replica::new(options, Coord::new(), restored()))
        };
        let mut cluster = Self {
            replicas: (1..=3).map(replica).collect(),
            cut: BTreeSet::new(),
            now_ms: 0,
            next: 0,
            heard: BTreeMap::new(),
            replies: BTreeMap::new(),
            installed: 0,
            files: Files::default(),
        };
        cluster.with(first, |replica, actions| replica.campaign(actions));
        assert!(cluster.replicas[&first].is_serving());
        cluster
    }

    /// Lets a replica act, and does what comes of it until nothing more does.
    fn with(&mut self, id: u64, act: impl FnOnce(&mut Replica, &mut Actions)) {
        let mut actions = Actions::default();
        let replica = self.replicas.get_mut(&id).unwrap();
        act(replica, &mut actions);
        replica.propose_gathered(&mut actions);
        let mut letters = self.perform(id, actions);
        while let Some(letter) = letters.pop() {
            let (from, to) = (letter.from().0, letter.to().0);
            if self.cut.contains(&from) || self.cut.contains(&to) {
                continue;
            }
            let mut actions = Actions::default();
            self.replicas.get_mut(&to).unwrap().step(letter, &mut actions);
            letters.splice(0..0, self.perform(to, actions));
        }
    }

    /// Writes, cuts and hears; what is left is for the network.
    fn perform(&mut self, id: u64, mut actions: Actions) -> Vec<Message> {
        let replica = self.replicas.get_mut(&id).unwrap();
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
                self.files.write(id, part).into_iter().for_each(|index| replica.snapshot_saved(index));
            }
            replica.propose_gathered(&mut actions);
            if actions.persists.is_empty() {
                break;
            }
        }
        for (stream, message) in actions.streams {
            self.heard.entry(stream).or_default().push(message);
        }
        self.replies.extend(actions.replies);
        assert_eq!(actions.stop, None);
        actions.messages.reverse();
        actions.messages.retain_mut(|message| self.files.fill(id, message));
        actions.messages
    }

    pub fn run(&mut self, ticks: u64) {
        for _ in 0..ticks {
            self.now_ms += TICK_MS;
            for id in 1..=3 {
                let now_ms = self.now_ms;
                self.with(id, |replica, actions| replica.tick(now_ms, actions));
            }
        }
    }

    pub fn run_until_another_leads(&mut self) {
        for _ in 0..200 {
            self.run(1);
            if self.replicas.iter().any(|(id, replica)| !self.cut.contains(id) && replica.is_serving()) {
                return;
            }
        }
        panic!("nobody leads");
    }

    /// When it was heard.
    pub fn run_until_heard(&mut self, stream: StreamId, is_it: impl Fn(&StreamMessage) -> bool) -> u64 {
        for _ in 0..1_000 {
            if self.heard(stream).iter().any(&is_it) {
                return self.now_ms;
            }
            self.run(1);
        }
        panic!("it was never heard");
    }

    pub fn cut_off(&mut self, id: u64) {
        self.cut.insert(id);
    }

    pub fn join(&mut self, id: u64) {
        self.cut.remove(&id);
    }

    pub fn leader(&self) -> u64 {
        let mut serving = self.replicas.iter().filter(|(id, replica)| !self.cut.contains(id) && replica.is_serving());
        *serving.next().unwrap().0
    }

    pub fn make_node(&mut self) {
        let ticket = self.create_node(1, PATH);
        assert_eq!(self.reply(ticket), Some(&NodeReply::Done));
    }

    pub fn create_node(&mut self, id: u64, path: &str) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        let call = NodeCall::Create { path: path.to_owned(), config: Config::default() };
        self.with(id, |replica, actions| replica.call(ticket, &call, actions));
        ticket
    }

    pub fn start(&mut self, id: u64, session: SessionId, timeout_ms: u64) -> StreamId {
        self.next += 1;
        let stream = StreamId(self.next);
        let opening = Opening { path: PATH.to_owned(), session, timeout_ms, ..Opening::default() };
        self.with(id, |replica, actions| replica.start(stream, &opening, actions));
        stream
    }

    pub fn ask(&mut self, id: u64, stream: StreamId, ask: &Ask) {
        self.with(id, |replica, actions| replica.ask(stream, ask, actions));
    }

    pub fn hand_over(&mut self, id: u64, to: u64) {
        let to = ReplicaId(to);
        self.with(id, |replica, actions| assert_eq!(replica.hand_over(Some(to), actions), Ok(to)));
    }

    pub fn heard(&self, stream: StreamId) -> &[StreamMessage] {
        self.heard.get(&stream).map_or(&[], Vec::as_slice)
    }

    pub fn session_of(&self, stream: StreamId) -> SessionId {
        match self.heard(stream).first() {
            Some(StreamMessage::Started { session, .. }) => *session,
            other => panic!("{other:?}"),
        }
    }

    pub fn reply(&self, ticket: Ticket) -> Option<&NodeReply> {
        self.replies.get(&ticket)
    }

    pub fn replica(&self, id: u64) -> &Replica {
        &self.replicas[&id]
    }

    pub fn node(&self, id: u64) -> NodeNumber {
        self.replicas[&id].coord().find_node(PATH).unwrap()
    }

    pub fn snapshots_installed(&self) -> u64 {
        self.installed
    }

    pub fn check_agreement(&self) {
        let of = |id| (self.replicas[&id].status().applied, self.replicas[&id].coord().digest());
        assert_eq!(of(1), of(2));
        assert_eq!(of(1), of(3));
        assert_eq!(self.replicas.values().filter(|replica| replica.role() == Role::Leader).count(), 1);
    }
}
