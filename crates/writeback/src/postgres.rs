//! PostgreSQL 12 and later, over one connection per worker. The dialect of `docs/sql.md`, "PostgreSQL".
//!
//! The driver is asynchronous and a worker is not: each connection has a small runtime of its own, which runs while a job
//! does. So every wait has a time limit, also when the server is stopped in the middle of a statement.

mod connection;
mod secure;
mod text;
mod schema;
mod survey;
mod write;
mod guest;
mod read;
mod owner;
mod fault;

use std::time::Duration;

use shardine_model::sql::FlushRow;
use shardine_model::{ChangedFields, FieldId, RowKeyBuf, Table, Version};
use tokio_postgres::Config;

use self::connection::Connection;
#[cfg(test)]
pub(crate) use self::text::PostgresText;
use crate::database::{Connector, Database, Role};
use crate::drift::Family;
use crate::error::Error;
use crate::job::{Drift, Found, ScanJob};
use crate::owner::{Line, Mark};
use crate::survey::TableFacts;
use crate::tls::Tls;

pub(crate) struct Postgres {
    pub(crate) config: Config,
    pub(crate) tls: Tls,
    pub(crate) statement_timeout: Duration,
}

impl Connector for Postgres {
    /// A file of certificates that cannot be read will not get better by waiting.
    fn prepare(&self) -> Result<(), Error> {
        self.tls.client().map(drop)
    }

    fn connect(&self, role: Role) -> Result<Box<dyn Database>, Error> {
        Ok(Box::new(Connection::open(&self.config, &self.tls, self.statement_timeout, role)?))
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
