//! Memory per record: how much the resident memory of a fresh server grows by loading many small records, and how much of that
//! is left when they are gone.

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
    let against = "redis-server, no AOF";
    let row = |work: String, unit: Unit, target: Target| Row {
        work,
        against: against.to_owned(),
        unit,
        target,
        reference: Vec::new(),
        subject: Vec::new(),
    };
    let count = options.bulk_records;
    let per_record = format!("memory per record, {count} records of 3 fields");
    let mut full = row(per_record, Unit::BytesPerRecord, Target::AtMost(1.0));
    let mut empty = row(format!("memory after {count} records came and went"), Unit::Megabytes, Target::None);
    for round in 0..options.rounds {
        let mut pair = Pair::start(Promise::Memory, place, options)?;
        let Both { reference: one, subject: other } = pair.in_turns(round, |server| sample(server, options))?;
        let (per_record, left) = ((one.per_record, other.per_record), (one.left, other.left));
        eprintln!("memory, round {}: {per_record:.1?} bytes per record, {left:.1?} MB left", round + 1);
        full.reference.push(one.per_record);
        full.subject.push(other.per_record);
        empty.reference.push(one.left);
        empty.subject.push(other.left);
    }
    Ok(vec![full, empty])
}

struct Sample {
    per_record: f64,
    /// Resident megabytes when all records are gone.
    left: f64,
}

fn sample(server: &mut Server, options: &Options) -> Result<Sample> {
    let before = procfs::settled_rss(server.pid(), SETTLE)?;
    records::load(&mut server.client()?, options.bulk_records)?;
    let after = procfs::settled_rss(server.pid(), SETTLE)?;
    let per_record = after.saturating_sub(before) as f64 / options.bulk_records as f64;
    records::remove(&mut server.client()?, options.bulk_records)?;
    let left = procfs::settled_rss(server.pid(), SETTLE)? as f64 / 1e6;
    Ok(Sample { per_record, left })
}
