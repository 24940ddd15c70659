//! A database with a disk behind it, and Shardine in front of it.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use shardine_testkit::sql_server::{Database, Kind, Sync};
use shardine_testkit::{Client, PATIENCE, Reply, Shardine, Sql, SqlServer, wait_for};

use crate::speed::args::Options;
use crate::speed::workplace::Workplace;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    Server(Kind),
    Sqlite,
}

impl Base {
    pub fn name(self) -> &'static str {
        match self {
            Base::Server(Kind::Postgres) => "PostgreSQL",
            Base::Server(Kind::MariaDb) => "MariaDB",
            Base::Sqlite => "SQLite",
        }
    }
}

pub struct Site {
    pub base: Base,
    pub sql: Option<SqlServer>,
    pub database: Option<Database>,
    pub shardine: Shardine,
}

/// Commands in flight while loading.
const WINDOW: u64 = 512;

/// The key of a record as redis-benchmark makes it of `__rand_int__`.
pub fn key(number: u64) -> String {
    format!("{number:012}")
}

impl Site {
    pub fn start(base: Base, place: &Workplace, options: &Options) -> Result<Site> {
        let (sql, database) = match base {
            Base::Sqlite => (None, None),
            Base::Server(kind) => {
                let server = SqlServer::start_in(place.dir()?, kind, Sync::On, &[])?;
                let database = server.database()?;
                (Some(server), Some(database))
            }
        };
        let shardine = start_shardine(database.as_ref(), place, options)?;
        Ok(Site { base, sql, database, shardine })
    }

    /// Another Shardine on the same database, which has seen none of its rows.
    pub fn forget(&mut self, place: &Workplace, options: &Options) -> Result<()> {
        self.shardine.stop()?;
        self.shardine = start_shardine(self.database.as_ref(), place, options)?;
        self.create("users", &[])
    }

    pub fn port(&self) -> u16 {
        self.shardine.redis().number()
    }

    pub fn create(&self, table: &str, more: &[&str]) -> Result<()> {
        let fields = ["--field", "name:string", "--field", "age:int64", "--field", "city:string"];
        let words = [&["table", "create", table], &fields[..], more].concat();
        let output = self.shardine.command(&words).output()?;
        ensure!(output.status.success(), "table create: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Changes the records `0..count`; another round gives other values.
    pub fn write(&self, count: u64, round: u64) -> Result<()> {
        self.pipelined(count, |client, number| {
            let (key, age) = (format!("users:{}", key(number)), (number % 90 + round).to_string());
            client.send(&["HSET", &key, "name", &format!("bob{number}_{round}"), "age", &age, "city", "london"])
        })
    }

    fn pipelined(&self, count: u64, send: impl Fn(&mut Client, u64) -> Result<()>) -> Result<()> {
        let mut client = self.shardine.client()?;
        let mut answered = 0;
        for number in 0..count {
            send(&mut client, number)?;
            while number - answered >= WINDOW {
                expect_good(client.receive()?)?;
                answered += 1;
            }
        }
        (answered..count).try_for_each(|_| expect_good(client.receive()?))
    }

    pub fn flush(&self, table: &str) -> Result<()> {
        let mut client = self.shardine.client()?;
        wait_for("the flush", PATIENCE, || match client.call(&["REC.FLUSH", table])? {
            reply if reply == Reply::ok() => Ok(Some(())),
            // While the database comes back.
            Reply::Error(_) => Ok(None),
            other => bail!("REC.FLUSH: {other:?}"),
        })
    }

    /// A fast write of too few rows is worth nothing.
    pub fn check_rows(&self, count: u64) -> Result<()> {
        let select = "SELECT count(*) FROM users";
        let found = match &self.database {
            Some(database) => database.sql(select)?,
            None => {
                let output = Command::new("sqlite3").arg(self.shardine.sqlite_path()).arg(select).output()?;
                String::from_utf8(output.stdout)?
            }
        };
        ensure!(found.trim() == count.to_string(), "SQL holds {found} rows of {count}");
        Ok(())
    }

    pub fn metric(&self, name: &str) -> Result<u64> {
        let page = self.get("/metrics")?;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.with_context(|| format!("no {name}"))?.parse().context("a number")
    }

    /// Rows that SQL does not have yet.
    pub fn dirty_rows(&self) -> Result<u64> {
        let report: serde_json::Value = serde_json::from_str(&self.get("/v1/writeback")?)?;
        let tables = report["tables"].as_array().cloned().unwrap_or_default();
        Ok(tables.iter().filter_map(|table| table["dirty_rows"].as_u64()).sum())
    }

    fn get(&self, path: &str) -> Result<String> {
        let address = format!("http://{}{path}", self.shardine.http().address());
        let output = Command::new("curl").args(["--silent", "--fail", &address]).output()?;
        ensure!(output.status.success(), "GET {path} failed");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Does `work` and tells how old the oldest change that SQL lacked got meanwhile, in ms, looked at all the time.
    pub fn watch_lag(&self, work: impl FnOnce(&Site) -> Result<()>) -> Result<u64> {
        let (done, oldest) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| -> Result<()> {
                while !done.load(Ordering::Relaxed) {
                    let report: serde_json::Value = serde_json::from_str(&self.get("/v1/writeback")?)?;
                    let tables = report["tables"].as_array().cloned().unwrap_or_default();
                    let ages = tables.iter().filter_map(|table| table["oldest_dirty_ms"].as_u64());
                    oldest.fetch_max(ages.max().unwrap_or(0), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(20));
                }
                Ok(())
            });
            let outcome = work(self);
            done.store(true, Ordering::Relaxed);
            watcher.join().map_err(|_| anyhow::anyhow!("the watcher failed"))??;
            outcome
        })?;
        Ok(oldest.into_inner())
    }
}

fn start_shardine(database: Option<&Database>, place: &Workplace, options: &Options) -> Result<Shardine> {
    let up = shardine_testkit::Options {
        sql: database.map_or(Sql::Sqlite, |database| Sql::Url(database.url())),
        binary: options.subject_bin.clone(),
        ..Default::default()
    };
    Shardine::start_in(place.dir()?, up)
}

fn expect_good(reply: Reply) -> Result<()> {
    match reply {
        Reply::Error(text) => bail!("answered with {text}"),
        _ => Ok(()),
    }
}
