//! What the shards have agreed on, entry by entry: the state machine once more, fed by the view from above. It never crashes,
//! restores nothing and is nobody's replica, so it knows of every index what each row was then, and since when.

use shardine_model::log::{LogEntry, LogEntryKind};
use shardine_model::{ConfVersion, Split, Version};
use shardine_records::{Lookup, Nobody, Records};

use crate::check::{Violation, replicas_agree};
use crate::records::universe::{Content, Row, content_of};

/// What a replica has of a row: its version, and its content if it is live.
pub type SeenRow = (Version, Option<Content>);

/// A row from one entry on.
#[derive(Clone, Copy, Debug)]
struct Moment {
    shard: usize,
    index: u64,
    /// When that entry was first applied anywhere.
    at: u64,
    /// Nothing while the row is not in memory.
    held: Option<SeenRow>,
}

#[derive(Debug)]
pub struct Truth {
    shards: Vec<Option<Records>>,
    /// By row: the shards that have had it, in their order. The last one has it.
    owners: Vec<Vec<usize>>,
    /// By row, in the order of the logs of its shards.
    moments: Vec<Vec<Moment>>,
}

impl Truth {
    /// `groups` is how many shards there may ever be.
    #[must_use]
    pub fn new(founded: Vec<Records>, groups: usize, rows: &[Row]) -> Self {
        let first = |row: &Row| vec![Moment { shard: row.home, index: 0, at: 0, held: held(&founded[row.home], row) }];
        let moments = rows.iter().map(first).collect();
        let owners = rows.iter().map(|row| vec![row.home]).collect();
        let mut shards: Vec<Option<Records>> = founded.into_iter().map(Some).collect();
        shards.resize_with(groups, || None);
        Self { shards, owners, moments }
    }

    /// The shard that has a row by now.
    #[must_use]
    pub fn owner(&self, row: usize) -> usize {
        *self.owners[row].last().expect("the first one")
    }

    #[must_use]
    pub fn is_of(&self, row: usize, shard: usize) -> bool {
        self.owner(row) == shard
    }

    /// An entry is applied for the first time anywhere. Gives the rows that are not what they were.
    pub fn apply(
        &mut self,
        shard: usize,
        entry: &LogEntry,
        now: u64,
        rows: &[Row],
    ) -> Result<Vec<(usize, SeenRow)>, Violation> {
        // A new leader's first entry is empty, and a change of members is the group's alone.
        if entry.data.is_empty() || entry.kind == LogEntryKind::Membership {
            return Ok(Vec::new());
        }
        let records = self.shards[shard].as_mut().expect("it was founded or born");
        records
            .apply(&entry.data, &mut Nobody)
            .map_err(|fatal| Violation::new(replicas_agree::NAME, fatal.to_string()))?;
        let mut changed = Vec::new();
        let is_here = |number: &usize| self.owners[*number].last() == Some(&shard);
        for (number, row) in rows.iter().enumerate().filter(|(number, _)| is_here(number)) {
            let held = held(records, row);
            let moments = &mut self.moments[number];
            if moments.last().and_then(|moment| moment.held) != held {
                moments.push(Moment { shard, index: entry.index, at: now, held });
                changed.extend(held.map(|held| (number, held)));
            }
        }
        Ok(changed)
    }

    /// A split is applied for the first time anywhere, in a group with members of this version. Says whether it parts the shard.
    pub fn split(
        &mut self,
        shard: usize,
        child: usize,
        split: &Split,
        conf: Option<ConfVersion>,
        rows: &[Row],
    ) -> bool {
        let records = self.shards[shard].as_mut().expect("it was founded or born");
        if conf != Some(split.epoch.conf) || !records.is_split_by(split) {
            return false;
        }
        let mut right = records.split_off(&split.at).right;
        right.pass_lease(|holder| split.child_of(holder));
        for (number, _) in rows.iter().enumerate().filter(|(_, row)| right.owns(row.key.as_ref())) {
            self.owners[number].push(child);
        }
        self.shards[child] = Some(right);
        true
    }

    /// What a replica of a shard that has applied so much has of a row.
    #[must_use]
    pub fn at(&self, row: usize, shard: usize, applied: u64) -> Option<SeenRow> {
        self.before(row, shard, applied).last().and_then(|moment| moment.held)
    }

    /// When what a replica that has applied so much has of a row was replaced by something else, if it was.
    #[must_use]
    pub fn replaced_at(&self, row: usize, shard: usize, applied: u64) -> Option<u64> {
        let (before, held) = (self.before(row, shard, applied).len(), self.at(row, shard, applied));
        // That it left memory and came back as it was replaces nothing.
        let is_other = |moment: &&Moment| moment.held.is_some() && moment.held != held;
        self.moments[row][before..].iter().find(is_other).map(|moment| moment.at)
    }

    /// What one who has applied so much of a shard's log knows of a row: all of the shards that had it before, and so much of that one.
    fn before(&self, row: usize, shard: usize, applied: u64) -> &[Moment] {
        let (moments, owners) = (&self.moments[row], &self.owners[row]);
        let depth = |shard: usize| owners.iter().position(|owner| *owner == shard);
        let asked = depth(shard);
        let is_known = |moment: &Moment| {
            let of = depth(moment.shard);
            of < asked || of == asked && moment.index <= applied
        };
        &moments[..moments.partition_point(is_known)]
    }

    #[must_use]
    pub fn rows(&self) -> usize {
        self.moments.len()
    }

    #[must_use]
    pub fn state_hash(&self, shard: usize) -> u64 {
        self.shards[shard].as_ref().map_or(0, Records::state_hash)
    }
}

/// What a replica has of a row, if it is in memory.
#[must_use]
pub fn held(records: &Records, row: &Row) -> Option<SeenRow> {
    let key = row.key.as_ref();
    match records.get(key.position(), key) {
        Lookup::Live(view) => Some((view.version, Some(content_of(view.fields)))),
        Lookup::Absent { version, .. } => Some((version, None)),
        Lookup::NotResident | Lookup::UnknownTable => None,
    }
}
