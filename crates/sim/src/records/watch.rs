//! What the view from above sees of records: rows as they come, change and leave.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use shardine_model::entry::{KIND_COMMANDS, split_of};
use shardine_model::log::{LogEntry, LogEntryKind};
use shardine_model::split::BIRTH_INDEX;
use shardine_model::{Entry, Position, RowKey, Split};

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
        if let Ok(Some(split)) = split_of(&entry.data) {
            self.follow_split(shard, entry.index, &split)?;
        } else {
            self.follow_change(shard, entry)?;
        }
        let hash = self.watch.is_compared(entry.index).then(|| self.tenant.watch.truth.state_hash(shard));
        hash.map_or(Ok(()), |hash| self.watch.agreed_state(shard, entry.index, hash))
    }

    fn follow_split(&mut self, shard: usize, index: u64, split: &Split) -> Result<(), Violation> {
        let (conf, child) = (self.watch.conf_of(shard), self.group_of(split.child).expect("it was expected"));
        let Records { watch, universe, .. } = &mut self.tenant;
        if !watch.truth.split(shard, child, split, conf, &universe.rows) {
            self.tenant.counters.splits_overtaken += 1;
            return Ok(());
        }
        self.tenant.counters.splits += 1;
        self.born(shard, index, split);
        let hash = self.tenant.watch.truth.state_hash(child);
        self.watch.agreed_state(child, BIRTH_INDEX, hash)
    }

    fn follow_change(&mut self, shard: usize, entry: &LogEntry) -> Result<(), Violation> {
        let Records { watch, universe, .. } = &mut self.tenant;
        for (row, (version, content)) in watch.truth.apply(shard, entry, self.now, &universe.rows)? {
            watch.contents.note(row, version, content)?;
        }
        Ok(())
    }

    /// The shard whose replica on a node has a row, if one has: where two do, the one with the newer bounds, as in a lane's layout.
    #[must_use]
    pub fn holder(&self, node: usize, row: usize) -> Option<usize> {
        let key = self.tenant.universe.rows[row].key.as_ref();
        self.holder_of(node, key.position())
    }

    #[must_use]
    pub fn holder_of(&self, node: usize, position: Position) -> Option<usize> {
        let replicas = (0..self.ground.groups).filter_map(|group| Some((group, self.nodes[node].replicas.get(group)?)));
        let holding = replicas.filter(|(_, replica)| replica.interval().contains(position));
        holding.max_by_key(|(group, replica)| (replica.records().epoch().owner(), *group)).map(|(group, _)| group)
    }

    pub fn look_at_rows(&mut self, node: usize, shard: usize) -> Result<(), Violation> {
        let universe = Rc::clone(&self.tenant.universe);
        let is_here = |number: &usize| self.holder(node, *number) == Some(shard);
        let here: Vec<usize> = (0..universe.rows.len()).filter(is_here).collect();
        let records = self.nodes[node].replicas[shard].records();
        for (number, row) in here.into_iter().map(|number| (number, &universe.rows[number])) {
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
