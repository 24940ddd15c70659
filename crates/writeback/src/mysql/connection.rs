//! One connection with its runtime and its clock.

use std::future::Future;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Params, Row, Value};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::Flavour;
use super::fault::classify;
use crate::database::{GRACE, IDLE_MAX, Role};
use crate::error::Error;

/// Statements kept ready by the driver. A table in steady use has up to eleven sizes of write and nine of read.
const STATEMENTS_MAX: usize = 256;

pub(super) struct Connection {
    pub(super) flavour: Flavour,
    runtime: Runtime,
    /// Taken when the connection ends.
    conn: Option<Conn>,
    limit: Duration,
    used: Instant,
}

impl Connection {
    pub(super) fn open(config: &Opts, statement_timeout: Duration, role: Role) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::retryable(format!("cannot start a runtime for SQL: {error}")))?;
        let config = OptsBuilder::from_opts(config.clone()).stmt_cache_size(STATEMENTS_MAX).prefer_socket(false);
        let limit = statement_timeout + GRACE;
        let conn = within(&runtime, limit, Conn::new(config))?;
        let mut connection = Self { flavour: Flavour::Mysql, runtime, conn: Some(conn), limit, used: Instant::now() };
        let version = connection.query("SELECT VERSION()", Vec::new())?;
        let version = version.first().and_then(|row| row.get::<String, _>(0)).unwrap_or_default();
        connection.flavour = if version.contains("MariaDB") { Flavour::MariaDb } else { Flavour::Mysql };
        for setting in settings(connection.flavour, statement_timeout, role) {
            connection.run(&setting)?;
        }
        Ok(connection)
    }

    pub(super) fn is_alive(&mut self) -> bool {
        self.used.elapsed() < IDLE_MAX || self.run("SELECT 1").is_ok()
    }

    /// Runs one statement that nothing is bound to.
    pub(super) fn run(&mut self, statement: &str) -> Result<(), Error> {
        let conn = self.conn.as_mut().expect("until the connection ends");
        let outcome = within(&self.runtime, self.limit, conn.query_drop(statement));
        self.used = Instant::now();
        outcome
    }

    pub(super) fn query(&mut self, text: &str, parameters: Vec<Value>) -> Result<Vec<Row>, Error> {
        let parameters = if parameters.is_empty() { Params::Empty } else { Params::Positional(parameters) };
        let conn = self.conn.as_mut().expect("until the connection ends");
        let rows = within(&self.runtime, self.limit, conn.exec(text, parameters))?;
        self.used = Instant::now();
        Ok(rows)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The driver closes a connection on the runtime it lives in.
        let _inside = self.runtime.enter();
        self.conn = None;
    }
}

fn within<T>(
    runtime: &Runtime,
    limit: Duration,
    work: impl Future<Output = Result<T, mysql_async::Error>>,
) -> Result<T, Error> {
    let outcome = runtime.block_on(async { timeout(limit, work).await });
    let late = |_| Error::retryable(format!("MySQL did not answer within {:.1} s", limit.as_secs_f64()));
    outcome.map_err(late)?.map_err(classify)
}

/// Strict, because a value that is cut to fit would be confirmed and wrong; quotes doubled, never escaped by a backslash.
fn settings(flavour: Flavour, statement_timeout: Duration, role: Role) -> Vec<String> {
    let limit = statement_timeout.as_secs_f64();
    let mut settings = vec![
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_BACKSLASH_ESCAPES'".to_owned(),
        format!("SET SESSION innodb_lock_wait_timeout = {}", (limit / 2.0).ceil().max(1.0)),
        match flavour {
            Flavour::MariaDb => format!("SET SESSION max_statement_time = {limit}"),
            Flavour::Mysql => format!("SET SESSION max_execution_time = {}", statement_timeout.as_millis()),
        },
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned(),
        // `timestamp` columns are told in this zone, and moments are in UTC.
        "SET SESSION time_zone = '+00:00'".to_owned(),
        // A statement alone is a transaction, whatever the server's own setting says.
        "SET SESSION autocommit = 1".to_owned(),
    ];
    if role.only_reads() {
        settings.push("SET SESSION TRANSACTION READ ONLY".to_owned());
    }
    settings
}
