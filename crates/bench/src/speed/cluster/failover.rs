//! The loss of a leader under writes at a fixed rate: the longest time in which no write was answered, seen by connections to the
//! other nodes, whose keys all belong to the group that lost its leader.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use shardine_testkit::{PATIENCE, Process};

use super::{
    MEMBERS,
    paced::{Load, Write, Writer},
    site::Site,
};
use crate::speed::{
    args::Options,
    etcd::{Etcd, Keys},
    row::{Row, Target, Unit, median},
    workplace::Workplace,
};

/// Writes a second, and the connections that they come by.
const RATE: f64 = 2_000.0;
const CONNECTIONS: usize = 32;
/// Writing before the fault, and behind it: longer than a failover takes.
const BEFORE: Duration = Duration::from_millis(500);
const BEHIND: Duration = Duration::from_secs(4);

/// What happens to the leader's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    Terminate,
    Pause,
}

/// Milliseconds that the gaps of a fault may have.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub median: f64,
    /// The 95th of a hundred.
    pub late: f64,
}

/// Of a node that neither dies nor answers.
pub(super) const SILENT: Bounds = Bounds { median: 700.0, late: 1_200.0 };

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Fault::Kill => "kill -9",
            Fault::Terminate => "SIGTERM",
            Fault::Pause => "SIGSTOP",
        }
    }

    fn bounds(self) -> Bounds {
        match self {
            Fault::Kill => Bounds { median: 300.0, late: 700.0 },
            Fault::Terminate => Bounds { median: 100.0, late: 100.0 },
            Fault::Pause => SILENT,
        }
    }

    fn strike(self, process: &mut Process) -> Result<()> {
        match self {
            Fault::Kill => process.kill9(),
            Fault::Terminate => process.ask_to_stop(),
            Fault::Pause => process.pause(),
        }
    }
}

/// What the connections to other nodes saw of one fault.
pub(super) struct Seen {
    pub gap_millis: f64,
    pub errors: Vec<String>,
}

/// Kills, stops and pauses, `--rounds` times each.
pub async fn measure(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let mut etcd = Etcd::start(place.dir()?, MEMBERS).await?;
    let mut site = Site::start(place, options, &[])?;
    let mut rows = Vec::new();
    for fault in [Fault::Kill, Fault::Terminate, Fault::Pause] {
        if options.row.to_lowercase() != "failover" && !options.wants(&format!("failover {}", fault.name())) {
            continue;
        }
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for round in 0..options.rounds {
            theirs.push(strike_etcd(fault, &mut etcd).await?);
            ours.push(strike_site(fault, &mut site).await?);
            let (theirs, ours) = (&theirs[theirs.len() - 1], &ours[ours.len() - 1]);
            eprintln!(
                "{}, round {}: etcd {:.0} ms and {} errors, shardine {:.0} ms and {} errors {:?}",
                fault.name(),
                round + 1,
                theirs.gap_millis,
                theirs.errors.len(),
                ours.gap_millis,
                ours.errors.len(),
                ours.errors.first(),
            );
        }
        rows.extend(rows_of(fault, &theirs, &ours));
    }
    Ok(rows)
}

fn rows_of(fault: Fault, theirs: &[Seen], ours: &[Seen]) -> Vec<Row> {
    let third = if fault == Fault::Kill { Target::AtMost(1.0 / 3.0) } else { Target::None };
    let errors = |seen: &[Seen]| vec![seen.iter().map(|seen| seen.errors.len()).sum::<usize>() as f64];
    let beside = gap_row(fault.name(), "each run", "etcd, three members", third, gaps(theirs), gaps(ours));
    let refused = Row {
        work: format!("{} of the leader, errors on other nodes' connections in all runs", fault.name()),
        against: "etcd, three members".to_owned(),
        unit: Unit::Requests,
        target: Target::None,
        reference: errors(theirs),
        subject: errors(ours),
    };
    [vec![beside], bounded_rows(fault.name(), fault.bounds(), ours), vec![refused]].concat()
}

/// The gaps of all runs against what they may have.
pub(super) fn bounded_rows(fault: &str, bounds: Bounds, seen: &[Seen]) -> Vec<Row> {
    let row = |what: &str, bound: f64, found: f64| {
        gap_row(fault, what, &format!("{bound} ms"), Target::AtMost(1.0), vec![bound], vec![found])
    };
    vec![
        row("median", bounds.median, median(&gaps(seen))),
        row("95th of a hundred", bounds.late, nearly_worst(&gaps(seen))),
    ]
}

fn gaps(seen: &[Seen]) -> Vec<f64> {
    seen.iter().map(|seen| seen.gap_millis).collect()
}

fn gap_row(fault: &str, what: &str, against: &str, target: Target, reference: Vec<f64>, subject: Vec<f64>) -> Row {
    let work = format!("{fault} of the leader at {RATE:.0} writes a second, longest gap, {what}");
    Row { work, against: against.to_owned(), unit: Unit::Millis, target, reference, subject }
}

/// The value below which 95 of a hundred lie.
fn nearly_worst(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() as f64 * 0.95).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

async fn strike_etcd(fault: Fault, etcd: &mut Etcd) -> Result<Seen> {
    let leader = etcd.leader().await?;
    let mut writers = Vec::new();
    for number in 0..CONNECTIONS {
        writers.push(Writer::Etcd(Keys::new(etcd.connect(another(leader, number)).await?)));
    }
    let seen = watch(writers, || fault.strike(etcd.process(leader)?)).await?;
    match fault {
        Fault::Kill => etcd.start_member(leader)?,
        Fault::Terminate => {
            etcd.process(leader)?.wait(PATIENCE)?;
            etcd.start_member(leader)?;
        }
        Fault::Pause => etcd.process(leader)?.resume()?,
    }
    etcd.leader().await?;
    Ok(seen)
}

async fn strike_site(fault: Fault, site: &mut Site) -> Result<Seen> {
    let leader = site.leader()?;
    let writers = writers_beside(site, leader).await?;
    let cluster = &mut site.cluster;
    let seen = watch(writers, || fault.strike(cluster.process(leader)?)).await?;
    match fault {
        Fault::Kill => cluster.start(leader)?,
        Fault::Terminate => {
            cluster.process(leader)?.wait(PATIENCE)?;
            cluster.start(leader)?;
        }
        Fault::Pause => cluster.process(leader)?.resume()?,
    }
    cluster.wait_until_serving()?;
    Ok(seen)
}

/// Connections to the nodes that do not lead.
pub(super) async fn writers_beside(site: &Site, leader: usize) -> Result<Vec<Writer>> {
    let mut writers = Vec::new();
    for number in 0..CONNECTIONS {
        writers.push(Writer::redis(site.cluster.redis(another(leader, number))).await?);
    }
    Ok(writers)
}

/// One of the other two, in turns.
fn another(leader: usize, number: usize) -> usize {
    (leader + 1 + number % (MEMBERS - 1)) % MEMBERS
}

/// Writes, lets `strike` happen in the middle, and looks at the answers behind it.
pub(super) async fn watch(writers: Vec<Writer>, strike: impl FnOnce() -> Result<()>) -> Result<Seen> {
    let load = Load::start(writers, RATE);
    tokio::time::sleep(BEFORE).await;
    let struck = Instant::now();
    tokio::task::block_in_place(strike)?;
    tokio::time::sleep(BEHIND).await;
    let ended = Instant::now();
    let writes = load.finish().await?;
    ensure!(
        writes.iter().any(|write| write.at < struck && write.error.is_none()),
        "nothing was written before the fault"
    );
    longest_gap(&writes, struck, ended)
}

fn longest_gap(writes: &[Write], struck: Instant, ended: Instant) -> Result<Seen> {
    let good = writes.iter().filter(|write| write.error.is_none()).map(|write| write.at);
    // From the last answer before the fault, to the end if nothing is answered any more.
    let before = good.clone().take_while(|at| *at <= struck).last().context("an answer before the fault")?;
    let behind = good.filter(|at| *at > struck && *at <= ended).chain([ended]);
    let mut last = before;
    let mut longest = Duration::ZERO;
    for at in behind {
        longest = longest.max(at - last);
        last = at;
    }
    let errors = writes.iter().filter_map(|write| write.error.clone()).collect();
    Ok(Seen { gap_millis: longest.as_secs_f64() * 1e3, errors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_counted_from_the_last_good_answer_to_the_next() {
        let start = Instant::now();
        let at = |millis: u64, error: Option<&str>| Write {
            at: start + Duration::from_millis(millis),
            took: Duration::ZERO,
            error: error.map(str::to_owned),
        };
        let writes = [at(0, None), at(10, None), at(50, Some("in_doubt")), at(90, None), at(100, None)];

        let seen = longest_gap(&writes, start + Duration::from_millis(20), start + Duration::from_millis(120)).unwrap();

        assert_eq!(seen.gap_millis.round(), 80.0);
        assert_eq!(seen.errors, ["in_doubt"]);
    }

    #[test]
    fn the_95th_of_a_hundred_is_not_the_worst_of_many() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(nearly_worst(&values), 95.0);
        assert_eq!(nearly_worst(&[3.0, 1.0]), 3.0);
    }
}
