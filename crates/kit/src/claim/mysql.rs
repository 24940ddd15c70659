//! The lock table in MySQL and MariaDB.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{IsolationLevel, Opts, Pool, Transaction, TxOpts, Value, params};

use super::store::{Error, Holder, Store};
use super::table::{Table, signed_micros};
use crate::core::shard::Hold;
use crate::server::Identity;

/// A lock table in MySQL 8 or MariaDB 10.6, which are the first that pass over locked rows.
#[derive(Clone, Debug)]
pub struct MysqlTable {
    pool: Pool,
    table: Table,
}

impl MysqlTable {
    /// # Errors
    ///
    /// If that is no URL of a MySQL database.
    pub fn new(url: &str, table: Table) -> Result<Self, Error> {
        let options = Opts::from_url(url).map_err(|cause| Error::new(NAME, cause))?;
        Ok(Self::with_pool(Pool::new(options), table))
    }

    #[must_use]
    pub fn with_pool(pool: Pool, table: Table) -> Self {
        Self { pool, table }
    }

    /// Makes the table and the rows of a data centre, where they are missing.
    pub async fn prepare(&self, dc: &str) -> Result<(), Error> {
        let name = self.table.backticked();
        let make = format!(
            "CREATE TABLE IF NOT EXISTS {name} (dc varchar(64) NOT NULL, shard bigint NOT NULL, \
             host varchar(255) NOT NULL DEFAULT '', locked_time datetime(6), \
             last_ping datetime(6) NOT NULL DEFAULT '1970-01-01', generation bigint NOT NULL DEFAULT 0, \
             PRIMARY KEY (dc, shard)) ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        );
        let fill = format!("INSERT IGNORE INTO {name} (dc, shard) VALUES (?, ?)");
        let mut connection = self.pool.get_conn().await.map_err(error)?;
        connection.query_drop(make).await.map_err(error)?;
        let rows = (0..self.table.shards).map(|shard| (dc, shard));
        connection.exec_batch(fill, rows).await.map_err(error)
    }

    async fn begin(&self) -> Result<Transaction<'static>, mysql_async::Error> {
        let mut options = TxOpts::default();
        // Locks the rows that it takes and nothing between them.
        options.with_isolation_level(IsolationLevel::ReadCommitted);
        self.pool.start_transaction(options).await
    }

    /// The shards that may be taken, best first. Nothing is locked: InnoDB would lock all rows that it sorts.
    async fn free(&self, who: &Identity, timeout: i64) -> Result<Vec<u32>, mysql_async::Error> {
        let look = format!(
            "SELECT shard FROM {} WHERE dc = :dc AND shard < :shards AND {MAY_TAKE} \
             ORDER BY (host = :host) DESC, last_ping, shard",
            self.table.backticked()
        );
        let named =
            params! { "dc" => &who.dc, "host" => &who.host, "shards" => self.table.shards, "timeout" => timeout };
        self.pool.get_conn().await?.exec(look, named).await
    }

    /// Takes this one, unless somebody else is taking it or has.
    async fn take(&self, who: &Identity, shard: u32, timeout: i64) -> Result<Option<Hold>, mysql_async::Error> {
        let name = self.table.backticked();
        let lock = format!(
            "SELECT generation FROM {name} WHERE dc = :dc AND shard = :shard AND {MAY_TAKE} FOR UPDATE SKIP LOCKED"
        );
        let take = format!(
            "UPDATE {name} SET host = ?, locked_time = UTC_TIMESTAMP(6), last_ping = UTC_TIMESTAMP(6), generation = ? \
             WHERE dc = ? AND shard = ?"
        );
        let named = params! { "dc" => &who.dc, "host" => &who.host, "shard" => shard, "timeout" => timeout };
        let mut transaction = self.begin().await?;
        let Some(before) = transaction.exec_first::<u64, _, _>(lock, named).await? else {
            transaction.rollback().await?;
            return Ok(None);
        };
        let generation = before + 1;
        transaction.exec_drop(take, (&who.host, generation, &who.dc, shard)).await?;
        transaction.commit().await?;
        Ok(Some(Hold { shard, generation }))
    }

    /// Changes the row of a claim; false if it is not this claim's any more.
    async fn change(&self, set: &str, who: &Identity, hold: Hold) -> Result<bool, Error> {
        let name = self.table.backticked();
        let statement = format!("UPDATE {name} SET {set} WHERE dc = ? AND shard = ? AND host = ? AND generation = ?");
        let row: [Value; 4] = [(&who.dc).into(), hold.shard.into(), (&who.host).into(), hold.generation.into()];
        let mut connection = self.pool.get_conn().await.map_err(error)?;
        connection.exec_drop(statement, row.to_vec()).await.map_err(error)?;
        // The driver asks for rows that were found, not only for those that were changed.
        Ok(connection.affected_rows() == 1)
    }
}

const NAME: &str = "MySQL";

const MAY_TAKE: &str = "(host = :host OR last_ping < UTC_TIMESTAMP(6) - INTERVAL :timeout MICROSECOND)";

fn error(cause: mysql_async::Error) -> Error {
    Error::new(NAME, cause)
}

impl Store for MysqlTable {
    async fn claim(&self, who: &Identity, timeout: Duration) -> Result<Option<Hold>, Error> {
        let timeout = signed_micros(timeout);
        for shard in self.free(who, timeout).await.map_err(error)? {
            if let Some(hold) = self.take(who, shard, timeout).await.map_err(error)? {
                return Ok(Some(hold));
            }
        }
        Ok(None)
    }

    async fn renew(&self, who: &Identity, hold: Hold) -> Result<bool, Error> {
        self.change("last_ping = UTC_TIMESTAMP(6)", who, hold).await
    }

    async fn release(&self, who: &Identity, hold: Hold) -> Result<(), Error> {
        self.change("last_ping = '1970-01-01', generation = generation + 1", who, hold).await.map(drop)
    }

    async fn holders(&self) -> Result<Vec<Holder>, Error> {
        let list = format!(
            "SELECT dc, shard, host, generation FROM {} WHERE host <> '' \
             AND last_ping >= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND ORDER BY dc, shard",
            self.table.backticked()
        );
        let mut connection = self.pool.get_conn().await.map_err(error)?;
        let holder = |(dc, shard, host, generation)| Holder { dc, shard, host, generation };
        connection.exec_map(list, (signed_micros(self.table.timeout),), holder).await.map_err(error)
    }
}
