//! Chaos for the kit: `goals` of the kit's examples, with claims in PostgreSQL, MariaDB, SQLite and Shardine in turn.

use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, ensure};

use super::Options;
use crate::{cargo, setup};

pub fn run(options: &Options) -> Result<ExitCode> {
    setup::run()?;
    // The server too: claims may be its semaphores.
    let mut build = cargo::cargo(&["build", "--locked", "--bins", "-p", "shardine", "-p", "shardine-kit-examples"]);
    let status = build.stdout(Stdio::null()).status().context("build")?;
    ensure!(status.success(), "the build failed: {status}");
    let program = shardine_testkit::target_dir().join("debug").join("kit-chaos");
    let status = cargo::command(&program.to_string_lossy()).args(options.arguments()).status().context("start it")?;
    // The program has told what went wrong.
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
