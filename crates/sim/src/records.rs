//! Records: one or two shards with SQL behind them, clients that read and change rows, and what they were promised.

// In the order in which a newcomer should read them.
mod plan;
mod universe;

mod ask;
mod clients;
mod draw;
mod history;
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

use shardine_model::key::Interval;
use shardine_model::log::LogEntry;
use shardine_model::sql::Class;
use shardine_model::{Bounds, ShardId};
use shardine_shard::{Actions, Caller, Mutant, Options, Replica, Restored, Trouble};

use crate::check::Violation;
use crate::ground::{Ground, MS};
use crate::tenant::{Draws, Seat, Tenant};
use crate::theme::Theme;
use crate::world::World;
use clients::Client;
use counters::Counters;
use event::{Event, Input};
use faults::Fault;
use history::History;
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
        let truth = Truth::new(agreed, &universe.rows);
        let people = &mut draws.people;
        let clients = (0..plan.clients).map(|number| Client::new(number, &plan, &universe, people)).collect();
        Self {
            sql,
            clients,
            history: History::default(),
            watch: Watch::new(nodes, truth),
            counters: Counters::default(),
            next_value: 1_000,
            acknowledged: vec![0; universe.rows.len()],
            universe: Rc::new(universe),
            plan,
        }
    }

    fn restore(world: &World<Self>, seat: Seat, chunks: &[Vec<u8>], restored: Restored) -> Result<Replica, String> {
        let interval = world.tenant.universe.intervals[seat.group];
        let mut records = empty(world.ground.seed, &world.tenant.plan, interval);
        if !chunks.is_empty() {
            records = records.restored(chunks).map_err(|error| format!("a snapshot cannot be read: {error}"))?;
        }
        Replica::new(options(world, seat), records, restored).catch_up()
    }

    fn started(world: &mut World<Self>, node: usize) {
        world.tenant.watch.resident[node].fill(None);
    }

    fn reseated(world: &mut World<Self>, node: usize, group: usize) {
        let universe = Rc::clone(&world.tenant.universe);
        for (number, _) in universe.rows.iter().enumerate().filter(|(_, row)| row.shard == group) {
            world.tenant.watch.resident[node][number] = None;
        }
    }

    fn crashed(_world: &mut World<Self>, _node: usize) {}

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
            Event::ResumeShard { shard } => world.operate(shard, &shardine_model::Entry::Resume),
        }
    }

    fn take_in(world: &mut World<Self>, node: usize, input: Input) {
        match input {
            Input::Request { attempt } => world.take_request(node, attempt),
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
        if matches!(input, Input::Request { .. }) { u64::MAX } else { 0 }
    }

    fn perform(world: &mut World<Self>, node: usize, group: usize, actions: &mut Actions) {
        actions.refuse_returned();
        for (caller, answer) in actions.answers.drain(..).filter(|(caller, _)| *caller != NOBODY) {
            world.answer(node, caller.sequence, answer);
        }
        for load in actions.loads.drain(..) {
            world.ask_sql(node, group, load);
        }
        for write in actions.writes.drain(..) {
            world.tell_sql(node, group, write);
        }
        for purge in actions.purges.drain(..) {
            world.purge_sql(node, group, purge);
        }
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

/// A shard before its first entry.
fn empty(seed: u64, plan: &Plan, interval: Interval) -> shardine_records::Records {
    shardine_records::Records::new(seed).owning(interval).with_mutant(plan.mutant)
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
