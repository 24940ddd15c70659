//! `cargo xtask chaos`: real processes that are treated badly at random, for as long as one likes. One file per world, each of
//! which builds what it needs and runs a program of its own; what is done, and what must not happen, is that program's.

mod kit;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

#[derive(Args)]
pub struct Options {
    /// Sharded services on the kit: servers, stores of claims, clocks, lists of hosts, cuts.
    #[arg(long)]
    kit: bool,
    /// How long.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// What is done; made up and told if nothing is said.
    #[arg(long)]
    seed: Option<u64>,
    /// Further arguments for the world's program.
    #[arg(last = true, value_name = "ARGUMENT")]
    passed: Vec<String>,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    if !options.kit {
        bail!("say what is to be treated badly: --kit");
    }
    kit::run(options)
}

impl Options {
    /// As every world's program understands them.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--minutes".to_owned(), self.minutes.to_string()];
        if let Some(seed) = self.seed {
            arguments.extend(["--seed".to_owned(), seed.to_string()]);
        }
        arguments.extend(self.passed.iter().cloned());
        arguments
    }
}
