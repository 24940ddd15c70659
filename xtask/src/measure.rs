//! `cargo xtask bench` and `cargo xtask sim`: build for release, then pass the arguments on.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::{cargo, setup};

/// Arguments that belong to another program.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Passed {
    /// Passed on as they are; try --help.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<String>,
}

pub fn bench(passed: &Passed) -> Result<ExitCode> {
    setup::for_measuring()?;
    // The servers are programs of other packages, so `cargo run` would not build it.
    build(&["-p", "shardine", "-p", "shardine-bench", "-p", "shardine-kit-examples"])?;
    run("shardine-bench", passed)
}

pub fn sim(passed: &Passed) -> Result<ExitCode> {
    build(&["-p", "shardine-sim"])?;
    run("shardine-sim", passed)
}

fn build(packages: &[&str]) -> Result<()> {
    let mut build = cargo::cargo(&["build", "--release", "--locked", "--bins"]);
    // Standard output belongs to the program that is run afterwards.
    let status = build.args(packages).stdout(std::process::Stdio::null()).status().context("build for release")?;
    anyhow::ensure!(status.success(), "the release build failed: {status}");
    Ok(())
}

fn run(program: &str, passed: &Passed) -> Result<ExitCode> {
    let path = shardine_testkit::target_dir().join("release").join(program);
    let status = cargo::command(&path.to_string_lossy()).args(&passed.arguments).status();
    let status = status.with_context(|| format!("start {program}"))?;
    // The program has told what went wrong; its exit code is the answer.
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
