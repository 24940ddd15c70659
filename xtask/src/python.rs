//! The Python tests: every script in `tests/python` against a fresh server of its own.

use std::fs;

use anyhow::{Result, bail};
use clap::Args;
use shardine_testkit::{Options as Up, Shardine, Sql, python};

use crate::{cargo, setup};

#[derive(Args, Default)]
pub struct Options {
    /// Only scripts whose name contains this.
    filter: Option<String>,
}

/// The scripts, in the order of their names. Names that begin with `_` are helpers of others.
pub fn scripts() -> Result<Vec<String>> {
    let Ok(entries) = fs::read_dir(python::scripts_dir()) else { return Ok(Vec::new()) };
    let mut names: Vec<String> =
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<Result<_>>()?;
    names.retain(|name| name.ends_with(".py") && !name.starts_with('_'));
    names.sort();
    Ok(names)
}

/// Builds the server and runs the scripts.
pub fn run(options: &Options) -> Result<()> {
    setup::run()?;
    // Everything, as the tests build it: the server alone would have other features and be built from the ground again.
    cargo::run(&mut cargo::cargo(&["build", "--workspace", "--all-targets", "--locked"]))?;
    let mut failed = Vec::new();
    let chosen = |name: &String| options.filter.as_ref().is_none_or(|filter| name.contains(filter));
    for name in scripts()?.into_iter().filter(chosen) {
        match run_script(&name) {
            Ok(printed) => print!("{name}: passed\n{printed}"),
            Err(error) => {
                println!("{name}: FAILED\n{error:#}");
                failed.push(name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn run_script(name: &str) -> Result<String> {
    // This program may have been built in another profile than the server, so "beside me" would be the wrong place to look.
    let binary = Some(shardine_testkit::target_dir().join("debug").join("shardine"));
    let server = Shardine::start_with(Up { sql: Sql::Sqlite, binary, ..Up::default() })?;
    python::run(name, &server)
}
