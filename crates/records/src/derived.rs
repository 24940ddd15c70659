//! What could be computed from the rows of a segment by walking them, kept as they change: counts, expiries, absent rows,
//! tombstones to be purged; and the dead letters of those rows.
//!
//! Kept by segment, so that a shard is parted, and a lead taken over, at the cost of segments and not of rows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shardine_model::{Bound, RowKey, RowKeyBuf, Timestamp, Version};

use crate::absents::Absents;
use crate::dead_letters::DeadLetter;
use crate::record::Versions;
use crate::tally::{Dirty, Tallies, Tally};

/// A row that is put, changed or removed: its numbers, and its bytes as the shard counts them.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub row: RowKey<'a>,
    pub before: Option<(Versions, usize)>,
    pub after: Option<(Versions, usize)>,
    /// Whether the row's table has SQL behind it.
    pub is_sql: bool,
    pub now: Timestamp,
}

impl Change<'_> {
    #[inline]
    fn expires(row: Option<(Versions, usize)>) -> Option<Timestamp> {
        row.and_then(|(versions, _)| versions.expires_at)
    }

    #[inline]
    fn is_known_absent(&self, row: Option<(Versions, usize)>) -> bool {
        self.is_sql && row.is_some_and(|(versions, _)| versions.is_clean_absence())
    }

    /// A dead letter belongs to a dirty row.
    #[inline]
    fn leaves_dirty(&self) -> bool {
        self.after.is_some_and(|(versions, _)| versions.version != versions.sql_version)
    }

    /// Whether more than counts must follow it; most changes need nothing else.
    #[inline]
    pub fn is_marked(&self) -> bool {
        Self::expires(self.before) != Self::expires(self.after)
            || self.is_known_absent(self.before)
            || self.is_known_absent(self.after)
            || self.tombstone().is_some()
    }

    /// The version of a tombstone that memory alone keeps.
    #[inline]
    fn tombstone(&self) -> Option<Version> {
        let version = self.after.map(|(versions, _)| versions.version)?;
        (version.0 < 0 && !self.is_sql).then_some(version)
    }
}

/// Of one segment.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    pub tallies: Tallies,
    pub expiries: BTreeSet<(Timestamp, RowKeyBuf)>,
    pub absents: Absents,
    /// Tombstones of tables without SQL, oldest first, until they are purged.
    pub tombstones: VecDeque<Tombstone>,
    /// Rows that SQL does not take (write-back 113). Not derived: they are part of the state, and lie where their rows lie.
    pub letters: BTreeMap<RowKeyBuf, DeadLetter>,
}

/// How many rows stand in a segment's lists, or in those of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub expiries: usize,
    pub absents: usize,
    pub tombstones: usize,
    pub letters: usize,
}

impl Marks {
    pub fn exchange(&mut self, before: Self, after: Self) {
        self.expiries = self.expiries + after.expiries - before.expiries;
        self.absents = self.absents + after.absents - before.absents;
        self.tombstones = self.tombstones + after.tombstones - before.tombstones;
        self.letters = self.letters + after.letters - before.letters;
    }
}

/// When a tombstone was made, as far as this replica knows.
#[derive(Clone, Debug)]
pub(crate) struct Tombstone {
    pub made_at: Timestamp,
    pub row: RowKeyBuf,
    pub version: Version,
}

impl Derived {
    pub fn marks(&self) -> Marks {
        Marks {
            expiries: self.expiries.len(),
            absents: self.absents.len(),
            tombstones: self.tombstones.len(),
            letters: self.letters.len(),
        }
    }

    /// Follows a change, beside the tallies.
    pub fn follow(&mut self, change: &Change<'_>) {
        let (expired, expires) = (Change::expires(change.before), Change::expires(change.after));
        if expired != expires {
            self.reschedule(change.row, expired, expires);
        }
        if change.is_known_absent(change.before) {
            self.absents.remove(change.row);
        }
        if change.is_known_absent(change.after) {
            let version = change.after.map_or(Version::NEVER, |(versions, _)| versions.version);
            self.absents.insert(change.row, version, change.now);
        }
        if let Some(version) = change.tombstone() {
            self.tombstones.push_back(Tombstone { made_at: change.now, row: change.row.to_owned(), version });
        }
        if !self.letters.is_empty() && !change.leaves_dirty() {
            self.letters.remove(&change.row.to_owned());
        }
    }

    fn reschedule(&mut self, row: RowKey<'_>, before: Option<Timestamp>, after: Option<Timestamp>) {
        if let Some(at) = before {
            self.expiries.remove(&(at, row.to_owned()));
        }
        if let Some(at) = after {
            self.expiries.insert((at, row.to_owned()));
        }
    }

    /// Takes out what belongs to rows behind a bound, beside the tallies, which whoever moves the rows counts.
    pub fn split_off(&mut self, at: &Bound) -> Self {
        let is_behind = |row: &RowKeyBuf| at.is_before(row.as_ref().position(), row.as_ref());
        let (tombstones, kept) = std::mem::take(&mut self.tombstones).into_iter().partition(|one| is_behind(&one.row));
        self.tombstones = kept;
        Self {
            tallies: Tallies::default(),
            expiries: self.expiries.extract_if(.., |(_, row)| is_behind(row)).collect(),
            absents: self.absents.split_off(is_behind),
            tombstones,
            letters: self.letters.extract_if(.., |row, _| is_behind(row)).collect(),
        }
    }

    /// Takes in what belongs to a neighbour's rows.
    pub fn append(&mut self, mut other: Self) {
        self.tallies.add(&other.tallies);
        self.expiries.append(&mut other.expiries);
        self.absents.append(other.absents);
        self.tombstones.append(&mut other.tombstones);
        self.tombstones.make_contiguous().sort_by_key(|tombstone| tombstone.made_at);
        self.letters.append(&mut other.letters);
    }

    /// Gives memory back that a queue has needed once.
    pub fn shrink(&mut self) {
        if self.tombstones.is_empty() {
            self.tombstones = VecDeque::new();
        }
    }
}

/// Of the whole shard: what is asked too often to be added up from its segments.
#[derive(Debug)]
pub(crate) struct Totals {
    pub tallies: Tallies,
    pub dirty: Dirty,
    pub bytes: u64,
    pub marks: Marks,
    /// Nothing expires before this.
    pub no_expiry_before: Timestamp,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            tallies: Tallies::default(),
            dirty: Dirty::default(),
            bytes: 0,
            marks: Marks::default(),
            no_expiry_before: Timestamp(u64::MAX),
        }
    }
}

impl Totals {
    /// Follows a change of one row's tally and bytes.
    #[inline]
    pub fn follow(&mut self, change: &Change<'_>, before: Tally, after: Tally) {
        let bytes = |row: Option<(Versions, usize)>| row.map_or(0, |(_, bytes)| bytes as u64);
        self.bytes = self.bytes + bytes(change.after) - bytes(change.before);
        if before != after {
            self.tallies.exchange(change.row.table, before, after);
            self.dirty.exchange(before.dirty, after.dirty);
        }
        if let Some(at) = Change::expires(change.after) {
            self.no_expiry_before = self.no_expiry_before.min(at);
        }
    }

    /// Counts a whole segment in.
    pub fn add(&mut self, bytes: u64, derived: &Derived) {
        self.bytes += bytes;
        self.tallies.add(&derived.tallies);
        let dirty = derived.tallies.iter().map(|(_, tally)| tally.dirty);
        dirty.for_each(|dirty| self.dirty.exchange(Dirty::default(), dirty));
        self.marks.exchange(Marks::default(), derived.marks());
        if let Some((at, _)) = derived.expiries.first() {
            self.no_expiry_before = self.no_expiry_before.min(*at);
        }
    }

    /// Counts out what another has counted in: some of the same segments. Expiries keep their lower bound.
    pub fn subtract(&mut self, other: &Self) {
        self.bytes -= other.bytes;
        self.tallies.subtract(&other.tallies);
        self.dirty.exchange(other.dirty, Dirty::default());
        self.marks.exchange(other.marks, Marks::default());
    }
}
