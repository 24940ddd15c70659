//! Records: one or two shards with SQL behind them, clients that read and change rows, and what they were promised.

// In the order in which a newcomer should read them.
mod plan;
mod universe;

mod ask;
mod clients;
mod draw;
mod history;
mod lanes;
mod pipes;
mod model;
mod truth;

mod sql;
mod statements;

mod faults;

mod phases;
mod watch;

pub mod check;

mod counters;
mod event;
mod member;

use std::rc::Rc;

use shardine_host::Parted;
use shardine_model::log::LogEntry;
use shardine_model::sql::Class;
use shardine_model::{Bounds, NodeId, ShardId};
use shardine_shard::{Actions, Caller, Mutant, Newborn, Options, Replica, Restored, Returned, Trouble};

use crate::chance::Chance;
use crate::check::Violation;
use crate::ground::{Ground, MS};
use crate::links::{Heard, LinkId};
use crate::tenant::{Draws, Seat, Tenant};
use crate::theme::Theme;
use crate::world::World;
use clients::Client;
use counters::Counters;
use event::{Event, Input};
use faults::Fault;
use history::History;
use lanes::Lanes;
use pipes::Pipes;
use plan::Plan;
use sql::Sql;
use truth::Truth;
use universe::Universe;
use watch::Watch;

/// The caller of what the run itself proposes; nobody waits for the answer.
pub const NOBODY: Caller = Caller { source: u64::MAX, sequence: 0 };

pub struct Records {
    plan: Plan,
    universe: Rc<Universe>,
    sql: Sql,
    clients: Vec<Client>,
    history: History,
    pipes: Pipes,
    lanes: Lanes,
    watch: Watch,
    counters: Counters,
    next_value: i64,
    /// The newest magnitude of each row that a client was told of.
    acknowledged: Vec<u64>,
}

impl Tenant for Records {
    const NAME: &'static str = "records";
    const MUTANTS: &'static [Mutant] = &Mutant::ALL;

    type Replica = Replica;
    type Plan = Plan;
    type Mutant = Mutant;
    type Input = Input;
    type Event = Event;
    type Fault = Fault;

    const MEMBERS_CHANGE: bool = true;

    fn shard(group: usize) -> ShardId {
        ShardId(group as u32 + 1)
    }

    fn bounds(&self, group: usize) -> Bounds {
        self.universe.intervals[group].into()
    }

    fn plan(seed: u64, mutant: Option<Mutant>, theme: Option<Theme>) -> (Ground<Fault>, Plan) {
        plan::draw(seed, mutant, theme)
    }

    fn new(ground: &Ground<Fault>, plan: Plan, mut draws: Draws) -> Self {
        let universe = Universe::new(plan.shards, &mut draws.place);
        let nodes = ground.machines;
        let sql = Sql::new(plan.sql, plan.mutant, nodes, &universe.rows, draws.surroundings);
        let agreed = universe.intervals.iter().map(|interval| empty(ground.seed, &plan, *interval)).collect();
        let truth = Truth::new(agreed, ground.groups, &universe.rows);
        let people = &mut draws.people;
        let mut clients: Vec<Client> =
            (0..plan.clients).map(|number| Client::new(number, &plan, &universe, ground.groups, people)).collect();
        if ground.has_links {
            let windows = &mut Chance::new(ground.seed ^ 0x71_9e5);
            clients.iter_mut().for_each(|client| client.window = windows.pick(&[1, 1, 2, 5]));
        }
        Self {
            sql,
            clients,
            history: History::default(),
            pipes: Pipes::default(),
            lanes: Lanes::new(nodes),
            watch: Watch::new(nodes, truth),
            counters: Counters::default(),
            next_value: 1_000,
            acknowledged: vec![0; universe.rows.len()],
            universe: Rc::new(universe),
            plan,
        }
    }

    fn restore(
        world: &World<Self>,
        seat: Seat,
        chunks: &[Vec<u8>],
        restored: Restored,
    ) -> Result<(Replica, Vec<Newborn>), String> {
        let founded = world.tenant.universe.intervals.get(seat.group).map(|interval| Bounds::from(*interval));
        let chart = world.nodes[seat.node].chart.as_ref();
        let known =
            chart.and_then(|chart| chart.cluster.group(Self::shard(seat.group))).map(|group| group.bounds.clone());
        // Whoever has the log from its beginning on begins with the first bounds.
        let is_founder = !world.founders(seat.group, seat.replica).voters.is_empty();
        let bounds = founded.clone().filter(|_| is_founder).or(known).or(founded).unwrap_or_default();
        let mut records = empty(world.ground.seed, &world.tenant.plan, bounds);
        if !chunks.is_empty() {
            records = records.restored(chunks).map_err(|error| format!("a snapshot cannot be read: {error}"))?;
        }
        Replica::new(options(world, seat), records, restored).catch_up()
    }

    fn started(world: &mut World<Self>, node: usize) {
        world.tenant.watch.resident[node].fill(None);
        world.open_lanes(node);
    }

    fn reseated(world: &mut World<Self>, node: usize, group: usize) {
        for row in 0..world.tenant.universe.rows.len() {
            if world.holder(node, row).is_none_or(|holder| holder == group) {
                world.tenant.watch.resident[node][row] = None;
            }
        }
        world.seat_changed(node, group);
    }

    fn crashed(world: &mut World<Self>, node: usize) {
        world.close_lanes(node);
        world.pipes_break(node);
    }

    fn happen(world: &mut World<Self>, event: Event) {
        match event {
            Event::SqlLoad { node, life, shard, question, rows, told } => {
                world.sql_loads(node, life, shard, question, &rows, told);
            }
            Event::SqlWrite { node, life, shard, term, rows, told } => {
                world.sql_writes(node, life, shard, term, &rows, told);
            }
            Event::SqlPurge { node, life, shard, purge, told } => world.sql_purges(node, life, shard, purge, told),
            Event::Answer { attempt, answer } => world.client_hears(attempt, &answer),
            Event::ClientActs { client } => world.client_acts(client),
            Event::ClientGivesUp { attempt } => world.client_gives_up(attempt),
            Event::ClientActsAgain { client, attempt } => world.client_acts_again(client, attempt),
            Event::PipeBroken { connection } => world.pipe_broke(connection),
            Event::ResumeShard { shard } => world.operate(shard, &shardine_model::Entry::Resume),
        }
    }

    fn take_in(world: &mut World<Self>, node: usize, input: Input) {
        match input {
            Input::Request { attempt } => world.take_request(node, attempt),
            Input::Pipe { connection } => world.read_pipe(node, connection),
            Input::PipeGone { connection } => world.forget_connection(node, connection),
            Input::Leader { group, term, leader } => world.hear_leader(node, group, term, leader),
            Input::Loaded { shard, question, rows } => {
                world.drive(node, shard, |replica, actions| replica.loaded(question, rows, actions));
            }
            Input::LoadFailed { shard, question, rows } => {
                world.drive(node, shard, |replica, actions| {
                    replica.load_failed(question, &rows, &unreachable(), actions)
                });
            }
            Input::Flushed { shard, term, results } => {
                world.drive(node, shard, |replica, actions| replica.flushed(term, &results, actions));
            }
            Input::Purged { shard, term, rows } => {
                world.drive(node, shard, |replica, actions| replica.purged(term, &rows, actions));
            }
            Input::PurgeFailed { shard, term } => {
                world.drive(node, shard, |replica, _| replica.purge_failed(term));
            }
            Input::FlushFailed { shard, term, rows } => {
                world.drive(node, shard, |replica, _| replica.flush_failed(term, &rows, &unreachable()));
            }
        }
    }

    fn source_of(input: &Input) -> u64 {
        if matches!(input, Input::Request { .. } | Input::Pipe { .. }) { u64::MAX } else { 0 }
    }

    fn perform(world: &mut World<Self>, node: usize, group: usize, actions: &mut Actions) {
        if world.ground.has_links {
            return world.perform_routed(node, group, actions);
        }
        actions.refuse_returned();
        for (caller, answer) in actions.answers.drain(..).filter(|(caller, _)| *caller != NOBODY) {
            world.answer(node, caller.sequence, answer);
        }
        world.perform_sql(node, group, actions);
    }

    fn parted(world: &mut World<Self>, node: usize, parted: &Parted) {
        world.parted(node, parted);
    }

    fn ticked(world: &mut World<Self>, node: usize) {
        world.lanes_tick(node);
    }

    fn settle_lane(world: &mut World<Self>, node: usize, lane: usize) -> bool {
        world.settle_lane(node, lane)
    }

    fn life_changed(world: &mut World<Self>, node: usize, of: NodeId, is_suspected: bool) {
        world.life_changed(node, of, is_suspected);
    }

    fn map_changed(world: &mut World<Self>, node: usize) {
        if world.ground.has_links {
            world.map_changed(node);
        }
    }

    fn link_up(world: &mut World<Self>, node: usize, peer: NodeId) {
        world.lanes_link_up(node, peer);
    }

    fn link_lost(world: &mut World<Self>, node: usize, link: LinkId, asked: Option<NodeId>) {
        world.lanes_link_lost(node, link, asked);
    }

    fn hear(world: &mut World<Self>, node: usize, link: LinkId, heard: Heard) {
        world.hear_routed(node, link, heard);
    }

    fn entry_applied(world: &mut World<Self>, group: usize, entry: &LogEntry) -> Result<(), Violation> {
        world.count_entry(entry);
        world.follow_entry(group, entry)
    }

    fn look(world: &mut World<Self>, node: usize, group: usize, has_applied: bool) -> Result<(), Violation> {
        if has_applied { world.look_at_rows(node, group) } else { Ok(()) }
    }

    fn strike(world: &mut World<Self>, fault: Fault, victim: usize) {
        world.strike_records(fault, victim);
    }

    fn heal(world: &mut World<Self>) {
        world.tenant.sql.calm();
    }

    fn bootstrap(world: &mut World<Self>) {
        world.make_tables();
    }

    fn begin_work(world: &mut World<Self>) {
        for client in 0..world.tenant.clients.len() {
            let first = world.tenant.clients[client].chance.below(50 * MS);
            world.later(first, Event::ClientActs { client }.into());
        }
    }

    fn settle_some(world: &mut World<Self>) {
        world.resume_shards();
        world.retry_letters();
    }

    fn missing(world: &World<Self>) -> Option<String> {
        world.not_at_rest()
    }

    fn last_words(world: &mut World<Self>) {
        world.read_everything();
    }

    fn compare(world: &mut World<Self>) -> Result<(), Violation> {
        world.compare_with_sql()
    }

    fn judge(world: &World<Self>) -> Result<(), Violation> {
        world.judge_history()
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut counters = self.counters;
        counters.sql_late = self.sql.late;
        counters.sql_unknown = self.sql.unknown;
        counters.fenced = self.sql.fence_hits;
        counters.rows_written = self.sql.written;
        counters.list()
    }
}

impl World<Records> {
    fn perform_routed(&mut self, node: usize, group: usize, actions: &mut Actions) {
        let mut returned: Vec<Returned> =
            actions.returned.drain(..).filter(|returned| returned.caller != NOBODY).collect();
        // A shard that is split gives back what waited for several things.
        returned.sort_by_key(|returned| returned.caller.sequence);
        self.give_back(node, group, returned);
        for (caller, answer) in actions.answers.drain(..).filter(|(caller, _)| *caller != NOBODY) {
            self.answer_routed(node, group, caller, answer);
        }
        self.tell_leader(node, group, false);
        self.perform_sql(node, group, actions);
    }

    fn perform_sql(&mut self, node: usize, group: usize, actions: &mut Actions) {
        for load in actions.loads.drain(..) {
            self.ask_sql(node, group, load);
        }
        for write in actions.writes.drain(..) {
            self.tell_sql(node, group, write);
        }
        for purge in actions.purges.drain(..) {
            self.purge_sql(node, group, purge);
        }
    }
}

/// A shard before its first entry.
fn empty(seed: u64, plan: &Plan, bounds: impl Into<Bounds>) -> shardine_records::Records {
    shardine_records::Records::new(seed).owning(bounds).with_mutant(plan.mutant)
}

fn options(world: &World<Records>, seat: Seat) -> Options {
    let plan = &world.tenant.plan;
    let mut options = Options::new(seat.replica, Records::shard(seat.group));
    options.incarnation = seat.life;
    options.seed = world.ground.seed;
    options.snapshot_log_bytes = world.ground.snapshot_log_bytes;
    options.window_entries = world.ground.window_entries;
    options.tombstone_keep_ms = plan.tombstone_keep_ms;
    options.memory = plan.limits.memory;
    options.purge_quiet_ms = world.tenant.sql.lateness_ms();
    options.dirty.hard.rows = plan.limits.dirty_rows_hard;
    options.mutant = plan.mutant;
    options
}

/// What a node hears of a statement that failed, or that it has given up on.
fn unreachable() -> Trouble {
    Trouble { class: Class::Retryable, message: "SQL does not answer".to_owned() }
}
