//! What an engineer would write by hand to put many rows into each database: one connection, the batch shape that its
//! manual and its drivers recommend, a fence on the version.

use anyhow::{Context, Result};
use mysql_async::prelude::Queryable;
use shardine_testkit::sql_server::Kind;
use tokio::runtime::Runtime;

use super::site::{Base, Site, key};

const BATCH: u64 = 1_000;

pub enum ByHand {
    Postgres { runtime: Runtime, client: tokio_postgres::Client },
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
    let position = shardine_model::Position::of_key(key.as_bytes()).0 ^ (1 << 63);
    let name = format!("bob{number}_{round}");
    Line { key, version: round as i64 + 1, position: position as i64, name, age: (number % 90 + round) as i64 }
}

impl ByHand {
    /// Makes a table of the same shape as Shardine's and connects.
    pub fn open(site: &Site) -> Result<ByHand> {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
        match (site.base, &site.database) {
            (Base::Server(Kind::Postgres), Some(database)) => {
                database.sql("CREATE TABLE by_hand (LIKE users INCLUDING ALL)")?;
                let runtime = runtime()?;
                let connecting = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await_in(&runtime)?;
                let (client, connection) = connecting;
                runtime.spawn(connection);
                Ok(ByHand::Postgres { runtime, client })
            }
            (Base::Server(Kind::MariaDb), Some(database)) => {
                database.sql("CREATE TABLE by_hand LIKE users")?;
                let runtime = runtime()?;
                let conn = mysql_async::Conn::from_url(database.url()).await_in(&runtime)?;
                Ok(ByHand::MariaDb { runtime, conn })
            }
            _ => {
                let connection = rusqlite::Connection::open(site.shardine.sqlite_path())?;
                connection.busy_timeout(std::time::Duration::from_secs(10))?;
                connection.pragma_update(None, "synchronous", "FULL")?;
                let select =
                    "SELECT sql FROM sqlite_schema WHERE tbl_name = 'users' AND sql IS NOT NULL ORDER BY type DESC";
                let definitions: Vec<String> =
                    connection.prepare(select)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
                for definition in definitions {
                    connection.execute_batch(&definition.replace("users", "by_hand"))?;
                }
                Ok(ByHand::Sqlite(connection))
            }
        }
    }

    pub fn upsert(&mut self, count: u64, round: u64) -> Result<()> {
        for first in (0..count).step_by(BATCH as usize) {
            let lines: Vec<Line> = (first..count.min(first + BATCH)).map(|number| line(number, round)).collect();
            match self {
                ByHand::Postgres { runtime, client } => postgres(client, &lines).await_in(runtime)?,
                ByHand::MariaDb { runtime, conn } => mariadb(conn, &lines).await_in(runtime)?,
                ByHand::Sqlite(connection) => sqlite(connection, &lines)?,
            }
        }
        Ok(())
    }
}

/// Waits for a future on this runtime.
trait AwaitIn: Future + Sized {
    fn await_in(self, runtime: &Runtime) -> Self::Output {
        runtime.block_on(self)
    }
}

impl<F: Future> AwaitIn for F {}

async fn postgres(client: &tokio_postgres::Client, lines: &[Line]) -> Result<()> {
    const UPSERT: &str = "\
        INSERT INTO by_hand AS held (__key__, __version__, __position__, name, age, city) \
        SELECT k, v, p, n, a, 'london' FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[]) \
            AS batch (k, v, p, n, a) \
        ON CONFLICT (__key__) DO UPDATE SET __version__ = excluded.__version__, name = excluded.name, \
            age = excluded.age, city = excluded.city WHERE abs(excluded.__version__) > abs(held.__version__)";
    let keys: Vec<&[u8]> = lines.iter().map(|line| line.key.as_bytes()).collect();
    let versions: Vec<i64> = lines.iter().map(|line| line.version).collect();
    let positions: Vec<i64> = lines.iter().map(|line| line.position).collect();
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let ages: Vec<i64> = lines.iter().map(|line| line.age).collect();
    let statement = client.prepare(UPSERT).await?;
    client.execute(&statement, &[&keys, &versions, &positions, &names, &ages]).await?;
    Ok(())
}

async fn mariadb(conn: &mut mysql_async::Conn, lines: &[Line]) -> Result<()> {
    let rows = vec!["(?, ?, ?, ?, ?, 'london')"; lines.len()].join(", ");
    let newer = "ABS(VALUES(__version__)) > ABS(__version__)";
    let text = format!(
        "INSERT INTO by_hand (__key__, __version__, __position__, name, age, city) VALUES {rows} \
         ON DUPLICATE KEY UPDATE name = IF({newer}, VALUES(name), name), age = IF({newer}, VALUES(age), age), \
         city = IF({newer}, VALUES(city), city), __version__ = IF({newer}, VALUES(__version__), __version__)"
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
        let mut statement = transaction.prepare_cached(
            "INSERT INTO by_hand AS held (__key__, __version__, __position__, name, age, city) \
             VALUES (?, ?, ?, ?, ?, 'london') ON CONFLICT (__key__) DO UPDATE SET __version__ = excluded.__version__, \
             name = excluded.name, age = excluded.age, city = excluded.city \
             WHERE abs(excluded.__version__) > abs(held.__version__)",
        )?;
        for line in lines {
            statement.execute((line.key.as_bytes(), line.version, line.position, &line.name, line.age))?;
        }
    }
    transaction.commit()?;
    Ok(())
}
