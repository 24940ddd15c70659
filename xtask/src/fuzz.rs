//! `cargo xtask fuzz`: builds the fuzz targets with coverage on the stable compiler and runs each for a while. A crash
//! leaves the bytes that caused it and the line that replays them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use shardine_testkit::{target_dir, workspace_root};

use crate::{cargo, setup};

/// What cargo-fuzz passes on nightly, spelled out: coverage counters, the table of code addresses, and compared values.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// How much of the output of a crashed target is shown.
const LINES_TOLD: usize = 40;

#[derive(Args)]
pub struct Options {
    /// Seconds per target, each time with other inputs.
    #[arg(long, default_value_t = 30)]
    seconds: u32,

    /// So many inputs per target instead, the same ones each time.
    #[arg(long)]
    runs: Option<u32>,

    /// Only targets whose name contains this.
    filter: Option<String>,
}

impl Options {
    /// All targets, with so many inputs each: what passed on one machine passes on the next.
    pub fn all(runs: u32) -> Options {
        Options { seconds: 0, runs: Some(runs), filter: None }
    }
}

pub fn run(options: &Options) -> Result<()> {
    if !setup::has_cpp_compiler() {
        bail!("libFuzzer is built by a C++ compiler, and there is none: install g++");
    }
    let host = host()?;
    build(&host)?;
    let programs = build_dir().join(&host).join("release");
    let mut crashed = Vec::new();
    for target in
        targets()?.into_iter().filter(|name| options.filter.as_ref().is_none_or(|filter| name.contains(filter)))
    {
        if fuzz(&target, &programs.join(&target), options).is_err() {
            crashed.push(target);
        }
    }
    if !crashed.is_empty() {
        let artefacts = artefacts_dir();
        bail!("crashed: {}; the inputs lie in {}", crashed.join(", "), artefacts.display());
    }
    Ok(())
}

fn build(host: &str) -> Result<()> {
    follow_lock_file()?;
    // Naming the target keeps the flags away from build scripts, which could not be linked with them.
    let mut build = cargo::cargo(&["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", host]);
    cargo::run(build.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", build_dir()))
}

/// Fuzzed with the versions that the product is built with; cargo adds what only libFuzzer needs.
fn follow_lock_file() -> Result<()> {
    let (source, copy) = (workspace_root().join("Cargo.lock"), workspace_root().join("fuzz/Cargo.lock"));
    let changed = |path: &Path| fs::metadata(path).and_then(|file| file.modified());
    // Adding takes a look at the registry, which is not worth it when nothing has changed.
    if changed(&copy).is_ok_and(|copied| changed(&source).is_ok_and(|source| source < copied)) {
        return Ok(());
    }
    fs::copy(source, copy).context("copy the lock file").map(drop)
}

/// Runs one target. libFuzzer talks a lot: one line is told when all is well, the end of its output when it is not.
fn fuzz(target: &str, program: &Path, options: &Options) -> Result<()> {
    let (found, artefacts) = (corpus_dir(target, options)?, artefacts_dir());
    fs::create_dir_all(&artefacts)?;
    let mut command = cargo::command(&program.to_string_lossy());
    match options.runs {
        Some(runs) => command.args([format!("-runs={runs}"), "-seed=1".to_owned()]),
        None => command.arg(format!("-max_total_time={}", options.seconds)),
    };
    command.arg(format!("-artifact_prefix={}/{target}-", artefacts.display()));
    // A parser that allocates from a claimed length or takes seconds over a kilobyte is broken too.
    command.args(["-rss_limit_mb=1024", "-malloc_limit_mb=256", "-timeout=10", "-print_final_stats=1"]);
    // A panic is told by its message and its input; the stack would push both out of sight.
    command.env("RUST_BACKTRACE", "0");
    // New inputs go to the first folder; the second, in the repository, is only read.
    command.arg(found).arg(workspace_root().join("fuzz/corpus").join(target));
    let output = command.output().with_context(|| format!("start {target}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let lines: Vec<&str> = told.lines().collect();
        println!("{}", lines[lines.len().saturating_sub(LINES_TOLD)..].join("\n"));
        println!("{target}: CRASHED, replay with: {} INPUT", program.display());
        bail!("{target}: {}", output.status);
    }
    let inputs = told.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:")).unwrap_or_default();
    println!("{target}: {} inputs, no crash", inputs.trim());
    Ok(())
}

/// Where new inputs go. A hunt goes on from what earlier ones found; a run that is the same each time begins with nothing.
fn corpus_dir(target: &str, options: &Options) -> Result<PathBuf> {
    let dir = build_dir().join(if options.runs.is_some() { "corpus-fixed" } else { "corpus" }).join(target);
    if options.runs.is_some() && dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// The programs of the manifest of the fuzz targets.
fn targets() -> Result<Vec<String>> {
    let manifest = fs::read_to_string(workspace_root().join("fuzz/Cargo.toml")).context("read fuzz/Cargo.toml")?;
    let manifest: toml::Table = manifest.parse()?;
    let programs = manifest.get("bin").and_then(toml::Value::as_array).context("programs in fuzz/Cargo.toml")?;
    programs.iter().map(|program| Ok(program["name"].as_str().context("name of a fuzz target")?.to_owned())).collect()
}

fn host() -> Result<String> {
    let about = cargo::output(cargo::command("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).context("host in rustc -vV")?;
    Ok(host.to_owned())
}

fn build_dir() -> PathBuf {
    target_dir().join("fuzz")
}

fn artefacts_dir() -> PathBuf {
    build_dir().join("artefacts")
}
