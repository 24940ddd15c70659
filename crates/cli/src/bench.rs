//! `bench`: a load generator over the Redis protocol. It measures from the client's side, by connection.

mod mix;
mod report;
mod wire;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

use crate::complaint::Complaint;
use crate::show::Output;
use crate::size::{NotASize, Size};
use mix::Mix;
use report::Tally;

/// Larger ones would measure the network.
const VALUE_BYTES_MAX: u64 = 1 << 20;

#[derive(Args, Clone)]
pub struct BenchArgs {
    /// The Redis door
    #[arg(long, env = "SHARDINE_REDIS", default_value = "127.0.0.1:7379", value_name = "ADDR")]
    redis: SocketAddr,
    /// The server's token, as a Redis password
    #[arg(long, env = "SHARDINE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Connections at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Commands sent before waiting for answers
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pipeline: u32,
    /// Shares of HGET and HSET
    #[arg(long, default_value = "get:80,set:20", value_name = "get:N,set:N")]
    mix: Mix,
    /// Different keys
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Bytes of a value
    #[arg(long, default_value = "32", value_parser = value_size, value_name = "SIZE")]
    value_bytes: Size,
    /// Before each key; with a table's name and a colon the load goes there
    #[arg(long, default_value = "bench:")]
    prefix: String,
    /// The field that is read and set
    #[arg(long, default_value = "value")]
    field: String,
    /// How long to measure
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
}

fn value_size(text: &str) -> Result<Size, String> {
    let size: Size = text.parse().map_err(|error: NotASize| error.to_string())?;
    if size.0 <= VALUE_BYTES_MAX { Ok(size) } else { Err("values of this load end at 1MiB".to_owned()) }
}

pub fn run(args: &BenchArgs, output: Output) -> Result<(), Complaint> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Complaint::from_io)?;
    let begun = Instant::now();
    let tally = runtime.block_on(drive(args, output))?;
    report::print(args, &tally, begun.elapsed().min(Duration::from_secs(args.seconds)), output);
    if tally.is_clean() {
        return Ok(());
    }
    let what = format!("{} answers were errors", tally.errors);
    Err(Complaint::failed(what, tally.first_error.unwrap_or_default(), "shardine status; shardine doctor"))
}

async fn drive(args: &BenchArgs, output: Output) -> Result<Tally, Complaint> {
    let until = Instant::now() + Duration::from_secs(args.seconds);
    let done = Arc::new(AtomicU64::new(0));
    let mut workers = Vec::new();
    for number in 0..args.connections {
        workers.push(tokio::spawn(worker::run(args.clone(), number, until, Arc::clone(&done))));
    }
    show_progress(args.seconds, until, &done, output).await;
    let mut total = Tally::default();
    for worker in workers {
        let tally = worker.await.map_err(|error| {
            Complaint::failed("a worker of the benchmark broke", error.to_string(), "report it, please")
        })?;
        total.add(tally.map_err(|error| {
            let what = format!("the load on {} broke off", args.redis);
            Complaint::failed(what, error.to_string(), "shardine up, or --redis ADDR")
        })?);
    }
    Ok(total)
}

/// A bar on a terminal, a line per second in a log, nothing for machines.
async fn show_progress(seconds: u64, until: Instant, done: &AtomicU64, output: Output) {
    let bar = (!output.json && std::io::stderr().is_terminal()).then(|| {
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} s  {msg}");
        ProgressBar::new(seconds).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    });
    let mut last = 0;
    for second in 1..=seconds {
        let next = until - Duration::from_secs(seconds - second);
        tokio::time::sleep_until(next.into()).await;
        let count = done.load(Ordering::Relaxed);
        let rate = count - last;
        last = count;
        match &bar {
            Some(bar) => {
                bar.set_position(second);
                bar.set_message(format!("{rate} operations/s"));
            }
            None => output.note(&format!("{second}/{seconds} s  {rate} operations/s")),
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}
