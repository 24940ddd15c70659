//! Chaos for a cluster: nodes that are killed, stopped and paused under writing and reading clients, and, where namespaces may be
//! made, their network, disks and SQL too.

#![allow(clippy::print_stdout, reason = "what was done is what is asked for")]

use std::process::{ExitCode, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use shardine_testkit::chaos;
use shardine_testkit::namespace::{self, Entered};

use super::Options;
use crate::cargo;

pub fn run(options: &Options) -> Result<ExitCode> {
    if !namespace::is_inside() {
        build()?;
    }
    let is_namespaced = match namespace::enter(std::env::args_os().skip(1))? {
        Entered::Inside => true,
        Entered::Ended(status) if status.success() => return Ok(ExitCode::SUCCESS),
        Entered::Ended(_) => return Ok(ExitCode::FAILURE),
        Entered::Impossible(why) => {
            println!("no namespaces here, so network, disks and SQL are left alone: {why}");
            false
        }
    };
    let seed = options.seed.map_or_else(any_seed, Ok)?;
    println!("cargo xtask chaos --minutes {} --seed {seed} --nodes {}", options.minutes, options.nodes);
    let lasts = Duration::from_secs_f64(options.minutes * 60.0);
    let chosen = chaos::Options { seed, lasts, nodes: options.nodes as usize, is_namespaced };
    let tally = chaos::run(&chosen, &|line| println!("{line}"))?;
    println!("seed {seed}: {tally}");
    Ok(ExitCode::SUCCESS)
}

/// Another binary needs no building.
fn build() -> Result<()> {
    if std::env::var_os("SHARDINE_BIN").is_some() {
        return Ok(());
    }
    let mut build = cargo::cargo(&["build", "--locked", "--bins", "-p", "shardine"]);
    let status = build.stdout(Stdio::null()).status().context("build")?;
    ensure!(status.success(), "the build failed: {status}");
    Ok(())
}

fn any_seed() -> Result<u64> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(u64::from(since.subsec_micros()))
}
