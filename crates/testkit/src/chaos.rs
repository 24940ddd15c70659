//! A cluster of real processes that is treated badly at random, under clients at all doors of every node. What is done follows
//! from a seed; when it meets what the cluster is doing does not, so a seed that failed is run again a few times.
//!
//! What must not happen: an answered write that is gone, a read behind what anybody was answered before it began, a number that
//! was never sent, an increment that counts twice or whose answer two clients got, answers that have no order, a node that dies
//! by itself or does not come back, a lock that two have at a time, rows that go back in SQL, nodes or SQL that differ in the end.

mod below;
mod fault;
mod ground;

mod door;
mod history;
mod ledger;
mod load;
mod locks;
mod random;
mod writers;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::{Client, Cluster, Dir, PATIENCE, Reply, wait_for};
use fault::Fault;
use ground::Ground;
use ledger::Ledger;
use load::Load;
use locks::Locks;
use random::Random;
use writers::{Registers, Writers};

/// The table of rows that SQL has too, and its field.
const TABLE: &str = "rows";
const FIELD: &str = "n";

/// Seconds after which it is told how long a fault was felt.
const SLOW_S: f64 = 2.0;

pub struct Options {
    pub seed: u64,
    pub lasts: Duration,
    pub nodes: usize,
    /// Inside of [`crate::namespace`]: network, disks and SQL are treated badly too.
    pub is_namespaced: bool,
}

/// What is treated badly.
struct World {
    cluster: Cluster,
    ground: Option<Ground>,
}

/// What was done, and how much was checked while it was done.
#[derive(Debug, Default)]
pub struct Tally {
    pub faults: u64,
    pub writes_sent: u64,
    pub writes_answered: u64,
    pub reads: u64,
    pub keys: usize,
    /// Numbers written to registers that everybody shares, and how many of those there were.
    pub numbers: usize,
    pub shared: usize,
    /// Commands that ran under a lock.
    pub turns: usize,
    /// Requests without an answer, or with an error for one.
    pub failures: u64,
}

/// Does it. An error is a promise that was broken, with what the nodes said last.
pub fn run(options: &Options, say: &dyn Fn(&str)) -> Result<Tally> {
    if options.is_namespaced {
        let (ground, cluster) = Ground::make(options.nodes)?;
        return treat(&mut World { cluster, ground: Some(ground) }, options, say);
    }
    let rows = Dir::new()?;
    let url = format!("sqlite:{}", rows.join("rows.db").display());
    let cluster = Cluster::form(options.nodes, &["--sql", &url, "--coord-groups", "2"], &[])?;
    treat(&mut World { cluster, ground: None }, options, say)
}

fn treat(world: &mut World, options: &Options, say: &dyn Fn(&str)) -> Result<Tally> {
    let outcome = treat_under_load(world, options, say);
    outcome.with_context(|| format!("seed {}\n{}\n{}", options.seed, world.cluster.tails(), views(&world.cluster)))
}

/// How each node sees the cluster, if it answers.
fn views(cluster: &Cluster) -> String {
    let view = |place: usize| {
        let output = cluster.command(place, &["status", "--timeout", "3"]).output();
        output.map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    (0..cluster.nodes.len()).map(view).collect()
}

fn treat_under_load(world: &mut World, options: &Options, say: &dyn Fn(&str)) -> Result<Tally> {
    command(&world.cluster, 0, &["table", "create", TABLE, "--field", &format!("{FIELD}:int64")])?;
    world.ground.as_ref().map_or(Ok(()), Ground::watch)?;
    let mut random = Random::new(options.seed);
    let ledger = Arc::new(Ledger::new(options.nodes));
    let load = Load::start(&world.cluster, &ledger, &mut random);
    let writers = Writers::start(&world.cluster, &mut random);
    let locks = Locks::start(&world.cluster)?;
    let begun = Instant::now();
    let mut faults = 0;
    await_answers(&ledger, writers.registers())?;
    while begun.elapsed() < options.lasts {
        let fault = Fault::choose(&mut random, options.nodes, options.is_namespaced);
        say(&format!("{:7.1} s  {fault}", begun.elapsed().as_secs_f64()));
        fault.strike(world, &mut random).with_context(|| fault.to_string())?;
        faults += 1;
        // Often the next one comes while the cluster still mends itself.
        if random.below(3) == 0 {
            std::thread::sleep(Duration::from_millis(random.below(500)));
        } else {
            let healed = Instant::now();
            world.cluster.wait_until_serving()?;
            let ready = healed.elapsed().as_secs_f64();
            await_answers(&ledger, writers.registers())?;
            await_shards(&world.cluster, &ledger)?;
            let answered = healed.elapsed().as_secs_f64();
            if answered > SLOW_S {
                say(&format!("           all ready after {ready:.1} s, answers at every door after {answered:.1} s"));
            }
        }
        world.cluster.ensure_running()?;
        ledger.verdict()?;
        verdict(&writers.registers().faults())?;
        locks.verdict()?;
    }
    world.cluster.wait_until_serving()?;
    await_answers(&ledger, writers.registers())?;
    load.finish();
    let turns = locks.finish()?;
    let registers = writers.finish();
    ledger.verdict()?;
    look_at_the_end(world, &ledger, &registers)?;
    let (numbers, shared) = registers.sum();
    Ok(Tally { faults, numbers, shared, turns, ..ledger.tally() })
}

fn verdict(faults: &[String]) -> Result<()> {
    ensure!(faults.is_empty(), "histories without an order:\n{}", faults.join("\n"));
    Ok(())
}

/// Every client gets further answers: no door stays shut.
fn await_answers(ledger: &Ledger, registers: &Registers) -> Result<()> {
    let answered = || [ledger.answered(), registers.answered()].concat();
    let before = answered();
    wait_for("answers at every door", PATIENCE, || {
        Ok(answered().iter().zip(&before).all(|(now, before)| now > before).then_some(()))
    })
}

/// Every node answers for some keys of every shard: no way to one stays closed.
fn await_shards(cluster: &Cluster, ledger: &Ledger) -> Result<()> {
    for place in 0..cluster.nodes.len() {
        let mut client = cluster.client(place)?;
        for cell in ledger.cells().iter().take(load::COUNTERS) {
            let found = read_at_last(&mut client, &cell.read());
            found.with_context(|| format!("n{} says\n{}", place + 1, explained(cluster, &cell.to_string())))?;
        }
    }
    Ok(())
}

/// Where each node takes a key to live.
fn explained(cluster: &Cluster, key: &str) -> String {
    let explained = |place: usize| {
        let output = cluster.command(place, &["explain", key]).output();
        output.map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    (0..cluster.nodes.len()).map(explained).collect()
}

/// With everybody there and nobody writing.
fn look_at_the_end(world: &World, ledger: &Ledger, registers: &Registers) -> Result<()> {
    let cluster = &world.cluster;
    let mut last = Vec::new();
    let places = 0..cluster.nodes.len();
    for place in places.clone() {
        let mut client = cluster.client(place).with_context(|| format!("n{}", place + 1))?;
        for cell in ledger.cells() {
            let floor = cell.floor();
            let found = read_at_last(&mut client, &cell.read())?;
            ledger.was_read(&cell, floor, found, place);
        }
        last.clear();
        for register in registers.all() {
            let called = register.now();
            let command = ["HGET".to_owned(), format!("{TABLE}:{}", register.name), FIELD.to_owned()];
            let found = read_at_last(&mut client, &command)?;
            registers.was_read(&register, found, called);
            last.push((register.name.clone(), found));
        }
    }
    ledger.verdict()?;
    verdict(&registers.check())?;
    // What nobody was answered may still be under way.
    wait_for("nodes that count the same keys", PATIENCE, || {
        let sizes = places.clone().map(|place| size(&mut cluster.client(place)?)).collect::<Result<Vec<_>>>()?;
        Ok(sizes.iter().all(|size| *size == sizes[0]).then_some(()))
    })?;
    command(cluster, 0, &["flush", TABLE])?;
    for place in places {
        command(cluster, place, &["verify", TABLE])?;
    }
    if let Some(ground) = &world.ground {
        ground.ensure_order()?;
        ground.ensure_equal(&last)?;
    }
    Ok(())
}

/// With a last group that still elects.
fn read_at_last(client: &mut Client, command: &[String]) -> Result<u64> {
    let mut reply = Reply::Nil;
    let found = wait_for(&command.join(" "), PATIENCE, || {
        reply = client.call(command)?;
        Ok(load::number(&reply))
    });
    found.with_context(|| format!("the last answer was {reply:?}"))
}

fn size(client: &mut Client) -> Result<i64> {
    match client.call(&["DBSIZE"])? {
        Reply::Int(size) => Ok(size),
        other => bail!("DBSIZE was answered {other:?}"),
    }
}

fn command(cluster: &Cluster, place: usize, args: &[&str]) -> Result<()> {
    let output = cluster.command(place, args).output()?;
    let (printed, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "`shardine {}`: {printed}{told}", args.join(" "));
    Ok(())
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { faults, writes_sent, writes_answered, reads, keys, numbers, shared, turns, failures } = self;
        write!(f, "{faults} faults; {writes_sent} writes sent, {writes_answered} of them answered, on {keys} keys; ")?;
        write!(f, "{numbers} numbers written by all doors to {shared} registers whose histories have an order; ")?;
        write!(f, "{turns} turns at two locks; ")?;
        write!(f, "{reads} reads; {failures} requests failed; nothing lost, nothing stale, nothing counted twice")
    }
}
