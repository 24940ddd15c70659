//! Chaos for a cluster: nodes that are killed, stopped and paused under writing and reading clients.

#![allow(clippy::print_stdout, reason = "what was done is what is asked for")]

use std::process::{ExitCode, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use shardine_testkit::chaos;

use super::Options;
use crate::cargo;

pub fn run(options: &Options) -> Result<ExitCode> {
    let mut build = cargo::cargo(&["build", "--locked", "--bins", "-p", "shardine"]);
    let status = build.stdout(Stdio::null()).status().context("build")?;
    ensure!(status.success(), "the build failed: {status}");
    let seed = options.seed.map_or_else(any_seed, Ok)?;
    println!("cargo xtask chaos --minutes {} --seed {seed} --nodes {}", options.minutes, options.nodes);
    let lasts = Duration::from_secs_f64(options.minutes * 60.0);
    let tally = chaos::run(&chaos::Options { seed, lasts, nodes: options.nodes as usize }, &|line| println!("{line}"))?;
    println!("seed {seed}: {tally}");
    Ok(ExitCode::SUCCESS)
}

fn any_seed() -> Result<u64> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(u64::from(since.subsec_micros()))
}
