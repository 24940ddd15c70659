//! The lock table in SQLite: for servers that share one machine.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::store::{Error, Holder, Store};
use super::table::{Table, signed_micros};
use crate::core::shard::Hold;
use crate::server::Identity;

/// A lock table in a file. Writers wait for each other's transactions, which are short; there are no rows to pass over.
#[derive(Clone, Debug)]
pub struct SqliteTable {
    path: PathBuf,
    table: Table,
    kept: Arc<Mutex<Option<Connection>>>,
}

/// How long a writer waits for another one.
const BUSY: Duration = Duration::from_secs(5);

/// Microseconds since 1970 on the machine's clock, which is the database's.
const NOW: &str = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";

impl SqliteTable {
    pub fn new(path: impl Into<PathBuf>, table: Table) -> Self {
        Self { path: path.into(), table, kept: Arc::default() }
    }

    /// Makes the table and the rows of a data centre, where they are missing.
    pub async fn prepare(&self, dc: &str) -> Result<(), Error> {
        let (name, dc, shards) = (self.table.quoted(), dc.to_owned(), self.table.shards);
        self.run(move |transaction| {
            transaction.execute_batch(&format!(
                "CREATE TABLE IF NOT EXISTS {name} (dc TEXT NOT NULL, shard INTEGER NOT NULL, \
                 host TEXT NOT NULL DEFAULT '', locked_time INTEGER, last_ping INTEGER NOT NULL DEFAULT 0, \
                 generation INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (dc, shard))"
            ))?;
            let mut fill = transaction
                .prepare(&format!("INSERT INTO {name} (dc, shard) VALUES (?1, ?2) ON CONFLICT DO NOTHING"))?;
            (0..shards).try_for_each(|shard| fill.execute(params![dc, shard]).map(drop))
        })
        .await
    }

    /// Runs a transaction that begins with the right to write, on a thread that may wait.
    async fn run<V: Send + 'static>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<V> + Send + 'static,
    ) -> Result<V, Error> {
        let (path, kept) = (self.path.clone(), Arc::clone(&self.kept));
        let work = move || -> rusqlite::Result<V> {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => {
                    let connection = Connection::open(path)?;
                    connection.busy_timeout(BUSY)?;
                    connection
                }
            };
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = act(&transaction)?;
            transaction.commit()?;
            *kept = Some(connection);
            Ok(value)
        };
        let done = tokio::task::spawn_blocking(work).await.map_err(|cause| Error::new(STORE, cause))?;
        done.map_err(|cause| Error::new(STORE, cause))
    }

    /// Changes the row of a claim; false if it is not this claim's any more.
    async fn change(&self, set: &str, who: &Identity, hold: Hold) -> Result<bool, Error> {
        let statement = format!(
            "UPDATE {} SET {set} WHERE dc = ?1 AND shard = ?2 AND host = ?3 AND generation = ?4",
            self.table.quoted()
        );
        let (who, generation) = (who.clone(), signed(hold.generation));
        self.run(move |transaction| {
            Ok(transaction.execute(&statement, params![who.dc, hold.shard, who.host, generation])? == 1)
        })
        .await
    }
}

const STORE: &str = "SQLite";

fn signed(generation: u64) -> i64 {
    i64::try_from(generation).unwrap_or(i64::MAX)
}

impl Store for SqliteTable {
    async fn claim(&self, who: &Identity, timeout: Duration) -> Result<Option<Hold>, Error> {
        let take = format!(
            "UPDATE {0} SET host = ?2, locked_time = {NOW}, last_ping = {NOW}, generation = generation + 1 \
             WHERE dc = ?1 AND shard = (SELECT shard FROM {0} WHERE dc = ?1 AND shard < ?4 \
             AND (host = ?2 OR last_ping < {NOW} - ?3) ORDER BY (host = ?2) DESC, last_ping, shard LIMIT 1) \
             RETURNING shard, generation",
            self.table.quoted()
        );
        let (who, timeout, shards) = (who.clone(), signed_micros(timeout), self.table.shards);
        self.run(move |transaction| {
            let hold = |row: &rusqlite::Row<'_>| {
                Ok(Hold { shard: row.get(0)?, generation: row.get::<_, i64>(1)?.unsigned_abs() })
            };
            transaction.query_row(&take, params![who.dc, who.host, timeout, shards], hold).optional()
        })
        .await
    }

    async fn renew(&self, who: &Identity, hold: Hold) -> Result<bool, Error> {
        self.change(&format!("last_ping = {NOW}"), who, hold).await
    }

    async fn release(&self, who: &Identity, hold: Hold) -> Result<(), Error> {
        self.change("last_ping = 0, generation = generation + 1", who, hold).await.map(drop)
    }

    async fn holders(&self) -> Result<Vec<Holder>, Error> {
        let list = format!(
            "SELECT dc, shard, host, generation FROM {} WHERE host <> '' AND last_ping >= {NOW} - ?1 ORDER BY dc, shard",
            self.table.quoted()
        );
        let timeout = signed_micros(self.table.timeout);
        self.run(move |transaction| {
            let mut list = transaction.prepare(&list)?;
            let holder = |row: &rusqlite::Row<'_>| {
                let generation = row.get::<_, i64>(3)?.unsigned_abs();
                Ok(Holder { dc: row.get(0)?, shard: row.get(1)?, host: row.get(2)?, generation })
            };
            list.query_map([timeout], holder)?.collect()
        })
        .await
    }
}
