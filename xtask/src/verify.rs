//! `cargo xtask verify`: everything that can be judged by looking. Writes nothing but build artefacts.

use std::process::ExitCode;

use anyhow::Result;

use crate::{advisories, cargo, steps::Steps, tidy};

pub fn run() -> Result<ExitCode> {
    let mut steps = Steps::default();
    steps.run("format", format);
    steps.run("tidy", tidy::run);
    steps.run("advisories", advisories::run);
    steps.run("clippy", clippy);
    steps.run("docs", docs);
    Ok(steps.finish())
}

pub fn format() -> Result<()> {
    cargo::run(&mut cargo::cargo(&["fmt", "--all", "--check"]))
}

pub fn clippy() -> Result<()> {
    cargo::run(&mut cargo::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
}

fn docs() -> Result<()> {
    let mut doc = cargo::cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"]);
    cargo::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}
