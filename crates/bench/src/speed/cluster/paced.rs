//! Writes at a fixed rate over many connections, and when each was answered.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    task::JoinSet,
    time::{MissedTickBehavior, interval_at, timeout},
};

use super::site::PREFIX;
use crate::speed::etcd::Keys;

/// How long a client waits for an answer before it asks again; longer than any failover that is waited for here.
const DEADLINE: Duration = Duration::from_secs(3);
/// Keys that one connection writes.
const KEYS: u64 = 64;

/// A connection that writes.
pub enum Writer {
    Etcd(Keys),
    Redis { address: SocketAddr, stream: Option<BufReader<TcpStream>> },
}

impl Writer {
    pub async fn redis(address: SocketAddr) -> Result<Writer> {
        Ok(Writer::Redis { address, stream: Some(connect(address).await?) })
    }

    /// One write. A connection that broke is made again by the next one.
    async fn write(&mut self, key: &str, value: &str) -> Result<()> {
        match self {
            Writer::Etcd(keys) => keys.put(key, value.as_bytes()).await,
            Writer::Redis { address, stream } => {
                let mut used = match stream.take() {
                    Some(stream) => stream,
                    None => connect(*address).await?,
                };
                let (key_len, value_len) = (key.len(), value.len());
                let command = format!("*3\r\n$3\r\nSET\r\n${key_len}\r\n{key}\r\n${value_len}\r\n{value}\r\n");
                used.get_mut().write_all(command.as_bytes()).await?;
                let mut reply = String::new();
                if used.read_line(&mut reply).await? == 0 {
                    bail!("the connection was closed");
                }
                *stream = Some(used);
                (reply == "+OK\r\n").then_some(()).with_context(|| reply)
            }
        }
    }
}

async fn connect(address: SocketAddr) -> Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

/// An answered write.
pub struct Write {
    pub at: Instant,
    pub took: Duration,
    /// What went wrong, if something did.
    pub error: Option<String>,
}

/// Writers at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    running: JoinSet<Vec<Write>>,
}

impl Load {
    /// All writers together write so often a second. One that waits for an answer skips its turns.
    pub fn start(writers: Vec<Writer>, rate: f64) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let period = Duration::from_secs_f64(writers.len() as f64 / rate);
        let (mut running, count) = (JoinSet::new(), writers.len());
        for (number, writer) in writers.into_iter().enumerate() {
            let begins = Instant::now() + period.mul_f64(number as f64 / count as f64);
            running.spawn(write_on(writer, number, begins, period, Arc::clone(&stop)));
        }
        Load { stop, running }
    }

    /// Ends the writing and tells of every write, in the order of the answers.
    pub async fn finish(self) -> Result<Vec<Write>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut writes: Vec<Write> = self.running.join_all().await.into_iter().flatten().collect();
        writes.sort_by_key(|write| write.at);
        Ok(writes)
    }
}

async fn write_on(
    mut writer: Writer,
    number: usize,
    begins: Instant,
    period: Duration,
    stop: Arc<AtomicBool>,
) -> Vec<Write> {
    let mut turns = interval_at(begins.into(), period);
    turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut writes = Vec::new();
    for turn in 0_u64.. {
        turns.tick().await;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("{PREFIX}paced-{number}-{}", turn % KEYS);
        let asked = Instant::now();
        let answer = timeout(DEADLINE, writer.write(&key, "bob")).await;
        let error = match answer {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("{error:#}")),
            Err(_) => Some("no answer in time".to_owned()),
        };
        writes.push(Write { at: Instant::now(), took: asked.elapsed(), error });
    }
    writes
}
