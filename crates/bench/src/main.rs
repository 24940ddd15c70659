//! `shardine-bench`: the speed table of Shardine against redis-server, as ratios from one interleaved run on one machine.
//! The table goes to stdout, progress to stderr.
#![allow(clippy::print_stdout)] // The table is this program's output.

mod speed;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use speed::{Options, Report};

fn main() -> ExitCode {
    run(&Options::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(options: &Options) -> Result<ExitCode> {
    let report = Report::measure(options)?;
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&report.to_json())?),
        false => print!("{}", report.to_markdown()),
    }
    // A missed target is a result, not a failure of the measurement, unless the caller says otherwise.
    match options.strict && !report.all_targets_met() {
        true => Ok(ExitCode::FAILURE),
        false => Ok(ExitCode::SUCCESS),
    }
}
