//! The world of one run: nodes, network, disks, SQL, clients and the one queue of events that moves them. What a node does
//! with an event is in `host`, what clients do in `clients`, who strikes in `nemesis`, who watches in `watch`.

use std::rc::Rc;

use shardine_model::Entry;
use shardine_model::log::{Membership, SnapshotMeta};
use shardine_shard::{Actions, Caller, Replica};

use crate::ask::Job;
use crate::chance::Chance;
use crate::check::Violation;
use crate::clients::Client;
use crate::clock::Clock;
use crate::counters::Counters;
use crate::disk::Disk;
use crate::event::{Event, Input, Schedule};
use crate::history::History;
use crate::net::Net;
use crate::plan::{MS, Plan};
use crate::sql::Sql;
use crate::trace::Trace;
use crate::universe::Universe;
use crate::watch::Watch;

/// The caller of what the run itself proposes; nobody waits for the answer.
pub const NOBODY: Caller = Caller { source: u64::MAX, sequence: 0 };

/// One node: a process that may be down or paused, and a disk that outlives it.
pub struct Node {
    /// Grows with every start.
    pub life: u64,
    pub replicas: Vec<Replica>,
    pub disk: Disk,
    pub clock: Clock,
    pub tick_us: u64,
    pub paused_until: u64,
    /// How long the process will be gone after it dies in its next write.
    pub crash_at_write: Option<u64>,
    /// What will befall the node at its next read.
    pub trap: Option<Trap>,
    pub late_ticks_until: u64,
    /// What came while the process was paused.
    pub backlog: Vec<Input>,
    pub slow_until: u64,
    /// Snapshots on their way out, and whether the next pieces have been asked for.
    pub cuts: Vec<Option<(SnapshotMeta, Vec<Vec<u8>>)>>,
    pub cut_asked: Vec<bool>,
}

impl Node {
    #[must_use]
    pub fn is_up(&self) -> bool {
        !self.replicas.is_empty()
    }
}

/// Something that is to happen at the worst moment, and for how long.
#[derive(Clone, Copy, Debug)]
pub enum Trap {
    Pause(u64),
    Starve(u64),
}

/// A request on its way: whose it is and which operation it is an attempt at.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    pub client: usize,
    pub operation: usize,
    pub node: usize,
}

pub struct World {
    pub plan: Plan,
    pub universe: Rc<Universe>,
    pub now: u64,
    pub schedule: Schedule,
    pub chance: Chance,
    pub nodes: Vec<Node>,
    pub net: Net,
    pub sql: Sql,
    pub clients: Vec<Client>,
    pub attempts: Vec<Attempt>,
    pub history: History,
    pub watch: Watch,
    pub counters: Counters,
    pub trace: Trace,
    /// The first promise that was broken. Nothing happens after it.
    pub violation: Option<Violation>,
    /// Whether faults still strike and clients still begin new operations.
    pub faults_on: bool,
    pub spare_actions: Actions,
    pub next_value: i64,
    /// The newest magnitude of each row that a client was told of.
    pub acknowledged: Vec<u64>,
}

impl World {
    #[must_use]
    pub fn new(plan: Plan, lines_kept: usize) -> Self {
        let mut chance = Chance::new(plan.seed);
        let universe = Universe::new(plan.shards, &mut chance.fork(1));
        let count = plan.voters as usize;
        let mut clocks = chance.fork(2);
        let nodes = (0..count).map(|_| new_node(&plan, &mut clocks)).collect();
        let net = Net::new(plan.net, count, chance.fork(3));
        let sql = Sql::new(plan.sql, plan.mutant, count, &universe.rows, chance.fork(4));
        let mut people = chance.fork(5);
        let clients = (0..plan.clients).map(|number| Client::new(number, &plan, &universe, &mut people)).collect();
        let mut world = Self {
            watch: Watch::new(count, plan.shards as usize, universe.rows.len()),
            acknowledged: vec![0; universe.rows.len()],
            next_value: 1_000,
            universe: Rc::new(universe),
            now: 0,
            schedule: Schedule::default(),
            chance,
            nodes,
            net,
            sql,
            clients,
            attempts: Vec::new(),
            history: History::default(),
            counters: Counters::default(),
            trace: Trace::new(lines_kept),
            violation: None,
            faults_on: false,
            spare_actions: Actions::default(),
            plan,
        };
        (0..count).for_each(|node| world.start(node));
        world
    }

    /// Lets everything happen up to a time, or until a promise is broken.
    pub fn run_until(&mut self, end: u64) {
        while self.violation.is_none() {
            let Some((at, event)) = self.schedule.next_until(end) else { break };
            self.now = at;
            self.happen(event);
        }
        self.now = self.now.max(end);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive { node, input } => self.reach(node, input),
            Event::Own { node, life, input } => {
                if self.lives(node, life) {
                    self.reach(node, input);
                }
            }
            Event::DiskSynced { node, life } => self.disk_synced(node, life),
            Event::SnapshotWritten { node, life, shard, meta, chunks } => {
                self.snapshot_written(node, life, shard, meta, chunks);
            }
            Event::Crash { node, life, down } => {
                if self.lives(node, life) && self.faults_on {
                    self.crash(node, down);
                }
            }
            Event::Restart { node } => {
                if !self.nodes[node].is_up() {
                    self.start(node);
                }
            }
            Event::Resume { node } => self.resume(node),
            Event::SqlLoad { node, life, shard, question, rows, told } => {
                self.sql_loads(node, life, shard, question, &rows, told);
            }
            Event::SqlWrite { node, life, shard, term, rows, told } => {
                self.sql_writes(node, life, shard, term, &rows, told);
            }
            Event::SqlPurge { node, life, shard, purge, told } => self.sql_purges(node, life, shard, purge, told),
            Event::Answer { attempt, answer } => self.client_hears(attempt, &answer),
            Event::ClientActs { client } => self.client_acts(client),
            Event::ClientGivesUp { attempt } => self.client_gives_up(attempt),
            Event::ClientActsAgain { client, attempt } => self.client_acts_again(client, attempt),
            Event::ResumeShard { shard } => self.operate(shard, &Entry::Resume),
            Event::Strike => self.strike(),
        }
    }

    pub fn lives(&self, node: usize, life: u64) -> bool {
        self.nodes[node].is_up() && self.nodes[node].life == life
    }

    /// Notes an event in the trace; the words are made only if somebody will read them.
    pub fn note(&mut self, facts: &[u64], words: impl FnOnce() -> String) {
        self.trace.note(self.now, facts, words);
    }

    pub fn demand(&mut self, verdict: Result<(), Violation>) {
        if let Err(violation) = verdict {
            self.violation.get_or_insert(violation);
        }
    }

    pub fn later(&mut self, delay: u64, event: Event) {
        self.schedule.at(self.now + delay, event);
    }

    /// The job that an attempt is about.
    pub fn job_of(&self, attempt: u64) -> &Job {
        &self.history.operations[self.attempts[attempt as usize].operation].job
    }
}

fn new_node(plan: &Plan, chance: &mut Chance) -> Node {
    let shards = plan.shards as usize;
    let membership = Membership { voters: (1..=plan.voters).collect(), learners: Vec::new() };
    let first = SnapshotMeta { index: 0, term: 0, membership };
    Node {
        life: 0,
        replicas: Vec::new(),
        disk: Disk::new(shards, first),
        clock: Clock::new(plan.skew_ms, chance),
        tick_us: chance.between(((100 - plan.tick_skew_percent) * MS, (100 + plan.tick_skew_percent) * MS)),
        paused_until: 0,
        crash_at_write: None,
        trap: None,
        late_ticks_until: 0,
        backlog: Vec::new(),
        slow_until: 0,
        cuts: (0..shards).map(|_| None).collect(),
        cut_asked: vec![false; shards],
    }
}
