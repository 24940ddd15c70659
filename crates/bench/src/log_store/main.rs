//! Measures the candidates for the log of all groups behind the same trait (docs/adr/0001-log-store.md). Decides nothing.
//!
//! `cargo run --release -p shardine-bench --features candidates --bin log_store [-- --seconds 3 --rounds 5 --dir PATH]`; without the
//! feature only ours and the bare disk are measured.

mod damage;
#[cfg(feature = "candidates")]
mod fjall_log;
mod load;
#[cfg(feature = "candidates")]
mod raft_engine_log;
mod raw_file;
mod store;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use shardine_model::ids::ShardId;
use shardine_store::Options;

use self::load::{Load, Measured};
use self::store::{LogStore, Segments};

/// Measures the log stores that were considered.
#[derive(Parser)]
struct Args {
    /// How long each candidate writes in each round.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// The candidates take turns; the table shows medians.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Size of the log for the recovery measurement.
    #[arg(long, default_value_t = 300)]
    recovery_mib: usize,
    /// Only stores whose name contains this.
    #[arg(long, default_value = "")]
    store: String,
    /// Only loads whose name begins with this; with any, recovery and damage are left out.
    #[arg(long, default_value = "")]
    load: String,
    /// Where to write: a directory on the disk to be measured.
    #[arg(long, default_value = "target/log_store")]
    dir: PathBuf,
}

/// Whether a store shall take its space in advance: for speed yes, for a thousand small trials no.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    Prepared,
    Bare,
}

/// One way to keep a log.
struct Candidate {
    name: &'static str,
    open: fn(&Path, Space) -> Result<Box<dyn LogStore>>,
    /// The raw file keeps no order and reads nothing back: it only shows what the disk can do.
    can_recover: bool,
}

const CANDIDATES: &[Candidate] = &[
    Candidate { name: "raw file", open: |dir, _| Ok(Box::new(raw_file::RawFile::open(dir)?)), can_recover: false },
    Candidate {
        name: "segments (ours)",
        open: |dir, space| Ok(Box::new(Segments::open(dir, segment_options(space))?)),
        can_recover: true,
    },
    #[cfg(feature = "candidates")]
    Candidate {
        name: "raft-engine",
        open: |dir, space| Ok(Box::new(raft_engine_log::RaftEngineLog::open(dir, space)?)),
        can_recover: true,
    },
    #[cfg(feature = "candidates")]
    Candidate { name: "fjall", open: |dir, _| Ok(Box::new(fjall_log::FjallLog::open(dir)?)), can_recover: true },
];

fn main() -> Result<()> {
    let args = Args::parse();
    fs::create_dir_all(&args.dir).with_context(|| format!("create {}", args.dir.display()))?;
    let candidates: Vec<&Candidate> =
        CANDIDATES.iter().filter(|candidate| candidate.name.contains(&args.store)).collect();
    for load in load::LOADS.iter().filter(|load| load.name.starts_with(&args.load)) {
        measure_writes(&args, &candidates, load)?;
    }
    if args.load.is_empty() {
        for candidate in candidates.iter().filter(|candidate| candidate.can_recover) {
            measure_recovery(&args, candidate)?;
            say(&damage::describe(candidate, &fresh(&args.dir)?)?);
        }
    }
    fs::remove_dir_all(&args.dir).context("clean up")
}

fn measure_writes(args: &Args, candidates: &[&Candidate], load: &Load) -> Result<()> {
    say(&format!("\n{}", load.name));
    say(
        "| store | writes/s | syncs/s | CPU µs per write | of it the callers' | median µs | 99 % µs | worst ms |\n|---|---|---|---|---|---|---|---|",
    );
    let mut seen: Vec<Vec<Measured>> = candidates.iter().map(|_| Vec::new()).collect();
    for _ in 0..args.rounds {
        for (candidate, seen) in candidates.iter().zip(&mut seen) {
            let store = (candidate.open)(&fresh(&args.dir)?, Space::Prepared)?;
            seen.push(load::run(store.as_ref(), load, Duration::from_secs(args.seconds))?);
        }
    }
    for (candidate, seen) in candidates.iter().zip(&seen) {
        let median = |of: fn(&Measured) -> f64| load::median(seen.iter().map(of).collect());
        say(&format!(
            "| {} | {:.0} | {:.0} | {:.1} | {:.1} | {:.0} | {:.0} | {:.1} |",
            candidate.name,
            median(|measured| measured.writes_per_second),
            median(|measured| measured.syncs_per_second),
            median(|measured| measured.cpu_us),
            median(|measured| measured.caller_cpu_us),
            median(|measured| measured.median_us),
            median(|measured| measured.p99_us),
            median(|measured| measured.worst_us) / 1_000.0,
        ));
    }
    Ok(())
}

fn measure_recovery(args: &Args, candidate: &Candidate) -> Result<()> {
    let dir = fresh(&args.dir)?;
    let store = (candidate.open)(&dir, Space::Prepared)?;
    let load = &load::LOADS[1];
    let writes = (args.recovery_mib << 20) / (load.groups as usize * load.entries as usize * load.entry_bytes);
    load::fill(store.as_ref(), load, writes as u64)?;
    drop(store);

    let before = Instant::now();
    let store = (candidate.open)(&dir, Space::Prepared)?;
    let mut entries = 0;
    for shard in store.shards() {
        entries += store.entries(shard)?.len();
    }
    let took = before.elapsed();
    let held = bytes_below(&dir)?;
    let shards: Vec<ShardId> = (1..=load.groups).map(ShardId).collect();
    store.truncate_before(&shards, writes as u64)?;
    drop(store);
    let left = bytes_below(&dir)?;
    say(&format!(
        "\n{}: {entries} entries, {} MiB on disk, recovered and loaded in {took:.2?}; {} MiB on disk after truncation",
        candidate.name,
        held >> 20,
        left >> 20,
    ));
    Ok(())
}

fn segment_options(space: Space) -> Options {
    match space {
        Space::Prepared => Options::default(),
        Space::Bare => Options { segment_bytes: 1 << 20, ..Options::default() },
    }
}

fn fresh(dir: &Path) -> Result<PathBuf> {
    let dir = dir.join("log");
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn bytes_below(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

#[expect(clippy::print_stdout, reason = "the table is the output of this program")]
fn say(line: &str) {
    println!("{line}");
}
