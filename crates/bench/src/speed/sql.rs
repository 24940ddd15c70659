//! Shardine in front of real SQL databases, against the same databases without it.

mod by_hand;
mod cold;
mod site;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use shardine_testkit::sql_server::Kind;

use super::args::Options;
use super::row::{Row, Target, Unit};
use super::throughput;
use super::workplace::Workplace;
use by_hand::ByHand;
pub use site::{Base, Site};

/// Rows of the write-back, and cold keys of the read-through.
const WRITE_ROWS: u64 = 200_000;
const COLD_KEYS: u64 = 100_000;
const HOT_KEYS: u64 = 1_000;
const HOT_CHANGES: u64 = 1_000_000;
const HOT_DELAY_MS: &str = "700";

/// The rows of the group, or those that were asked for.
pub fn measure(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for base in [Base::Server(Kind::Postgres), Base::Server(Kind::MariaDb), Base::Sqlite] {
        if options.wants(&format!("write-back {}", base.name())) {
            rows.push(write_back(base, place, options)?);
        }
    }
    for kind in [Kind::Postgres, Kind::MariaDb] {
        if options.wants(&format!("read-through {}", Base::Server(kind).name())) {
            rows.extend(read_through(kind, place, options)?);
        }
    }
    if options.wants("hot keys") {
        rows.extend(hot_keys(place, options)?);
    }
    if options.wants("outage") {
        rows.push(outage(place, options)?);
    }
    ensure!(!rows.is_empty(), "no row in front of SQL is called {:?}", options.row);
    Ok(rows)
}

fn scaled(full: u64, options: &Options) -> u64 {
    if options.quick { full / 20 } else { full }
}

/// The same rows, at the same versions, into two tables of the same shape: by Shardine's flush, and by hand.
fn write_back(base: Base, place: &Workplace, options: &Options) -> Result<Row> {
    let count = scaled(WRITE_ROWS, options);
    let site = Site::start(base, place, options)?;
    // Written when asked for and not before, so that the flush finds all rows dirty.
    site.create("users", &["--write", "on-evict"])?;
    let mut by_hand = ByHand::open(&site, count)?;
    let mut row = Row {
        work: format!("write-back of {count} dirty rows, {}", base.name()),
        against: "bulk upsert by hand: one connection, no fence, same order, batch and sync".into(),
        unit: Unit::RowsPerSecond,
        target: Target::AtLeast(0.7),
        reference: Vec::new(),
        subject: Vec::new(),
    };
    for round in 0..options.rounds {
        site.write(count, u64::from(round))?;
        let mut subject = || -> Result<()> {
            let started = Instant::now();
            site.flush("users")?;
            row.subject.push(count as f64 / started.elapsed().as_secs_f64());
            Ok(())
        };
        let mut reference = || -> Result<()> {
            let started = Instant::now();
            by_hand.upsert(u64::from(round))?;
            row.reference.push(count as f64 / started.elapsed().as_secs_f64());
            Ok(())
        };
        if round.is_multiple_of(2) {
            reference()?;
            subject()?;
        } else {
            subject()?;
            reference()?;
        }
        let (by_hand, ours) = (row.reference.last().unwrap_or(&0.0), row.subject.last().unwrap_or(&0.0));
        eprintln!("write-back, {}, round {}: {by_hand:.0} and {ours:.0} rows per second", base.name(), round + 1);
    }
    site.check_rows(count)?;
    Ok(row)
}

/// Keys that memory does not have, asked for by 64 connections: through Shardine, and from the database one by one.
fn read_through(kind: Kind, place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let count = scaled(COLD_KEYS, options);
    let mut site = Site::start(Base::Server(kind), place, options)?;
    site.create("users", &[])?;
    site.write(count, 0)?;
    site.flush("users")?;
    let mut rows = Vec::new();
    for (pipeline, target) in [(16, Target::AtLeast(5.0)), (1, Target::None)] {
        let work =
            format!("read-through of {count} cold keys, {}, 64 connections, pipeline {pipeline}", site.base.name());
        let against = "one SELECT per key by 64 connections".into();
        let mut row =
            Row { work, against, unit: Unit::OpsPerSecond, target, reference: Vec::new(), subject: Vec::new() };
        for round in 0..options.rounds {
            site.forget(place, options)?;
            row.reference.push(cold::by_select(&site, count)?);
            row.subject.push(cold::through_shardine(&site, count, pipeline)?);
            let (by_hand, ours) = (row.reference.last().unwrap_or(&0.0), row.subject.last().unwrap_or(&0.0));
            eprintln!("read-through, {kind:?}, round {}: {by_hand:.0} and {ours:.0} per second", round + 1);
        }
        rows.push(row);
    }
    Ok(rows)
}

/// How many rows go to SQL for a million changes of a thousand keys, and how old the oldest change got.
fn hot_keys(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let changes = scaled(HOT_CHANGES, options);
    let site = Site::start(Base::Server(Kind::Postgres), place, options)?;
    site.create("users", &["--write-delay", HOT_DELAY_MS])?;
    site.write(HOT_KEYS, 0)?;
    site.flush("users")?;
    let work = format!("{changes} changes of {HOT_KEYS} hot keys, --write-delay {HOT_DELAY_MS}");
    let row = |what: &str, unit: Unit, target: Target| Row {
        work: format!("{work}: {what}"),
        against: "the changes, or a second".into(),
        unit,
        target,
        reference: Vec::new(),
        subject: Vec::new(),
    };
    let mut written = row("rows written to SQL", Unit::Rows, Target::AtMost(0.02));
    let mut lag = row("oldest change not in SQL", Unit::Millis, Target::AtMost(1.0));
    for round in 0..options.rounds {
        let before = site.metric("shardine_sql_rows_written_total")?;
        let oldest = site.watch_lag(|site| {
            let command = ["HINCRBY", "users:__rand_int__", "age", "1"];
            throughput::benchmark(site.port(), 64, 16, HOT_KEYS, changes, &command).map(drop)
        })?;
        site.flush("users")?;
        let rows = site.metric("shardine_sql_rows_written_total")? - before;
        written.reference.push(changes as f64);
        written.subject.push(rows as f64);
        lag.reference.push(1_000.0);
        lag.subject.push(oldest as f64);
        eprintln!("hot keys, round {}: {rows} rows written, {oldest} ms behind at most", round + 1);
    }
    Ok(vec![written, lag])
}

/// Writes to records in memory while PostgreSQL is up, and while it is not.
fn outage(place: &Workplace, options: &Options) -> Result<Row> {
    let mut site = Site::start(Base::Server(Kind::Postgres), place, options)?;
    site.create("users", &[])?;
    site.write(options.records, 0)?;
    site.flush("users")?;
    let count = scaled(400_000, options);
    let command = ["HSET", "users:__rand_int__", "age", "10", "name", "bob"];
    let run = |site: &Site| throughput::benchmark(site.port(), 64, 16, options.records, count, &command);
    run(&site)?;
    let mut row = Row {
        work: "HSET while PostgreSQL is down, pipeline 16".into(),
        against: "the same while it is up".into(),
        unit: Unit::OpsPerSecond,
        target: Target::AtLeast(0.95),
        reference: Vec::new(),
        subject: Vec::new(),
    };
    for round in 0..options.rounds {
        row.reference.push(run(&site)?);
        site.flush("users")?;
        let server = site.sql.as_mut().context("a server")?;
        server.stop()?;
        row.subject.push(run(&site)?);
        site.sql.as_mut().context("a server")?.start_again()?;
        site.flush("users")?;
        let (up, down) = (row.reference.last().unwrap_or(&0.0), row.subject.last().unwrap_or(&0.0));
        eprintln!("outage, round {}: {up:.0} up and {down:.0} down per second", round + 1);
    }
    ensure!(!row.subject.is_empty(), "no rounds");
    Ok(row)
}
