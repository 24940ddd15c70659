//! Words that shards and whoever writes to SQL for them have in common: a row to be written, what became of it, and what kind
//! of trouble there was.

use std::fmt;

use crate::key::RowKeyBuf;
use crate::row::{ChangedFields, RowImage};
use crate::version::Version;

/// The newest state of a row, to be written to SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlushRow {
    pub row: RowKeyBuf,
    pub version: Version,
    /// The whole row; a field that is missing has its default. Not looked at under a tombstone's version.
    pub fields: RowImage,
    /// What changed since SQL has a version of the row, where somebody keeps count: a table that SQL shares with others. All,
    /// where SQL has none.
    pub changed: ChangedFields,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlushResult {
    /// SQL holds exactly this version, written now or before.
    Written,
    /// SQL holds another version that the fence protects: changed behind our back, or by a later leader (write-back 117). Never:
    /// somebody has deleted the row of which a change was to be written.
    Newer(Version),
    /// SQL will not take this row, in SQL's words (write-back 113).
    Refused(String),
    /// SQL will take it once another table has the row that this one refers to (write-back 107).
    Orphan(String),
}

/// What kind of trouble SQL had. The class alone decides what the shard does next (write-back 112).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Passes by itself: busy, locked, unreachable, read-only, disk full. All tables of the database wait, longer and longer.
    Retryable,
    /// The SQL table is not what the definition says. That table waits: trying again helps only after somebody changed one
    /// of them.
    Definition,
    /// This one row is refused; others are not concerned.
    Row,
    /// This one row is refused because of a row of another table, which is not there yet or is still there.
    ForeignKey,
    /// Not ours to mend: no permission, a damaged file, no database at all. That table waits long, and the operator is told.
    Fatal,
    /// The database is another cluster's, or has seen more of this one than this node has: nothing is written, and the
    /// operator is told.
    Foreign,
    /// SQL was not asked, because too many jobs wait for it or its time was over before its turn came, or it was asked for a
    /// part only: nothing is learned about the database.
    Busy,
}

impl Class {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Retryable => "retryable",
            Self::Definition => "definition",
            Self::Row => "row",
            Self::ForeignKey => "foreign key",
            Self::Fatal => "fatal",
            Self::Foreign => "foreign",
            Self::Busy => "busy",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
