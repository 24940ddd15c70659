//! One connection with its runtime, its prepared statements and its clock.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, Socket, Statement};

use super::fault::classify;
use super::secure::Secure;
use crate::database::{GRACE, IDLE_MAX, Role};
use crate::error::Error;
use crate::tls::{Mode, Tls};

/// Statements kept ready. Past it all are let go: a table in steady use has three.
const STATEMENTS_MAX: usize = 256;

pub(super) struct Connection {
    runtime: Runtime,
    client: Client,
    statements: HashMap<String, Statement>,
    limit: Duration,
    used: Instant,
}

pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Connection {
    pub(super) fn open(config: &Config, tls: &Tls, statement_timeout: Duration, role: Role) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::retryable(format!("cannot start a runtime for SQL: {error}")))?;
        let limit = statement_timeout + GRACE;
        let client = match tls.mode {
            Mode::Disable => connect(&runtime, config, NoTls, limit)?,
            Mode::Require | Mode::VerifyFull => connect(&runtime, config, Secure(Arc::new(tls.client()?)), limit)?,
        };
        let mut connection = Self { runtime, client, statements: HashMap::new(), limit, used: Instant::now() };
        connection.run(&settings(statement_timeout, role))?;
        Ok(connection)
    }

    pub(super) fn is_alive(&mut self) -> bool {
        !self.client.is_closed() && (self.used.elapsed() < IDLE_MAX || self.run("SELECT 1").is_ok())
    }

    /// Runs statements without parameters, several in one go as one transaction.
    pub(super) fn run(&mut self, statements: &str) -> Result<(), Error> {
        let client = &self.client;
        let outcome = within(&self.runtime, self.limit, async { client.batch_execute(statements).await });
        self.used = Instant::now();
        outcome
    }

    pub(super) fn query(&mut self, text: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, Error> {
        let known = self.statements.get(text).cloned();
        let client = &self.client;
        let (statement, rows) = within(&self.runtime, self.limit, async {
            let statement = match known {
                Some(statement) => statement,
                None => client.prepare(text).await?,
            };
            let rows = client.query(&statement, parameters).await;
            rows.map(|rows| (statement, rows))
        })
        .inspect_err(|_| {
            // A table that was changed or made again: the next try prepares anew.
            self.statements.remove(text);
        })?;
        if self.statements.len() >= STATEMENTS_MAX {
            self.statements.clear();
        }
        self.statements.entry(text.to_owned()).or_insert(statement);
        self.used = Instant::now();
        Ok(rows)
    }
}

/// Connects, and lets the connection run on this runtime.
fn connect<T>(runtime: &Runtime, config: &Config, tls: T, limit: Duration) -> Result<Client, Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let connected = runtime.block_on(async { timeout(limit, config.connect(tls)).await });
    let (client, connection) = connected.map_err(|_| late("the connection", limit))?.map_err(classify)?;
    runtime.spawn(async move {
        // Its end shows as a closed client.
        let _ = connection.await;
    });
    Ok(client)
}

fn within<T>(
    runtime: &Runtime,
    limit: Duration,
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Error> {
    let outcome = runtime.block_on(async { timeout(limit, work).await });
    outcome.map_err(|_| late("the answer", limit))?.map_err(classify)
}

fn late(what: &str, limit: Duration) -> Error {
    Error::retryable(format!("{what} of PostgreSQL did not come within {:.1} s", limit.as_secs_f64()))
}

/// `synchronous_commit` is raised where somebody turned it off, because `Written` is a promise; a stronger setting stays.
fn settings(statement_timeout: Duration, role: Role) -> String {
    let limit = statement_timeout.as_millis();
    // Only ever switched on: an operator who made the database read-only is not to be overruled.
    let read_only = if role.only_reads() { "SET default_transaction_read_only = on; " } else { "" };
    format!(
        "SET statement_timeout = {limit}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {limit}; \
         SET standard_conforming_strings = on; SET client_encoding = 'UTF8'; SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; \
         {read_only}\
         SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
        limit / 2
    )
}
