//! `cargo xtask fix`: repairs what a program can repair. The only chore that changes sources.

use anyhow::Result;

use crate::cargo;

pub fn run() -> Result<()> {
    // Clippy first: what it rewrites is not formatted.
    let clippy = ["clippy", "--workspace", "--all-targets", "--fix", "--allow-dirty", "--allow-staged"];
    cargo::run(&mut cargo::cargo(&clippy))?;
    cargo::run(&mut cargo::cargo(&["fmt", "--all"]))
}
