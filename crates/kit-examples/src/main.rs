//! `goals`: a server of the example, load on servers, and the demonstration of both.

#![allow(clippy::print_stdout, reason = "a program of its own")]

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use shardine_kit::provider::Fixed;
use shardine_kit::{Client, Mode, Options};
use shardine_kit_examples::goals::fleet::{Fleet, Plan};
use shardine_kit_examples::goals::lines;
use shardine_kit_examples::goals::load::{Load, Work};
use shardine_kit_examples::goals::request::GoalsRequest;
use shardine_kit_examples::goals::server;

#[derive(Parser)]
#[command(name = "goals", version)]
enum Goals {
    /// A server: claims a shard of its data centre and answers for it.
    Server(Box<server::Options>),
    /// Load on servers that run, with percentiles every second.
    Load(LoadOptions),
    /// Answers calls that are told as lines, for runs that are made with clients in several languages.
    Lines(lines::Asking),
    /// Nine servers in three data centres, load on them, and a data centre that is restarted with other bounds.
    Demo(Asking),
}

#[derive(clap::Args)]
struct LoadOptions {
    /// Servers as host:port.
    #[arg(long, value_delimiter = ',', required = true)]
    hosts: Vec<String>,
    #[command(flatten)]
    asking: Asking,
}

#[derive(clap::Args, Clone)]
struct Asking {
    #[arg(long, value_enum, default_value = "all")]
    mode: ModeName,
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    #[arg(long, default_value_t = 8)]
    callers: usize,
    /// Hits of a call.
    #[arg(long, default_value_t = 100)]
    hits: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeName {
    All,
    Hedge,
    One,
}

impl Asking {
    fn work(&self) -> Work {
        let mode = match self.mode {
            ModeName::All => Mode::All,
            ModeName::Hedge => Mode::Hedge,
            ModeName::One => Mode::One,
        };
        Work { mode, callers: self.callers, hits: self.hits, pause: Duration::ZERO }
    }
}

/// A server needs one thread; nine of them share a machine in the demonstration.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_writer(std::io::stderr)
        .init();
    match Goals::parse() {
        Goals::Server(options) => server::run(*options).await,
        Goals::Load(options) => {
            let client = Client::start(GoalsRequest, Fixed::new(options.hosts.clone()), Options::default());
            seconds(&client, &options.asking, "").await
        }
        Goals::Lines(asking) => lines::run(asking).await,
        Goals::Demo(asking) => demo(&asking).await,
    }
}

/// Runs load for so many seconds, with a line for each.
async fn seconds(client: &Client<GoalsRequest>, asking: &Asking, what: &str) -> Result<()> {
    let mut errors = 0;
    for second in 1..=asking.seconds {
        let load = Load::start(client, asking.work());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let result = load.stop().await?;
        errors += result.errors.len();
        println!("{what}second {second}: {}", result.line());
        result.errors.iter().take(3).for_each(|error| println!("  {error}"));
    }
    ensure!(errors == 0, "{errors} calls failed");
    Ok(())
}

async fn demo(asking: &Asking) -> Result<()> {
    let plan = Plan { program: std::env::current_exe()?, claims: None, bounds: vec![1_000, 2_000], ping_ms: 1_000 };
    let fleet = tokio::task::spawn_blocking(|| Fleet::start(plan)).await??;
    for server in &fleet.servers {
        println!("{} at {}", server.dc, server.address());
    }
    let client = Client::start(GoalsRequest, fleet.hosts(), Options::default());
    seconds(&client, asking, "healthy, ").await?;
    println!("restarting sas with bounds at 500 and 2,500");
    let restarting = tokio::task::spawn_blocking(move || {
        let mut fleet = fleet;
        fleet.restart("sas", &[500, 2_500]).map(|()| fleet)
    });
    seconds(&client, asking, "restarting, ").await?;
    let _fleet = restarting.await??;
    for (address, shard) in client.hosts() {
        println!("{address} serves {} of {}", shard.interval(), shard.dc);
    }
    let metrics = client.metrics();
    println!("{} requests, {} hedges, {} retries", metrics.requests, metrics.hedges, metrics.retries);
    Ok(())
}
