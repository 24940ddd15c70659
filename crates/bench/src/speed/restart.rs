//! Restart: the time from the start of the process to the first moment at which all records can be read.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use shardine_testkit::{Client, PATIENCE, Reply, wait_for};

use super::{
    args::Options,
    records,
    row::{Row, Target, Unit},
    server::{Both, Pair, Promise, Server},
    workplace::Workplace,
};

/// Measures two rows: against the append-only file as the load wrote it, and against the same file after Redis has rewritten
/// it as a dump, which loads faster.
pub fn measure(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let mut pair = Pair::start(Promise::Synced, place, options)?;
    for server in [&mut pair.reference, &mut pair.subject] {
        records::load(&mut server.client()?, options.bulk_records)?;
    }
    let plain = sample(&mut pair, "plain AOF", options)?;
    rewrite(&pair.reference)?;
    let rewritten = sample(&mut pair, "rewritten AOF", options)?;

    let work = format!("restart to serving, {} records", options.bulk_records);
    Ok(vec![
        row(&work, "redis-server, AOF as written (commands)", Target::AtMost(1.0), &plain),
        row(&work, "redis-server, AOF rewritten (RDB preamble)", Target::AtMost(1.0), &rewritten),
    ])
}

fn sample(pair: &mut Pair, form: &str, options: &Options) -> Result<Vec<Both<f64>>> {
    let mut samples = Vec::new();
    for round in 0..options.rounds {
        let both = pair.in_turns(round, |server| restart_millis(server, options))?;
        eprintln!("restart, {form}, round {}: {:.0} and {:.0} ms", round + 1, both.reference, both.subject);
        samples.push(both);
    }
    Ok(samples)
}

fn restart_millis(server: &mut Server, options: &Options) -> Result<f64> {
    server.stop()?;
    let started = Instant::now();
    server.start_again()?;
    let address = server.port().address();
    wait_for("the records after a restart", PATIENCE, || {
        // No connection, an error reply and a closed connection all mean: not yet.
        let loaded =
            Client::connect(address).and_then(|mut client| records::are_loaded(&mut client, options.bulk_records));
        Ok(loaded.unwrap_or(false).then_some(()))
    })?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

/// Lets Redis rewrite its file and waits until it has.
fn rewrite(server: &Server) -> Result<()> {
    let mut client = server.client()?;
    if let Reply::Error(text) = client.call(&["BGREWRITEAOF"])? {
        bail!("BGREWRITEAOF: {text}");
    }
    wait_for("Redis to rewrite its file", PATIENCE, || {
        let info = client.call(&["INFO", "persistence"])?.text().context("INFO persistence")?;
        let is_done = info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0");
        Ok(is_done.then_some(()))
    })
}

fn row(work: &str, against: &str, target: Target, samples: &[Both<f64>]) -> Row {
    Row {
        work: work.to_owned(),
        against: against.to_owned(),
        unit: Unit::Millis,
        target,
        reference: samples.iter().map(|both| both.reference).collect(),
        subject: samples.iter().map(|both| both.subject).collect(),
    }
}
