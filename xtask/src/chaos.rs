//! `cargo xtask chaos`: real processes that are treated badly at random, for as long as one likes. One file per world, each of
//! which builds what it needs; what is done, and what must not happen, stands with the servers that it is done to.

mod cluster;
mod kit;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

#[derive(Args)]
pub struct Options {
    /// Not a cluster of Shardine's nodes but sharded services on the kit: servers, stores of claims, clocks, lists of hosts, cuts.
    #[arg(long)]
    kit: bool,
    /// How long.
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// What is done; made up and told if nothing is said.
    #[arg(long)]
    seed: Option<u64>,
    /// Nodes of the cluster.
    #[arg(long, default_value_t = 3, conflicts_with = "kit", value_parser = clap::value_parser!(u32).range(2..=9))]
    nodes: u32,
    /// Further arguments for the kit's program.
    #[arg(last = true, value_name = "ARGUMENT")]
    passed: Vec<String>,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    match options.kit {
        true => kit::run(options),
        false => cluster::run(options),
    }
}

impl Options {
    /// As the kit's program understands them.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--minutes".to_owned(), self.minutes.to_string()];
        if let Some(seed) = self.seed {
            arguments.extend(["--seed".to_owned(), seed.to_string()]);
        }
        arguments.extend(self.passed.iter().cloned());
        arguments
    }
}
