//! Where a server's claims are, as one word of a command line says.

use std::time::Duration;

use anyhow::{Result, bail};
use shardine_client::Client;
use shardine_kit::claim::{MysqlTable, PostgresTable, Semaphores, SqliteTable, Table};

pub enum Claims {
    Postgres(Box<PostgresTable>),
    Mysql(MysqlTable),
    Sqlite(SqliteTable),
    Shardine(Box<Semaphores>),
}

pub const TABLE: &str = "goals_locks";
pub const NODE: &str = "/local/goals";
/// Data centres whose holders are listed.
const DCS: [&str; 3] = ["iva", "sas", "vla"];

/// Opens `sqlite:PATH`, `postgres://…`, `mysql://…` or `shardine://HOST:PORT`.
pub fn open(place: &str, shards: u32, timeout: Duration) -> Result<Claims> {
    let table = Table::new(TABLE, shards).timeout(timeout);
    Ok(match place.split_once(':') {
        Some(("postgres", _)) => Claims::Postgres(PostgresTable::new(place, table)?.into()),
        Some(("mysql", _)) => Claims::Mysql(MysqlTable::new(place, table)?),
        Some(("sqlite", path)) => Claims::Sqlite(SqliteTable::new(path, table)),
        Some(("shardine", address)) => {
            let client = Client::new(address.trim_start_matches('/'))?;
            Claims::Shardine(Semaphores::new(client, NODE, DCS, shards).timeout(timeout).into())
        }
        _ => bail!("{place} is no place for claims: try sqlite:PATH, postgres://…, mysql://… or shardine://HOST:PORT"),
    })
}
