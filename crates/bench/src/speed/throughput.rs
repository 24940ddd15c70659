//! HGET and HSET: operations per second as redis-benchmark counts them, and the server's CPU time per operation.

use std::process::Command;

use anyhow::{Context, Result, bail};
use shardine_testkit::Reply;

use super::{
    args::Options,
    procfs, records,
    row::{Row, Target, Unit},
    server::{Both, Pair, Promise, Server},
    workplace::Workplace,
};

/// Commands of a warm-up run, per command in a pipeline.
const WARM_UP: u64 = 20_000;

/// One command under load, with what Redis is asked to promise and what has to come out at each pipeline depth.
#[derive(Clone, Copy)]
pub struct Load {
    pub name: &'static str,
    pub command: &'static [&'static str],
    pub promise: Promise,
    pub against: &'static str,
    pub depths: &'static [Depth],
}

/// Commands in flight per connection, and what has to come out.
#[derive(Clone, Copy)]
pub struct Depth {
    pub pipeline: u64,
    /// Operations per second of the reference's.
    pub speed: Target,
    /// CPU time per operation of the reference's.
    pub cpu: Target,
}

const HGET: Load = Load {
    name: "HGET",
    command: &["HGET", "user:__rand_int__", "name"],
    promise: Promise::Memory,
    against: "redis-server, no AOF",
    depths: &[
        Depth { pipeline: 1, speed: Target::AtLeast(1.0), cpu: Target::AtMost(1.0) },
        Depth { pipeline: 16, speed: Target::AtLeast(1.3), cpu: Target::AtMost(1.0) },
    ],
};

const HSET: Load = Load {
    name: "HSET on disk",
    command: &["HSET", "user:__rand_int__", "name", "bob", "age", "10", "city", "london"],
    promise: Promise::Synced,
    against: "redis-server, appendfsync always",
    depths: &[
        Depth { pipeline: 1, speed: Target::AtLeast(1.1), cpu: Target::AtMost(1.0) },
        Depth { pipeline: 16, speed: Target::AtLeast(1.5), cpu: Target::AtMost(1.0) },
    ],
};

const TYPED: Load = Load { name: "HSET on disk, typed table", command: INTO_PEOPLE, ..HSET };

/// Into the table that [`Server::create_people`] makes.
pub const INTO_PEOPLE: &[&str] = &["HSET", "people:__rand_int__", "name", "bob", "age", "10", "city", "london"];

const LARGE_HGET: Load = Load {
    name: "HGET among many records",
    depths: &[Depth { pipeline: 16, speed: Target::None, cpu: Target::AtMost(0.75) }],
    ..HGET
};

const LARGE_HSET: Load = Load {
    name: "HSET on disk among many records",
    depths: &[Depth { pipeline: 16, speed: Target::None, cpu: Target::AtMost(0.8) }],
    ..HSET
};

/// Both sides are Shardine: what idle groups cost those that work. All keys have one tag, so that one group has them all.
const IDLE_GROUPS: Load = Load {
    name: "HSET on disk into one of 1,000 groups",
    command: &["HSET", "user:{tag}__rand_int__", "name", "bob", "age", "10", "city", "london"],
    against: "into one of 4 groups",
    depths: &[
        Depth { pipeline: 1, speed: Target::AtLeast(0.9), cpu: Target::AtMost(1.1) },
        Depth { pipeline: 16, speed: Target::AtLeast(0.9), cpu: Target::AtMost(1.1) },
    ],
    ..HSET
};

/// The same with keys all over them: an entry of each group carries few of the commands that came together.
const BUSY_GROUPS: Load = Load {
    name: "HSET on disk into all of 1,000 groups",
    against: "into all of 4 groups",
    depths: &[
        Depth { pipeline: 1, speed: Target::None, cpu: Target::None },
        Depth { pipeline: 16, speed: Target::None, cpu: Target::None },
    ],
    ..HSET
};

impl Load {
    /// What the keys of the records begin with that the commands read or change.
    fn prefix(&self) -> &'static str {
        self.command[1].strip_suffix("__rand_int__").expect("every load is of random keys")
    }
}

/// What one run of redis-benchmark showed.
struct Sample {
    ops_per_second: f64,
    cpu_micros_per_op: f64,
}

pub fn hget(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    measure(&HGET, Pair::start(HGET.promise, place, options)?, options)
}

pub fn hset(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    measure(&HSET, Pair::start(HSET.promise, place, options)?, options)
}

pub fn typed(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let mut pair = Pair::start(TYPED.promise, place, options)?;
    pair.subject.create_people(&["--backing", "none"])?;
    measure(&TYPED, pair, options)
}

/// Both among many more records than any cache of the machine holds.
pub fn large(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let options = Options { records: options.large_records, ..options.clone() };
    let mut rows = measure(&LARGE_HGET, Pair::start(LARGE_HGET.promise, place, &options)?, &options)?;
    rows.extend(measure(&LARGE_HSET, Pair::start(LARGE_HSET.promise, place, &options)?, &options)?);
    Ok(rows)
}

pub fn groups(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let mut rows = measure(&IDLE_GROUPS, Pair::of_groups([4, 1_000], place, options)?, options)?;
    rows.extend(measure(&BUSY_GROUPS, Pair::of_groups([4, 1_000], place, options)?, options)?);
    Ok(rows)
}

/// Measures the rows of one load: one of throughput and one of CPU time per depth.
pub fn measure(load: &Load, mut pair: Pair, options: &Options) -> Result<Vec<Row>> {
    for server in [&mut pair.reference, &mut pair.subject] {
        records::load_under(load.prefix(), &mut server.client()?, options.records)?;
        server.flush()?;
    }
    let mut rows = Vec::new();
    let mut cpu_rows = Vec::new();
    for depth in load.depths {
        let pipeline = depth.pipeline;
        let samples = sample(load, pipeline, &mut pair, options)?;
        let work = format!("{}, {} connections, pipeline {pipeline}", load.name, options.connections);
        rows.push(row(&work, load, Unit::OpsPerSecond, depth.speed, &samples, |sample| sample.ops_per_second));
        let work = format!("CPU time per operation: {}, pipeline {pipeline}", load.name);
        cpu_rows.push(row(&work, load, Unit::MicrosPerOp, depth.cpu, &samples, |sample| sample.cpu_micros_per_op));
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
    check_answers(load.prefix(), server)?;
    // What is left for SQL must not be in the way of whoever is measured next.
    server.flush()?;
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
fn check_answers(prefix: &str, server: &Server) -> Result<()> {
    match server.client()?.call(&["HGET", &format!("{prefix}000000000007"), "name"])? {
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
