//! A thousand groups that nobody asks anything, on each of three nodes: what they cost, and how long they are without leaders when a
//! node dies.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{MEMBERS, site::Site};
use crate::speed::{
    args::Options,
    procfs,
    row::{Row, Target, Unit},
    workplace::Workplace,
};

const GROUPS: &str = "1000";
/// Long enough for what is made at first to be done.
const SETTLES: Duration = Duration::from_secs(5);
const WATCHED: Duration = Duration::from_secs(10);
/// Microseconds of a core that a node may take every second: 3 %.
const MICROS: f64 = 30_000.0;
const LEADS_AGAIN_MILLIS: f64 = 1_000.0;

pub fn measure(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let row = |work: &str, against: &str, unit: Unit| Row {
        work: work.to_owned(),
        against: against.to_owned(),
        unit,
        target: Target::AtMost(1.0),
        reference: Vec::new(),
        subject: Vec::new(),
    };
    let mut cost =
        row("1,000 idle groups on each of three nodes, the busiest node", "3 % of a core", Unit::MicrosPerSecond);
    let mut healed = row("1,000 idle groups, kill -9 of a node until all lead again", "1 s", Unit::Millis);
    for round in 0..options.rounds {
        let mut site = Site::start(place, options, &["--shards", GROUPS])?;
        thread::sleep(SETTLES);
        let pids: Vec<u32> = (0..MEMBERS).filter_map(|place| site.cluster.pid(place)).collect();
        let spent = || pids.iter().map(|pid| procfs::cpu_time(*pid)).collect::<Result<Vec<_>>>();
        let before = spent()?;
        thread::sleep(WATCHED);
        let micros = spent()?
            .into_iter()
            .zip(before)
            .map(|(now, then)| (now - then).as_secs_f64() * 1e6 / WATCHED.as_secs_f64());
        let busiest = micros.fold(0.0, f64::max);
        let killed = Instant::now();
        site.cluster.kill9(0)?;
        site.cluster.wait_until_serving()?;
        let took = killed.elapsed().as_secs_f64() * 1e3;
        eprintln!("idle groups, round {}: {:.1} % of a core, {took:.0} ms", round + 1, busiest / 1e4);
        cost.reference.push(MICROS);
        cost.subject.push(busiest);
        healed.reference.push(LEADS_AGAIN_MILLIS);
        healed.subject.push(took);
    }
    (!cost.subject.is_empty()).then_some(vec![cost, healed]).context("no round was asked for")
}
