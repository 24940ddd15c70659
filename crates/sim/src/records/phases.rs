//! The phases of a run that are the records' own: tables are made, everything comes to rest, everything is compared.

use shardine_model::{Conflict, Entry, Version};
use shardine_records::Lookup;
use shardine_shard::Replica;

use crate::check::{Violation, heals_in_time};
use crate::ground::MS;
use crate::records::check::linearizable_per_key::{self, Tolerance};
use crate::records::check::told_stays_true::{self, Left};
use crate::records::check::{
    batches_are_atomic, each_request_once, failed_means_nothing_happened, order_of_connections, sql_equals_memory,
    versions_only_grow,
};
use crate::records::event::Event;
use crate::records::universe::tables;
use crate::records::{NOBODY, Records};
use crate::run::BOOTSTRAP;
use crate::world::World;

/// How far a clock without a wall to look at may drift in a run: a thousandth of a few minutes.
const DRIFT_MS_MAX: u64 = 300;

/// How far from the truth may be what others say about the time.
const HEARD_MS_MAX: u64 = 500;

impl World<Records> {
    /// Waits for leaders and makes the tables through the log.
    pub fn make_tables(&mut self) {
        let end = BOOTSTRAP;
        for shard in 0..self.ground.founded {
            for table in tables(&self.tenant.plan.tables) {
                let is_there = |world: &Self, node: usize| {
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
                    let serving = (0..self.nodes.len())
                        .find(|node| self.nodes[*node].replicas.get(shard).is_some_and(Replica::is_serving));
                    let Some(leader) = serving else { continue };
                    if is_there(self, leader) {
                        break;
                    }
                    let entry = Entry::definition(table.clone());
                    self.drive(leader, shard, |replica, actions| replica.propose_for(NOBODY, &entry, actions));
                }
            }
        }
    }

    /// An operator's resume may have been lost with the leader that took it.
    pub fn resume_shards(&mut self) {
        for shard in self.living() {
            let leads = self.leader_of(shard).map(|leader| self.nodes[leader].replicas[shard].status());
            if leads.is_some_and(|status| status.is_serving && status.is_suspended) {
                self.operate(shard, &Entry::Resume);
            }
        }
    }

    /// SQL takes everything now: an operator has what it refused before tried again, and what waits to be called written.
    pub fn retry_letters(&mut self) {
        for shard in self.living() {
            let Some(leader) = self.leader_of(shard) else { continue };
            let records = self.nodes[leader].replicas[shard].records();
            let (letters, dirty) = (records.dead_letter_count() > 0, records.dirty_count() > 0);
            if letters && self.tenant.plan.tables.conflict == Conflict::Stop {
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
    pub fn read_everything(&mut self) {
        self.tenant.clients[0].last_reads = (0..self.tenant.universe.rows.len()).collect();
        self.later(0, Event::ClientActs { client: 0 }.into());
        while self.violation.is_none() && !self.tenant.clients[0].last_reads.is_empty() {
            self.run_until(self.now + 100 * MS);
        }
    }

    /// What is still missing until everything is at rest.
    pub fn not_at_rest(&self) -> Option<String> {
        for shard in self.living() {
            let Some(leader) = self.leader_of(shard) else { return Some(format!("shard {shard} has no leader")) };
            let status = self.nodes[leader].replicas[shard].status();
            if status.is_suspended {
                return Some(format!("shard {shard} is still suspended"));
            }
            if status.dirty > 0 {
                return Some(format!("shard {shard} has {} rows that SQL does not hold", status.dirty));
            }
        }
        if let Some(client) = self.tenant.clients.iter().position(|client| !client.is_idle()) {
            return Some(format!("client {client} still waits"));
        }
        let (number, attempt) = self.tenant.history.unanswered(|node| self.nodes[node].life)?;
        let job = self.tenant.history.job_of(number as u64);
        Some(format!("node {} took request {number} and never answers it: {job:?}", attempt.node + 1))
    }

    pub fn compare_with_sql(&mut self) -> Result<(), Violation> {
        for (number, row) in self.tenant.universe.rows.iter().enumerate().filter(|(_, row)| row.is_sql()) {
            let (key, shard) = (row.key.as_ref(), self.tenant.watch.truth.owner(number));
            for node in &self.nodes {
                let Some(replica) = node.replicas.get(shard) else { continue };
                let memory = replica.records().get(key.position(), key);
                // Deleted there, and about to be forgotten here.
                if matches!(memory, Lookup::Absent { version, .. } if self.tenant.sql.is_purged(&row.key, version.magnitude()))
                {
                    continue;
                }
                sql_equals_memory::check(
                    &row.key,
                    memory,
                    &self.tenant.sql.row(&row.key),
                    self.tenant.sql.is_edited(&row.key),
                )?;
            }
        }
        for (number, row) in self.tenant.universe.rows.iter().enumerate().filter(|(_, row)| row.is_sql()) {
            let held = self.tenant.sql.row(&row.key);
            self.tenant.watch.contents.note(number, held.version, held.content)?;
        }
        self.tenant.watch.contents.check_signs()
    }

    fn what_is_left(&self, number: usize) -> Left {
        let row = &self.tenant.universe.rows[number];
        let key = row.key.as_ref();
        let shard = self.tenant.watch.truth.owner(number);
        let mut replicas = self.nodes.iter().filter_map(|node| node.replicas.get(shard));
        let replica = replicas.next().expect("a group at rest has members");
        let version = match replica.records().get(key.position(), key) {
            Lookup::Live(view) => view.version,
            Lookup::Absent { version, .. } => version,
            Lookup::NotResident => self.tenant.sql.row(&row.key).version,
            Lookup::UnknownTable => Version::NEVER,
        };
        let purged = self.tenant.sql.purged(&row.key).max(self.tenant.watch.purged.get(&number).copied());
        Left { version, purged: purged.unwrap_or(0) }
    }

    pub fn judge_history(&self) -> Result<(), Violation> {
        let calls = self.tenant.history.calls();
        told_stays_true::check(&calls, |row| self.what_is_left(row))?;
        failed_means_nothing_happened::check(&self.tenant.history, &self.tenant.watch.contents)?;
        let is_settled = |row: usize| self.tenant.watch.settled.contains(&row);
        let has_twice =
            |row: usize| is_settled(row) || self.tenant.sql.was_ever_edited(&self.tenant.universe.rows[row].key);
        each_request_once::check(
            &self.tenant.history,
            &self.tenant.watch.contents,
            &self.tenant.universe.rows,
            has_twice,
        )?;
        batches_are_atomic::check(&calls, is_settled)?;
        order_of_connections::check(&self.tenant.history)?;
        versions_only_grow::check(&calls, &self.tenant.universe.rows)?;
        linearizable_per_key::check(&calls, &self.tenant.universe.rows, is_settled, self.tolerance())
    }

    /// One clock says when a time to live begins, another perhaps when it ends. However long a request was on its way, its
    /// entry is stamped after it came. A node that does not believe its wall clock goes by one that drifts, or by what others say,
    /// half of a way of a second off at most.
    fn tolerance(&self) -> Tolerance {
        let off_ms = 2 * self.ground.skew_ms + DRIFT_MS_MAX + HEARD_MS_MAX;
        Tolerance { early_ms: off_ms, late_ms: off_ms }
    }
}
