//! `shardine-sim`: runs seeds of the simulator and tells what broke, with the line that replays it.
#![allow(clippy::print_stdout, reason = "a program that reports to whoever started it")]

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use shardine_sim::{Coordination, Options, Outcome, Records, Tenant, Theme, count, hunt, run};

/// The replica cores under simulated faults. Every seed is a whole run of its own, and the same seed is the same run.
#[derive(Debug, Parser)]
#[command(name = "shardine-sim", version)]
struct Arguments {
    /// Who lives in the simulated world; both in turn if it is not said.
    #[arg(long, value_name = "TENANT")]
    world: Option<Lives>,

    /// How many seeds to run.
    #[arg(long, default_value_t = 300)]
    seeds: u64,

    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first: u64,

    /// Replay one seed and print its last events.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,

    /// What every run is about; drawn for each of them if it is not said.
    #[arg(long, value_name = "THEME")]
    theme: Option<Theme>,

    /// How many events to print with --seed.
    #[arg(long, default_value_t = 200, value_name = "COUNT")]
    events: usize,

    /// Go on after a failure, and count them; with --mutants, count how many of the seeds catch each.
    #[arg(long)]
    keep_going: bool,

    /// Plant each known bug in turn and see that it is caught within --seeds.
    #[arg(long)]
    mutants: bool,

    /// With --mutants, only those whose names contain this.
    #[arg(long, default_value = "", value_name = "PART")]
    named: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Lives {
    Records,
    Coord,
}

/// Below this many seeds a counter may be zero by chance.
const SEEDS_FOR_EVERYTHING: u64 = 200;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A panic in the code under test is a verdict, and is told as one; whoever replays a seed wants to know where it was, too.
    if arguments.seed.is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let lives = |tenant| arguments.world.is_none_or(|wanted| wanted == tenant);
    let mut passed = true;
    if lives(Lives::Records) {
        passed &= simulate::<Records>(&arguments);
    }
    if lives(Lives::Coord) {
        passed &= simulate::<Coordination>(&arguments);
    }
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn simulate<T: Tenant>(arguments: &Arguments) -> bool {
    match (arguments.seed, arguments.mutants) {
        (Some(seed), _) => replay::<T>(seed, arguments),
        (None, true) => try_mutants::<T>(arguments),
        (None, false) => run_seeds::<T>(arguments),
    }
}

fn replay<T: Tenant>(seed: u64, arguments: &Arguments) -> bool {
    let (lines, theme) = (arguments.events, arguments.theme);
    let outcome = run::<T>(seed, Options { lines, theme, ..Options::default() });
    outcome.lines.iter().for_each(|line| println!("{line}"));
    println!("trace {:016x}, {} events", outcome.trace_hash, outcome.events);
    match &outcome.violation {
        None => println!("seed {seed} of {} passed", T::NAME),
        Some(_) => tell_failure::<T>(&outcome, theme),
    }
    outcome.violation.is_none()
}

fn tell_failure<T: Tenant>(outcome: &Outcome, theme: Option<Theme>) {
    let Some(violation) = &outcome.violation else { return };
    let (seed, checker) = (outcome.seed, violation.checker);
    let world = T::NAME;
    let about = theme.and_then(|theme| Some(format!(" --theme {}", theme.to_possible_value()?.get_name())));
    let about = about.unwrap_or_default();
    println!("seed {seed} failed: {checker} — replay with: cargo xtask sim --world {world} --seed {seed}{about}");
    println!("  {}", violation.detail);
}

/// What many runs come to.
#[derive(Default)]
struct Total {
    runs: u64,
    failures: u64,
    events: u64,
    virtual_us: u64,
    counts: Vec<(&'static str, u64)>,
}

impl Total {
    fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.failures += u64::from(outcome.violation.is_some());
        self.events += outcome.events;
        self.virtual_us += outcome.virtual_us;
        if self.counts.is_empty() {
            self.counts = outcome.counts.iter().map(|(words, _)| (*words, 0)).collect();
        }
        for ((_, total), (_, count)) in self.counts.iter_mut().zip(&outcome.counts) {
            *total += count;
        }
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

fn run_seeds<T: Tenant>(arguments: &Arguments) -> bool {
    let begun = Instant::now();
    let mut total = Total::default();
    let mut progress = Progress::new();
    for seed in arguments.first..arguments.first + arguments.seeds {
        let outcome = run::<T>(seed, Options { theme: arguments.theme, ..Options::default() });
        total.add(&outcome);
        if outcome.violation.is_some() {
            progress.clear();
            tell_failure::<T>(&outcome, arguments.theme);
            if !arguments.keep_going {
                break;
            }
        }
        progress.show(|| format!("{}, {} failed", total.speed(begun.elapsed()), total.failures));
    }
    progress.clear();
    println!("{}: {}", T::NAME, total.speed(begun.elapsed()));
    tell_counters(&total);
    let complete = total.failures > 0 || total.runs < SEEDS_FOR_EVERYTHING || everything_happened(&total.counts);
    total.failures == 0 && complete
}

fn tell_counters(total: &Total) {
    for (words, count) in &total.counts {
        println!("{count:>12}  {words}");
    }
}

/// Runs in which something never happened prove nothing about it.
fn everything_happened(counts: &[(&'static str, u64)]) -> bool {
    let mut missing = counts.iter().filter(|(_, count)| *count == 0).peekable();
    let complete = missing.peek().is_none();
    missing.for_each(|(words, _)| println!("never happened: {words}"));
    complete
}

fn try_mutants<T: Tenant>(arguments: &Arguments) -> bool {
    let mut all_caught = true;
    for mutant in T::MUTANTS.iter().copied().filter(|mutant| format!("{mutant:?}").contains(&arguments.named)) {
        if arguments.keep_going {
            let caught = count::<T>(mutant, arguments.first, arguments.seeds);
            println!("{:<28} caught by {caught} of {} seeds", format!("{mutant:?}"), arguments.seeds);
            all_caught &= caught > 0;
            continue;
        }
        let begun = Instant::now();
        let catch = hunt::<T>(mutant, arguments.first, arguments.seeds);
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
