//! What can be asked of the database, and what comes back. A job carries the definition it was made under, so that the
//! outcome does not depend on when a worker gets to it.

use std::sync::Arc;
use std::time::Instant;

use shardine_model::key::Interval;
use shardine_model::sql::{FlushResult, FlushRow};
use shardine_model::{FieldId, RowImage, RowKeyBuf, Table, Version};
use thiserror::Error as ThisError;

use crate::error::Error;
use crate::owner::LogProgress;

/// Names a job among all jobs of one backend. Chosen by whoever submits it, returned with the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub u64);

#[derive(Clone, Debug)]
pub enum Job {
    Load(LoadJob),
    Flush(FlushJob),
    Purge(PurgeJob),
    Scan(Box<ScanJob>),
    Table(TableJob),
}

/// Reads rows of one table by key.
#[derive(Clone, Debug)]
pub struct LoadJob {
    pub ticket: JobId,
    pub table: Arc<Table>,
    /// At most `limits::LOAD_ROWS_MAX` go into one statement; more are read by several.
    pub rows: Vec<RowKeyBuf>,
}

/// Writes the newest state of rows of one table. The caller has coalesced: no row stands twice (write-back 98).
#[derive(Clone, Debug)]
pub struct FlushJob {
    pub ticket: JobId,
    pub table: Arc<Table>,
    /// At most `limits::FLUSH_ROWS_MAX` go into one transaction; more are written by several.
    pub rows: Vec<FlushRow>,
    /// When its turn comes later than this, it is not begun, and after this no further transaction of it (write-back 78).
    pub begin_by: Option<Instant>,
    /// Somebody waits for it, or it has waited for too long: it is written however busy others are.
    pub is_awaited: bool,
    /// Kept in SQL beside the rows, where the backend has an [`crate::Owner`].
    pub progress: LogProgress,
}

/// Deletes tombstones of one table that are old enough, each only if it stands there at exactly this version
/// (write-back 102).
#[derive(Clone, Debug)]
pub struct PurgeJob {
    pub ticket: JobId,
    pub table: Arc<Table>,
    /// All in one transaction.
    pub rows: Vec<(RowKeyBuf, Version)>,
    /// As for a flush.
    pub begin_by: Option<Instant>,
}

/// Reads a page of live rows in order. Tombstones are left out.
#[derive(Clone, Debug)]
pub struct ScanJob {
    pub ticket: JobId,
    pub table: Arc<Table>,
    pub scope: Scope,
    /// The last row that was seen; the page begins behind it.
    pub after: Option<RowKeyBuf>,
    pub rows_max: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All rows whose position lies in the interval, by (position, key, sort).
    Positions(Interval),
    /// Rows of one key by sort key, `[from, to)` as bytes. A bound that is a prefix is resolved by the caller.
    Partition { key: Box<[u8]>, from: Option<Box<[u8]>>, to: Option<Box<[u8]>>, descending: bool },
}

/// Does something to, or asks something about, an SQL table as a whole.
#[derive(Clone, Debug)]
pub struct TableJob {
    pub ticket: JobId,
    /// For `AddField` the definition that already has the field.
    pub table: Arc<Table>,
    /// What SQL calls the tables that this one comes after: its foreign keys may lead there (write-back 107).
    pub parents: Vec<String>,
    /// What SQL calls the tables of others that are mapped here.
    pub mapped: Vec<String>,
    pub change: Change,
}

/// Each may be repeated: it looks first, and acts only on what is missing (records 130).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Compares the SQL table with the definition and changes nothing.
    Check,
    Create,
    AddField(FieldId),
    Drop,
}

impl Job {
    /// Until when it may be begun.
    pub(crate) fn begin_by(&self) -> Option<Instant> {
        match self {
            Self::Flush(job) => job.begin_by,
            Self::Purge(job) => job.begin_by,
            Self::Load(_) | Self::Scan(_) | Self::Table(_) => None,
        }
    }
}

/// The outcome of a job. Every job accepted by `Handle::submit` has exactly one.
#[derive(Clone, Debug, PartialEq)]
pub enum JobOutcome {
    Loaded {
        ticket: JobId,
        found: Found,
    },
    Flushed {
        ticket: JobId,
        rows: Vec<(RowKeyBuf, FlushResult)>,
    },
    /// None of these tombstones stands there any longer, deleted now or before, but for those that rows of other tables
    /// still refer to.
    Purged {
        ticket: JobId,
        kept: Vec<RowKeyBuf>,
    },
    Scanned {
        ticket: JobId,
        found: Found,
        next: Option<RowKeyBuf>,
    },
    /// An empty list means that table and definition agree.
    Checked {
        ticket: JobId,
        drift: Vec<Drift>,
    },
    Created {
        ticket: JobId,
    },
    FieldAdded {
        ticket: JobId,
    },
    Dropped {
        ticket: JobId,
    },
    /// Nothing of the job is known to have happened; of a flush, some rows may have been written.
    Failed {
        ticket: JobId,
        error: Error,
    },
}

/// Rows as SQL holds them. A load names every row that was asked for once, here or there, in the order asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    pub rows: Vec<Loaded>,
    pub quarantined: Vec<Quarantined>,
    /// Fields that were NULL in SQL and were read as their default (records 50).
    pub nulls: u64,
}

/// Version 0 means that SQL has no such row, below 0 that it has a tombstone. Fields at their default are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub row: RowKeyBuf,
    pub version: Version,
    pub fields: RowImage,
}

/// A row that is in SQL but does not fit the definition (records 49). It must not be served or overwritten blindly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    pub row: RowKeyBuf,
    pub message: String,
}

/// One way in which an SQL table differs from its definition.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum Drift {
    #[error("SQL has no table {table}: {remedy}")]
    NoTable { table: String, remedy: String },
    #[error("SQL calls the table {found}, the definition {table}: names that differ only in case are one table in SQL")]
    OtherCase { table: String, found: String },
    #[error("table {table} has no column {column}: {remedy}")]
    NoColumn { table: String, column: String, remedy: String },
    #[error("column {table}.{column} is {found} in SQL, the definition needs {expected}")]
    OtherType { table: String, column: String, expected: String, found: String },
    #[error("column {table}.{column} is NOT NULL in SQL, and the field may be NULL: define it without the ?")]
    NotNull { table: String, column: String },
    #[error("the primary key of table {table} is ({found}) in SQL, Shardine needs ({expected})")]
    OtherPrimaryKey { table: String, expected: String, found: String },
    #[error(
        "table {table} has the foreign key {name} to {parent}, and does not say that it comes after it: map {parent} too, and this one with --after"
    )]
    ForeignKey { table: String, name: String, parent: String },
    #[error(
        "the foreign key {name} of table {table} changes or deletes rows by itself (ON DELETE or ON UPDATE), which would escape Shardine: make it NO ACTION"
    )]
    Cascade { table: String, name: String },
    #[error(
        "the key column {table}.{column} compares texts by {collation}, for which different keys may be one: use a binary collation"
    )]
    Collation { table: String, column: String, collation: String },
    #[error(
        "column {table}.{column} is NOT NULL without a default, and the definition does not have it: give it a default"
    )]
    Unfilled { table: String, column: String },
}

impl Job {
    #[must_use]
    pub fn ticket(&self) -> JobId {
        match self {
            Self::Load(job) => job.ticket,
            Self::Flush(job) => job.ticket,
            Self::Purge(job) => job.ticket,
            Self::Scan(job) => job.ticket,
            Self::Table(job) => job.ticket,
        }
    }

    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        match self {
            Self::Load(job) => &job.table,
            Self::Flush(job) => &job.table,
            Self::Purge(job) => &job.table,
            Self::Scan(job) => &job.table,
            Self::Table(job) => &job.table,
        }
    }
}

impl Job {
    pub(crate) fn as_load(&self) -> Option<&LoadJob> {
        if let Self::Load(load) = self { Some(load) } else { None }
    }

    pub(crate) fn into_load(self) -> Option<LoadJob> {
        if let Self::Load(load) = self { Some(load) } else { None }
    }
}

impl JobOutcome {
    #[must_use]
    pub fn ticket(&self) -> JobId {
        match self {
            Self::Loaded { ticket, .. }
            | Self::Flushed { ticket, .. }
            | Self::Purged { ticket, .. }
            | Self::Scanned { ticket, .. }
            | Self::Checked { ticket, .. }
            | Self::Created { ticket }
            | Self::FieldAdded { ticket }
            | Self::Dropped { ticket }
            | Self::Failed { ticket, .. } => *ticket,
        }
    }
}
