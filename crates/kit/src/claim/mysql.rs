//! The lock table in MySQL and MariaDB.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, IsolationLevel, Opts, TxOpts, Value, params};
use tokio::sync::Mutex;

use super::store::{Error, Holder, Store};
use super::table::{
    DC_CHARS_MAX, HOST_CHARS_MAX, Table, Unheard, fits, signed_micros, tell_of_lost_claim, tell_of_missing_rows,
};
use crate::core::shard::Hold;
use crate::server::Identity;

/// A lock table in MySQL 8 or MariaDB 10.6, which are the first that pass over locked rows. On one connection, that is made
/// again when it is lost: a stock server has 151 for all, and every server of the service needs its own.
#[derive(Clone, Debug)]
pub struct MysqlTable {
    options: Opts,
    table: Table,
    /// One request at a time; taken out while it runs, so that a request that was given up leaves no half-used connection.
    kept: Arc<Mutex<Option<Conn>>>,
    unheard: Unheard,
}

impl MysqlTable {
    /// The table at `mysql://USER:PASSWORD@HOST:PORT/DATABASE`.
    ///
    /// # Errors
    ///
    /// If that is no URL of a MySQL database.
    pub fn new(url: &str, table: Table) -> Result<Self, Error> {
        let options = Opts::from_url(url).map_err(|cause| Error::new(NAME, cause))?;
        Ok(Self::with_options(options, table))
    }

    /// The same with the driver's own settings (TLS, say).
    #[must_use]
    pub fn with_options(options: Opts, table: Table) -> Self {
        Self { options, table, kept: Arc::default(), unheard: Unheard::default() }
    }

    /// Makes the table and the rows of a data centre, where they are missing.
    ///
    /// # Errors
    ///
    /// If the database does not answer, or the name is longer than its column.
    pub async fn prepare(&self, dc: &str) -> Result<(), Error> {
        fits(NAME, &Identity::new(dc, ""))?;
        let make = format!(
            "CREATE TABLE IF NOT EXISTS {} (dc varchar({DC_CHARS_MAX}) NOT NULL, shard bigint NOT NULL, \
             host varchar({HOST_CHARS_MAX}) NOT NULL DEFAULT '', locked_time datetime(6), \
             last_ping datetime(6) NOT NULL DEFAULT '1970-01-01', generation bigint NOT NULL DEFAULT 0, \
             PRIMARY KEY (dc, shard)) ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            self.table.backticked()
        );
        self.run(async |connection| {
            connection.query_drop(make).await?;
            self.fill(connection, dc).await
        })
        .await
    }

    /// Does one thing on the connection, which is kept only if that went well.
    async fn run<V>(&self, act: impl AsyncFnOnce(&mut Conn) -> Outcome<V>) -> Result<V, Error> {
        let mut kept = self.kept.lock().await;
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => Conn::new(self.options.clone()).await.map_err(error)?,
        };
        let value = act(&mut connection).await.map_err(error)?;
        *kept = Some(connection);
        Ok(value)
    }

    /// Makes the rows of a data centre that are missing.
    async fn fill(&self, connection: &mut Conn, dc: &str) -> Outcome<()> {
        let fill = format!("INSERT IGNORE INTO {} (dc, shard) VALUES (?, ?)", self.table.backticked());
        connection.exec_batch(fill, (0..self.table.shards).map(|shard| (dc, shard))).await
    }

    /// Whether a row of the data centre is missing.
    async fn is_short(&self, connection: &mut Conn, dc: &str) -> Outcome<bool> {
        let count =
            format!("SELECT count(*) FROM {} WHERE dc = ? AND shard >= 0 AND shard < ?", self.table.backticked());
        let rows: i64 = connection.exec_first(count, (dc, self.table.shards)).await?.unwrap_or_default();
        let is_short = rows < i64::from(self.table.shards);
        if is_short {
            tell_of_missing_rows(&self.table, dc, rows);
        }
        Ok(is_short)
    }

    /// The best of the shards that may be taken and that nobody else takes meanwhile.
    async fn take_one(&self, connection: &mut Conn, who: &Identity) -> Outcome<Option<Hold>> {
        for shard in self.free(connection, who).await? {
            // Unless somebody else is taking it, or has.
            let lock = format!("{MAY_TAKE} FOR UPDATE SKIP LOCKED");
            if let Some(hold) = self.take(connection, who, Hold { shard, generation: 0 }, &lock).await? {
                return Ok(Some(hold));
            }
        }
        Ok(None)
    }

    /// The shards that may be taken, best first. Nothing is locked: InnoDB would lock all rows that it sorts.
    async fn free(&self, connection: &mut Conn, who: &Identity) -> Outcome<Vec<u32>> {
        let look = format!(
            "SELECT shard FROM {} WHERE dc = :dc AND shard >= 0 AND shard < :shards AND {MAY_TAKE} \
             ORDER BY (host = :host) DESC, last_ping, shard",
            self.table.backticked()
        );
        let (shards, timeout) = (self.table.shards, signed_micros(self.table.timeout));
        let named = params! { "dc" => &who.dc, "host" => &who.host, "shards" => shards, "timeout" => timeout };
        connection.exec(look, named).await
    }

    /// Takes this one, if its row is as wanted, with a generation above that of `after` and of the row.
    async fn take(&self, connection: &mut Conn, who: &Identity, after: Hold, wanted: &str) -> Outcome<Option<Hold>> {
        let name = self.table.backticked();
        let shard = after.shard;
        let lock = format!("SELECT generation FROM {name} WHERE dc = :dc AND shard = :shard AND {wanted}");
        let take = format!(
            "UPDATE {name} SET host = ?, locked_time = UTC_TIMESTAMP(6), last_ping = UTC_TIMESTAMP(6), generation = ? \
             WHERE dc = ? AND shard = ?"
        );
        let timeout = signed_micros(self.table.timeout);
        let named = params! { "dc" => &who.dc, "host" => &who.host, "shard" => shard, "timeout" => timeout };
        let mut options = TxOpts::default();
        // Locks the rows that it takes and nothing between them.
        options.with_isolation_level(IsolationLevel::ReadCommitted);
        let mut transaction = connection.start_transaction(options).await?;
        let Some(before) = transaction.exec_first::<u64, _, _>(lock, named).await? else {
            transaction.rollback().await?;
            return Ok(None);
        };
        let generation = before.max(after.generation) + 1;
        transaction.exec_drop(take, (&who.host, generation, &who.dc, shard)).await?;
        transaction.commit().await?;
        Ok(Some(Hold { shard, generation }))
    }

    /// Changes the row of a claim; false if it is not this claim's any more.
    async fn change(&self, set: &str, who: &Identity, hold: Hold) -> Result<bool, Error> {
        let name = self.table.backticked();
        let statement = format!("UPDATE {name} SET {set} WHERE dc = ? AND shard = ? AND host = ? AND generation = ?");
        let row: [Value; 4] = [(&who.dc).into(), hold.shard.into(), (&who.host).into(), hold.generation.into()];
        self.run(async |connection| {
            connection.exec_drop(statement, row.to_vec()).await?;
            // The driver asks for rows that were found, not only for those that were changed.
            Ok(connection.affected_rows() == 1)
        })
        .await
    }
}

type Outcome<T> = Result<T, mysql_async::Error>;

const NAME: &str = "MySQL";

const MAY_TAKE: &str = "(host = :host OR last_ping < UTC_TIMESTAMP(6) - INTERVAL :timeout MICROSECOND)";
/// Waits for whoever looks at the row at this moment: a claim that is not there is a claim lost.
const NOBODYS: &str = "last_ping < UTC_TIMESTAMP(6) - INTERVAL :timeout MICROSECOND \
                       AND (host <> :host OR last_ping > '1970-01-01') FOR UPDATE";
/// The same while an answer is unheard: what has this server's name is its own.
const NOBODY_ELSES: &str = "(last_ping < UTC_TIMESTAMP(6) - INTERVAL :timeout MICROSECOND OR host = :host) \
                            AND (host <> :host OR last_ping > '1970-01-01') FOR UPDATE";

fn error(cause: mysql_async::Error) -> Error {
    Error::new(NAME, cause)
}

impl Store for MysqlTable {
    fn timeout(&self) -> Duration {
        self.table.timeout
    }

    async fn claim(&self, who: &Identity) -> Result<Option<Hold>, Error> {
        fits(NAME, who)?;
        let is_unheard = self.unheard.ask();
        let taken = self
            .run(async |connection| {
                match self.take_one(connection, who).await? {
                    None if self.is_short(connection, &who.dc).await? => {}
                    taken => return Ok(taken),
                }
                self.fill(connection, &who.dc).await?;
                self.take_one(connection, who).await
            })
            .await?;
        self.unheard.heard(is_unheard);
        Ok(taken)
    }

    async fn renew(&self, who: &Identity, hold: Hold) -> Result<Option<Hold>, Error> {
        if self.change("last_ping = UTC_TIMESTAMP(6)", who, hold).await? {
            self.unheard.heard(false);
            return Ok(Some(hold));
        }
        let wanted = if self.unheard.ask() { NOBODY_ELSES } else { NOBODYS };
        // Not in the table any more: made anew, unless somebody else's is proven, or it was given back.
        let fill = format!("INSERT IGNORE INTO {} (dc, shard) VALUES (?, ?)", self.table.backticked());
        let taken = self
            .run(async |connection| {
                connection.exec_drop(fill, (&who.dc, hold.shard)).await?;
                self.take(connection, who, hold, wanted).await
            })
            .await?;
        self.unheard.heard(false);
        taken.iter().for_each(|_| tell_of_lost_claim(&self.table, who, hold));
        Ok(taken)
    }

    async fn release(&self, who: &Identity, hold: Hold) -> Result<(), Error> {
        self.change("last_ping = '1970-01-01', generation = generation + 1", who, hold).await.map(drop)
    }

    async fn holders(&self) -> Result<Vec<Holder>, Error> {
        let list = format!(
            "SELECT dc, shard, host, generation FROM {} WHERE host <> '' AND shard >= 0 \
             AND last_ping >= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND ORDER BY dc, shard",
            self.table.backticked()
        );
        let holder = |(dc, shard, host, generation)| Holder { dc, shard, host, generation };
        let timeout = signed_micros(self.table.timeout);
        self.run(async |connection| connection.exec_map(list, (timeout,), holder).await).await
    }
}
