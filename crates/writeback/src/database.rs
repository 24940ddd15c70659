//! The seam between what every database must do and how each one does it. One file per dialect stands behind it.

use std::time::Duration;

use shardine_model::sql::FlushRow;
use shardine_model::{ChangedFields, FieldId, RowKeyBuf, Table, Version};

use crate::drift::Family;
use crate::error::Error;
use crate::job::{Drift, Found, ScanJob};
use crate::owner::{Line, Mark};
use crate::survey::TableFacts;

/// A connection to a server that was not used for so long is asked whether it is still there before a job rests on it.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(1);

/// How long past the server's own limit a statement is waited for, for the way there and back.
pub const GRACE: Duration = Duration::from_millis(500);

/// Makes connections. Shared by the workers, each of which holds one connection at most.
pub(crate) trait Connector: Send + Sync {
    /// Makes what a first connection needs. Never called again: what vanishes later is not replaced by something empty.
    fn prepare(&self) -> Result<(), Error>;
    fn connect(&self, role: Role) -> Result<Box<dyn Database>, Error>;
}

/// What a connection is for. Loads, for which a client waits, must not wait behind flushes or long scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Loader,
    Scanner,
    Writer,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Loader => "sql-loader",
            Self::Scanner => "sql-scanner",
            Self::Writer => "sql-writer",
        }
    }

    /// Whether its connection is one that cannot change anything.
    pub(crate) fn only_reads(self) -> bool {
        match self {
            Self::Loader | Self::Scanner => true,
            Self::Writer => false,
        }
    }
}

/// One connection. After a retryable or fatal error it is dropped and made anew.
pub(crate) trait Database: Send {
    /// Whether this connection still leads to the database of that name. Cheap: asked before every job.
    fn is_in_place(&mut self) -> bool;

    /// Reads at most `limits::LOAD_ROWS_MAX` rows in one statement.
    fn load(&mut self, table: &Table, rows: &[RowKeyBuf]) -> Result<Found, Error>;

    /// Writes all rows in one transaction, or none, each behind the version fence: a row changes only if that raises
    /// |version| (write-back 93, 94). Gives the version that SQL holds afterwards, row by row.
    /// A mark goes with them, and where it may not follow the one that is there, nothing is written.
    fn write(&mut self, table: &Table, rows: &[FlushRow], mark: Option<&Mark>) -> Result<Vec<Version>, Error>;

    /// Changes these fields, and the version, of rows that SQL has, behind the same fence and in one transaction. Gives the
    /// version that SQL holds afterwards, and never for a row that it does not have.
    fn update(
        &mut self,
        table: &Table,
        fields: ChangedFields,
        rows: &[FlushRow],
        mark: Option<&Mark>,
    ) -> Result<Vec<Version>, Error>;

    /// Deletes rows behind the same fence, in one transaction. Gives the version that SQL holds afterwards, which is never
    /// where there is no row.
    fn delete(&mut self, table: &Table, rows: &[FlushRow], mark: Option<&Mark>) -> Result<Vec<Version>, Error>;

    /// Deletes each row that stands at exactly this version, below 0, all in one transaction (write-back 102).
    fn purge(&mut self, table: &Table, rows: &[(RowKeyBuf, Version)]) -> Result<(), Error>;

    /// A page, and the last row looked at if there may be more behind it.
    fn scan(&mut self, job: &ScanJob) -> Result<(Found, Option<RowKeyBuf>), Error>;

    /// The family are the SQL tables to which its foreign keys may lead.
    fn check(&mut self, table: &Table, family: Family<'_>) -> Result<Vec<Drift>, Error>;
    fn create(&mut self, table: &Table) -> Result<(), Error>;

    /// What there is, of whoever's.
    fn survey(&mut self) -> Result<Vec<TableFacts>, Error>;

    fn add_field(&mut self, table: &Table, field: FieldId) -> Result<(), Error>;
    fn drop_table(&mut self, table: &Table) -> Result<(), Error>;

    /// The lines of [`crate::owner::TABLE`]. Without such a table it is an error of the definition.
    fn owners(&mut self) -> Result<Vec<Line>, Error>;

    /// Makes that table if there is none and puts a line in place; if it is to be `alone`, all others go.
    fn claim(&mut self, line: &Line, alone: bool) -> Result<(), Error>;
}

/// The database of `--sql none`: there is none, and whoever asks is told so.
pub(crate) struct Nothing;

impl Connector for Nothing {
    fn prepare(&self) -> Result<(), Error> {
        Ok(())
    }

    fn connect(&self, _role: Role) -> Result<Box<dyn Database>, Error> {
        Err(Error::fatal("there is no SQL database: start with --sql sqlite:PATH, or give the table --backing none"))
    }
}
