//! The state of one shard: records, definitions, kept results, and what is derived from them.
//!
//! Everything here is the same on every replica at the same index (`state_hash`), except the hash seed of the index,
//! which never shows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use shardine_model::codec::put_bytes;
use shardine_model::key::Interval;
use shardine_model::{
    Backing, Catalogue, CatalogueVersion, Generation, Position, RangeVersion, ReplicaId, RequestEpoch, RowKey,
    RowKeyBuf, RowView, Table, TableId, Timestamp, Version, WriteMode,
};

use crate::absents::Absents;
use crate::dead_letters::DeadLetter;
use crate::index::Index;
use crate::record::{Big, Partition, Slot, Versions, Wide, view};
use crate::remembered::Remembered;
use crate::slabs::Slabs;
use crate::snapshot::Cut;

/// The records of one shard. Changed by [`Records::apply`] only.
#[derive(Debug)]
pub struct Records {
    pub(crate) catalogue: Catalogue,
    pub(crate) index: Index,
    pub(crate) remembered: Remembered,
    /// The highest version among purged tombstones of a table: a new record begins above it, so that no version of a
    /// forgotten one returns (records 4).
    pub(crate) floors: BTreeMap<TableId, u64>,
    /// Rows that SQL does not take (write-back 113).
    pub(crate) letters: BTreeMap<RowKeyBuf, DeadLetter>,
    /// The newest time that a leader stamped. Never goes back, whatever clocks do.
    pub(crate) clock: Timestamp,
    pub(crate) lease: Option<Lease>,
    /// What this shard owns: part of the state, so that a snapshot brings it along and a restart cannot disagree
    /// (records 66).
    pub(crate) interval: Interval,
    pub(crate) generation: Generation,
    pub(crate) range_version: RangeVersion,
    /// Set by an operator: no request is executed until it is taken back (records 67).
    pub(crate) suspended: bool,
    pub(crate) sql_tables: usize,
    pub(crate) derived: Derived,
    pub(crate) cut: Option<Cut>,
    /// Chunks of the cut that were written ahead of their turn.
    pub(crate) ahead: Slabs,
    pub(crate) cuts: u64,
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

/// What could be computed from the records by walking them all, kept as they change.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    pub live: BTreeMap<TableId, u64>,
    pub bytes: u64,
    /// By table with SQL behind it, and of all.
    pub dirty: BTreeMap<TableId, Dirty>,
    pub dirty_total: Dirty,
    pub absents: Absents,
    pub expiries: BTreeSet<(Timestamp, RowKeyBuf)>,
    /// Tombstones of tables without SQL, oldest first, until they are purged.
    pub tombstones: VecDeque<Tombstone>,
}

/// Records that SQL is not known to hold in their newest version, and what they take in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dirty {
    pub rows: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Tombstone {
    pub made_at: Timestamp,
    pub row: RowKeyBuf,
    pub version: Version,
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

/// What a row becomes.
pub(crate) enum Content {
    Packed(Box<[u8]>),
    Wide(Wide),
}

impl Content {
    /// Versions, and bytes as the shard counts them.
    pub(crate) fn measure(&self, sort_bytes: usize) -> (Versions, usize) {
        match self {
            Self::Packed(bytes) => (Versions::of(&view(bytes)), sort_bytes + bytes.len()),
            Self::Wide(wide) => (wide.versions, wide.bytes),
        }
    }
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
            letters: BTreeMap::new(),
            clock: Timestamp(0),
            lease: None,
            interval: Interval::ALL,
            generation: Generation::FIRST,
            range_version: RangeVersion::FIRST,
            suspended: false,
            sql_tables: 0,
            derived: Derived::default(),
            cut: None,
            ahead: Slabs::default(),
            cuts: 0,
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

    /// The same state, owning these positions from the beginning.
    #[must_use]
    pub fn owning(self, interval: Interval) -> Self {
        Self { interval, ..self }
    }

    #[must_use]
    pub fn interval(&self) -> Interval {
        self.interval
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
        let found = self.index.find(position, row.table, row.key).and_then(|slot| slot.row(row.sort));
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
            Some(table) => self.derived.live.get(&table).copied().unwrap_or(0),
            None => self.derived.live.values().sum(),
        }
    }

    /// Records whose newest version SQL is not known to hold.
    #[must_use]
    pub fn dirty_count(&self) -> u64 {
        self.derived.dirty_total.rows
    }

    /// The same with their bytes, of one table or of all.
    #[inline]
    #[must_use]
    pub fn dirty(&self, table: Option<TableId>) -> Dirty {
        match table {
            Some(table) => self.derived.dirty.get(&table).copied().unwrap_or_default(),
            None => self.derived.dirty_total,
        }
    }

    /// Bytes that the records themselves take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.derived.bytes
    }

    /// Records whose time is over at `now`, soonest first.
    pub fn due_expiries(&self, now: Timestamp) -> impl Iterator<Item = RowKey<'_>> {
        self.derived.expiries.iter().take_while(move |(at, _)| *at <= now).map(|(_, row)| row.as_ref())
    }

    #[must_use]
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.derived.expiries.first().map(|(at, _)| *at)
    }

    /// Tombstones made before `before`, oldest first, in tables without SQL.
    pub fn due_purges(&self, before: Timestamp) -> impl Iterator<Item = (RowKey<'_>, Version)> {
        let due = self.derived.tombstones.iter().take_while(move |tombstone| tombstone.made_at < before);
        due.map(|tombstone| (tombstone.row.as_ref(), tombstone.version))
    }

    /// Walks every row of a segment in routing order; `visit` gets each with its position.
    pub(crate) fn walk_segment<'a>(&'a self, segment: usize, mut visit: impl FnMut(Position, RowKey<'a>, RowView<'a>)) {
        let mut slots: Vec<(Position, &[u8], TableId, &Slot)> = Vec::new();
        for slot in self.index.slots(segment) {
            let (table, key) = slot.address();
            slots.push((Position::of_key(key), key, table, slot));
        }
        slots.sort_unstable_by_key(|(position, key, table, _)| (*position, *key, *table));
        for (position, key, table, slot) in slots {
            walk_slot(table, key, slot, |row, view| visit(position, row, view));
        }
    }

    /// Rows that SQL does not hold in their newest version: what a new leader queues (write-back 84).
    #[must_use]
    pub fn dirty_rows(&self) -> Vec<RowKeyBuf> {
        self.dirty_versions(None).into_iter().map(|dirty| dirty.row).collect()
    }

    /// The same, of one table or of all, with their versions.
    #[must_use]
    pub fn dirty_versions(&self, of: Option<TableId>) -> Vec<DirtyRow> {
        let mut rows = Vec::new();
        if self.derived.dirty_total.rows == 0 {
            return rows;
        }
        for segment in 0..self.index.segment_count() {
            self.walk_segment(segment, |_, row, view| {
                let is_meant = of.is_none_or(|table| table == row.table) && self.is_sql(row.table);
                if is_meant && view.version != view.sql_version {
                    rows.push(DirtyRow { row: row.to_owned(), version: view.version, sql_version: view.sql_version });
                }
            });
        }
        rows
    }

    /// A number that two replicas share exactly when their states are equal. Walks everything; for checks, not for serving.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        let mut bytes = Vec::new();
        self.encode_head(&mut bytes);
        let mut hash = xxhash_rust::xxh3::xxh3_64(&bytes);
        for segment in 0..self.index.segment_count() {
            self.walk_segment(segment, |_, row, view| {
                bytes.clear();
                hash_row(row, &view, &mut bytes);
                hash = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, hash);
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
        self.catalogue.get(table).is_some_and(|table| table.backing == Backing::Sql)
    }

    /// Where a row that is not in memory begins: its table's floor.
    #[must_use]
    pub fn floor(&self, table: TableId) -> Version {
        Version(-(self.floors.get(&table).copied().unwrap_or(0) as i64))
    }

    /// Puts or removes one row and keeps everything derived true. The only way records change, beside `change_wide`.
    pub(crate) fn put_row(&mut self, position: Position, row: RowKey<'_>, content: Option<Content>) {
        let before = self.measure(position, row);
        self.exchange_row(position, row, before, content);
    }

    /// The same for a caller that has already looked at the row as it is.
    #[inline]
    pub(crate) fn exchange_row(
        &mut self,
        position: Position,
        row: RowKey<'_>,
        before: Option<(Versions, usize)>,
        content: Option<Content>,
    ) {
        let segment = self.index.segment_of(position);
        self.save_before_change(segment);
        if let Some((versions, bytes)) = before {
            self.uncount(row, &versions, bytes);
        }
        let mut is_dirty = false;
        if let Some(content) = &content {
            let (versions, bytes) = content.measure(row.sort.len());
            is_dirty = versions.version != versions.sql_version;
            self.count(row, &versions, bytes);
        }
        if !is_dirty && !self.letters.is_empty() {
            self.letters.remove(&row.to_owned());
        }
        match content {
            None => self.remove_row(segment, row),
            Some(Content::Packed(bytes)) if row.sort.is_empty() => self.index.put(segment, Slot::Packed(bytes)),
            Some(Content::Packed(bytes)) => self.put_in_partition(segment, row, bytes),
            Some(Content::Wide(wide)) => self.index.put(segment, Slot::Big(Box::new(Big::Wide(wide)))),
        }
    }

    /// Changes a tree record in place, if `change` agrees, and keeps everything derived true.
    pub(crate) fn change_wide(
        &mut self,
        position: Position,
        row: RowKey<'_>,
        change: impl FnOnce(&mut Wide) -> bool,
    ) -> bool {
        let segment = self.index.segment_of(position);
        self.save_before_change(segment);
        let (versions, bytes) = self.measure(position, row).expect("only called on a record that is there");
        self.uncount(row, &versions, bytes);
        let changed = match self.index.find_mut(segment, row.table, row.key) {
            Some(Slot::Big(big)) => match &mut **big {
                Big::Wide(wide) => change(wide),
                Big::Partition(_) => unreachable!("only called on a tree record"),
            },
            _ => unreachable!("only called on a tree record"),
        };
        let (versions, bytes) = self.measure(position, row).expect("a change in place keeps the record");
        self.count(row, &versions, bytes);
        changed
    }

    fn measure(&self, position: Position, row: RowKey<'_>) -> Option<(Versions, usize)> {
        self.index.find(position, row.table, row.key)?.measure(row.sort)
    }

    fn remove_row(&mut self, segment: usize, row: RowKey<'_>) {
        if row.sort.is_empty() {
            let found = self.index.find_mut(segment, row.table, row.key);
            if found.is_some_and(|slot| slot.row(b"").is_some()) {
                self.index.remove(segment, row.table, row.key);
            }
            return;
        }
        let Some(Slot::Big(big)) = self.index.find_mut(segment, row.table, row.key) else { return };
        let Big::Partition(partition) = &mut **big else { return };
        partition.rows.remove(row.sort);
        if partition.rows.is_empty() {
            self.index.remove(segment, row.table, row.key);
        }
    }

    fn put_in_partition(&mut self, segment: usize, row: RowKey<'_>, bytes: Box<[u8]>) {
        if let Some(Slot::Big(big)) = self.index.find_mut(segment, row.table, row.key) {
            let Big::Partition(partition) = &mut **big else { panic!("a table with a sort key holds partitions only") };
            partition.rows.insert(row.sort.into(), bytes);
            return;
        }
        let rows = BTreeMap::from([(row.sort.into(), bytes)]);
        let partition = Partition { table: row.table, key: row.key.into(), rows };
        self.index.put(segment, Slot::Big(Box::new(Big::Partition(partition))));
    }

    fn uncount(&mut self, row: RowKey<'_>, versions: &Versions, bytes: usize) {
        self.derived.bytes -= bytes as u64;
        if versions.version.is_live() {
            *self.derived.live.get_mut(&row.table).expect("a live row was counted") -= 1;
        }
        if versions.version != versions.sql_version && self.is_sql(row.table) {
            let of_table = self.derived.dirty.get_mut(&row.table).expect("a dirty row was counted");
            for dirty in [of_table, &mut self.derived.dirty_total] {
                *dirty = Dirty { rows: dirty.rows - 1, bytes: dirty.bytes - bytes as u64 };
            }
        }
        if versions.is_clean_absence() && self.is_sql(row.table) {
            self.derived.absents.remove(row);
        }
        if let Some(at) = versions.expires_at {
            self.derived.expiries.remove(&(at, row.to_owned()));
        }
    }

    fn count(&mut self, row: RowKey<'_>, versions: &Versions, bytes: usize) {
        self.derived.bytes += bytes as u64;
        if versions.version.is_live() {
            *self.derived.live.entry(row.table).or_insert(0) += 1;
        }
        let sql = self.is_sql(row.table);
        if versions.version != versions.sql_version && sql {
            let of_table = self.derived.dirty.entry(row.table).or_default();
            for dirty in [of_table, &mut self.derived.dirty_total] {
                *dirty = Dirty { rows: dirty.rows + 1, bytes: dirty.bytes + bytes as u64 };
            }
        }
        if versions.is_clean_absence() && sql {
            self.derived.absents.insert(row, versions.version, self.clock);
        }
        if let Some(at) = versions.expires_at {
            self.derived.expiries.insert((at, row.to_owned()));
        }
        if versions.version.0 < 0 && !sql {
            let made_at = self.clock;
            self.derived.tombstones.push_back(Tombstone { made_at, row: row.to_owned(), version: versions.version });
        }
    }
}

pub(crate) fn walk_slot<'a>(
    table: TableId,
    key: &'a [u8],
    slot: &'a Slot,
    mut visit: impl FnMut(RowKey<'a>, RowView<'a>),
) {
    match slot {
        Slot::Packed(bytes) => visit(RowKey { table, key, sort: b"" }, view(bytes)),
        Slot::Big(big) => match &**big {
            Big::Wide(wide) => visit(RowKey { table, key, sort: b"" }, wide.view()),
            Big::Partition(partition) => {
                for (sort, bytes) in &partition.rows {
                    visit(RowKey { table, key, sort }, view(bytes));
                }
            }
        },
    }
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
