//! Keys that are not in memory, asked for by many connections at once.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use mysql_async::prelude::Queryable;
use shardine_testkit::sql_server::Kind;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::site::{Base, Site, key};

const CONNECTIONS: u64 = 64;

/// Keys per second, each by a statement of its own.
pub fn by_select(site: &Site, count: u64) -> Result<f64> {
    let database = site.database.as_ref().context("a server")?;
    let (base, url) = (site.base, database.url());
    timed(count, move |keys| {
        let url = url.clone();
        async move {
            match base {
                Base::Server(Kind::Postgres) => select_postgres(&url, keys).await,
                _ => select_mysql(&url, keys).await,
            }
        }
    })
}

/// Keys per second through the Redis door, with this many commands on their way per connection.
pub fn through_shardine(site: &Site, count: u64, pipeline: usize) -> Result<f64> {
    let port = site.port();
    timed(count, move |keys| ask(port, keys, pipeline))
}

/// Deals the keys out to the connections and lets all of them work at once.
fn timed<F>(count: u64, work: impl Fn(Vec<String>) -> F) -> Result<f64>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        let started = Instant::now();
        for connection in 0..CONNECTIONS {
            let keys = (connection..count).step_by(CONNECTIONS as usize).map(key).collect();
            tasks.spawn(work(keys));
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(count as f64 / started.elapsed().as_secs_f64())
    })
}

async fn select_postgres(url: &str, keys: Vec<String>) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let statement = client.prepare("SELECT __version__, name, age, city FROM users WHERE __key__ = $1").await?;
    for key in keys {
        let row = client.query_one(&statement, &[&key.as_bytes()]).await?;
        ensure!(row.try_get::<_, &str>(3)? == "london", "another row");
    }
    Ok(())
}

async fn select_mysql(url: &str, keys: Vec<String>) -> Result<()> {
    let mut conn = mysql_async::Conn::from_url(url).await?;
    let statement = conn.prep("SELECT __version__, name, age, city FROM users WHERE __key__ = ?").await?;
    for key in keys {
        let row: Option<mysql_async::Row> = conn.exec_first(&statement, (key.as_bytes(),)).await?;
        ensure!(row.and_then(|row| row.get::<String, _>(3)).is_some_and(|city| city == "london"), "another row");
    }
    conn.disconnect().await?;
    Ok(())
}

async fn ask(port: u16, keys: Vec<String>, pipeline: usize) -> Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?);
    stream.get_ref().set_nodelay(true)?;
    let mut line = String::new();
    for batch in keys.chunks(pipeline) {
        let mut commands = String::new();
        for key in batch {
            commands += &format!("*3\r\n$4\r\nHGET\r\n$18\r\nusers:{key}\r\n$4\r\ncity\r\n");
        }
        stream.get_mut().write_all(commands.as_bytes()).await?;
        for _ in batch {
            line.clear();
            stream.read_line(&mut line).await?;
            ensure!(line == "$6\r\n", "answered with {line:?}");
            let mut value = [0; 8];
            stream.read_exact(&mut value).await?;
            ensure!(&value == b"london\r\n", "another row");
        }
    }
    Ok(())
}
