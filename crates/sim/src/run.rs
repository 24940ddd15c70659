//! One run from its seed to its verdict: bootstrap, faults, heal, quiesce and compare, then the history.

use std::panic::{AssertUnwindSafe, catch_unwind};

use shardine_model::{Conflict, Entry, Version};
use shardine_records::Lookup;
use shardine_shard::Mutant;

use crate::check::linearizable_per_key::{self, Tolerance};
use crate::check::{
    Violation, acknowledged_is_durable, batches_are_atomic, each_request_once, failed_means_nothing_happened,
    heals_in_time, sql_equals_memory, versions_only_grow,
};
use crate::counters::Counters;
use crate::event::Event;
use crate::plan::{Fault, MS, Plan, SECOND};
use crate::universe::tables;
use crate::world::{NOBODY, World};

/// Virtual time within which a fresh group must serve, and a healed one must have settled. The lease of a lost leader
/// alone takes ten seconds to run out, and so does the longest pause between two tries at SQL.
const BOOTSTRAP: u64 = 20 * SECOND;
const HEAL: u64 = 90 * SECOND;

/// What a run was, once it is over.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub seed: u64,
    pub violation: Option<Violation>,
    pub counters: Counters,
    pub trace_hash: u64,
    pub events: u64,
    pub virtual_us: u64,
    /// The last events in words, if they were asked for.
    pub lines: Vec<String>,
    /// Rows whose order could be neither found nor refuted within bounds.
    pub left_open: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub mutant: Option<Mutant>,
    /// How many of the last events to tell in words.
    pub lines: usize,
}

/// Runs one seed. A panic in the code under test is a verdict like any other.
#[must_use]
pub fn run(seed: u64, options: Options) -> Outcome {
    let mut world = None;
    let mut left_open = 0;
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let world = world.insert(World::new(Plan::new(seed, options.mutant), options.lines));
        left_open = world.play();
    }));
    let mut world = world.unwrap_or_else(|| World::new(Plan::new(seed, None), 0));
    if let Err(panic) = ran {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words");
        world.violation.get_or_insert(Violation::new("no_panic", words));
    }
    world.counters.sql_late = world.sql.late;
    world.counters.sql_unknown = world.sql.unknown;
    world.counters.fenced = world.sql.fence_hits;
    world.counters.rows_written = world.sql.written;
    Outcome {
        seed,
        violation: world.violation,
        counters: world.counters,
        trace_hash: world.trace.hash(),
        events: world.trace.events(),
        virtual_us: world.now,
        lines: world.trace.lines().map(str::to_owned).collect(),
        left_open,
    }
}

impl World {
    fn play(&mut self) -> u64 {
        self.bootstrap();
        self.suffer();
        self.settle();
        self.read_everything();
        self.settle();
        if self.violation.is_some() {
            return 0;
        }
        let verdict = self.compare();
        self.demand(verdict);
        if self.violation.is_some() {
            return 0;
        }
        self.judge_history().unwrap_or_else(|violation| {
            self.demand(Err(violation));
            0
        })
    }

    /// Waits for leaders and makes the tables through the log.
    fn bootstrap(&mut self) {
        let end = BOOTSTRAP;
        for shard in 0..self.plan.shards as usize {
            for table in tables(&self.plan.tables) {
                let is_there = |world: &World, node: usize| {
                    world.nodes[node].replicas[shard].records().catalogue().get(table.id).is_some()
                };
                loop {
                    if self.violation.is_some() {
                        return;
                    }
                    if self.now > end {
                        return self.demand(Err(heals_in_time::violation("the group does not begin to serve")));
                    }
                    self.run_until(self.now + 100 * MS);
                    let serving = (0..self.nodes.len()).find(|node| self.nodes[*node].replicas[shard].is_serving());
                    let Some(leader) = serving else { continue };
                    if is_there(self, leader) {
                        break;
                    }
                    let entry = Entry::Schema(Box::new(table.clone()));
                    self.drive(leader, shard, |replica, actions| replica.propose_for(NOBODY, &entry, actions));
                }
            }
        }
    }

    fn suffer(&mut self) {
        self.faults_on = true;
        for client in 0..self.clients.len() {
            let first = self.clients[client].chance.below(50 * MS);
            self.later(first, Event::ClientActs { client });
        }
        let first = self.chance.between(self.plan.nemesis.every);
        self.later(first, Event::Strike);
        self.run_until(self.now + self.plan.faults_us);
        if self.violation.is_none() {
            self.heal();
        }
    }

    /// Without faults and without new work, everything must come to rest.
    fn settle(&mut self) {
        let end = self.now + HEAL;
        while self.violation.is_none() {
            self.run_until(self.now + 200 * MS);
            self.resume_shards();
            self.retry_letters();
            let Some(missing) = heals_in_time::missing(self) else { return };
            if self.now > end && self.violation.is_none() {
                self.demand(Err(heals_in_time::violation(&missing)));
            }
        }
    }

    /// An operator's resume may have been lost with the leader that took it.
    fn resume_shards(&mut self) {
        for shard in 0..self.plan.shards as usize {
            let leads = self.leader_of(shard).map(|leader| self.nodes[leader].replicas[shard].status());
            if leads.is_some_and(|status| status.is_serving && status.is_suspended) {
                self.operate(shard, &Entry::Resume);
            }
        }
    }

    /// SQL takes everything now: an operator has what it refused before tried again, and what waits to be called written.
    fn retry_letters(&mut self) {
        for shard in 0..self.plan.shards as usize {
            let Some(leader) = self.leader_of(shard) else { continue };
            let records = self.nodes[leader].replicas[shard].records();
            let (letters, dirty) = (records.dead_letter_count() > 0, records.dirty_count() > 0);
            if letters && self.plan.tables.conflict == Conflict::Stop {
                // Trying again meets the same newer row: somebody must decide, and here it is always SQL that wins.
                self.discard_letter(shard);
                continue;
            }
            self.drive(leader, shard, |replica, actions| {
                if letters {
                    replica.retry_dead_letters(NOBODY, None, None, actions);
                } else if dirty {
                    replica.flush_rows(NOBODY, None, None, actions);
                }
            });
        }
    }

    /// One read of every row by a client, as the last word of the history.
    fn read_everything(&mut self) {
        self.clients[0].last_reads = (0..self.universe.rows.len()).collect();
        self.later(0, Event::ClientActs { client: 0 });
        while self.violation.is_none() && !self.clients[0].last_reads.is_empty() {
            self.run_until(self.now + 100 * MS);
        }
    }

    fn compare(&mut self) -> Result<(), Violation> {
        for shard in 0..self.plan.shards as usize {
            for node in 0..self.nodes.len() {
                let replica = &self.nodes[node].replicas[shard];
                let (applied, hash) = (replica.applied(), replica.records().state_hash());
                self.watch.compare(shard, node, applied, hash)?;
            }
        }
        for row in self.universe.rows.iter().filter(|row| row.is_sql()) {
            let key = row.key.as_ref();
            for node in &self.nodes {
                let memory = node.replicas[row.shard].records().get(key.position(), key);
                // Deleted there, and about to be forgotten here.
                if matches!(memory, Lookup::Absent { version, .. } if self.sql.is_purged(&row.key, version.magnitude()))
                {
                    continue;
                }
                sql_equals_memory::check(&row.key, memory, &self.sql.row(&row.key), self.sql.is_edited(&row.key))?;
            }
        }
        for (number, row) in self.universe.rows.iter().enumerate().filter(|(_, row)| row.is_sql()) {
            let held = self.sql.row(&row.key);
            self.watch.contents.note(number, held.version, held.content)?;
        }
        self.watch.contents.check_signs()?;
        acknowledged_is_durable::check(&self.history, |row| self.last_version(row))
    }

    fn last_version(&self, row: usize) -> Version {
        let row = &self.universe.rows[row];
        let key = row.key.as_ref();
        match self.nodes[0].replicas[row.shard].records().get(key.position(), key) {
            Lookup::Live(view) => view.version,
            Lookup::Absent { version, .. } => version,
            Lookup::NotResident => self.sql.row(&row.key).version,
            Lookup::UnknownTable => Version::NEVER,
        }
    }

    fn judge_history(&self) -> Result<u64, Violation> {
        failed_means_nothing_happened::check(&self.history, &self.watch.contents)?;
        let is_settled = |row: usize| self.watch.settled.contains(&row);
        let has_twice = |row: usize| is_settled(row) || self.sql.was_ever_edited(&self.universe.rows[row].key);
        each_request_once::check(&self.history, &self.watch.contents, &self.universe.rows, has_twice)?;
        batches_are_atomic::check(&self.history, is_settled)?;
        versions_only_grow::check(&self.history, &self.universe.rows)?;
        linearizable_per_key::check(&self.history, &self.universe.rows, is_settled, self.tolerance())
    }

    /// A request carries the stamp of the entry that it joins, so it may be judged by a clock that was read before the
    /// log or the process stood still.
    fn tolerance(&self) -> Tolerance {
        let stands_still = |fault: &Fault| {
            matches!(fault, Fault::Pause | Fault::PauseMidRead | Fault::StarveMidRead | Fault::SlowDisk)
        };
        let pause_ms = if self.plan.nemesis.kinds.iter().any(stands_still) { 10_000 } else { 1_000 };
        Tolerance { early_ms: self.plan.skew_ms + 1, late_ms: self.plan.skew_ms + pause_ms }
    }
}
