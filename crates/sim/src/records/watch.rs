//! What the view from above sees of records: rows as they come, change and leave.

use std::collections::BTreeSet;

use shardine_model::entry::KIND_COMMANDS;
use shardine_model::log::{LogEntry, LogEntryKind};
use shardine_model::{Entry, Version};
use shardine_records::Lookup;

use crate::check::Violation;
use crate::records::Records;
use crate::records::check::versions_only_grow::Contents;
use crate::records::check::{dirty_is_never_kicked, stale_reads_are_bounded, versions_only_grow};
use crate::records::universe::content_of;
use crate::world::World;

#[derive(Clone, Debug)]
pub struct Watch {
    pub contents: Contents,
    pub stale: stale_reads_are_bounded::Seen,
    /// Rows whose place in memory SQL's have taken: what was acknowledged before may be lost, by intent.
    pub settled: BTreeSet<usize>,
    /// By node and row: the version in memory, if the row is there.
    pub resident: Vec<Vec<Option<Version>>>,
}

impl Watch {
    #[must_use]
    pub fn new(nodes: usize, rows: usize) -> Self {
        Self {
            contents: Contents::default(),
            stale: stale_reads_are_bounded::Seen::default(),
            settled: BTreeSet::new(),
            resident: vec![vec![None; rows]; nodes],
        }
    }
}

impl World<Records> {
    /// An entry is applied for the first time anywhere.
    pub fn count_entry(&mut self, entry: &LogEntry) {
        // Commands are the most, and need not be looked into.
        if entry.data.get(1).is_none_or(|kind| *kind == KIND_COMMANDS) || entry.kind == LogEntryKind::Membership {
            return;
        }
        let counters = &mut self.tenant.counters;
        match Entry::decode(&entry.data) {
            Ok(Entry::Kick(_)) => counters.kicks += 1,
            Ok(Entry::Expire { .. }) => counters.expiries += 1,
            Ok(Entry::Purge(_)) => counters.purges += 1,
            Ok(Entry::Refused { .. }) => counters.refusals += 1,
            Ok(Entry::Raise(_)) => counters.raises += 1,
            Ok(Entry::Settle(settled)) => {
                counters.settlements += 1;
                self.tenant.watch.settled.extend(self.tenant.universe.find(&settled.row.to_owned()));
            }
            Ok(_) | Err(_) => {}
        }
    }

    pub fn look_at_rows(&mut self, node: usize, shard: usize) -> Result<(), Violation> {
        let records = self.nodes[node].replicas[shard].records();
        for (number, row) in self.tenant.universe.rows.iter().enumerate().filter(|(_, row)| row.shard == shard) {
            let key = row.key.as_ref();
            let now = match records.get(key.position(), key) {
                Lookup::Live(view) => Some((view.version, Some(content_of(view.fields)))),
                Lookup::Absent { version, .. } => Some((version, None)),
                Lookup::NotResident | Lookup::UnknownTable => None,
            };
            let known = &mut self.tenant.watch.resident[node][number];
            let before = std::mem::replace(known, now.map(|(version, _)| version));
            if let Some((version, content)) = now
                && before != Some(version)
            {
                self.tenant.watch.contents.note(number, version, content)?;
            }
            match (before, now) {
                (Some(was), Some((is, _))) => versions_only_grow::check_memory(node, number, was, is)?,
                (Some(was), None) => {
                    if !self.tenant.sql.is_purged(&row.key, was.magnitude()) {
                        dirty_is_never_kicked::check(node, &row.key, was, &self.tenant.sql.row(&row.key))?;
                    }
                }
                (None, _) => {}
            }
        }
        Ok(())
    }
}
