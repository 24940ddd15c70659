//! What the shards have agreed on, entry by entry: the state machine once more, fed by the view from above. It never crashes,
//! restores nothing and is nobody's replica, so it knows of every index what each row was then, and since when.

use shardine_model::Version;
use shardine_model::log::{LogEntry, LogEntryKind};
use shardine_records::{Lookup, Nobody, Records};

use crate::check::{Violation, replicas_agree};
use crate::records::universe::{Content, Row, content_of};

/// What a replica has of a row: its version, and its content if it is live.
pub type SeenRow = (Version, Option<Content>);

/// A row from one entry on.
#[derive(Clone, Copy, Debug)]
struct Moment {
    index: u64,
    /// When that entry was first applied anywhere.
    at: u64,
    /// Nothing while the row is not in memory.
    held: Option<SeenRow>,
}

#[derive(Debug)]
pub struct Truth {
    shards: Vec<Records>,
    /// By row, in the order of the log.
    moments: Vec<Vec<Moment>>,
}

impl Truth {
    #[must_use]
    pub fn new(shards: Vec<Records>, rows: &[Row]) -> Self {
        let first = |row: &Row| vec![Moment { index: 0, at: 0, held: held(&shards[row.shard], row) }];
        let moments = rows.iter().map(first).collect();
        Self { shards, moments }
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
        let records = &mut self.shards[shard];
        records
            .apply(&entry.data, &mut Nobody)
            .map_err(|fatal| Violation::new(replicas_agree::NAME, fatal.to_string()))?;
        let mut changed = Vec::new();
        for (number, row) in rows.iter().enumerate().filter(|(_, row)| row.shard == shard) {
            let held = held(records, row);
            let moments = &mut self.moments[number];
            if moments.last().and_then(|moment| moment.held) != held {
                moments.push(Moment { index: entry.index, at: now, held });
                changed.extend(held.map(|held| (number, held)));
            }
        }
        Ok(changed)
    }

    /// What a replica that has applied so much has of a row.
    #[must_use]
    pub fn at(&self, row: usize, applied: u64) -> Option<SeenRow> {
        self.before(row, applied).last().and_then(|moment| moment.held)
    }

    /// When what a replica that has applied so much has of a row was replaced by something else, if it was.
    #[must_use]
    pub fn replaced_at(&self, row: usize, applied: u64) -> Option<u64> {
        let (before, held) = (self.before(row, applied).len(), self.at(row, applied));
        // That it left memory and came back as it was replaces nothing.
        let is_other = |moment: &&Moment| moment.held.is_some() && moment.held != held;
        self.moments[row][before..].iter().find(is_other).map(|moment| moment.at)
    }

    fn before(&self, row: usize, applied: u64) -> &[Moment] {
        let moments = &self.moments[row];
        &moments[..moments.partition_point(|moment| moment.index <= applied)]
    }

    #[must_use]
    pub fn rows(&self) -> usize {
        self.moments.len()
    }

    #[must_use]
    pub fn state_hash(&self, shard: usize) -> u64 {
        self.shards[shard].state_hash()
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
