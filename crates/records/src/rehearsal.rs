//! A few rows of a shard, copied, so that commands can be tried on them: what comes of it is what applying them would make.

use shardine_model::{Catalogue, FieldsView, RowKey, Timestamp, Version};

use crate::command::content_of;
use crate::record::Versions;
use crate::state::{Lookup, Records};

impl Records {
    /// No rows, these definitions, and this time.
    #[must_use]
    pub fn rehearsal(catalogue: Catalogue, now: Timestamp) -> Self {
        let mut records = Self::new(0);
        records.catalogue = catalogue;
        records.sql_tables = records.catalogue.tables().filter(|table| records.is_sql(table.id)).count();
        records.clock = now;
        records
    }

    /// Takes a row in as another state has it; `floor` is where that one's new rows of the table begin.
    pub fn copy_in(&mut self, row: RowKey<'_>, found: Lookup<'_>, floor: Version) {
        let (versions, fields) = match found {
            Lookup::Live(view) => (Versions::of(&view), view.fields),
            Lookup::Absent { version, sql_version } => {
                (Versions { version, sql_version, ..Versions::default() }, FieldsView::EMPTY)
            }
            Lookup::NotResident | Lookup::UnknownTable => return,
        };
        if floor != Version::NEVER {
            self.floors.insert(row.table, floor.magnitude());
        }
        if versions.version == Version::NEVER && !self.is_sql(row.table) {
            return;
        }
        let is_dynamic = self.catalogue.get(row.table).is_some_and(|table| table.dynamic);
        let mut packed = Vec::new();
        fields.pack(&mut packed);
        let content = content_of(row, versions, &packed, is_dynamic);
        self.put_row(row.position(), row, Some(content));
    }
}
