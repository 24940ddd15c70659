//! Counts of rows by table: of one segment, and of the whole shard.

use shardine_model::TableId;
use smallvec::SmallVec;

use crate::record::Versions;

/// Records that SQL is not known to hold in their newest version, and what they take in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dirty {
    pub rows: u64,
    pub bytes: u64,
}

/// Rows of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub live: u64,
    pub dirty: Dirty,
}

impl Tally {
    /// What one row counts for; `is_sql` says whether its table has SQL behind it.
    #[inline]
    pub fn of(row: Option<(Versions, usize)>, is_sql: bool) -> Self {
        let Some((versions, bytes)) = row else { return Self::default() };
        let is_dirty = is_sql && versions.version != versions.sql_version;
        let dirty = if is_dirty { Dirty { rows: 1, bytes: bytes as u64 } } else { Dirty::default() };
        Self { live: u64::from(versions.version.is_live()), dirty }
    }

    fn exchange(&mut self, before: Self, after: Self) {
        self.live = self.live + after.live - before.live;
        self.dirty.exchange(before.dirty, after.dirty);
    }
}

impl Dirty {
    pub fn exchange(&mut self, before: Self, after: Self) {
        self.rows = self.rows + after.rows - before.rows;
        self.bytes = self.bytes + after.bytes - before.bytes;
    }
}

/// Tallies by table, in the order of their numbers. A segment has rows of one table or two, as a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tallies(SmallVec<[(TableId, Tally); 1]>);

impl Tallies {
    pub fn get(&self, table: TableId) -> Tally {
        match self.find(table) {
            Ok(place) => self.0[place].1,
            Err(_) => Tally::default(),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (TableId, Tally)> {
        self.0.iter().copied()
    }

    /// Replaces a part of a table's tally. A table without rows is forgotten.
    pub fn exchange(&mut self, table: TableId, before: Tally, after: Tally) {
        if before == after {
            return;
        }
        let place = self.find(table).unwrap_or_else(|place| {
            self.0.insert(place, (table, Tally::default()));
            place
        });
        let tally = &mut self.0[place].1;
        tally.exchange(before, after);
        if *tally == Tally::default() {
            self.0.remove(place);
        }
    }

    pub fn add(&mut self, other: &Self) {
        other.iter().for_each(|(table, tally)| self.exchange(table, Tally::default(), tally));
    }

    pub fn subtract(&mut self, other: &Self) {
        other.iter().for_each(|(table, tally)| self.exchange(table, tally, Tally::default()));
    }

    #[inline]
    fn find(&self, table: TableId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&table, |(known, _)| *known)
    }
}
