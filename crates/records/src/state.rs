//! The state of one shard: records, definitions, kept results, and what is derived from them.
//!
//! Everything here is the same on every replica at the same index (`state_hash`), except the hash seed of the index,
//! which never shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use itertools::Itertools;
use shardine_model::codec::put_bytes;
use shardine_model::{
    Backing, Bound, Bounds, Catalogue, CatalogueVersion, Generation, Position, RangeVersion, ReplicaId, RequestEpoch,
    RowKey, RowKeyBuf, RowView, Table, TableId, Timestamp, Version, WriteMode,
};

use crate::derived::Totals;
use crate::index::Index;
use crate::record::Slot;
use crate::remembered::Remembered;
use crate::segment::walk_slot;
use crate::slabs::Slabs;
use crate::snapshot::Cut;
use crate::tally::Dirty;

/// The records of one shard. Changed by [`Records::apply`] only.
#[derive(Debug)]
pub struct Records {
    pub(crate) catalogue: Catalogue,
    pub(crate) index: Index,
    pub(crate) remembered: Remembered,
    /// The highest version among purged tombstones of a table: a new record begins above it, so that no version of a
    /// forgotten one returns (records 4).
    pub(crate) floors: BTreeMap<TableId, u64>,
    /// The newest time that a leader stamped. Never goes back, whatever clocks do.
    pub(crate) clock: Timestamp,
    pub(crate) lease: Option<Lease>,
    /// What this shard owns: part of the state, so that a snapshot brings it along and a restart cannot disagree
    /// (records 66).
    pub(crate) bounds: Bounds,
    pub(crate) generation: Generation,
    pub(crate) range_version: RangeVersion,
    /// Set by an operator: no request is executed until it is taken back (records 67).
    pub(crate) suspended: bool,
    pub(crate) sql_tables: usize,
    pub(crate) totals: Totals,
    pub(crate) cut: Option<Cut>,
    /// What was written for the cut ahead of its turn.
    pub(crate) ahead: Slabs,
    pub(crate) cuts: u64,
    /// The segment that was last looked at for being too small.
    pub(crate) join_hand: usize,
    pub(crate) scratch: Vec<u8>,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<crate::Mutant>,
}

/// Who may write to SQL, and in which term it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub holder: ReplicaId,
    pub term: u64,
    pub length_ms: u64,
}

/// What a lookup finds.
#[derive(Clone, Copy, Debug)]
pub enum Lookup<'a> {
    Live(RowView<'a>),
    /// Known not to exist: never made (version 0), or deleted (below 0).
    Absent {
        version: Version,
        sql_version: Version,
    },
    /// Not in memory; only SQL can tell.
    NotResident,
    UnknownTable,
}

/// How a request's epoch stands to the shard's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochFit {
    Fits,
    /// Its sender knows an older map, or other tables: it must be routed and read again.
    Stale,
    /// Its sender knows definitions that have not come here yet.
    Ahead,
}

/// A row that SQL does not hold in its newest version.
#[derive(Clone, Debug)]
pub struct DirtyRow {
    pub row: RowKeyBuf,
    pub version: Version,
    pub sql_version: Version,
}

impl Records {
    /// An empty shard that knows the table `kv`. The seed only spreads the in-memory hash tables.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut catalogue = Catalogue::default();
        catalogue.put(shardine_model::Table::kv());
        Self {
            catalogue,
            index: Index::new(seed),
            remembered: Remembered::default(),
            floors: BTreeMap::new(),
            clock: Timestamp(0),
            lease: None,
            bounds: Bounds::default(),
            generation: Generation::FIRST,
            range_version: RangeVersion::FIRST,
            suspended: false,
            sql_tables: 0,
            totals: Totals::default(),
            cut: None,
            ahead: Slabs::default(),
            cuts: 0,
            join_hand: 0,
            scratch: Vec::new(),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// The same state with a planted bug.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_mutant(self, mutant: Option<crate::Mutant>) -> Self {
        Self { mutant, ..self }
    }

    /// Takes a definition in if it is newer.
    pub(crate) fn put_table(&mut self, version: CatalogueVersion, table: Table) -> bool {
        let taken = self.catalogue.put_in(version, table);
        self.sql_tables = self.catalogue.tables().filter(|table| table.backing == Backing::Sql).count();
        taken
    }

    #[must_use]
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The same state, owning this part of routing order from the beginning.
    #[must_use]
    pub fn owning(self, bounds: impl Into<Bounds>) -> Self {
        Self { bounds: bounds.into(), ..self }
    }

    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The same state in this generation, with bounds that have changed so often.
    #[must_use]
    pub fn at_epoch(self, generation: Generation, range_version: RangeVersion) -> Self {
        Self { generation, range_version, ..self }
    }

    /// What a request is to be routed and read by.
    #[must_use]
    pub fn epoch(&self) -> RequestEpoch {
        let catalogue = self.catalogue.version();
        RequestEpoch { generation: self.generation, range: self.range_version, catalogue }
    }

    /// Whether a request that was routed and read by this epoch means here what its sender meant. Definitions that only
    /// grew since change no meaning.
    #[inline]
    #[must_use]
    pub fn epoch_fits(&self, epoch: RequestEpoch) -> EpochFit {
        if epoch.generation != self.generation || epoch.range != self.range_version {
            return EpochFit::Stale;
        }
        if epoch.catalogue > self.catalogue.version() {
            return EpochFit::Ahead;
        }
        if epoch.catalogue < self.catalogue.named_in() { EpochFit::Stale } else { EpochFit::Fits }
    }

    #[inline]
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.suspended
    }

    #[must_use]
    pub fn lease(&self) -> Option<Lease> {
        self.lease
    }

    /// The newest stamp applied; a leader's next one is never below it.
    #[must_use]
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    #[inline]
    #[must_use]
    pub fn get(&self, position: Position, row: RowKey<'_>) -> Lookup<'_> {
        let found = self.index.find(position, row).and_then(|slot| slot.row(row.sort));
        match found {
            Some(view) if view.version.is_live() => Lookup::Live(view),
            Some(view) => Lookup::Absent { version: view.version, sql_version: view.sql_version },
            None => match self.catalogue.get(row.table) {
                None => Lookup::UnknownTable,
                // An address that does not fit its table names no row, here or in SQL.
                Some(table) if table.backing == Backing::Sql && table.has_sort() != row.sort.is_empty() => {
                    Lookup::NotResident
                }
                Some(_) => Lookup::Absent { version: Version::NEVER, sql_version: Version::NEVER },
            },
        }
    }

    /// Live records, of one table or of all.
    #[must_use]
    pub fn live_count(&self, table: Option<TableId>) -> u64 {
        match table {
            Some(table) => self.totals.tallies.get(table).live,
            None => self.totals.tallies.iter().map(|(_, tally)| tally.live).sum(),
        }
    }

    /// Records whose newest version SQL is not known to hold.
    #[must_use]
    pub fn dirty_count(&self) -> u64 {
        self.totals.dirty.rows
    }

    /// The same with their bytes, of one table or of all.
    #[inline]
    #[must_use]
    pub fn dirty(&self, table: Option<TableId>) -> Dirty {
        match table {
            Some(table) => self.totals.tallies.get(table).dirty,
            None => self.totals.dirty,
        }
    }

    /// Bytes that the records themselves take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.totals.bytes
    }

    /// Records whose time is over at `now`, soonest first.
    pub fn due_expiries(&self, now: Timestamp) -> impl Iterator<Item = RowKey<'_>> {
        let segments = self.index.segments().take(if self.totals.no_expiry_before > now { 0 } else { usize::MAX });
        let expiries = segments.map(|segment| &segment.derived.expiries);
        let due = expiries.filter(move |expiries| expiries.first().is_some_and(|(at, _)| *at <= now));
        due.kmerge().take_while(move |(at, _)| *at <= now).map(|(_, row)| row.as_ref())
    }

    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        let segments = self.index.segments().take(if self.totals.marks.expiries == 0 { 0 } else { usize::MAX });
        segments.filter_map(|segment| segment.derived.expiries.first().map(|(at, _)| *at)).min()
    }

    /// Tombstones made before `before`, oldest first, in tables without SQL.
    pub fn due_purges(&self, before: Timestamp) -> impl Iterator<Item = (RowKey<'_>, Version)> {
        let segments = self.index.segments().take(if self.totals.marks.tombstones == 0 { 0 } else { usize::MAX });
        let tombstones = segments.map(|segment| &segment.derived.tombstones);
        let due = tombstones.filter(move |list| list.front().is_some_and(|oldest| oldest.made_at < before));
        due.kmerge_by(|one, other| one.made_at < other.made_at)
            .take_while(move |tombstone| tombstone.made_at < before)
            .map(|tombstone| (tombstone.row.as_ref(), tombstone.version))
    }

    /// Walks every row of a segment in routing order; `visit` gets each with its position.
    pub(crate) fn walk_segment<'a>(&'a self, segment: usize, mut visit: impl FnMut(Position, RowKey<'a>, RowView<'a>)) {
        let mut slots: Vec<(Position, &[u8], TableId, &Slot)> = Vec::new();
        for slot in self.index.segment(segment).slots() {
            let (table, key) = slot.address();
            slots.push((Position::of_key(key), key, table, slot));
        }
        slots.sort_unstable_by_key(|(position, key, table, _)| (*position, *key, *table));
        for (position, _, _, slot) in slots {
            walk_slot(slot, |row, view| visit(position, row, view));
        }
    }

    /// Rows that SQL does not hold in their newest version, of one table or of all. In routing order.
    #[must_use]
    pub fn dirty_versions(&self, of: Option<TableId>) -> Vec<DirtyRow> {
        let mut rows = Vec::new();
        (0..self.index.segment_count()).for_each(|segment| self.dirty_in(segment, of, &mut rows));
        rows
    }

    /// Whether a segment has rows, of one table or of all, that SQL does not hold.
    #[must_use]
    pub fn has_dirty_in(&self, segment: usize, of: Option<TableId>) -> bool {
        let mut tallies = self.index.segment(segment).derived.tallies.iter();
        tallies.any(|(table, tally)| of.is_none_or(|meant| meant == table) && tally.dirty.rows > 0)
    }

    /// Appends the dirty rows of segments from a place on until there are `rows_max` of them or more, and gives back the
    /// place at which to go on, if there are further segments: what a new leader queues, in portions (write-back 84).
    pub fn dirty_from(&self, from: &Bound, rows_max: usize, rows: &mut Vec<DirtyRow>) -> Option<Bound> {
        let right_there = RowKey { table: from.table, key: &from.key, sort: &from.sort };
        for segment in self.index.segment_of(from.position, right_there)..self.index.segment_count() {
            if rows.len() >= rows_max {
                return Some(self.index.start(segment));
            }
            self.dirty_in(segment, None, rows);
        }
        None
    }

    /// Appends the dirty rows of a segment. One without any is not looked at.
    pub fn dirty_in(&self, segment: usize, of: Option<TableId>, rows: &mut Vec<DirtyRow>) {
        if !self.has_dirty_in(segment, of) {
            return;
        }
        let segment = self.index.segment(segment);
        let is_meant = |table: TableId| of.is_none_or(|meant| meant == table);
        let begin = rows.len();
        for slot in segment.slots().filter(|slot| is_meant(slot.address().0) && self.is_sql(slot.address().0)) {
            walk_slot(slot, |row, view| {
                if view.version != view.sql_version {
                    rows.push(DirtyRow { row: row.to_owned(), version: view.version, sql_version: view.sql_version });
                }
            });
        }
        let place = |dirty: &DirtyRow| {
            let row = dirty.row.as_ref();
            (row.position(), row.key.to_vec(), row.table, row.sort.to_vec())
        };
        rows[begin..].sort_by_cached_key(place);
    }

    /// A number that two replicas share exactly when their states are equal. Walks everything; for checks, not for serving.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        let mut bytes = Vec::new();
        self.encode_head(&mut bytes);
        self.remembered.encode_all(&mut bytes);
        for (row, letter) in self.dead_letters() {
            letter.encode(row, &mut bytes);
        }
        xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, self.rows_hash())
    }

    /// The same of the rows alone: that of two halves, added up, is that of the whole.
    #[must_use]
    pub fn rows_hash(&self) -> u64 {
        let (mut hash, mut bytes) = (0u64, Vec::new());
        for slot in self.index.segments().flat_map(|segment| segment.slots()) {
            walk_slot(slot, |row, view| {
                bytes.clear();
                hash_row(row, &view, &mut bytes);
                hash = hash.wrapping_add(xxhash_rust::xxh3::xxh3_64(&bytes));
            });
        }
        hash
    }

    /// Whether any row could be missing from memory.
    #[inline]
    #[must_use]
    pub fn has_sql_tables(&self) -> bool {
        self.sql_tables > 0
    }

    #[must_use]
    pub fn is_sql_table(&self, table: TableId) -> bool {
        self.is_sql(table)
    }

    /// Whether changes of the table are answered when SQL has them, unless they say otherwise (write-back 108).
    #[must_use]
    pub fn is_written_through(&self, table: TableId) -> bool {
        let is_through = |table: &Arc<Table>| table.backing == Backing::Sql && table.sql.mode == WriteMode::Through;
        self.catalogue.get(table).is_some_and(is_through)
    }

    pub(crate) fn is_sql(&self, table: TableId) -> bool {
        has_sql(&self.catalogue, table)
    }

    /// Where a row that is not in memory begins: its table's floor.
    #[must_use]
    pub fn floor(&self, table: TableId) -> Version {
        Version(-(self.floors.get(&table).copied().unwrap_or(0) as i64))
    }
}

pub(crate) fn has_sql(catalogue: &Catalogue, table: TableId) -> bool {
    catalogue.get(table).is_some_and(|table| table.backing == Backing::Sql)
}

/// Fields are hashed in name order: a wide record and a packed one with the same fields are the same record.
fn hash_row(row: RowKey<'_>, view: &RowView<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&row.table.0.to_le_bytes());
    put_bytes(out, row.key);
    put_bytes(out, row.sort);
    out.extend_from_slice(&view.version.0.to_le_bytes());
    out.extend_from_slice(&view.sql_version.0.to_le_bytes());
    out.extend_from_slice(&view.expires_at.map_or(0, |at| at.0).to_le_bytes());
    let mut fields: Vec<_> = view.fields.iter().collect();
    fields.sort_unstable_by_key(|entry| entry.field);
    fields.iter().for_each(|entry| entry.encode(out));
}
