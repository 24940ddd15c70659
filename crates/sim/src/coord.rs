//! Coordination: one group, clients with sessions that acquire, release, describe and watch, and what they were promised.

// In the order in which a newcomer should read them.
mod names;
mod plan;

mod clients;
mod draw;
mod operator;
mod wire;

mod faults;

mod phases;
mod watch;

pub mod check;

mod counters;
mod event;
mod member;

use shardine_coord::{Coord, Mutant, NodeNumber};
use shardine_model::log::LogEntry;
use shardine_model::{Bounds, ShardId};
use shardine_shard::Restored;
use shardine_shard::coord::{Actions, Options, Replica};

use crate::check::Violation;
use crate::ground::Ground;
use crate::tenant::{Draws, Seat, Tenant};
use crate::theme::Theme;
use crate::world::World;
use clients::Client;
use counters::Counters;
use event::{Event, Input, own};
use faults::Fault;
use names::NAMES;
use operator::Call;
use plan::Plan;
use watch::Watch;
use wire::{SWEEP_EVERY, Wire};

pub struct Coordination {
    plan: Plan,
    clients: Vec<Client>,
    /// Every stream that ever was; all before `first_open` are over.
    wires: Vec<Wire>,
    first_open: usize,
    /// Clients cannot reach a node for so long.
    hidden_until: Vec<u64>,
    calls: Vec<Call>,
    /// The node where everything happens.
    main_node: Option<NodeNumber>,
    watch: Watch,
    counters: Counters,
    next_value: u64,
    /// Everybody has left.
    is_over: bool,
}

impl Tenant for Coordination {
    const NAME: &'static str = "coord";
    const MUTANTS: &'static [Mutant] = &Mutant::ALL;

    type Replica = Replica;
    type Plan = Plan;
    type Mutant = Mutant;
    type Input = Input;
    type Event = Event;
    type Fault = Fault;

    const MEMBERS_CHANGE: bool = false;

    fn shard(group: usize) -> ShardId {
        ShardId(ShardId::FIRST_COORDINATION.0 + group as u32)
    }

    fn plan(seed: u64, mutant: Option<Mutant>, theme: Option<Theme>) -> (Ground<Fault>, Plan) {
        plan::draw(seed, mutant, theme)
    }

    fn new(ground: &Ground<Fault>, plan: Plan, mut draws: Draws) -> Self {
        let nodes = ground.machines;
        let people = &mut draws.people;
        Self {
            clients: (0..plan.clients).map(|number| Client::new(number, &plan, nodes, people)).collect(),
            wires: Vec::new(),
            first_open: 0,
            hidden_until: vec![0; nodes],
            calls: Vec::new(),
            main_node: None,
            watch: Watch::default(),
            counters: Counters::default(),
            next_value: 0,
            is_over: false,
            plan,
        }
    }

    fn restore(
        world: &World<Self>,
        seat: Seat,
        chunks: &[Vec<u8>],
        restored: Restored,
    ) -> Result<(Replica, Vec<shardine_shard::Newborn>), String> {
        let mutant = world.tenant.plan.mutant;
        let mut coord = Coord::new().with_mutant(mutant);
        if !chunks.is_empty() {
            coord = coord.restored(chunks).map_err(|error| format!("a snapshot cannot be read: {error}"))?;
        }
        let options = Options {
            incarnation: seat.life,
            seed: world.ground.seed,
            snapshot_log_bytes: world.ground.snapshot_log_bytes,
            window_entries: world.ground.window_entries,
            mutant,
            ..Options::new(seat.replica, Self::shard(seat.group))
        };
        Ok((Replica::new(options, coord, restored), Vec::new()))
    }

    fn bounds(&self, _group: usize) -> Bounds {
        Bounds::default()
    }

    fn reseated(_world: &mut World<Self>, _node: usize, _group: usize) {}

    fn started(world: &mut World<Self>, node: usize) {
        let life = world.nodes[node].life;
        world.later(SWEEP_EVERY, own(node, life, Input::Sweep));
    }

    fn crashed(world: &mut World<Self>, node: usize) {
        world.break_wires_of(node);
    }

    fn happen(world: &mut World<Self>, event: Event) {
        match event {
            Event::Hears { wire } => world.hear_wire(wire),
            Event::Acts { client } => world.client_acts(client),
            Event::Beats { client } => world.client_beats(client),
            Event::Operates => world.operate(),
        }
    }

    fn take_in(world: &mut World<Self>, node: usize, input: Input) {
        match input {
            Input::Readable { wire } => world.read_wire(node, wire),
            Input::Call { ticket } => world.take_call(node, ticket),
            Input::Sweep => world.sweep(node),
        }
    }

    fn source_of(input: &Input) -> u64 {
        match input {
            Input::Readable { wire } => u64::MAX - *wire as u64,
            Input::Call { .. } | Input::Sweep => 0,
        }
    }

    fn perform(world: &mut World<Self>, node: usize, _group: usize, actions: &mut Actions) {
        for (stream, message) in actions.streams.drain(..) {
            world.say(node, stream, message);
        }
        for (ticket, reply) in actions.replies.drain(..) {
            world.reply(node, ticket, reply);
        }
    }

    fn entry_applied(world: &mut World<Self>, _group: usize, entry: &LogEntry) -> Result<(), Violation> {
        world.look_at_entry(entry)
    }

    fn look(world: &mut World<Self>, node: usize, _group: usize, has_applied: bool) -> Result<(), Violation> {
        world.look_at_replica(node, has_applied)
    }

    fn strike(world: &mut World<Self>, fault: Fault, victim: usize) {
        world.strike_coordination(fault, victim);
    }

    fn heal(world: &mut World<Self>) {
        world.heal_clients();
    }

    fn bootstrap(world: &mut World<Self>) {
        world.make_node();
    }

    fn begin_work(world: &mut World<Self>) {
        world.begin_clients();
    }

    fn settle_some(_world: &mut World<Self>) {}

    fn missing(world: &World<Self>) -> Option<String> {
        world.not_at_rest()
    }

    fn last_words(world: &mut World<Self>) {
        world.everybody_leaves();
    }

    /// Nobody is left, so nobody holds anything.
    fn compare(world: &mut World<Self>) -> Result<(), Violation> {
        let main = world.tenant.main_node.expect("made at the beginning");
        for node in &world.nodes {
            for name in &NAMES {
                let Some(found) = node.replicas[0].coord().describe(main, name.text, true, true) else { continue };
                if found.ephemeral || !found.owners.is_empty() || !found.waiters.is_empty() {
                    let detail = format!("everybody has left, and there is {found:?}");
                    return Err(Violation::new(check::sessions_live_their_time::NAME, detail));
                }
            }
        }
        Ok(())
    }

    fn judge(_world: &World<Self>) -> Result<(), Violation> {
        Ok(())
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.counters.list()
    }
}
