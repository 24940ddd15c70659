//! A cluster of real processes that is treated badly at random, under clients at every node's Redis door. What is done follows
//! from a seed; when it meets what the cluster is doing does not, so a seed that failed is run again a few times.
//!
//! What must not happen: an answered write that is gone, a read behind what anybody was answered before it began, a number that
//! was never sent, an increment that counts twice or whose answer two clients got, a node that dies by itself or does not come
//! back, nodes or SQL that differ in the end.

mod fault;
mod ledger;
mod load;
mod random;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::{Client, Cluster, Dir, PATIENCE, Reply, wait_for};
use fault::Fault;
use ledger::Ledger;
use load::Load;
use random::Random;

/// The table of rows that SQL has too.
const TABLE: &str = "rows";

pub struct Options {
    pub seed: u64,
    pub lasts: Duration,
    pub nodes: usize,
}

/// What was done, and how much was checked while it was done.
#[derive(Debug, Default)]
pub struct Tally {
    pub faults: u64,
    pub writes_sent: u64,
    pub writes_answered: u64,
    pub reads: u64,
    pub keys: usize,
    /// Requests without an answer, or with an error for one.
    pub failures: u64,
}

/// Does it. An error is a promise that was broken, with what the nodes said last.
pub fn run(options: &Options, say: &dyn Fn(&str)) -> Result<Tally> {
    let rows = Dir::new()?;
    let url = format!("sqlite:{}", rows.join("rows.db").display());
    let mut cluster = Cluster::form(options.nodes, &["--sql", &url], &[])?;
    command(&cluster, 0, &["table", "create", TABLE, "--field", "n:int64"])?;
    let outcome = treat(&mut cluster, options, say);
    outcome.with_context(|| format!("seed {}\n{}", options.seed, cluster.tails()))
}

fn treat(cluster: &mut Cluster, options: &Options, say: &dyn Fn(&str)) -> Result<Tally> {
    let mut random = Random::new(options.seed);
    let ledger = Arc::new(Ledger::new(options.nodes));
    let load = Load::start(cluster, &ledger, &mut random);
    let begun = Instant::now();
    let mut faults = 0;
    await_answers(&ledger)?;
    while begun.elapsed() < options.lasts {
        let fault = Fault::choose(&mut random, options.nodes);
        say(&format!("{:7.1} s  {fault}", begun.elapsed().as_secs_f64()));
        fault.strike(cluster, &mut random)?;
        faults += 1;
        // Often the next one comes while the cluster still mends itself.
        if random.below(3) == 0 {
            std::thread::sleep(Duration::from_millis(random.below(500)));
        } else {
            cluster.wait_until_serving()?;
            await_answers(&ledger)?;
        }
        cluster.ensure_running()?;
        ledger.verdict()?;
    }
    cluster.wait_until_serving()?;
    await_answers(&ledger)?;
    load.finish();
    ledger.verdict()?;
    look_at_the_end(cluster, &ledger)?;
    Ok(Tally { faults, ..ledger.tally() })
}

/// Every client gets further answers: no door stays shut.
fn await_answers(ledger: &Ledger) -> Result<()> {
    let before = ledger.answered();
    wait_for("answers at every door", PATIENCE, || {
        Ok(ledger.answered().iter().zip(&before).all(|(now, before)| now > before).then_some(()))
    })
}

/// With everybody there and nobody writing.
fn look_at_the_end(cluster: &Cluster, ledger: &Ledger) -> Result<()> {
    let places = 0..cluster.nodes.len();
    for place in places.clone() {
        let mut client = cluster.client(place)?;
        for cell in ledger.cells() {
            let floor = cell.floor();
            let reply = client.call(&cell.read())?;
            let found = load::number(&reply).with_context(|| format!("{cell} was answered {reply:?}"))?;
            ledger.was_read(&cell, floor, found, place);
        }
    }
    ledger.verdict()?;
    // What nobody was answered may still be under way.
    wait_for("nodes that count the same keys", PATIENCE, || {
        let sizes = places.clone().map(|place| size(&mut cluster.client(place)?)).collect::<Result<Vec<_>>>()?;
        Ok(sizes.iter().all(|size| *size == sizes[0]).then_some(()))
    })?;
    command(cluster, 0, &["flush", TABLE])?;
    for place in places {
        command(cluster, place, &["verify", TABLE])?;
    }
    Ok(())
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
        let Tally { faults, writes_sent, writes_answered, reads, keys, failures } = self;
        write!(f, "{faults} faults; {writes_sent} writes sent, {writes_answered} of them answered, on {keys} keys; ")?;
        write!(f, "{reads} reads; {failures} requests failed; nothing lost, nothing stale, nothing counted twice")
    }
}
