//! MySQL 8 and MariaDB 10.5 and later, over one connection per worker. The dialect of `docs/sql.md`, "MySQL and MariaDB".
//!
//! The two are one dialect with a few words of difference (write-back 97); the server says which it is when a
//! connection is made. As for PostgreSQL, each connection has a small runtime of its own, so every wait has a limit.

mod connection;
mod text;
mod schema;
mod survey;
mod write;
mod guest;
mod read;
mod owner;
mod fault;

use std::time::Duration;

use mysql_async::Opts;
use shardine_model::sql::FlushRow;
use shardine_model::{ChangedFields, FieldId, RowKeyBuf, Table, Version};

use self::connection::Connection;
#[cfg(test)]
pub(crate) use self::text::MysqlText;
use crate::database::{Connector, Database, Role};
use crate::drift::Family;
use crate::error::Error;
use crate::job::{Drift, Found, ScanJob};
use crate::owner::{Line, Mark};
use crate::survey::TableFacts;
use crate::tls::Tls;

pub(crate) struct Mysql {
    pub(crate) config: Opts,
    pub(crate) tls: Tls,
    pub(crate) statement_timeout: Duration,
}

/// Whose words to use where the two differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavour {
    Mysql,
    MariaDb,
}

impl Connector for Mysql {
    /// A file of certificates that cannot be read will not get better by waiting.
    fn prepare(&self) -> Result<(), Error> {
        self.tls.client().map(drop)
    }

    fn connect(&self, role: Role) -> Result<Box<dyn Database>, Error> {
        Ok(Box::new(Connection::open(&self.config, self.statement_timeout, role)?))
    }
}

impl Database for Connection {
    fn is_in_place(&mut self) -> bool {
        self.is_alive()
    }

    fn load(&mut self, table: &Table, rows: &[RowKeyBuf]) -> Result<Found, Error> {
        read::load(self, table, rows)
    }

    fn write(&mut self, table: &Table, rows: &[FlushRow], mark: Option<&Mark>) -> Result<Vec<Version>, Error> {
        write::write(self, table, rows, mark)
    }

    fn update(
        &mut self,
        table: &Table,
        fields: ChangedFields,
        rows: &[FlushRow],
        mark: Option<&Mark>,
    ) -> Result<Vec<Version>, Error> {
        guest::update(self, table, fields, rows, mark)
    }

    fn delete(&mut self, table: &Table, rows: &[FlushRow], mark: Option<&Mark>) -> Result<Vec<Version>, Error> {
        guest::delete(self, table, rows, mark)
    }

    fn purge(&mut self, table: &Table, rows: &[(RowKeyBuf, Version)]) -> Result<(), Error> {
        write::purge(self, table, rows)
    }

    fn scan(&mut self, job: &ScanJob) -> Result<(Found, Option<RowKeyBuf>), Error> {
        read::scan(self, job)
    }

    fn check(&mut self, table: &Table, family: Family<'_>) -> Result<Vec<Drift>, Error> {
        schema::check(self, table, family)
    }

    fn create(&mut self, table: &Table) -> Result<(), Error> {
        schema::create(self, table)
    }

    fn survey(&mut self) -> Result<Vec<TableFacts>, Error> {
        survey::survey(self)
    }

    fn add_field(&mut self, table: &Table, field: FieldId) -> Result<(), Error> {
        schema::add_field(self, table, field)
    }

    fn drop_table(&mut self, table: &Table) -> Result<(), Error> {
        schema::drop_table(self, table)
    }

    fn owners(&mut self) -> Result<Vec<Line>, Error> {
        owner::lines(self)
    }

    fn claim(&mut self, line: &Line, alone: bool) -> Result<(), Error> {
        owner::claim(self, line, alone)
    }
}
