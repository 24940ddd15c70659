//! `shardine-bench`: the speed table of Shardine against redis-server, as ratios from one interleaved run on one machine.
//! The table goes to stdout, progress to stderr.
#![allow(clippy::print_stdout)] // The table is this program's output.

mod speed;

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use clap::Parser;
use shardine_testkit::namespace::{self, Entered};

use speed::{Options, Report, Work};

fn main() -> ExitCode {
    run(&Options::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(options: &Options) -> Result<ExitCode> {
    if options.only.contains(&Work::Cuts) {
        ensure!(options.only.len() == 1, "cuts are measured alone: --only cuts");
        match namespace::enter(std::env::args_os().skip(1))? {
            Entered::Inside => {}
            Entered::Ended(status) => return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
            Entered::Impossible(why) => bail!("no namespaces here: {why}"),
        }
    }
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
