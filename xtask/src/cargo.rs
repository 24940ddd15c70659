//! Calling cargo and other programs, from the root of the workspace, with their output passed through.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use shardine_testkit::workspace_root;

/// A command that runs in the root of the workspace.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace_root());
    command
}

/// `cargo ARGS…`, with the cargo that runs this program.
pub fn cargo(args: &[&str]) -> Command {
    let mut command = command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.args(args);
    command
}

/// Runs a command to its end; anything but success is an error that shows the command.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Runs a command and returns what it printed on stdout.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command.output().with_context(|| format!("start {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Says whether a program can be found and started.
pub fn is_installed(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .is_ok_and(|output| output.status.success())
}

/// What cargo knows of the members of the workspace, without their dependencies.
pub fn metadata() -> Result<Vec<Value>> {
    let text = output(&mut cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&text).context("read the metadata of cargo")?;
    metadata["packages"].as_array().cloned().context("packages in the metadata of cargo")
}

/// Says whether the package builds a program.
pub fn has_program(package: &str) -> Result<bool> {
    let packages = metadata()?;
    let targets =
        packages.iter().filter(|found| found["name"] == package).filter_map(|found| found["targets"].as_array());
    Ok(targets.flatten().any(|target| target["kind"][0] == "bin"))
}

/// The command as a person would type it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let words = program.file_name().into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
