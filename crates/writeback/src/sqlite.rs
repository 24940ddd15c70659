//! SQLite: one file, one writing connection, one reading connection. The dialect of `docs/sql.md`, "SQLite".
//!
//! The library is part of the binary (3.54), so nothing here asks for its version. WAL lets reads and the one writer
//! pass each other; `synchronous=FULL` makes a commit last through a power cut, because `Written` is a promise.

mod text;
mod schema;
mod survey;
mod write;
mod guest;
mod read;
mod scan;
mod identity;
mod owner;
mod fault;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use shardine_model::sql::FlushRow;
use shardine_model::{ChangedFields, FieldId, RowKeyBuf, Table, Version};

use self::fault::classify;
use self::identity::Identity;
pub(crate) use self::survey::survey;
#[cfg(test)]
pub(crate) use self::text::SqliteText;
use crate::database::{Connector, Database, Role};
use crate::drift::Family;
use crate::error::Error;
use crate::job::{Drift, Found, ScanJob};
use crate::owner::{Line, Mark};
use crate::survey::TableFacts;

/// Statements kept ready per connection. A table in steady use has one upsert and up to nine sizes of read.
const STATEMENTS_MAX: usize = 256;

/// Page cache per connection in KiB. Hashed keys fall on random pages; SQLite's own 2 MB would be read again and again.
const PAGE_CACHE_KIB: i64 = 16 << 10;

pub(crate) struct Sqlite {
    pub(crate) path: PathBuf,
    pub(crate) busy_timeout: Duration,
}

impl Connector for Sqlite {
    fn prepare(&self) -> Result<(), Error> {
        open(&self.path, OpenFlags::SQLITE_OPEN_CREATE, self.busy_timeout).map(drop)
    }

    fn connect(&self, role: Role) -> Result<Box<dyn Database>, Error> {
        Ok(Box::new(File::open(&self.path, self.busy_timeout, role)?))
    }
}

/// One connection to the file.
struct File {
    connection: Connection,
    path: PathBuf,
    /// What the path led to when it was opened.
    identity: Identity,
}

impl File {
    fn open(path: &Path, busy_timeout: Duration, role: Role) -> Result<Self, Error> {
        // Looked at before it is opened: a file that is put in its place in between is then noticed at the first job.
        let identity = Identity::of(path).map_err(|error| {
            let remedy = "restore it; or restart, which makes an empty one, and have its tables made again with \
                          `shardine table create NAME`";
            Error::retryable(in_file(path, &format!("{error}: {remedy}")))
        })?;
        let connection = open(path, OpenFlags::empty(), busy_timeout)?;
        let restrict = connection.pragma_update(None, "query_only", role.only_reads());
        restrict.map_err(classify)?;
        Ok(Self { connection, path: path.to_owned(), identity })
    }
}

fn open(path: &Path, extra: OpenFlags, busy_timeout: Duration) -> Result<Connection, Error> {
    let open = || -> rusqlite::Result<(Connection, String)> {
        // A connection never leaves its worker, so SQLite's own lock around every call would only cost.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | extra;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(busy_timeout)?;
        // Else a quoted column that is missing would be read as a text of its own name.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -PAGE_CACHE_KIB)?;
        Ok((connection, mode))
    };
    match open().map_err(classify) {
        Ok((connection, mode)) if mode == "wal" => Ok(connection),
        Ok((_, mode)) => Err(Error::fatal(in_file(path, &format!("needs a write-ahead log, and the log is {mode}")))),
        Err(Error { class, message }) => Err(Error { class, message: in_file(path, &message) }),
    }
}

fn in_file(path: &Path, message: &str) -> String {
    format!("SQLite file {}: {message}", path.display())
}

impl Database for File {
    /// Rows written to a file that was deleted or moved away would be confirmed and gone.
    fn is_in_place(&mut self) -> bool {
        Identity::of(&self.path).is_ok_and(|found| found == self.identity)
    }

    fn load(&mut self, table: &Table, rows: &[RowKeyBuf]) -> Result<Found, Error> {
        read::load(&self.connection, table, rows)
    }

    fn write(&mut self, table: &Table, rows: &[FlushRow], mark: Option<&Mark>) -> Result<Vec<Version>, Error> {
        write::write(&mut self.connection, table, rows, mark)
    }

    fn update(
        &mut self,
        table: &Table,
        fields: ChangedFields,
        rows: &[FlushRow],
        mark: Option<&Mark>,
    ) -> Result<Vec<Version>, Error> {
        guest::update(&mut self.connection, table, fields, rows, mark)
    }

    fn delete(&mut self, table: &Table, rows: &[FlushRow], mark: Option<&Mark>) -> Result<Vec<Version>, Error> {
        guest::delete(&mut self.connection, table, rows, mark)
    }

    fn purge(&mut self, table: &Table, rows: &[(RowKeyBuf, Version)]) -> Result<(), Error> {
        write::purge(&mut self.connection, table, rows)
    }

    fn scan(&mut self, job: &ScanJob) -> Result<(Found, Option<RowKeyBuf>), Error> {
        scan::scan(&self.connection, job)
    }

    fn check(&mut self, table: &Table, family: Family<'_>) -> Result<Vec<Drift>, Error> {
        schema::check(&self.connection, table, family)
    }

    fn create(&mut self, table: &Table) -> Result<(), Error> {
        schema::create(&mut self.connection, table)
    }

    fn survey(&mut self) -> Result<Vec<TableFacts>, Error> {
        survey::survey(&self.path)
    }

    fn add_field(&mut self, table: &Table, field: FieldId) -> Result<(), Error> {
        schema::add_field(&mut self.connection, table, field)
    }

    fn drop_table(&mut self, table: &Table) -> Result<(), Error> {
        schema::drop_table(&mut self.connection, table)
    }

    fn owners(&mut self) -> Result<Vec<Line>, Error> {
        owner::lines(&self.connection)
    }

    fn claim(&mut self, line: &Line, alone: bool) -> Result<(), Error> {
        owner::claim(&mut self.connection, line, alone)
    }
}
