//! An SQL database of the imagination: rows with versions, written only upwards (write-back 93).

use std::collections::{BTreeMap, BTreeSet};

use shardine_model::sql::{FlushResult, FlushRow};
use shardine_model::{FieldRef, FieldValue, RowImage, RowKeyBuf, Version};
use shardine_shard::LoadedRow;

#[derive(Default)]
pub struct Database {
    rows: BTreeMap<RowKeyBuf, (Version, RowImage)>,
    refused: BTreeSet<RowKeyBuf>,
    /// Rows that refer to one of another table that is not there.
    orphans: BTreeSet<RowKeyBuf>,
    /// Rows that one of another table refers to.
    needed: BTreeSet<RowKeyBuf>,
}

impl Database {
    pub fn put(&mut self, row: RowKeyBuf, version: Version, fields: RowImage) {
        self.rows.insert(row, (version, fields));
    }

    /// From now on the row is refused, or taken again.
    pub fn refuse(&mut self, row: RowKeyBuf, is_refused: bool) {
        if is_refused {
            self.refused.insert(row)
        } else {
            self.refused.remove(&row)
        };
    }

    /// From now on the row that this one refers to is missing, or is there.
    pub fn orphan(&mut self, row: RowKeyBuf, is_orphan: bool) {
        if is_orphan {
            self.orphans.insert(row)
        } else {
            self.orphans.remove(&row)
        };
    }

    pub fn need(&mut self, row: RowKeyBuf) {
        self.needed.insert(row);
    }

    pub fn is_needed(&self, row: &RowKeyBuf) -> bool {
        self.needed.contains(row)
    }

    pub fn purge(&mut self, row: &RowKeyBuf, version: Version) {
        if self.is_needed(row) {
            return;
        }
        if self.rows.get(row).is_some_and(|(held, _)| *held == version) {
            self.rows.remove(row);
        }
    }

    pub fn get(&self, row: &RowKeyBuf) -> Option<&(Version, RowImage)> {
        self.rows.get(row)
    }

    pub fn load(&self, row: &RowKeyBuf) -> LoadedRow {
        let (version, fields) = self.rows.get(row).cloned().unwrap_or_default();
        LoadedRow { row: row.clone(), version, fields }
    }

    /// Writes a row as the databases do, of a table that others use if it `is_guest`.
    pub fn write(&mut self, flush: &FlushRow, is_guest: bool) -> FlushResult {
        if self.refused.contains(&flush.row) {
            return FlushResult::Refused("check violated".to_owned());
        }
        let is_there = self.rows.contains_key(&flush.row);
        if self.orphans.contains(&flush.row) && (flush.version.is_live() || !is_there) {
            return FlushResult::Orphan("no parent".to_owned());
        }
        let held = self.rows.get(&flush.row).map_or(Version::NEVER, |(version, _)| *version);
        if held.magnitude() > flush.version.magnitude() {
            return FlushResult::Newer(held);
        }
        if is_guest && !flush.version.is_live() {
            if self.is_needed(&flush.row) {
                return FlushResult::Orphan("still referred to".to_owned());
            }
            self.rows.remove(&flush.row);
            return FlushResult::Written;
        }
        let held = self.rows.get(&flush.row).filter(|_| !flush.changed.is_all());
        let fields = held.map_or_else(|| flush.fields.clone(), |(_, held)| changed_over(held, flush));
        self.rows.insert(flush.row.clone(), (flush.version, fields));
        FlushResult::Written
    }
}

/// A row as SQL has it, with what changed over it.
fn changed_over(held: &RowImage, flush: &FlushRow) -> RowImage {
    let is_changed = |entry: &FieldValue<'_>| matches!(entry.field, FieldRef::Id(id) if flush.changed.holds(id));
    let kept = held.view().iter().filter(|entry| !is_changed(entry));
    RowImage::of(&kept.chain(flush.fields.view().iter().filter(is_changed)).collect::<Vec<_>>())
}
