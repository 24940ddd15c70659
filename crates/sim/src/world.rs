//! The world of one run: nodes, network, disks, their tenant and the one queue of events that moves them. What a node does
//! with an event is in `host`, who strikes in `nemesis`, who watches in `watch`; clients are the tenant's.

use std::collections::BTreeMap;
use std::rc::Rc;

use shardine_host::{SeatId, Speakers};
use shardine_model::{NodeId, ReplicaId, ShardId};
use shardine_transport::{Clocks, Sightings};

use crate::chance::Chance;
use crate::check::Violation;
use crate::clock::Clock;
use crate::council::Council;
use crate::counters::Counters;
use crate::disk::Disk;
use crate::event::{Event, Schedule};
use crate::ground::{Ground, MS};
use crate::kinship::Kinship;
use crate::links::Links;
use crate::moves::Chart;
use crate::net::Net;
use crate::replicas::Replicas;
use crate::tenant::{Draws, EventOf, InputOf, Tenant};
use crate::trace::Trace;
use crate::watch::Watch;

/// One node: a process that may be down or paused, and a disk that outlives it.
pub struct Node<T: Tenant> {
    /// Whose disk it is. A machine that has lost its disk comes back as somebody else.
    pub id: NodeId,
    /// Nobody, until it has joined.
    pub is_blank: bool,
    /// The map as it is on this node's disk; none where members never change.
    pub chart: Option<Rc<Chart>>,
    pub map_deaf_until: u64,
    pub speakers: Speakers,
    /// Members of groups that were born here and that the map may not have yet.
    pub kin: BTreeMap<(ShardId, ReplicaId), NodeId>,
    /// Which starts of the others it has seen; on its disk.
    pub sightings: Sightings,
    pub ticks: u64,
    /// Grows with every start.
    pub life: u64,
    pub replicas: Replicas<T::Replica>,
    pub disk: Disk,
    pub clock: Clock,
    /// What the others say about the time.
    pub clocks: Clocks,
    pub tick_us: u64,
    pub paused_until: u64,
    /// How long the process will be gone after it dies in its next write.
    pub crash_at_write: Option<u64>,
    /// What will befall the node at its next read.
    pub trap: Option<Trap>,
    pub late_ticks_until: u64,
    /// How long the process will be gone once it has handed over what it leads.
    pub ends_for: Option<u64>,
    /// What came while the process was paused.
    pub backlog: Vec<InputOf<T>>,
    pub slow_until: u64,
    /// By group: the snapshot whose chunks come at the moment.
    pub cuts: Vec<Option<u64>>,
    /// By lane: whether the next pieces have been asked for.
    pub cut_asked: Vec<bool>,
    /// By lane: how much of what waits for its disk has been looked at.
    pub looked_at: Vec<usize>,
}

impl<T: Tenant> Node<T> {
    fn new(ground: &Ground<T::Fault>, number: usize, chance: &mut Chance) -> Self {
        let id = NodeId(number as u64 + 1);
        Self {
            id,
            is_blank: false,
            chart: None,
            map_deaf_until: 0,
            speakers: Speakers::default(),
            kin: BTreeMap::new(),
            sightings: Sightings::default(),
            ticks: 0,
            life: 0,
            replicas: Replicas::none(),
            disk: Disk::new(ground, id, T::shard),
            clock: Clock::new(ground.skew_ms, ground.believes, chance),
            clocks: Clocks::default(),
            tick_us: chance.between(((100 - ground.tick_skew_percent) * MS, (100 + ground.tick_skew_percent) * MS)),
            paused_until: 0,
            crash_at_write: None,
            trap: None,
            late_ticks_until: 0,
            ends_for: None,
            backlog: Vec::new(),
            slow_until: 0,
            cuts: (0..ground.groups).map(|_| None).collect(),
            looked_at: vec![0; ground.lanes],
            cut_asked: vec![false; ground.lanes],
        }
    }

    /// The lane of a group, and its seat there, if it has one.
    #[must_use]
    pub fn place_of(&self, group: usize) -> Option<(usize, SeatId)> {
        Some((self.replicas.lane_of(group), self.replicas.seat_of(group)?))
    }

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

pub struct World<T: Tenant> {
    pub ground: Ground<T::Fault>,
    pub now: u64,
    pub schedule: Schedule<EventOf<T>>,
    pub chance: Chance,
    pub nodes: Vec<Node<T>>,
    pub net: Net,
    pub links: Links,
    pub watch: Watch,
    pub counters: Counters,
    pub trace: Trace,
    /// The first promise that was broken. Nothing happens after it.
    pub violation: Option<Violation>,
    /// Whether faults still strike and clients still begin new operations.
    pub faults_on: bool,
    /// How long the next process will be gone that dies while it installs a snapshot.
    pub crash_at_install: Option<u64>,
    /// The same for whoever ends a snapshot of its own.
    pub crash_at_cut: Option<u64>,
    /// Whoever leads meta; none where members never change.
    pub council: Option<Council>,
    /// What disks held that are gone.
    pub lost: Vec<Disk>,
    pub kinship: Kinship,
    pub tenant: T,
}

impl<T: Tenant> World<T> {
    #[must_use]
    pub fn new(ground: Ground<T::Fault>, plan: T::Plan, lines_kept: usize) -> Self {
        let mut chance = Chance::new(ground.seed);
        let count = ground.machines;
        let place = chance.fork(1);
        let mut clocks = chance.fork(2);
        let nodes = (0..count).map(|number| Node::new(&ground, number, &mut clocks)).collect();
        let net = Net::new(ground.net, count, chance.fork(3));
        let draws = Draws { place, surroundings: chance.fork(4), people: chance.fork(5) };
        let mut world = Self {
            tenant: T::new(&ground, plan, draws),
            now: 0,
            schedule: Schedule::default(),
            chance,
            nodes,
            net,
            links: Links::default(),
            watch: Watch::new(count, ground.groups, ground.voters),
            counters: Counters::default(),
            trace: Trace::new(lines_kept),
            violation: None,
            faults_on: false,
            crash_at_install: None,
            crash_at_cut: None,
            council: None,
            lost: Vec::new(),
            kinship: Kinship::of(&ground),
            ground,
        };
        world.found_council();
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

    fn happen(&mut self, event: EventOf<T>) {
        match event {
            Event::Arrive { node, input } => self.reach(node, input),
            Event::Own { node, life, input } => {
                if self.lives(node, life) {
                    self.reach(node, input);
                }
            }
            Event::DiskSynced { node, life, lane } => self.disk_synced(node, life, lane),
            Event::SnapshotWritten { node, life, cut } => self.snapshot_written(node, life, cut),
            Event::Crash { node, life, down } => {
                if self.lives(node, life) && self.faults_on {
                    self.crash(node, down);
                }
            }
            Event::Deafened { node, length } => self.deafen(node, length),
            Event::Restart { node } => {
                if !self.nodes[node].is_up() {
                    self.start(node);
                }
            }
            Event::Resume { node } => self.resume(node),
            Event::Strike => self.strike(),
            Event::CouncilLooks => self.council_looks(),
            Event::Petition(petition) => self.hear_petition(petition),
            Event::Joined { machine, node, map } => self.joined(machine, node, &map),
            Event::AskToJoin { machine, start } => self.ask_to_join(machine, start),
            Event::Undrain { node } => self.undrain(node),
            Event::Tenant(event) => T::happen(self, event),
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

    pub fn later(&mut self, delay: u64, event: EventOf<T>) {
        self.schedule.at(self.now + delay, event);
    }
}
