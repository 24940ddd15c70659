//! Memory per record: how much the resident memory of a fresh server grows by loading many small records.

use std::time::Duration;

use anyhow::Result;

use super::{
    args::Options,
    procfs, records,
    row::{Row, Target, Unit},
    server::{Both, Pair, Promise, Server},
    workplace::Workplace,
};

/// How long a server may take to give back what it does not need any more.
const SETTLE: Duration = Duration::from_secs(20);

/// Measures the row. Redis keeps no file here, so nothing but the records is in its memory.
pub fn measure(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let mut reference = Vec::new();
    let mut subject = Vec::new();
    for round in 0..options.rounds {
        let mut pair = Pair::start(Promise::Memory, place, options)?;
        let Both { reference: one, subject: other } =
            pair.in_turns(round, |server| bytes_per_record(server, options))?;
        eprintln!("memory, round {}: {one:.1} and {other:.1} bytes per record", round + 1);
        reference.push(one);
        subject.push(other);
    }
    let work = format!("memory per record, {} records of 3 fields", options.bulk_records);
    let against = "redis-server, no AOF".to_owned();
    Ok(vec![Row { work, against, unit: Unit::BytesPerRecord, target: Target::AtMost(1.0), reference, subject }])
}

fn bytes_per_record(server: &mut Server, options: &Options) -> Result<f64> {
    let before = procfs::settled_rss(server.pid(), SETTLE)?;
    records::load(&mut server.client()?, options.bulk_records)?;
    let after = procfs::settled_rss(server.pid(), SETTLE)?;
    Ok(after.saturating_sub(before) as f64 / options.bulk_records as f64)
}
