//! The chores of this repository, as `cargo xtask <chore>`. `verify` looks and never writes; `fix` writes; `test` is what CI
//! runs, and nothing else is.
#![allow(clippy::print_stdout)] // What a chore finds is its output.

mod advisories;
mod cargo;
mod chaos;
mod fix;
mod fuzz;
mod measure;
mod promises;
mod python;
mod setup;
mod statements;
mod steps;
mod test;
mod tidy;
mod tree;
mod verify;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The chores of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Look at everything that can be judged without running it; write nothing.
    Verify,
    /// Format, and apply what clippy knows how to repair.
    Fix,
    /// Install what the tests need and run all of them. This is what CI runs.
    Test(test::Options),
    /// Build for release and measure against redis-server. Example: cargo xtask bench --only hget,hset
    Bench(measure::Passed),
    /// Build for release and run the simulator. Example: cargo xtask sim --seeds 10000
    Sim(measure::Passed),
    /// Install what the tests need: packages of the system, and a Python environment in the target folder.
    Setup,
    /// Check who depends on whom, purity, file shapes, links and citations.
    Tidy,
    /// Check the dependencies against `deny.toml`.
    Advisories,
    /// Tell which promises of today have no test that names them.
    Statements(statements::Options),
    /// Treat real processes badly at random. Example: cargo xtask chaos --minutes 10 --seed 7
    Chaos(chaos::Options),
    /// Run the Python tests against a fresh server each.
    Python(python::Options),
    /// Run the fuzz targets for a while. Example: cargo xtask fuzz --seconds 60 resp_request
    Fuzz(fuzz::Options),
}

fn main() -> ExitCode {
    // Told in one line: a stack trace of this program helps nobody who wants to know why a chore failed.
    run(Arguments::parse().chore).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(chore: Chore) -> Result<ExitCode> {
    match chore {
        Chore::Verify => verify::run(),
        Chore::Fix => done(fix::run()),
        Chore::Test(options) => test::run(&options),
        Chore::Bench(passed) => measure::bench(&passed),
        Chore::Sim(passed) => measure::sim(&passed),
        Chore::Setup => done(setup::run()),
        Chore::Tidy => done(tidy::run()),
        Chore::Advisories => done(advisories::run()),
        Chore::Statements(options) => statements::run(&options),
        Chore::Chaos(options) => chaos::run(&options),
        Chore::Python(options) => done(python::run(&options)),
        Chore::Fuzz(options) => done(fuzz::run(&options)),
    }
}

fn done(outcome: Result<()>) -> Result<ExitCode> {
    outcome.map(|()| ExitCode::SUCCESS)
}
