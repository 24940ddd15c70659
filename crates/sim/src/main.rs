//! `shardine-sim`: runs seeds of the simulator and tells what broke, with the line that replays it.
#![allow(clippy::print_stdout, reason = "a program that reports to whoever started it")]

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use shardine_sim::{Counters, Mutant, Options, Outcome, count, hunt, run};

/// The replica core under simulated faults. Every seed is a whole run of its own, and the same seed is the same run.
#[derive(Debug, Parser)]
#[command(name = "shardine-sim", version)]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 300)]
    seeds: u64,

    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first: u64,

    /// Replay one seed and print its last events.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,

    /// How many events to print with --seed.
    #[arg(long, default_value_t = 200, value_name = "COUNT")]
    events: usize,

    /// Go on after a failure, and count them; with --mutants, count how many of the seeds catch each.
    #[arg(long)]
    keep_going: bool,

    /// Plant each known bug in turn and see that it is caught within --seeds.
    #[arg(long)]
    mutants: bool,
}

/// Below this many seeds a counter may be zero by chance.
const SEEDS_FOR_EVERYTHING: u64 = 200;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A panic in the code under test is a verdict, and is told as one.
    std::panic::set_hook(Box::new(|_| {}));
    let passed = match (arguments.seed, arguments.mutants) {
        (Some(seed), _) => replay(seed, arguments.events),
        (None, true) => try_mutants(&arguments),
        (None, false) => run_seeds(&arguments),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(seed: u64, events: usize) -> bool {
    let outcome = run(seed, Options { mutant: None, lines: events });
    outcome.lines.iter().for_each(|line| println!("{line}"));
    println!("trace {:016x}, {} events", outcome.trace_hash, outcome.events);
    match &outcome.violation {
        None => println!("seed {seed} passed"),
        Some(_) => tell_failure(&outcome),
    }
    outcome.violation.is_none()
}

fn tell_failure(outcome: &Outcome) {
    let Some(violation) = &outcome.violation else { return };
    let (seed, checker) = (outcome.seed, violation.checker);
    println!("seed {seed} failed: {checker} — replay with: cargo xtask sim --seed {seed}");
    println!("  {}", violation.detail);
}

/// What many runs come to.
#[derive(Default)]
struct Total {
    runs: u64,
    failures: u64,
    events: u64,
    virtual_us: u64,
    left_open: u64,
    counters: Counters,
}

impl Total {
    fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.failures += u64::from(outcome.violation.is_some());
        self.events += outcome.events;
        self.virtual_us += outcome.virtual_us;
        self.left_open += outcome.left_open;
        self.counters.add(&outcome.counters);
    }

    fn speed(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        format!(
            "{} seeds in {seconds:.1} s: {:.1} seeds/s, {:.0} simulated seconds per second, {:.0} events/s",
            self.runs,
            self.runs as f64 / seconds,
            self.virtual_us as f64 / 1e6 / seconds,
            self.events as f64 / seconds
        )
    }
}

fn run_seeds(arguments: &Arguments) -> bool {
    let begun = Instant::now();
    let mut total = Total::default();
    let mut progress = Progress::new();
    for seed in arguments.first..arguments.first + arguments.seeds {
        let outcome = run(seed, Options::default());
        total.add(&outcome);
        if outcome.violation.is_some() {
            progress.clear();
            tell_failure(&outcome);
            if !arguments.keep_going {
                break;
            }
        }
        progress.show(|| format!("{}, {} failed", total.speed(begun.elapsed()), total.failures));
    }
    progress.clear();
    println!("{}", total.speed(begun.elapsed()));
    tell_counters(&total);
    let complete = total.failures > 0 || total.runs < SEEDS_FOR_EVERYTHING || everything_happened(&total.counters);
    total.failures == 0 && complete
}

fn tell_counters(total: &Total) {
    for (words, count) in total.counters.list() {
        println!("{count:>12}  {words}");
    }
    println!("{:>12}  rows whose history was too large to search", total.left_open);
}

/// Runs in which something never happened prove nothing about it.
fn everything_happened(counters: &Counters) -> bool {
    let missing: Vec<&str> =
        counters.list().into_iter().filter(|(_, count)| *count == 0).map(|(words, _)| words).collect();
    missing.iter().for_each(|words| println!("never happened: {words}"));
    missing.is_empty()
}

fn try_mutants(arguments: &Arguments) -> bool {
    let mut all_caught = true;
    for mutant in Mutant::ALL {
        if arguments.keep_going {
            let caught = count(mutant, arguments.first, arguments.seeds);
            println!("{:<28} caught by {caught} of {} seeds", format!("{mutant:?}"), arguments.seeds);
            all_caught &= caught > 0;
            continue;
        }
        let begun = Instant::now();
        let catch = hunt(mutant, arguments.first, arguments.seeds);
        let (name, seconds) = (format!("{mutant:?}"), begun.elapsed().as_secs_f64());
        match catch.found {
            Some((seed, violation)) => {
                let (tried, checker) = (catch.seeds_tried, violation.checker);
                println!("{name:<28} caught by {checker} at seed {seed}, the {tried}. tried, in {seconds:.2} s");
                println!("    {}", violation.detail.chars().take(200).collect::<String>());
            }
            None => {
                all_caught = false;
                println!("{name:<28} not caught in {} seeds, {seconds:.2} s", catch.seeds_tried);
            }
        }
    }
    all_caught
}

/// One line that says how far it is; only where somebody can see it.
struct Progress {
    shown: Option<Instant>,
    on: bool,
}

impl Progress {
    fn new() -> Self {
        Self { shown: None, on: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, words: impl FnOnce() -> String) {
        if !self.on || self.shown.is_some_and(|shown| shown.elapsed() < Duration::from_millis(200)) {
            return;
        }
        self.shown = Some(Instant::now());
        self.write(&format!("\r\x1b[K{}", words()));
    }

    fn clear(&mut self) {
        if self.on && self.shown.is_some() {
            self.write("\r\x1b[K");
        }
    }

    fn write(&self, text: &str) {
        let mut out = std::io::stderr();
        // A progress line that cannot be shown is not worth failing for.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}
