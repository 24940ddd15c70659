//! HGET and HSET: operations per second as redis-benchmark counts them, and the server's CPU time per operation.

use std::process::Command;

use anyhow::{Context, Result, bail};
use shardine_testkit::Reply;

use super::{
    args::{Options, Work},
    procfs, records,
    row::{Row, Target, Unit},
    server::{Both, Pair, Promise, Server},
    workplace::Workplace,
};

/// Commands of a warm-up run, per command in a pipeline.
const WARM_UP: u64 = 20_000;

/// One command under load, with what Redis is asked to promise and what has to come out at each pipeline depth.
struct Load {
    name: &'static str,
    command: &'static [&'static str],
    promise: Promise,
    against: &'static str,
    targets: [(u64, f64); 2],
    /// How much CPU time an operation may take of the reference's.
    cpu: f64,
}

const HGET: Load = Load {
    name: "HGET",
    command: &["HGET", "user:__rand_int__", "name"],
    promise: Promise::Memory,
    against: "redis-server, no AOF",
    targets: [(1, 1.0), (16, 1.3)],
    cpu: 1.0,
};

const HSET: Load = Load {
    name: "HSET on disk",
    command: &["HSET", "user:__rand_int__", "name", "bob", "age", "10", "city", "london"],
    promise: Promise::Synced,
    against: "redis-server, appendfsync always",
    targets: [(1, 1.1), (16, 1.5)],
    cpu: 1.0,
};

const TYPED: Load = Load {
    name: "HSET on disk, typed table",
    command: &["HSET", "people:__rand_int__", "name", "bob", "age", "10", "city", "london"],
    promise: Promise::Synced,
    against: "redis-server, appendfsync always",
    targets: [(1, 1.1), (16, 1.5)],
    cpu: 1.0,
};

/// Both sides are Shardine: what idle groups cost those that work.
const GROUPS: Load = Load {
    name: "HSET on disk, 1,000 groups",
    command: HSET.command,
    promise: Promise::Synced,
    against: "shardine with 4 groups",
    targets: [(1, 0.9), (16, 0.9)],
    cpu: 1.1,
};

/// What one run of redis-benchmark showed.
struct Sample {
    ops_per_second: f64,
    cpu_micros_per_op: f64,
}

/// Measures the rows of one load: two of throughput, two of CPU time.
pub fn measure(work: Work, place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let load = match work {
        Work::Hget => HGET,
        Work::Typed => TYPED,
        Work::Groups => GROUPS,
        _ => HSET,
    };
    let mut pair = match work {
        Work::Groups => Pair::of_groups([4, 1_000], place, options)?,
        _ => Pair::start(load.promise, place, options)?,
    };
    if work == Work::Typed {
        pair.subject.create_table(&[
            "people",
            "--field",
            "name:string",
            "--field",
            "age:int64",
            "--field",
            "city:string",
        ])?;
    }
    for server in [&mut pair.reference, &mut pair.subject] {
        records::load(&mut server.client()?, options.records)?;
    }
    let mut rows = Vec::new();
    let mut cpu_rows = Vec::new();
    for (pipeline, target) in load.targets {
        let samples = sample(&load, pipeline, &mut pair, options)?;
        let work = format!("{}, {} connections, pipeline {pipeline}", load.name, options.connections);
        rows.push(row(&work, &load, Unit::OpsPerSecond, Target::AtLeast(target), &samples, |sample| {
            sample.ops_per_second
        }));
        let work = format!("CPU time per operation: {}, pipeline {pipeline}", load.name);
        cpu_rows.push(row(&work, &load, Unit::MicrosPerOp, Target::AtMost(load.cpu), &samples, |sample| {
            sample.cpu_micros_per_op
        }));
    }
    rows.append(&mut cpu_rows);
    Ok(rows)
}

fn sample(load: &Load, pipeline: u64, pair: &mut Pair, options: &Options) -> Result<Vec<Both<Sample>>> {
    let warm_up = pair.in_turns(0, |server| run(load, pipeline, WARM_UP * pipeline, server, options))?;
    // Both sides get the same number of commands, from the reference's speed.
    let count = (warm_up.reference.ops_per_second * options.seconds) as u64;
    let count = count.max(WARM_UP).next_multiple_of(1_000);
    let mut samples = Vec::new();
    for round in 0..options.rounds {
        let both = pair.in_turns(round, |server| run(load, pipeline, count, server, options))?;
        let (reference, subject) = (both.reference.ops_per_second, both.subject.ops_per_second);
        eprintln!("{} pipeline {pipeline}, round {}: {reference:.0} and {subject:.0} per second", load.name, round + 1);
        samples.push(both);
    }
    Ok(samples)
}

fn row(
    work: &str,
    load: &Load,
    unit: Unit,
    target: Target,
    samples: &[Both<Sample>],
    value: fn(&Sample) -> f64,
) -> Row {
    Row {
        work: work.to_owned(),
        against: load.against.to_owned(),
        unit,
        target,
        reference: samples.iter().map(|both| value(&both.reference)).collect(),
        subject: samples.iter().map(|both| value(&both.subject)).collect(),
    }
}

fn run(load: &Load, pipeline: u64, count: u64, server: &mut Server, options: &Options) -> Result<Sample> {
    let pid = server.pid();
    let cpu_before = procfs::cpu_time(pid)?;
    let port = server.port().number();
    let ops_per_second = benchmark(port, options.connections, pipeline, options.records, count, load.command)?;
    let cpu = procfs::cpu_time(pid)? - cpu_before;
    check_answers(server)?;
    Ok(Sample { ops_per_second, cpu_micros_per_op: cpu.as_secs_f64() * 1e6 / count as f64 })
}

/// Runs redis-benchmark with a command of its own and returns the operations per second that it counted.
pub fn benchmark(
    port: u16,
    connections: u32,
    pipeline: u64,
    records: u64,
    count: u64,
    command: &[&str],
) -> Result<f64> {
    let [port, connections, pipeline, records, count] =
        [u64::from(port), u64::from(connections), pipeline, records, count].map(|number| number.to_string());
    let output = Command::new("redis-benchmark")
        .args(["-p", &port, "-c", &connections, "-P", &pipeline, "-r", &records, "-n", &count, "--csv"])
        .args(command)
        .output()
        .context("run redis-benchmark")?;
    let (printed, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // redis-benchmark counts error replies as operations.
    if !output.status.success() || printed.contains("Error") || complaints.contains("Error") {
        bail!("redis-benchmark: {printed}{complaints}");
    }
    ops_per_second(&printed).with_context(|| format!("no figures in {printed:?}"))
}

/// The second column of the last line: `"command","rps","average latency",…`.
fn ops_per_second(csv: &str) -> Option<f64> {
    csv.lines().last()?.trim_matches('"').split("\",\"").nth(1)?.parse().ok()
}

/// A fast wrong answer is worth nothing: looks at one record, which every load leaves with a name of this kind.
fn check_answers(server: &Server) -> Result<()> {
    match server.client()?.call(&["HGET", "user:000000000007", "name"])? {
        Reply::Bulk(name) if name.starts_with(b"bob") => Ok(()),
        other => bail!("after the load, a record was answered with {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_in_the_last_line() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"HGET user:__rand_int__ name\",\"129032.27\",\"0.344\"\n";

        assert_eq!(ops_per_second(csv), Some(129_032.27));
        assert_eq!(ops_per_second("Could not connect\n"), None);
    }
}
