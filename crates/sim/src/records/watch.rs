//! What the view from above sees of records: rows as they come, change and leave.

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::entry::KIND_COMMANDS;
use shardine_model::log::{LogEntry, LogEntryKind};
use shardine_model::{Entry, RowKey};

use crate::check::Violation;
use crate::records::Records;
use crate::records::check::versions_only_grow::Contents;
use crate::records::check::{dirty_is_never_kicked, stale_reads_are_bounded, versions_only_grow};
use crate::records::truth::{SeenRow, Truth, held};
use crate::world::World;

#[derive(Debug)]
pub struct Watch {
    pub contents: Contents,
    pub stale: stale_reads_are_bounded::Seen,
    /// Rows whose place in memory SQL's have taken: what was acknowledged before may be lost, by intent.
    pub settled: BTreeSet<usize>,
    /// The newest tombstone of each row that was forgotten by an entry.
    pub purged: BTreeMap<usize, u64>,
    /// By node and row: what is in memory, if the row is there.
    pub resident: Vec<Vec<Option<SeenRow>>>,
    pub truth: Truth,
}

impl Watch {
    #[must_use]
    pub fn new(nodes: usize, truth: Truth) -> Self {
        Self {
            contents: Contents::default(),
            stale: stale_reads_are_bounded::Seen::default(),
            settled: BTreeSet::new(),
            purged: BTreeMap::new(),
            resident: vec![vec![None; truth.rows()]; nodes],
            truth,
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
        let Records { counters, watch, universe, .. } = &mut self.tenant;
        let find = |row: RowKey<'_>| universe.find(&row.to_owned()).expect("clients touch rows of the universe only");
        match Entry::decode(&entry.data).expect("made by a replica of this run") {
            Entry::Kick(_) => counters.kicks += 1,
            Entry::Expire { .. } => counters.expiries += 1,
            Entry::Purge(rows) => {
                counters.purges += 1;
                for (row, version) in rows {
                    let newest = watch.purged.entry(find(row)).or_default();
                    *newest = version.magnitude().max(*newest);
                }
            }
            Entry::Refused { .. } => counters.refusals += 1,
            Entry::Raise(_) => counters.raises += 1,
            Entry::Settle(settled) => {
                counters.settlements += 1;
                watch.settled.insert(find(settled.row));
            }
            Entry::Commands { .. }
            | Entry::Load(_)
            | Entry::Lease { .. }
            | Entry::Written(_)
            | Entry::Schema { .. }
            | Entry::Clear { .. }
            | Entry::Suspend
            | Entry::Resume
            | Entry::Floor { .. }
            | Entry::Split(_) => {}
        }
    }

    /// Every version that a row ever has is noted, also one that no replica stops at.
    pub fn follow_entry(&mut self, shard: usize, entry: &LogEntry) -> Result<(), Violation> {
        let Records { watch, universe, .. } = &mut self.tenant;
        for (row, (version, content)) in watch.truth.apply(shard, entry, self.now, &universe.rows)? {
            watch.contents.note(row, version, content)?;
        }
        let hash = self.watch.is_compared(entry.index).then(|| self.tenant.watch.truth.state_hash(shard));
        hash.map_or(Ok(()), |hash| self.watch.agreed_state(shard, entry.index, hash))
    }

    pub fn look_at_rows(&mut self, node: usize, shard: usize) -> Result<(), Violation> {
        let records = self.nodes[node].replicas[shard].records();
        for (number, row) in self.tenant.universe.rows.iter().enumerate().filter(|(_, row)| row.shard == shard) {
            let now = held(records, row);
            let known = &mut self.tenant.watch.resident[node][number];
            let before = std::mem::replace(known, now);
            if let Some((version, content)) = now.filter(|now| before != Some(*now)) {
                self.tenant.watch.contents.note(number, version, content)?;
            }
            match (before, now) {
                (Some((was, _)), Some((is, _))) => versions_only_grow::check_memory(node, number, was, is)?,
                (Some((was, _)), None) => {
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
