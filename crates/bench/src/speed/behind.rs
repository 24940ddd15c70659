//! What the way to SQL takes from those who ask: writes of a table with SQLite behind it, and reads of one table while rows of
//! another are on their way.

use anyhow::{Result, ensure};

use super::{
    args::Options,
    records,
    row::{Row, Target, Unit},
    server::{Pair, Promise},
    sql::{Base, Site},
    throughput::{self, Depth, INTO_PEOPLE, Load},
    workplace::Workplace,
};

/// Rows on their way to SQL while others read.
const DIRTY_ROWS: u64 = 200_000;

const BEHIND: Load = Load {
    name: "HSET on disk, table with SQLite behind it",
    command: INTO_PEOPLE,
    promise: Promise::Synced,
    against: "redis-server, appendfsync always",
    depths: &[
        Depth { pipeline: 1, speed: Target::AtLeast(1.0), cpu: Target::None },
        Depth { pipeline: 16, speed: Target::AtLeast(0.9), cpu: Target::None },
    ],
};

pub fn measure(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if options.wants("writes") {
        let mut pair = Pair::in_front_of_sqlite(BEHIND.promise, place, options)?;
        pair.subject.create_people(&[])?;
        rows.extend(throughput::measure(&BEHIND, pair, options)?);
    }
    if options.wants("reads") {
        rows.extend(reads_beside(place, options)?);
    }
    ensure!(!rows.is_empty(), "no row of this group is called {:?}", options.row);
    Ok(rows)
}

/// Reads of records that have nothing to do with SQL, while it is quiet and while it is not.
fn reads_beside(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let site = Site::start(Base::Sqlite, place, options)?;
    site.create("users", &[])?;
    records::load(&mut site.shardine.client()?, options.records)?;
    let dirty_rows = if options.quick { DIRTY_ROWS / 20 } else { DIRTY_ROWS };
    let mut rows = Vec::new();
    for pipeline in [1, 16] {
        let command = ["HGET", "user:__rand_int__", "name"];
        let read =
            |count| throughput::benchmark(site.port(), options.connections, pipeline, options.records, count, &command);
        let count = (read(20_000 * pipeline)? * options.seconds) as u64;
        let mut row = Row {
            work: format!("HGET while {dirty_rows} dirty rows of another table go to SQLite, pipeline {pipeline}"),
            against: "the same without them".into(),
            unit: Unit::OpsPerSecond,
            target: Target::AtLeast(0.9),
            reference: Vec::new(),
            subject: Vec::new(),
        };
        for round in 0..options.rounds {
            site.flush("users")?;
            row.reference.push(read(count)?);
            site.write(dirty_rows, u64::from(round))?;
            let before = site.dirty_rows()?;
            row.subject.push(read(count)?);
            let (after, number) = (site.dirty_rows()?, round + 1);
            let (without, beside) = (row.reference.last().unwrap_or(&0.0), row.subject.last().unwrap_or(&0.0));
            eprintln!(
                "reads, round {number}: {without:.0} and {beside:.0}; {before} rows were dirty, {after} still are"
            );
        }
        rows.push(row);
    }
    Ok(rows)
}
