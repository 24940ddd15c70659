//! A client that is driven by lines, so that the same runs can be made with a client in another language
//! (`examples/kit_client.py`): calls in as `DEADLINE_MS ID:COUNTER…`, one line out for each.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use shardine_kit::provider::HostsFile;
use shardine_kit::{Client, Error, How, Options};
use tokio::sync::mpsc;

use super::Hit;
use super::request::GoalsRequest;

/// How it asks.
#[derive(Args, Clone, Debug)]
pub struct Asking {
    /// Servers, one per line.
    hosts: PathBuf,
    #[arg(default_value_t = 10_000)]
    ping_ms: u64,
    #[arg(default_value_t = 1_000)]
    search_ms: u64,
    #[arg(default_value_t = 500)]
    host_timeout_ms: u64,
}

/// Answers until there are no more lines.
pub async fn run(asking: Asking) -> Result<()> {
    let millis = Duration::from_millis;
    let options = Options {
        ping_period: millis(asking.ping_ms),
        search_period: millis(asking.search_ms),
        host_timeout: millis(asking.host_timeout_ms),
        ..Options::default()
    };
    let client = Client::start(GoalsRequest, HostsFile::new(asking.hosts), options);
    let mut lines = lines_of_stdin();
    while let Some(line) = lines.recv().await {
        let (deadline, hits) = parsed(&line).with_context(|| format!("no call: {line}"))?;
        let outcome = client.get_how(&hits, How::default().within(deadline)).await;
        writeln!(std::io::stdout(), "{}", told(outcome))?;
    }
    Ok(())
}

/// Read by a thread of their own, which may wait.
fn lines_of_stdin() -> mpsc::Receiver<String> {
    let (tell, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).all(|line| tell.blocking_send(line).is_ok());
    });
    lines
}

fn parsed(line: &str) -> Option<(Duration, Vec<Hit>)> {
    let mut words = line.split_whitespace();
    let deadline = Duration::from_millis(words.next()?.parse().ok()?);
    let hit = |word: &str| {
        let (id, counter) = word.split_once(':')?;
        let url = String::new();
        Some(Hit { watch_id: id.parse().ok()?, counter_id: counter.parse().ok()?, url, is_robot: false })
    };
    Some((deadline, words.map(hit).collect::<Option<_>>()?))
}

fn told(outcome: Result<std::collections::HashMap<u64, Vec<u32>>, Error<u64>>) -> String {
    match outcome {
        Ok(found) => {
            let mut found: Vec<(u64, Vec<u32>)> = found.into_iter().collect();
            found.sort();
            let values = found.iter().map(|(id, goals)| format!(" {id}={}", joined(goals)));
            format!("found{}", values.collect::<String>())
        }
        Err(Error::Duplicate { id }) => format!("duplicate {id}"),
        Err(Error::NoShard { ids }) => format!("no-shard {}", joined(&ids)),
        Err(Error::Missing { ids, hosts }) => {
            let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            format!("missing {} from {}", joined(&ids), hosts.join(", "))
        }
    }
}

fn joined(numbers: &[impl ToString]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
