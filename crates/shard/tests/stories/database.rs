//! An SQL database of the imagination: rows with versions, written only upwards (record-cache 93).

use std::collections::BTreeMap;

use shardine_model::{RowImage, RowKeyBuf, Version};
use shardine_shard::{FlushResult, FlushRow, LoadedRow};

#[derive(Default)]
pub struct Database {
    rows: BTreeMap<RowKeyBuf, (Version, RowImage)>,
}

impl Database {
    pub fn put(&mut self, row: RowKeyBuf, version: Version, fields: RowImage) {
        self.rows.insert(row, (version, fields));
    }

    pub fn get(&self, row: &RowKeyBuf) -> Option<&(Version, RowImage)> {
        self.rows.get(row)
    }

    pub fn load(&self, row: &RowKeyBuf) -> LoadedRow {
        let (version, fields) = self.rows.get(row).cloned().unwrap_or_default();
        LoadedRow { row: row.clone(), version, fields }
    }

    pub fn write(&mut self, flush: &FlushRow) -> FlushResult {
        let held = self.rows.get(&flush.row).map_or(Version::NEVER, |(version, _)| *version);
        if held.magnitude() > flush.version.magnitude() {
            return FlushResult::Newer(held);
        }
        self.rows.insert(flush.row.clone(), (flush.version, flush.fields.clone()));
        FlushResult::Written
    }
}
