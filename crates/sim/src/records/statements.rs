//! Statements between nodes and SQL: sent, executed, and told of, each at its own time or never.

use std::rc::Rc;

use shardine_model::RowKeyBuf;
use shardine_model::sql::FlushRow;
use shardine_shard::{Question, SqlLoad, SqlPurge, SqlWrite};

use crate::records::Records;
use crate::records::check::one_writer_at_a_time;
use crate::records::event::{Event, Input, own};
use crate::records::sql::Fate;
use crate::records::universe::content_of;
use crate::world::World;

impl World<Records> {
    /// Sends a question to SQL.
    pub fn ask_sql(&mut self, node: usize, shard: usize, load: SqlLoad) {
        let (life, question, rows) = (self.nodes[node].life, load.question, load.rows);
        let failure = |rows| own(node, life, Input::LoadFailed { shard, question, rows });
        match self.tenant.sql.load_fate(node, self.now) {
            Fate::Answered { executed, told } => {
                self.schedule.at(executed, Event::SqlLoad { node, life, shard, question, rows, told }.into());
            }
            Fate::Failed { told } => {
                self.tenant.counters.loads_failed += 1;
                self.schedule.at(told, failure(rows));
            }
            // Found, but told of only after the node was told that it failed.
            Fate::Unknown { executed, told } => {
                self.tenant.counters.loads_late += 1;
                self.schedule.at(told, failure(rows.clone()));
                let told = told + self.tenant.sql.detour();
                self.schedule.at(executed, Event::SqlLoad { node, life, shard, question, rows, told }.into());
            }
        }
    }

    pub fn sql_loads(
        &mut self,
        node: usize,
        life: u64,
        shard: usize,
        question: Question,
        rows: &[RowKeyBuf],
        told: u64,
    ) {
        let found = self.tenant.sql.load(rows);
        self.tenant.counters.loads += found.len() as u64;
        self.note(&[6, node as u64, shard as u64, found.len() as u64], || {
            let versions: Vec<_> = found.iter().map(|row| row.version.0).collect();
            format!("SQL reads {} rows for node {}, versions {versions:?}", rows.len(), node + 1)
        });
        if let Some(pause) = self.tenant.sql.answers_twice() {
            let input = Input::Loaded { shard, question, rows: found.clone() };
            self.schedule.at(told + pause, own(node, life, input));
        }
        self.schedule.at(told, own(node, life, Input::Loaded { shard, question, rows: found }));
    }

    fn demand_one_writer(&mut self, node: usize, shard: usize) {
        let trusts = |other: &usize| {
            let there = &self.nodes[*other];
            let monotonic_ms = there.clock.time(self.now).monotonic_ms;
            there.replicas.get(shard).is_some_and(|replica| replica.trusts_lease(monotonic_ms))
        };
        let others = (0..self.nodes.len()).filter(|other| *other != node);
        let verdict = one_writer_at_a_time::check(node, shard, others.filter(trusts));
        self.demand(verdict);
    }

    /// Sends rows to SQL.
    pub fn tell_sql(&mut self, node: usize, shard: usize, write: SqlWrite) {
        self.demand_one_writer(node, shard);
        let (life, term, rows) = (self.nodes[node].life, write.term, write.rows);
        let names = || rows.iter().map(|flush| flush.row.clone()).collect();
        let failure = |rows| own(node, life, Input::FlushFailed { shard, term, rows });
        match self.tenant.sql.write_fate(node, self.now) {
            Fate::Answered { executed, told } => {
                self.schedule.at(executed, Event::SqlWrite { node, life, shard, term, rows, told: Some(told) }.into());
            }
            Fate::Failed { told } => self.schedule.at(told, failure(names())),
            Fate::Unknown { executed, told } => {
                self.schedule.at(told, failure(names()));
                self.schedule.at(executed, Event::SqlWrite { node, life, shard, term, rows, told: None }.into());
            }
        }
    }

    /// Has tombstones deleted.
    pub fn purge_sql(&mut self, node: usize, shard: usize, purge: SqlPurge) {
        self.demand_one_writer(node, shard);
        let (life, term) = (self.nodes[node].life, purge.term);
        let failure = own(node, life, Input::PurgeFailed { shard, term });
        match self.tenant.sql.purge_fate(node, self.now) {
            Fate::Answered { executed, told } => {
                self.schedule.at(executed, Event::SqlPurge { node, life, shard, purge, told: Some(told) }.into());
            }
            Fate::Failed { told } => self.schedule.at(told, failure),
            Fate::Unknown { executed, told } => {
                self.schedule.at(told, failure);
                self.schedule.at(executed, Event::SqlPurge { node, life, shard, purge, told: None }.into());
            }
        }
    }

    pub fn sql_purges(&mut self, node: usize, life: u64, shard: usize, purge: SqlPurge, told: Option<u64>) {
        self.tenant.sql.purge(&purge.rows);
        self.tenant.counters.sql_purges += purge.rows.len() as u64;
        self.note(&[16, node as u64, shard as u64, purge.rows.len() as u64], || {
            format!("SQL purges for node {}: {:?}", node + 1, purge.rows)
        });
        if let Some(told) = told {
            let input = Input::Purged { shard, term: purge.term, rows: purge.rows };
            self.schedule.at(told, own(node, life, input));
        }
    }

    /// Executed whatever has become of the node that sent it.
    pub fn sql_writes(
        &mut self,
        node: usize,
        life: u64,
        shard: usize,
        term: u64,
        rows: &[FlushRow],
        told: Option<u64>,
    ) {
        let results = match self.tenant.sql.write(rows) {
            Ok(results) => results,
            Err(violation) => return self.demand(Err(violation)),
        };
        self.note(&[7, node as u64, shard as u64, term, rows.len() as u64], || {
            let versions: Vec<_> = rows.iter().map(|flush| (flush.row.key.clone(), flush.version.0)).collect();
            format!("SQL writes for node {} in term {term}: {versions:?} {results:?}", node + 1)
        });
        let universe = Rc::clone(&self.tenant.universe);
        for flush in rows {
            // What goes to SQL is a version that memory had, whole (reliability I45).
            let number = universe.find(&flush.row).expect("clients touch rows of the universe only");
            let content = flush.version.is_live().then(|| content_of(flush.fields.view()));
            let verdict = self.tenant.watch.contents.note(number, flush.version, content);
            self.demand(verdict);
        }
        if let Some(told) = told {
            self.schedule.at(told, own(node, life, Input::Flushed { shard, term, results }));
        }
    }
}
