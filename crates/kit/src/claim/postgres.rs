//! The lock table in PostgreSQL.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, Row, Socket};

use super::store::{Error, Holder, Store};
use super::table::{
    DC_CHARS_MAX, HOST_CHARS_MAX, Table, Unheard, fits, signed_micros, tell_of_lost_claim, tell_of_missing_rows,
};
use crate::core::shard::Hold;
use crate::server::Identity;

/// A lock table in PostgreSQL, on one connection that is made again when it is lost. `T` is how TLS is made, of
/// `tokio-postgres`.
pub struct PostgresTable<T = NoTls> {
    config: Config,
    tls: T,
    table: Table,
    /// One request at a time; taken out while it runs, so that a request that was given up leaves no half-used connection.
    kept: Mutex<Option<Client>>,
    unheard: Unheard,
}

impl<T> std::fmt::Debug for PostgresTable<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("PostgresTable").field("table", &self.table).finish_non_exhaustive()
    }
}

impl PostgresTable<NoTls> {
    /// # Errors
    ///
    /// If that is no URL of a PostgreSQL database.
    pub fn new(url: &str, table: Table) -> Result<Self, Error> {
        Ok(Self::with_tls(url.parse().map_err(error)?, NoTls, table))
    }
}

impl<T> PostgresTable<T>
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as tokio_postgres::tls::TlsConnect<Socket>>::Future: Send,
{
    /// The same with TLS, and with the driver's own settings.
    pub fn with_tls(config: Config, tls: T, table: Table) -> Self {
        Self { config, tls, table, kept: Mutex::new(None), unheard: Unheard::default() }
    }

    /// Makes the table and the rows of a data centre, where they are missing.
    pub async fn prepare(&self, dc: &str) -> Result<(), Error> {
        let name = self.table.quoted();
        let make = format!(
            "CREATE TABLE IF NOT EXISTS {name} (dc varchar({DC_CHARS_MAX}) NOT NULL, shard bigint NOT NULL, \
             host varchar({HOST_CHARS_MAX}) NOT NULL DEFAULT '', locked_time timestamptz, \
             last_ping timestamptz NOT NULL DEFAULT 'epoch', generation bigint NOT NULL DEFAULT 0, \
             PRIMARY KEY (dc, shard))"
        );
        fits(NAME, &Identity::new(dc, ""))?;
        self.run(async |client| {
            // Two servers that make the same table at once trip over each other in PostgreSQL's catalogue.
            let transaction = client.transaction().await?;
            transaction.execute("SELECT pg_advisory_xact_lock(hashtext($1))", &[&name]).await?;
            transaction.batch_execute(&make).await?;
            transaction.commit().await
        })
        .await?;
        self.fill(dc).await
    }

    /// Makes the rows of a data centre that are missing.
    async fn fill(&self, dc: &str) -> Result<(), Error> {
        let fill = format!(
            "INSERT INTO {} (dc, shard) SELECT $1, generate_series(0, $2::bigint - 1) ON CONFLICT DO NOTHING",
            self.table.quoted()
        );
        let shards = i64::from(self.table.shards);
        self.run(async |client| client.execute(&fill, &[&dc, &shards]).await.map(drop)).await
    }

    /// Whether a row of the data centre is missing.
    async fn is_short(&self, dc: &str) -> Result<bool, Error> {
        let count = format!("SELECT count(*) FROM {} WHERE dc = $1 AND shard >= 0 AND shard < $2", self.table.quoted());
        let shards = i64::from(self.table.shards);
        let rows: i64 = self.run(async |client| client.query_one(&count, &[&dc, &shards]).await?.try_get(0)).await?;
        if rows < shards {
            tell_of_missing_rows(&self.table, dc, rows);
        }
        Ok(rows < shards)
    }

    async fn take(&self, who: &Identity) -> Result<Option<Hold>, Error> {
        // Rows are sorted before they are locked, so one row is locked and those of others are passed over.
        let take = format!(
            "WITH free AS MATERIALIZED (SELECT dc, shard FROM {0} WHERE dc = $1 AND shard >= 0 AND shard < $4 \
             AND (host = $2 OR last_ping < clock_timestamp() - $3::bigint * interval '1 microsecond') \
             ORDER BY (host = $2) DESC, last_ping, shard LIMIT 1 FOR UPDATE SKIP LOCKED) \
             UPDATE {0} AS held SET host = $2, locked_time = clock_timestamp(), last_ping = clock_timestamp(), \
             generation = held.generation + 1 FROM free WHERE held.dc = free.dc AND held.shard = free.shard \
             RETURNING held.shard, held.generation",
            self.table.quoted()
        );
        let (timeout, shards) = (signed_micros(self.table.timeout), i64::from(self.table.shards));
        self.run(async |client| {
            let row = client.query_opt(&take, &[&who.dc, &who.host, &timeout, &shards]).await?;
            row.as_ref().map(hold).transpose()
        })
        .await
    }

    /// Makes a claim anew that the table does not know any more, unless somebody else's is proven, or it was given back. One
    /// under this server's name is not somebody else's while an answer is unheard.
    async fn claim_again(&self, who: &Identity, hold: Hold, is_unheard: bool) -> Result<Option<Hold>, Error> {
        let name = self.table.quoted();
        let or_own = if is_unheard { "OR host = $3" } else { "" };
        let fill = format!("INSERT INTO {name} (dc, shard) VALUES ($1, $2) ON CONFLICT DO NOTHING");
        let take = format!(
            "UPDATE {name} SET host = $3, locked_time = clock_timestamp(), last_ping = clock_timestamp(), \
             generation = greatest(generation, $4::bigint) + 1 WHERE dc = $1 AND shard = $2 \
             AND (last_ping < clock_timestamp() - $5::bigint * interval '1 microsecond' {or_own}) \
             AND (host <> $3 OR last_ping > 'epoch') RETURNING shard, generation"
        );
        let (shard, generation) = (i64::from(hold.shard), signed(hold.generation));
        let timeout = signed_micros(self.table.timeout);
        let taken = self
            .run(async |client| {
                client.execute(&fill, &[&who.dc, &shard]).await?;
                let row = client.query_opt(&take, &[&who.dc, &shard, &who.host, &generation, &timeout]).await?;
                row.as_ref().map(self::hold).transpose()
            })
            .await?;
        taken.iter().for_each(|_| tell_of_lost_claim(&self.table, who, hold));
        Ok(taken)
    }

    /// Does one thing on the connection, which is kept only if that went well.
    async fn run<V>(&self, act: impl AsyncFnOnce(&mut Client) -> Result<V, tokio_postgres::Error>) -> Result<V, Error> {
        let mut kept = self.kept.lock().await;
        let mut client = match kept.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => {
                let (client, connection) = self.config.connect(self.tls.clone()).await.map_err(error)?;
                // Ends with the client.
                tokio::spawn(connection);
                client
            }
        };
        let value = act(&mut client).await.map_err(error)?;
        *kept = Some(client);
        Ok(value)
    }

    /// Changes the row of a claim; false if it is not this claim's any more.
    async fn change(&self, statement: &str, who: &Identity, hold: Hold) -> Result<bool, Error> {
        let (shard, generation) = (i64::from(hold.shard), signed(hold.generation));
        self.run(async |client| {
            let changed = client.execute(statement, &[&who.dc, &shard, &who.host, &generation]).await?;
            Ok(changed == 1)
        })
        .await
    }
}

const NAME: &str = "PostgreSQL";

/// Not negative in any table.
fn signed(generation: u64) -> i64 {
    i64::try_from(generation).unwrap_or(i64::MAX)
}

fn error(cause: tokio_postgres::Error) -> Error {
    // The driver's own text leaves out what the server said.
    let said = cause.as_db_error().map_or_else(|| cause.to_string(), ToString::to_string);
    Error::new(NAME, said)
}

fn hold(row: &Row) -> Result<Hold, tokio_postgres::Error> {
    let (shard, generation): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    Ok(Hold { shard: u32::try_from(shard).unwrap_or_default(), generation: generation.unsigned_abs() })
}

impl<T> Store for PostgresTable<T>
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as tokio_postgres::tls::TlsConnect<Socket>>::Future: Send,
{
    fn timeout(&self) -> Duration {
        self.table.timeout
    }

    async fn claim(&self, who: &Identity) -> Result<Option<Hold>, Error> {
        fits(NAME, who)?;
        let is_unheard = self.unheard.ask();
        let mut taken = self.take(who).await?;
        if taken.is_none() && self.is_short(&who.dc).await? {
            self.fill(&who.dc).await?;
            taken = self.take(who).await?;
        }
        self.unheard.heard(is_unheard);
        Ok(taken)
    }

    async fn renew(&self, who: &Identity, hold: Hold) -> Result<Option<Hold>, Error> {
        let prove = format!(
            "UPDATE {} SET last_ping = clock_timestamp() WHERE dc = $1 AND shard = $2 AND host = $3 AND generation = $4",
            self.table.quoted()
        );
        let held = match self.change(&prove, who, hold).await? {
            true => Some(hold),
            false => {
                let is_unheard = self.unheard.ask();
                self.claim_again(who, hold, is_unheard).await?
            }
        };
        self.unheard.heard(false);
        Ok(held)
    }

    async fn release(&self, who: &Identity, hold: Hold) -> Result<(), Error> {
        let free = format!(
            "UPDATE {} SET last_ping = 'epoch', generation = generation + 1 WHERE dc = $1 AND shard = $2 AND host = $3 AND generation = $4",
            self.table.quoted()
        );
        self.change(&free, who, hold).await.map(drop)
    }

    async fn holders(&self) -> Result<Vec<Holder>, Error> {
        let list = format!(
            "SELECT shard, generation, dc, host FROM {} WHERE host <> '' AND shard >= 0 \
             AND last_ping >= clock_timestamp() - $1::bigint * interval '1 microsecond' ORDER BY dc, shard",
            self.table.quoted()
        );
        let timeout = signed_micros(self.table.timeout);
        self.run(async |client| {
            let rows = client.query(&list, &[&timeout]).await?;
            rows.iter()
                .map(|row| {
                    let Hold { shard, generation } = hold(row)?;
                    Ok(Holder { dc: row.try_get(2)?, shard, host: row.try_get(3)?, generation })
                })
                .collect()
        })
        .await
    }
}
