//! A store of claims as a process of its own, with the means to treat it badly.

use std::time::Duration;

use anyhow::{Context, Result};
use rusqlite::Connection;
use shardine_client::{Delete, NodeSettings, SessionOptions};
use shardine_testkit::sql_server::{Database, Kind as SqlKind, Sync};
use shardine_testkit::{Dir, Shardine, SqlServer};

use super::script::SHARDS;
use crate::goals::claims::{NODE, TABLE};
use crate::goals::fleet::DCS;

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    Mariadb,
    Sqlite,
    Shardine,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Postgres, Kind::Mariadb, Kind::Sqlite, Kind::Shardine];

    /// Semaphores have no times that could be written down.
    pub fn has_rows(self) -> bool {
        self != Self::Shardine
    }
}

pub enum Place {
    Sql {
        server: Box<SqlServer>,
        database: Database,
    },
    /// With whoever keeps others from writing.
    Sqlite {
        dir: Dir,
        writer: Option<Connection>,
    },
    Shardine {
        server: Box<Shardine>,
    },
}

impl Place {
    pub fn start(kind: Kind) -> Result<Self> {
        let sql = |kind| {
            let server = SqlServer::start(kind, Sync::Off, &[])?;
            let database = server.database()?;
            anyhow::Ok(Self::Sql { server: Box::new(server), database })
        };
        match kind {
            Kind::Postgres => sql(SqlKind::Postgres),
            Kind::Mariadb => sql(SqlKind::MariaDb),
            Kind::Sqlite => Ok(Self::Sqlite { dir: Dir::new()?, writer: None }),
            Kind::Shardine => Ok(Self::Shardine { server: Box::new(Shardine::start()?) }),
        }
    }

    /// As servers are told.
    pub fn url(&self) -> String {
        match self {
            Self::Sql { database, .. } => database.url(),
            Self::Sqlite { dir, .. } => format!("sqlite:{}", dir.join("claims.sqlite").display()),
            Self::Shardine { server } => format!("shardine://{}", server.grpc().address()),
        }
    }

    /// Answers nothing until it goes on.
    pub fn pause(&mut self) -> Result<()> {
        match self {
            Self::Sql { server, .. } => server.pause(),
            Self::Sqlite { dir, writer } => {
                let locker = open(dir)?;
                // Others may be in the middle of something.
                if locker.execute_batch("BEGIN EXCLUSIVE").is_ok() {
                    *writer = Some(locker);
                }
                Ok(())
            }
            Self::Shardine { server } => server.process().pause(),
        }
    }

    pub fn resume(&mut self) -> Result<()> {
        match self {
            Self::Sql { server, .. } => server.resume(),
            Self::Sqlite { writer, .. } => {
                *writer = None;
                Ok(())
            }
            Self::Shardine { server } => server.process().resume(),
        }
    }

    /// A file cannot be killed, but it can be locked.
    pub fn kill(&mut self) -> Result<()> {
        match self {
            Self::Sql { server, .. } => server.kill9(),
            Self::Sqlite { .. } => self.pause(),
            Self::Shardine { server } => server.kill9(),
        }
    }

    pub fn start_again(&mut self) -> Result<()> {
        match self {
            Self::Sql { server, .. } => server.start_again(),
            Self::Sqlite { .. } => self.resume(),
            Self::Shardine { server } => server.start_again(),
        }
    }

    /// All rows become so much older, as they are for a clock that jumped by so much.
    pub fn jump(&self, hours: i32) -> Result<()> {
        let minus = match self {
            Self::Sql { database, .. } if database.url().starts_with("postgres") => {
                format!("{hours} * interval '1 hour'")
            }
            Self::Sql { .. } => format!("INTERVAL {hours} HOUR"),
            Self::Sqlite { .. } | Self::Shardine { .. } => format!("{hours} * 3600000000"),
        };
        self.sql(&format!("UPDATE {TABLE} SET last_ping = last_ping - {minus} WHERE host <> ''")).map(drop)
    }

    /// Keeps the rows as they are now, for [`Place::put_back`].
    pub fn back_up(&self) -> Result<()> {
        match self {
            Self::Sql { .. } | Self::Sqlite { .. } => {
                self.sql(&format!("CREATE TABLE backup AS SELECT * FROM {TABLE}")).map(drop)
            }
            Self::Shardine { .. } => Ok(()),
        }
    }

    pub fn put_back(&self) -> Result<()> {
        self.sql(&format!("DELETE FROM {TABLE}"))?;
        self.sql(&format!("INSERT INTO {TABLE} SELECT * FROM backup")).map(drop)
    }

    /// Forgets all claims.
    pub async fn lose(&self) -> Result<()> {
        let Self::Shardine { server } = self else {
            return self.sql(&format!("DELETE FROM {TABLE}")).map(drop);
        };
        let client = shardine_client::Client::new(&server.grpc().address().to_string())?;
        let losing = async {
            client.create_node(NODE, NodeSettings::default()).await?;
            let session = client.start_session(NODE, SessionOptions::default()).await?;
            for dc in DCS {
                for shard in 0..SHARDS {
                    // It may not be there.
                    let _ = session.delete(&format!("{dc}/shard-{shard}"), Delete::Force).await;
                }
            }
            session.stop().await
        };
        tokio::time::timeout(Duration::from_secs(5), losing).await?.context("delete semaphores")
    }

    fn sql(&self, statement: &str) -> Result<String> {
        match self {
            Self::Sql { database, .. } => database.sql(statement),
            Self::Sqlite { dir, .. } => {
                open(dir)?.execute_batch(statement)?;
                Ok(String::new())
            }
            Self::Shardine { .. } => Ok(String::new()),
        }
    }
}

fn open(dir: &Dir) -> Result<Connection> {
    let connection = Connection::open(dir.join("claims.sqlite"))?;
    connection.busy_timeout(Duration::from_secs(2))?;
    Ok(connection)
}
