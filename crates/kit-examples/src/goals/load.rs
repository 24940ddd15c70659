//! Load on a service of goals: callers that ask for random hits without a pause, check what they get, and note how long it
//! took.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use shardine_kit::{Client, How, Mode};
use tokio::task::JoinSet;

use super::Hit;
use super::data::expected;
use super::fleet::COUNTERS;
use super::request::GoalsRequest;

/// How much is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub mode: Mode,
    pub callers: usize,
    /// Hits of a call.
    pub hits: usize,
    /// Between two calls of a caller.
    pub pause: Duration,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Tally {
    pub calls: u64,
    pub errors: Vec<String>,
    /// In microseconds.
    pub took: Histogram<u64>,
}

/// Load that runs until it is stopped.
pub struct Load {
    callers: JoinSet<Result<Tally>>,
    is_over: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
}

impl Load {
    pub fn start(client: &Client<GoalsRequest>, work: Work) -> Load {
        let (mut callers, is_over, calls) = (JoinSet::new(), Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        for _ in 0..work.callers {
            callers.spawn(ask(client.clone(), work, Arc::clone(&is_over), Arc::clone(&calls)));
        }
        Load { callers, is_over, calls }
    }

    /// Calls that have ended.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Waits for so many further calls.
    pub async fn wait_for_calls(&self, calls: u64) {
        let goal = self.calls() + calls;
        while self.calls() < goal {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub async fn stop(self) -> Result<Tally> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut all = Tally { calls: 0, errors: Vec::new(), took: histogram()? };
        for one in self.callers.join_all().await {
            let one = one?;
            all.calls += one.calls;
            all.errors.extend(one.errors);
            all.took.add(&one.took).context("add up")?;
        }
        Ok(all)
    }
}

fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 60_000_000, 3).context("a histogram")
}

async fn ask(client: Client<GoalsRequest>, work: Work, is_over: Arc<AtomicBool>, all: Arc<AtomicU64>) -> Result<Tally> {
    let mut result = Tally { calls: 0, errors: Vec::new(), took: histogram()? };
    while !is_over.load(Ordering::Relaxed) {
        let hits = random_hits(work.hits);
        let begun = Instant::now();
        let found = client.get_how(&hits, How::mode(work.mode)).await;
        result.took.saturating_record(u64::try_from(begun.elapsed().as_micros())?);
        result.calls += 1;
        all.fetch_add(1, Ordering::Relaxed);
        match found {
            Err(error) => result.errors.push(error.to_string()),
            Ok(found) => {
                let is_right = |hit: &Hit| found.get(&hit.watch_id) == Some(&expected(hit));
                if found.len() != hits.len() || !hits.iter().all(is_right) {
                    result.errors.push("a wrong answer".to_owned());
                }
            }
        }
        if !work.pause.is_zero() {
            tokio::time::sleep(work.pause).await;
        }
    }
    Ok(result)
}

/// Hits of random counters, every other one a purchase.
pub fn random_hits(count: usize) -> Vec<Hit> {
    let hit = |number: usize| Hit {
        watch_id: number as u64,
        counter_id: rand::random_range(0..COUNTERS),
        url: if number.is_multiple_of(2) {
            "https://shop.example/buy/7".into()
        } else {
            "https://shop.example/".into()
        },
        is_robot: false,
    };
    (0..count).map(hit).collect()
}

impl Tally {
    /// One line: how many, how long, how many in vain.
    pub fn line(&self) -> String {
        let millis = |quantile| self.took.value_at_quantile(quantile) as f64 / 1_000.0;
        format!(
            "{} calls, {} errors, p50 {:.2} ms, p90 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, max {:.2} ms",
            self.calls,
            self.errors.len(),
            millis(0.5),
            millis(0.9),
            millis(0.99),
            millis(0.999),
            self.took.max() as f64 / 1_000.0
        )
    }

    pub fn p99_micros(&self) -> u64 {
        self.took.value_at_quantile(0.99)
    }
}
