//! The lock table in SQLite: for servers that share one machine.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};
use tokio::sync::oneshot;

use super::store::{Error, Holder, Store};
use super::table::{Table, Unheard, fits, signed_micros, tell_of_lost_claim, tell_of_missing_rows};
use crate::core::shard::Hold;
use crate::server::Identity;

/// A lock table in a file. Writers wait for each other's transactions, which are short; there are no rows to pass over.
#[derive(Clone, Debug)]
pub struct SqliteTable {
    path: PathBuf,
    table: Table,
    kept: Arc<Mutex<Option<Connection>>>,
    unheard: Unheard,
}

/// How long a writer waits for another one.
const BUSY: Duration = Duration::from_secs(5);

/// Microseconds since 1970 on the machine's clock, which is the database's.
const NOW: &str = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";

impl SqliteTable {
    /// The table in the file at `path`.
    pub fn new(path: impl Into<PathBuf>, table: Table) -> Self {
        Self { path: path.into(), table, kept: Arc::default(), unheard: Unheard::default() }
    }

    /// Makes the table and the rows of a data centre, where they are missing.
    pub async fn prepare(&self, dc: &str) -> Result<(), Error> {
        let (name, dc, shards) = (self.table.quoted(), dc.to_owned(), self.table.shards);
        fits(STORE, &Identity::new(&dc, ""))?;
        let may_create = OpenFlags::default();
        self.transact(may_create, TransactionBehavior::Immediate, move |transaction| {
            transaction.execute_batch(&format!(
                "CREATE TABLE IF NOT EXISTS {name} (dc TEXT NOT NULL, shard INTEGER NOT NULL, \
                 host TEXT NOT NULL DEFAULT '', locked_time INTEGER, last_ping INTEGER NOT NULL DEFAULT 0, \
                 generation INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (dc, shard))"
            ))?;
            fill(transaction, &name, &dc, shards)
        })
        .await
    }

    /// Runs a transaction that begins with the right to write.
    async fn run<V: Send + 'static>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<V> + Send + 'static,
    ) -> Result<V, Error> {
        self.transact(existing(), TransactionBehavior::Immediate, act).await
    }

    /// Runs a transaction on a thread that may wait. Only [`SqliteTable::prepare`] makes a file: whoever looks into the wrong
    /// directory is to hear so.
    async fn transact<V: Send + 'static>(
        &self,
        flags: OpenFlags,
        behavior: TransactionBehavior,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<V> + Send + 'static,
    ) -> Result<V, Error> {
        let (path, kept) = (self.path.clone(), Arc::clone(&self.kept));
        // A thread cannot be called back. What it has not begun when nobody waits for it any more is left undone, or a file
        // that was locked for a while would be written to again and again for answers that nobody hears.
        let (caller, _waiting) = oneshot::channel::<()>();
        let work = move || -> rusqlite::Result<V> {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if caller.is_closed() {
                return Err(rusqlite::Error::StatementChangedRows(0));
            }
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => {
                    let connection = Connection::open_with_flags(path, flags)?;
                    connection.busy_timeout(BUSY)?;
                    connection
                }
            };
            let transaction = connection.transaction_with_behavior(behavior)?;
            let value = act(&transaction)?;
            transaction.commit()?;
            *kept = Some(connection);
            Ok(value)
        };
        let done = tokio::task::spawn_blocking(work).await.map_err(|cause| Error::new(STORE, cause))?;
        done.map_err(|cause| Error::new(STORE, cause))
    }
}

const STORE: &str = "SQLite";

fn existing() -> OpenFlags {
    OpenFlags::default() - OpenFlags::SQLITE_OPEN_CREATE
}

/// Makes the rows of a data centre that are missing.
fn fill(transaction: &Transaction<'_>, name: &str, dc: &str, shards: u32) -> rusqlite::Result<()> {
    let mut fill =
        transaction.prepare(&format!("INSERT INTO {name} (dc, shard) VALUES (?1, ?2) ON CONFLICT DO NOTHING"))?;
    (0..shards).try_for_each(|shard| fill.execute(params![dc, shard]).map(drop))
}

/// Changes the row of a claim; false if it is not this claim's any more.
fn change(transaction: &Transaction<'_>, name: &str, set: &str, who: &Identity, hold: Hold) -> rusqlite::Result<bool> {
    let statement = format!("UPDATE {name} SET {set} WHERE dc = ?1 AND shard = ?2 AND host = ?3 AND generation = ?4");
    Ok(transaction.execute(&statement, params![who.dc, hold.shard, who.host, signed(hold.generation)])? == 1)
}

/// Makes a claim anew that the table does not know any more, unless somebody else's is proven, or it was given back. One under
/// this server's name is not somebody else's while an answer is unheard.
fn claim_again(
    transaction: &Transaction<'_>,
    table: &Table,
    who: &Identity,
    hold: Hold,
    unheard: &Unheard,
) -> rusqlite::Result<Option<Hold>> {
    let name = table.quoted();
    let or_own = if unheard.ask() { "OR host = ?3" } else { "" };
    let fill = format!("INSERT INTO {name} (dc, shard) VALUES (?1, ?2) ON CONFLICT DO NOTHING");
    transaction.execute(&fill, params![who.dc, hold.shard])?;
    let take = format!(
        "UPDATE {name} SET host = ?3, locked_time = {NOW}, last_ping = {NOW}, generation = max(generation, ?4) + 1 \
         WHERE dc = ?1 AND shard = ?2 AND (last_ping < {NOW} - ?5 {or_own}) AND (host <> ?3 OR last_ping > 0) RETURNING generation"
    );
    let row = params![who.dc, hold.shard, who.host, signed(hold.generation), signed_micros(table.timeout)];
    let taken = transaction.query_row(&take, row, |row| row.get::<_, i64>(0)).optional()?;
    Ok(taken.map(|generation| {
        tell_of_lost_claim(table, who, hold);
        Hold { generation: generation.unsigned_abs(), ..hold }
    }))
}

fn signed(generation: u64) -> i64 {
    i64::try_from(generation).unwrap_or(i64::MAX)
}

impl Store for SqliteTable {
    fn timeout(&self) -> Duration {
        self.table.timeout
    }

    async fn claim(&self, who: &Identity) -> Result<Option<Hold>, Error> {
        let take = format!(
            "UPDATE {0} SET host = ?2, locked_time = {NOW}, last_ping = {NOW}, generation = generation + 1 \
             WHERE dc = ?1 AND shard = (SELECT shard FROM {0} WHERE dc = ?1 AND shard >= 0 AND shard < ?4 \
             AND (host = ?2 OR last_ping < {NOW} - ?3) ORDER BY (host = ?2) DESC, last_ping, shard LIMIT 1) \
             RETURNING shard, generation",
            self.table.quoted()
        );
        fits(STORE, who)?;
        let count = format!("SELECT count(*) FROM {} WHERE dc = ?1 AND shard >= 0 AND shard < ?2", self.table.quoted());
        let (who, timeout, table) = (who.clone(), signed_micros(self.table.timeout), self.table.clone());
        let is_unheard = self.unheard.ask();
        let taken = self
            .run(move |transaction| {
                let hold = |row: &rusqlite::Row<'_>| {
                    Ok(Hold { shard: row.get(0)?, generation: row.get::<_, i64>(1)?.unsigned_abs() })
                };
                let take_one =
                    || transaction.query_row(&take, params![who.dc, who.host, timeout, table.shards], hold).optional();
                if let Some(taken) = take_one()? {
                    return Ok(Some(taken));
                }
                let rows: i64 = transaction.query_row(&count, params![who.dc, table.shards], |row| row.get(0))?;
                if rows >= i64::from(table.shards) {
                    return Ok(None);
                }
                tell_of_missing_rows(&table, &who.dc, rows);
                fill(transaction, &table.quoted(), &who.dc, table.shards)?;
                take_one()
            })
            .await?;
        self.unheard.heard(is_unheard);
        Ok(taken)
    }

    async fn renew(&self, who: &Identity, hold: Hold) -> Result<Option<Hold>, Error> {
        let (who, table, unheard) = (who.clone(), self.table.clone(), self.unheard.clone());
        let held = self
            .run(move |transaction| {
                match change(transaction, &table.quoted(), &format!("last_ping = {NOW}"), &who, hold)? {
                    true => Ok(Some(hold)),
                    false => claim_again(transaction, &table, &who, hold, &unheard),
                }
            })
            .await?;
        self.unheard.heard(false);
        Ok(held)
    }

    async fn release(&self, who: &Identity, hold: Hold) -> Result<(), Error> {
        let (who, name) = (who.clone(), self.table.quoted());
        let free = "last_ping = 0, generation = generation + 1";
        self.run(move |transaction| change(transaction, &name, free, &who, hold).map(drop)).await
    }

    async fn holders(&self) -> Result<Vec<Holder>, Error> {
        let list = format!(
            "SELECT dc, shard, host, generation FROM {} WHERE host <> '' AND shard >= 0 \
             AND last_ping >= {NOW} - ?1 ORDER BY dc, shard",
            self.table.quoted()
        );
        let timeout = signed_micros(self.table.timeout);
        // Only reads, so it waits for no writer.
        self.transact(existing(), TransactionBehavior::Deferred, move |transaction| {
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
