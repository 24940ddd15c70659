//! `cargo xtask test`: from a fresh checkout to a verdict. Installs what the tests need, builds once, runs everything.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use shardine_testkit::sql_server::{Kind, Sync};
use shardine_testkit::{SqlServer, target_dir};

use crate::{advisories, cargo, fuzz, python, setup, steps::Steps, tidy, verify};

#[derive(Args)]
pub struct Options {
    /// Seeds of each world of the simulator.
    #[arg(long, default_value_t = 300)]
    seeds: u32,

    /// Inputs per fuzz target, the same ones each time; 0 leaves fuzzing out. `cargo xtask fuzz` looks for new ones.
    #[arg(long, default_value_t = 50_000)]
    fuzz_runs: u32,
}

const AFTER_BUILD: [&str; 4] = ["tests", "doc tests", "python tests", "simulator"];

pub fn run(options: &Options) -> Result<ExitCode> {
    let mut steps = Steps::default();
    steps.run("setup", setup::run);
    steps.run("format", verify::format);
    steps.run("tidy", tidy::run);
    steps.run("advisories", advisories::run);
    if steps.run("build", build) {
        steps.run("tests", tests);
        steps.run("doc tests", || {
            cargo::run(&mut cargo::cargo(&["test", "--workspace", "--doc", "--locked", "--quiet"]))
        });
        python_tests(&mut steps)?;
        simulator(&mut steps, options)?;
    } else {
        AFTER_BUILD.iter().for_each(|name| steps.skip(name, "the build failed"));
    }
    steps.run("clippy", verify::clippy);
    fuzzing(&mut steps, options);
    Ok(steps.finish())
}

/// Everything that later steps run, in one profile: tests start the server's binary, which cargo does not build for them.
fn build() -> Result<()> {
    cargo::run(&mut cargo::cargo(&["build", "--workspace", "--all-targets", "--locked"]))
}

/// With one PostgreSQL and one MariaDB for all tests that need no server of their own, each in a database of its own.
fn tests() -> Result<()> {
    let servers: Result<Vec<SqlServer>> =
        [Kind::Postgres, Kind::MariaDb].into_iter().map(|kind| SqlServer::start(kind, Sync::Off, &[])).collect();
    let servers = servers.context("start the SQL servers that the tests share")?;
    let mut command = if cargo::is_installed("cargo-nextest") {
        cargo::cargo(&["nextest", "run", "--workspace", "--locked", "--no-fail-fast"])
    } else {
        cargo::cargo(&["test", "--workspace", "--all-targets", "--locked", "--no-fail-fast"])
    };
    command.envs(servers.iter().map(|server| (server.kind().shared_port(), server.port().to_string())));
    cargo::run(&mut command)
}

fn python_tests(steps: &mut Steps) -> Result<()> {
    match python::scripts()?.is_empty() {
        true => steps.skip("python tests", "there are none"),
        false => drop(steps.run("python tests", || python::run(&python::Options::default()))),
    }
    Ok(())
}

fn simulator(steps: &mut Steps, options: &Options) -> Result<()> {
    if !cargo::has_program("shardine-sim")? {
        steps.skip("simulator", "it has no program yet");
        return Ok(());
    }
    let seeds = options.seeds.to_string();
    let name = format!("simulator, {seeds} seeds of each world");
    // The program that was built with everything else; cargo would build it alone, with other features.
    let program = target_dir().join("debug").join("shardine-sim");
    steps.run(&name, || cargo::run(cargo::command(&program.to_string_lossy()).args(["--seeds", &seeds])));
    Ok(())
}

fn fuzzing(steps: &mut Steps, options: &Options) {
    match (options.fuzz_runs, setup::has_cpp_compiler()) {
        (0, _) => steps.skip("fuzz", "asked to leave it out"),
        (_, false) => steps.skip("fuzz", "there is no C++ compiler; the corpora were replayed with the other tests"),
        (runs, true) => drop(steps.run("fuzz", || fuzz::run(&fuzz::Options::all(runs)))),
    }
}
