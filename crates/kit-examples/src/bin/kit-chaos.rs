//! `kit-chaos`: what `cargo xtask chaos --kit` runs.

#![allow(clippy::print_stdout, reason = "a program of its own")]

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use shardine_kit_examples::chaos::{self, Kind, Options};

#[derive(Parser)]
#[command(name = "kit-chaos", version)]
struct Arguments {
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Made up and told if nothing is said.
    #[arg(long)]
    seed: Option<u64>,
    /// Seconds with one store.
    #[arg(long, default_value_t = 60)]
    episode: u64,
    /// One store instead of all: postgres, mariadb, sqlite, shardine.
    #[arg(long)]
    store: Option<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(|| rand::random_range(0..1_000_000_000));
    let is_wanted =
        |kind: &Kind| arguments.store.as_ref().is_none_or(|name| format!("{kind:?}").eq_ignore_ascii_case(name));
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(is_wanted).collect();
    anyhow::ensure!(!kinds.is_empty(), "no such store");
    let beside = std::env::current_exe()?.parent().context("where this program is")?.join("goals");
    let options = Options {
        seed,
        lasts: Duration::from_secs_f64(arguments.minutes * 60.0),
        episode: Duration::from_secs(arguments.episode),
        kinds,
        program: beside,
    };
    println!("kit-chaos --minutes {} --seed {seed}", arguments.minutes);
    chaos::run(&options, &|line| println!("{line}")).await
}
