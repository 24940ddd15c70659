//! `shardine-sim`: runs seeds of the simulator and tells what broke, with the line that replays it.
#![allow(clippy::print_stdout, reason = "a program talks to its user")]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use shardine_sim::{Counters, Options, run};

/// The replica core under simulated faults. Every seed is a whole run of its own.
#[derive(Debug, Parser)]
#[command(name = "shardine-sim", version)]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 300)]
    seeds: u64,

    /// Where to begin.
    #[arg(long, default_value_t = 1)]
    first: u64,

    /// Replay one seed and print its last events.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.seed {
        let out = run(seed, Options { in_words: true, mutant: None });
        for line in &out.lines { println!("{line}"); }
        println!("{:?}", out.violation);
        println!("{:#?}", out.counters);
        return Ok(ExitCode::SUCCESS);
    }
    let begun = std::time::Instant::now();
    let mut total = Counters::default();
    let (mut events, mut us, mut open, mut fails) = (0, 0, 0, 0);
    std::panic::set_hook(Box::new(|_| {}));
    for seed in arguments.first..arguments.first + arguments.seeds {
        let out = run(seed, Options::default());
        total.add(&out.counters);
        events += out.events; us += out.virtual_us; open += out.left_open;
        if let Some(v) = out.violation { fails += 1; println!("seed {seed} failed: {} - {}", v.checker, v.detail.chars().take(600).collect::<String>()); }
    }
    let s = begun.elapsed().as_secs_f64();
    println!("{fails} failures, {:.1} seeds/s, {:.0} sim s/s, {:.0} events/s, open {open}", arguments.seeds as f64 / s, us as f64 / 1e6 / s, events as f64 / s);
    for (w, c) in total.list() { println!("{c:>10} {w}"); }
    Ok(ExitCode::SUCCESS)
}
