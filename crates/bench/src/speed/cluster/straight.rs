//! Reads and writes while nothing fails: against etcd, straight to the leader, and through a node that has to pass them on.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use shardine_testkit::{Doors, Shardine, Sql};

use super::{
    MEMBERS,
    paced::{self, Writer},
    site::{PREFIX, Site},
};
use crate::speed::{
    args::Options,
    etcd::{Etcd, Keys},
    procfs, records,
    row::{Row, Target, Unit, median},
    throughput::benchmark,
    together::count,
    workplace::Workplace,
};

/// Records behind a measurement: etcd takes long to be loaded.
const RECORDS: u64 = 10_000;
/// Connections of etcd's clients, who share them as those of its own benchmark do.
const CHANNELS: usize = 64;
/// Requests a second at which latency is measured, and the connections that they come by.
const RATE: f64 = 5_000.0;
const RATE_CONNECTIONS: usize = 64;
/// What a forward may add to the median, in milliseconds.
const FORWARD_MILLIS: f64 = 0.3;

/// A value as long as the fields of a record.
const VALUE: &[u8] = b"name bob age 10 city london";

/// One command at one depth, the clients that etcd gets instead of a pipeline, and what has to come out.
struct Work {
    name: &'static str,
    command: [&'static str; 8],
    arguments: usize,
    writes: bool,
    pipeline: u64,
    clients: usize,
    target: Target,
}

const fn hset(pipeline: u64, clients: usize, target: Target) -> Work {
    let command = ["HSET", "user:{tag}__rand_int__", "name", "bob", "age", "10", "city", "london"];
    Work { name: "HSET", command, arguments: 8, writes: true, pipeline, clients, target }
}

const fn hget(pipeline: u64, clients: usize, target: Target) -> Work {
    let command = ["HGET", "user:{tag}__rand_int__", "name", "", "", "", "", ""];
    Work { name: "HGET", command, arguments: 3, writes: false, pipeline, clients, target }
}

const WORKS: [Work; 4] = [
    hset(1, 64, Target::AtLeast(5.0)),
    hset(16, 1_000, Target::AtLeast(20.0)),
    hget(1, 64, Target::AtLeast(5.0)),
    hget(16, 1_000, Target::AtLeast(20.0)),
];

/// The servers of a measurement: etcd, a cluster, and one node alone.
struct Servers {
    etcd: Etcd,
    site: Site,
    alone: Shardine,
}

pub async fn throughput(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let etcd = Etcd::start(place.dir()?, MEMBERS).await?;
    let site = Site::start(place, options, &[])?;
    site.load(RECORDS)?;
    let (sql, doors, binary) = (Sql::None, Doors::Redis, options.subject_bin.clone());
    let up = shardine_testkit::Options { sql, doors, binary, ..Default::default() };
    let alone = Shardine::start_in(place.dir()?, up)?;
    records::load_under(PREFIX, &mut alone.client()?, RECORDS)?;
    let mut servers = Servers { etcd, site, alone };
    fill(&servers.etcd).await?;
    let mut rows = Vec::new();
    for work in &WORKS {
        rows.extend(measure(work, &mut servers, options).await?);
    }
    Ok(rows)
}

fn empty(work: String, against: &str, unit: Unit, target: Target) -> Row {
    Row { work, against: against.to_owned(), unit, target, reference: Vec::new(), subject: Vec::new() }
}

async fn measure(work: &Work, servers: &mut Servers, options: &Options) -> Result<Vec<Row>> {
    let name = format!("{}, three nodes, {} connections, pipeline {}", work.name, options.connections, work.pipeline);
    let etcd = format!("etcd, three members, {} clients", work.clients);
    let mut against = empty(name.clone(), &etcd, Unit::OpsPerSecond, work.target);
    let unit = Unit::OpsPerSecond;
    let mut forwarded = empty(format!("{name}, by another node"), "at the leader's node", unit, Target::AtLeast(0.5));
    let (cost, judged) = (format!("CPU time per operation of all nodes: {name}"), work.writes && work.pipeline > 1);
    let target = if judged { Target::AtMost(2.2) } else { Target::None };
    let mut cpu = empty(cost, "one node alone", Unit::MicrosPerOp, target);
    for round in 0..options.rounds {
        let theirs = by_etcd(work, &servers.etcd, options).await?;
        // Both depths of ours get the same time, from what the last round showed.
        let guess = against.subject.last().copied().unwrap_or(theirs * 5.0);
        let operations = ((guess * options.seconds) as u64).max(10_000).next_multiple_of(1_000);
        let (leader, follower) = (servers.site.leader()?, servers.site.follower()?);
        let cluster = &servers.site.cluster;
        let before = servers.site.cpu_seconds()?;
        let ours = redis_benchmark(work, cluster.redis(leader).port(), operations, options)?;
        let spent = servers.site.cpu_seconds()? - before;
        let passed_on = redis_benchmark(work, cluster.redis(follower).port(), operations, options)?;
        let pid = servers.alone.process().pid();
        let before = procfs::cpu_time(pid)?;
        redis_benchmark(work, servers.alone.redis().number(), operations, options)?;
        let spent_alone = (procfs::cpu_time(pid)? - before).as_secs_f64();
        against.reference.push(theirs);
        against.subject.push(ours);
        forwarded.reference.push(ours);
        forwarded.subject.push(passed_on);
        cpu.reference.push(spent_alone * 1e6 / operations as f64);
        cpu.subject.push(spent * 1e6 / operations as f64);
        eprintln!(
            "{name}, round {}: etcd {theirs:.0}, leader {ours:.0}, other node {passed_on:.0} per second",
            round + 1
        );
    }
    Ok(vec![against, forwarded, cpu])
}

fn redis_benchmark(work: &Work, port: u16, operations: u64, options: &Options) -> Result<f64> {
    let command = &work.command[..work.arguments];
    benchmark(port, options.connections, work.pipeline, RECORDS, operations, command)
}

/// Every key that is read later.
async fn fill(etcd: &Etcd) -> Result<()> {
    let keys = clients(etcd, CHANNELS).await?;
    let mut filled = tokio::task::JoinSet::new();
    for (number, mut keys) in keys.into_iter().enumerate() {
        filled.spawn(async move {
            for record in (number..RECORDS as usize).step_by(CHANNELS) {
                keys.put(&key(record), VALUE).await?;
            }
            anyhow::Ok(())
        });
    }
    filled.join_all().await.into_iter().collect()
}

fn key(number: usize) -> String {
    format!("{PREFIX}{number:012}")
}

/// So many clients of the leader.
async fn clients(etcd: &Etcd, clients: usize) -> Result<Vec<Keys>> {
    let leader = etcd.leader().await?;
    let mut channels = Vec::new();
    for _ in 0..CHANNELS.min(clients) {
        channels.push(etcd.connect(leader).await?);
    }
    Ok((0..clients).map(|number| Keys::new(channels[number % channels.len()].clone())).collect())
}

/// Operations a second.
async fn by_etcd(work: &Work, etcd: &Etcd, options: &Options) -> Result<f64> {
    let clients: Vec<(Keys, usize)> = clients(etcd, work.clients).await?.into_iter().map(|keys| (keys, 0)).collect();
    let until = Instant::now() + Duration::from_secs_f64(options.seconds);
    let writes = work.writes;
    let counted = count(clients, until, move |(mut keys, times), number| async move {
        // Every client walks over all keys, from a place of its own and with a stride that meets them all.
        let key = key((number * 101 + times * 7_919) % RECORDS as usize);
        match writes {
            true => keys.put(&key, VALUE).await?,
            false => keys.get(&key).await?,
        }
        Ok((keys, times + 1))
    });
    Ok(counted.await? / options.seconds)
}

/// What a forward adds to the median of writes at a fixed rate.
pub async fn latency(place: &Workplace, options: &Options) -> Result<Row> {
    let site = Site::start(place, options, &[])?;
    let work = format!("median latency of SET at {RATE:.0} a second, by another node less at the leader's");
    let against = format!("{FORWARD_MILLIS} ms");
    let mut row = empty(work, &against, Unit::FineMillis, Target::AtMost(1.0));
    for round in 0..options.rounds {
        let straight = median_latency(&site, site.leader()?, options).await?;
        let passed_on = median_latency(&site, site.follower()?, options).await?;
        row.reference.push(FORWARD_MILLIS);
        row.subject.push(passed_on - straight);
        eprintln!("latency, round {}: {straight:.3} ms at the leader, {passed_on:.3} ms by another node", round + 1);
    }
    Ok(row)
}

async fn median_latency(site: &Site, place: usize, options: &Options) -> Result<f64> {
    let address = site.cluster.redis(place);
    let mut writers = Vec::new();
    for _ in 0..RATE_CONNECTIONS {
        writers.push(Writer::redis(address).await?);
    }
    let load = paced::Load::start(writers, RATE);
    tokio::time::sleep(Duration::from_secs_f64(options.seconds)).await;
    let took: Vec<f64> = load.finish().await?.iter().map(|write| write.took.as_secs_f64() * 1e3).collect();
    (!took.is_empty()).then(|| median(&took)).context("no write was answered")
}
