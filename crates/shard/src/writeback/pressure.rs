//! How much may wait for SQL: soft and hard limits on dirty records (write-back 114).

use shardine_model::command::{BatchItem, Body};
use shardine_model::{Request, RowKey, limits};
use shardine_records::{Dirty, Lookup};

use crate::replica::Replica;

/// Above soft nothing waits for its delay; above hard no clean record may become dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtyLimits {
    pub soft: Dirty,
    pub hard: Dirty,
}

impl Default for DirtyLimits {
    fn default() -> Self {
        Self {
            soft: Dirty { rows: limits::DIRTY_ROWS_SOFT, bytes: limits::DIRTY_BYTES_SOFT },
            hard: Dirty { rows: limits::DIRTY_ROWS_HARD, bytes: limits::DIRTY_BYTES_HARD },
        }
    }
}

fn is_reached(limit: Dirty, dirty: Dirty) -> bool {
    dirty.rows >= limit.rows || dirty.bytes >= limit.bytes
}

impl Replica {
    pub(super) fn is_above_soft_limit(&self) -> bool {
        is_reached(self.options.dirty.soft, self.records.dirty(None))
    }

    #[inline]
    pub(crate) fn is_above_hard_limit(&self) -> bool {
        is_reached(self.options.dirty.hard, self.records.dirty(None))
    }

    /// Whether the request may make a clean record dirty. One that is dirty already costs SQL no more.
    pub(crate) fn would_dirty_more(&self, request: &Request<'_>) -> bool {
        let is_clean = |row: RowKey<'_>| match self.records.get(row.position(), row) {
            _ if !self.records.is_sql_table(row.table) => false,
            Lookup::Live(view) => view.version == view.sql_version,
            Lookup::Absent { version, sql_version } => version == sql_version,
            Lookup::NotResident => true,
            Lookup::UnknownTable => false,
        };
        match &request.body {
            Body::One(command) => is_clean(command.row),
            Body::Read(_) => false,
            Body::Batch(batch) => batch.commands.iter().any(|item| match item {
                BatchItem::Change(command) => is_clean(command.row),
                BatchItem::Read(_) => false,
            }),
        }
    }
}
