//! What an engineer would write by hand to put many rows into each database: one connection, a prepared statement of the
//! shape that the manual and the driver recommend, and nothing that guards a newer row.
//!
//! Everything else is as Shardine has it, so that the ratio tells what the write-back costs and not what the disk likes: a
//! table of the same columns and indexes, 1,000 rows per transaction, each on disk when it is done, and the rows in the
//! order of their hashed keys, which is the order in which shards hold them.

use anyhow::{Context, Result};
use mysql_async::prelude::Queryable;
use shardine_model::Position;
use shardine_testkit::sql_server::Kind;
use tokio::runtime::Runtime;

use super::site::{Base, Site, key};

const BATCH: usize = 1_000;

const POSTGRES: &str = "\
    INSERT INTO by_hand (__key__, __version__, __position__, name, age, city) \
    SELECT k, v, p, n, a, 'london' FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[]) \
        AS batch (k, v, p, n, a) \
    ON CONFLICT (__key__) DO UPDATE SET __version__ = excluded.__version__, name = excluded.name, \
        age = excluded.age, city = excluded.city";

const SQLITE: &str = "\
    INSERT INTO by_hand (__key__, __version__, __position__, name, age, city) VALUES (?, ?, ?, ?, ?, 'london') \
    ON CONFLICT (__key__) DO UPDATE SET __version__ = excluded.__version__, name = excluded.name, \
        age = excluded.age, city = excluded.city";

pub struct ByHand {
    connection: Connection,
    /// Numbers of records, in the order of their positions.
    order: Vec<u64>,
}

enum Connection {
    Postgres { runtime: Runtime, client: tokio_postgres::Client, upsert: tokio_postgres::Statement },
    MariaDb { runtime: Runtime, conn: mysql_async::Conn },
    Sqlite(rusqlite::Connection),
}

/// A row as Shardine would write it.
struct Line {
    key: String,
    version: i64,
    position: i64,
    name: String,
    age: i64,
}

fn line(number: u64, round: u64) -> Line {
    let key = key(number);
    let position = Position::of_key(key.as_bytes()).0 ^ (1 << 63);
    let name = format!("bob{number}_{round}");
    Line { key, version: round as i64 + 1, position: position as i64, name, age: (number % 90 + round) as i64 }
}

impl ByHand {
    /// Makes a table of the same shape as Shardine's, for this many records, and connects.
    pub fn open(site: &Site, count: u64) -> Result<ByHand> {
        let mut order: Vec<u64> = (0..count).collect();
        order.sort_by_key(|&number| Position::of_key(key(number).as_bytes()));
        Ok(ByHand { connection: Connection::open(site)?, order })
    }

    pub fn upsert(&mut self, round: u64) -> Result<()> {
        for numbers in self.order.chunks(BATCH) {
            let lines: Vec<Line> = numbers.iter().map(|&number| line(number, round)).collect();
            match &mut self.connection {
                Connection::Postgres { runtime, client, upsert } => {
                    postgres(client, upsert, &lines).await_in(runtime)?
                }
                Connection::MariaDb { runtime, conn } => mariadb(conn, &lines).await_in(runtime)?,
                Connection::Sqlite(connection) => sqlite(connection, &lines)?,
            }
        }
        Ok(())
    }
}

impl Connection {
    fn open(site: &Site) -> Result<Connection> {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
        match (site.base, &site.database) {
            (Base::Server(Kind::Postgres), Some(database)) => {
                database.sql("CREATE TABLE by_hand (LIKE users INCLUDING ALL)")?;
                let runtime = runtime()?;
                let connecting = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await_in(&runtime)?;
                let (client, connection) = connecting;
                runtime.spawn(connection);
                let upsert = client.prepare(POSTGRES).await_in(&runtime)?;
                Ok(Connection::Postgres { runtime, client, upsert })
            }
            (Base::Server(Kind::MariaDb), Some(database)) => {
                database.sql("CREATE TABLE by_hand LIKE users")?;
                let runtime = runtime()?;
                let conn = mysql_async::Conn::from_url(database.url()).await_in(&runtime)?;
                Ok(Connection::MariaDb { runtime, conn })
            }
            _ => {
                let connection = rusqlite::Connection::open(site.shardine.sqlite_path())?;
                connection.busy_timeout(std::time::Duration::from_secs(10))?;
                connection.pragma_update(None, "synchronous", "FULL")?;
                connection.pragma_update(None, "cache_size", -(16 << 10))?;
                let select =
                    "SELECT sql FROM sqlite_schema WHERE tbl_name = 'users' AND sql IS NOT NULL ORDER BY type DESC";
                let definitions: Vec<String> =
                    connection.prepare(select)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
                for definition in definitions {
                    connection.execute_batch(&definition.replace("users", "by_hand"))?;
                }
                Ok(Connection::Sqlite(connection))
            }
        }
    }
}

/// Waits for a future on this runtime.
trait AwaitIn: Future + Sized {
    fn await_in(self, runtime: &Runtime) -> Self::Output {
        runtime.block_on(self)
    }
}

impl<F: Future> AwaitIn for F {}

async fn postgres(client: &tokio_postgres::Client, upsert: &tokio_postgres::Statement, lines: &[Line]) -> Result<()> {
    let keys: Vec<&[u8]> = lines.iter().map(|line| line.key.as_bytes()).collect();
    let versions: Vec<i64> = lines.iter().map(|line| line.version).collect();
    let positions: Vec<i64> = lines.iter().map(|line| line.position).collect();
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let ages: Vec<i64> = lines.iter().map(|line| line.age).collect();
    client.execute(upsert, &[&keys, &versions, &positions, &names, &ages]).await?;
    Ok(())
}

async fn mariadb(conn: &mut mysql_async::Conn, lines: &[Line]) -> Result<()> {
    let rows = vec!["(?, ?, ?, ?, ?, 'london')"; lines.len()].join(", ");
    // The driver keeps a statement ready by its text.
    let text = format!(
        "INSERT INTO by_hand (__key__, __version__, __position__, name, age, city) VALUES {rows} \
         ON DUPLICATE KEY UPDATE name = VALUES(name), age = VALUES(age), city = VALUES(city), \
         __version__ = VALUES(__version__)"
    );
    let mut values: Vec<mysql_async::Value> = Vec::with_capacity(lines.len() * 5);
    for line in lines {
        values.push(line.key.as_bytes().into());
        values.extend([line.version.into(), line.position.into(), line.name.as_str().into(), line.age.into()]);
    }
    conn.exec_drop(text, mysql_async::Params::Positional(values)).await.context("upsert by hand")
}

fn sqlite(connection: &mut rusqlite::Connection, lines: &[Line]) -> Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    {
        let mut statement = transaction.prepare_cached(SQLITE)?;
        for line in lines {
            statement.execute((line.key.as_bytes(), line.version, line.position, &line.name, line.age))?;
        }
    }
    transaction.commit()?;
    Ok(())
}
