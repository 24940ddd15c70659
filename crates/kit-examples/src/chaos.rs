//! Servers, stores, clocks, lists of hosts and cuts of `goals`, treated badly at random while clients ask. What is done comes
//! from a seed; what must not happen meanwhile is in `verdict`. Run by `cargo xtask chaos --kit`, and shortly by a test.

// In the order in which a newcomer should read them.
pub mod script;
mod episode;
mod watch;
mod verdict;
// What is treated badly.
mod list;
mod place;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};

pub use place::Kind;

/// How long, and how.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    /// All of it; an episode has a store of its own.
    pub lasts: Duration,
    pub episode: Duration,
    /// Stores, in turn.
    pub kinds: Vec<Kind>,
    /// The program `goals`.
    pub program: PathBuf,
}

/// Runs episodes until the time is over, and tells what is done as it is done. Fails with what must not have happened.
pub async fn run(options: &Options, tell: &dyn Fn(&str)) -> Result<()> {
    let begun = std::time::Instant::now();
    let mut calls = 0;
    for number in 0.. {
        let left = options.lasts.saturating_sub(begun.elapsed());
        if number > 0 && left < options.episode / 2 {
            break;
        }
        let seed = options.seed.wrapping_add(number);
        let kind = options.kinds[usize::try_from(number)? % options.kinds.len()];
        let plan = script::make(seed, options.episode.min(left.max(Duration::from_secs(1))), kind);
        tell(&format!("seed {seed}: claims in {kind:?}, {:?} while silent, {} faults", plan.silent, plan.faults.len()));
        let outcome = episode::run(&plan, kind, &options.program, tell).await?;
        tell(&outcome.line());
        calls += outcome.calls;
        ensure!(
            outcome.violations.is_empty(),
            "seed {seed} with claims in {kind:?}:\n{}",
            outcome.violations.join("\n")
        );
    }
    tell(&format!("{calls} calls in {:.0} s, no wrong value, no overlap, no outage", begun.elapsed().as_secs_f64()));
    Ok(())
}
