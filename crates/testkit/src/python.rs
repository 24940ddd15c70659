//! Runs a Python script with the packages that `cargo xtask test` installed, so that tests can speak through redis-py as
//! users do. Scripts lie in `tests/python`; an exit code other than 0 is a failure.

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use anyhow::{Context, Result, bail};

use crate::{Shardine, target_dir, workspace_root};

/// The folder of the Python environment. Made by `cargo xtask test`, never by a test.
pub fn environment_dir() -> PathBuf {
    target_dir().join("py")
}

/// The folder of the scripts.
pub fn scripts_dir() -> PathBuf {
    workspace_root().join("tests").join("python")
}

/// Runs `tests/python/<name>` against `server`, which it finds through `SHARDINE_REDIS_PORT`, `SHARDINE_GRPC_PORT` and
/// `SHARDINE_HTTP_PORT`. Returns what it printed.
pub fn run(name: &str, server: &Shardine) -> Result<String> {
    let ports = [
        ("SHARDINE_REDIS_PORT", server.redis()),
        ("SHARDINE_GRPC_PORT", server.grpc()),
        ("SHARDINE_HTTP_PORT", server.http()),
    ];
    let mut command = script(name)?;
    command.envs(ports.map(|(name, port)| (name, port.number().to_string())));
    // Scripts that stop and start the server, or look at its files, need to know them.
    command.env("SHARDINE_BIN", server.binary()).env("SHARDINE_DATA", server.data());
    command.env("SHARDINE_SQLITE", server.sqlite_path());
    finish(name, command.output().with_context(|| format!("run {name}"))?)
}

/// The command that runs `tests/python/<name>`, to be completed by the caller.
pub fn script(name: &str) -> Result<Command> {
    let mut command = Command::new(interpreter()?);
    // Compiled copies beside the scripts would dirty the checkout.
    command.arg(scripts_dir().join(name)).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// The environment's own Python.
pub fn interpreter() -> Result<PathBuf> {
    let python = environment_dir().join("bin").join("python");
    if !python.is_file() {
        bail!("there is no {}: `cargo xtask setup` makes it", python.display());
    }
    Ok(python)
}

fn finish(name: &str, output: Output) -> Result<String> {
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let complaints = String::from_utf8_lossy(&output.stderr);
        bail!("{name} ended with {}\n{printed}{complaints}", output.status);
    }
    Ok(printed)
}
