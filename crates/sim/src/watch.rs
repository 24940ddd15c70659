//! The view from above: looks at every replica after every turn, with knowledge that no node has.

use std::collections::BTreeSet;

use shardine_model::Version;
use shardine_records::Lookup;
use shardine_shard::Role;

use crate::chance::mix;
use crate::check::versions_only_grow::Contents;
use crate::check::{
    Violation, acknowledged_is_durable, dirty_is_never_kicked, replicas_agree, stale_reads_are_bounded,
    versions_only_grow,
};
use crate::disk::{Kind, row_print};
use crate::universe::{Row, content_of};
use crate::world::World;

/// One state in this many is hashed and compared: a hash walks everything.
const HASH_EVERY: u64 = 5;

#[derive(Clone, Debug)]
pub struct Watch {
    shards: Vec<replicas_agree::Seen>,
    pub contents: Contents,
    pub stale: stale_reads_are_bounded::Seen,
    /// By node and shard: how far it has applied, and its term, in this life.
    applied: Vec<Vec<u64>>,
    terms: Vec<Vec<u64>>,
    /// Rows whose place in memory SQL's have taken: what was acknowledged before may be lost, by intent.
    pub settled: BTreeSet<usize>,
    /// By node and row: the version in memory, if the row is there.
    resident: Vec<Vec<Option<Version>>>,
}

impl Watch {
    #[must_use]
    pub fn new(nodes: usize, shards: usize, rows: usize) -> Self {
        Self {
            shards: vec![replicas_agree::Seen::default(); shards],
            contents: Contents::default(),
            stale: stale_reads_are_bounded::Seen::default(),
            applied: vec![vec![0; shards]; nodes],
            terms: vec![vec![0; shards]; nodes],
            settled: BTreeSet::new(),
            resident: vec![vec![None; rows]; nodes],
        }
    }

    /// Compares a replica's state with what others had at the same entry.
    pub fn compare(&mut self, shard: usize, node: usize, applied: u64, hash: u64) -> Result<(), Violation> {
        self.shards[shard].state(node, applied, hash)
    }

    /// A node has begun a new life and may know less than before: even its term, if that was not on disk yet.
    pub fn forget_node(&mut self, node: usize) {
        self.applied[node].fill(0);
        self.terms[node].fill(0);
        self.resident[node].fill(None);
    }
}

impl World {
    /// Looks at a replica that has just taken its turn.
    pub fn observe(&mut self, node: usize, shard: usize) {
        if self.violation.is_none() {
            let verdict = self.look(node, shard);
            self.demand(verdict);
        }
    }

    fn look(&mut self, node: usize, shard: usize) -> Result<(), Violation> {
        let Some(replica) = self.nodes[node].replicas.get(shard) else { return Ok(()) };
        let (term, applied, role) = (replica.term(), replica.applied(), replica.role());
        if role == Role::Leader && self.watch.shards[shard].leader(term, node)? {
            self.counters.leader_changes += 1;
        }
        let known_term = &mut self.watch.terms[node][shard];
        if term < *known_term {
            let detail = format!("node {} went from term {known_term} to {term}", node + 1);
            return Err(Violation::new(replicas_agree::NAME, detail));
        }
        *known_term = term;
        let before = std::mem::replace(&mut self.watch.applied[node][shard], applied);
        if applied < before {
            let detail = format!("node {} went from entry {before} to {applied}", node + 1);
            return Err(Violation::new(replicas_agree::NAME, detail));
        }
        if applied == before {
            return Ok(());
        }
        self.note(&[14, node as u64, shard as u64, term, applied], || {
            format!("node {} shard {shard} has applied {applied} in term {term}", node + 1)
        });
        self.look_at_entries(node, shard, before + 1, applied)?;
        self.look_at_state(node, shard, applied)?;
        self.look_at_rows(node, shard)
    }

    fn look_at_entries(&mut self, node: usize, shard: usize, first: u64, last: u64) -> Result<(), Violation> {
        for index in first..=last {
            // What came by a snapshot is not in the log.
            let Some(entry) = self.nodes[node].disk.believed(shard, index) else { continue };
            if self.watch.shards[shard].applied(node, index, entry)? {
                let disks = self.nodes.iter().map(|node| &node.disk);
                acknowledged_is_durable::check_majority(disks, shard, index, entry.term)?;
                match entry.kind {
                    Kind::Kick => self.counters.kicks += 1,
                    Kind::Expire => self.counters.expiries += 1,
                    Kind::Purge => self.counters.purges += 1,
                    Kind::Refused => self.counters.refusals += 1,
                    Kind::Raise => self.counters.raises += 1,
                    Kind::Settle { row } => {
                        self.counters.settlements += 1;
                        let is_it = |known: &Row| row_print(known.key.as_ref()) == row;
                        self.watch.settled.extend(self.universe.rows.iter().position(is_it));
                    }
                    Kind::Other => {}
                }
            }
        }
        Ok(())
    }

    fn look_at_state(&mut self, node: usize, shard: usize, applied: u64) -> Result<(), Violation> {
        if !mix(applied).is_multiple_of(HASH_EVERY) {
            return Ok(());
        }
        let hash = self.nodes[node].replicas[shard].records().state_hash();
        self.watch.compare(shard, node, applied, hash)
    }

    fn look_at_rows(&mut self, node: usize, shard: usize) -> Result<(), Violation> {
        let records = self.nodes[node].replicas[shard].records();
        for (number, row) in self.universe.rows.iter().enumerate().filter(|(_, row)| row.shard == shard) {
            let key = row.key.as_ref();
            let now = match records.get(key.position(), key) {
                Lookup::Live(view) => Some((view.version, Some(content_of(view.fields)))),
                Lookup::Absent { version, .. } => Some((version, None)),
                Lookup::NotResident | Lookup::UnknownTable => None,
            };
            let known = &mut self.watch.resident[node][number];
            let before = std::mem::replace(known, now.map(|(version, _)| version));
            if let Some((version, content)) = now
                && before != Some(version)
            {
                self.watch.contents.note(number, version, content)?;
            }
            match (before, now) {
                (Some(was), Some((is, _))) => versions_only_grow::check_memory(node, number, was, is)?,
                (Some(was), None) => {
                    if !self.sql.is_purged(&row.key, was.magnitude()) {
                        dirty_is_never_kicked::check(node, &row.key, was, &self.sql.row(&row.key))?;
                    }
                }
                (None, _) => {}
            }
        }
        Ok(())
    }

    /// The node that leads a shard in its newest term, if there is one.
    #[must_use]
    pub fn leader_of(&self, shard: usize) -> Option<usize> {
        let leads =
            |node: &usize| self.nodes[*node].replicas.get(shard).is_some_and(|replica| replica.role() == Role::Leader);
        let term = |node: &usize| self.nodes[*node].replicas[shard].term();
        (0..self.nodes.len()).filter(leads).max_by_key(term)
    }
}
