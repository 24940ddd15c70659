//! The kit for sharded services: a replica that stands still, what the client costs over a bare call, and how quickly keys are
//! split over a large map.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use shardine_kit::core::map::{Map, Report, Slot, Trust};
use shardine_kit::core::moment::Moment;
use shardine_kit::core::plan::{Activity, Ground, Rated, Standing, Wanted};
use shardine_kit::core::shard::Shard;
use shardine_kit::core::view::View;
use shardine_kit::provider::Fixed;
use shardine_kit::{Client, Cut, Mode, Options as ClientOptions};
use shardine_kit_examples::goals::HitsBatch;
use shardine_kit_examples::goals::fleet::{DCS, Fleet, Plan};
use shardine_kit_examples::goals::goals_matcher_client::GoalsMatcherClient;
use shardine_kit_examples::goals::load::{Load, Tally, Work, random_hits};
use shardine_kit_examples::goals::request::GoalsRequest;
use tokio::runtime::Runtime;
use tonic::transport::Endpoint;

use super::args::Options;
use super::row::{Row, Target, Unit, median};

/// Keys of a call.
const HITS: usize = 100;
const SHARDS: u32 = 10_000;
const KEYS: u32 = 1_000;
const SPLIT_MICROS: f64 = 200.0;

/// All rows of the group.
pub fn measure(options: &Options) -> Result<Vec<Row>> {
    let runtime = Runtime::new().context("start tokio")?;
    let mut rows = runtime.block_on(stalls(options))?;
    rows.push(runtime.block_on(overhead(options))?);
    rows.push(splits(options));
    Ok(rows)
}

fn row(work: &str, against: &str, unit: Unit, target: Target) -> Row {
    let (work, against) = (work.to_owned(), against.to_owned());
    Row { work, against, unit, target, reference: Vec::new(), subject: Vec::new() }
}

/// Three servers with a whole replica each.
fn replicas() -> Result<Fleet> {
    let program: PathBuf = std::env::current_exe()?.with_file_name("goals");
    ensure!(program.is_file(), "{} is not built: build shardine-kit-examples", program.display());
    Fleet::start(Plan { program, claims: None, bounds: Vec::new(), ping_ms: 5_000 })
}

async fn stalls(options: &Options) -> Result<Vec<Row>> {
    let fleet = replicas()?;
    let mut all =
        row("Get of 100 keys, one of three replicas stopped: p99, mode all", HEALTHY, Unit::MicrosPerOp, TAIL);
    let mut hedge = row("the same, mode hedge", HEALTHY, Unit::MicrosPerOp, TAIL);
    let mut extra =
        row("second requests in that time, mode hedge", "5 % of the first ones", Unit::Requests, Target::AtMost(1.0));
    for round in 0..options.rounds {
        for (row, mode) in [(&mut all, Mode::All), (&mut hedge, Mode::Hedge)] {
            let client = Client::start(GoalsRequest, fleet.hosts(), ClientOptions::default());
            client.wait_for_hosts(|known| known.len() == DCS.len()).await;
            let healthy = under_load(&client, mode, options.seconds, None).await?;
            let before = client.metrics();
            let stalled = under_load(&client, mode, options.seconds, Some(&fleet)).await?;
            let after = client.metrics();
            row.reference.push(healthy.p99_micros() as f64);
            row.subject.push(stalled.p99_micros() as f64);
            if mode == Mode::Hedge {
                let hedges = after.hedges - before.hedges;
                extra.reference.push((after.requests - before.requests - hedges) as f64 / 20.0);
                extra.subject.push(hedges as f64);
            }
            let number = round + 1;
            eprintln!("round {number}, {mode:?}: healthy {}; one stopped {}", healthy.line(), stalled.line());
        }
    }
    Ok(vec![all, hedge, extra])
}

const HEALTHY: &str = "with all three";
const TAIL: Target = Target::AtMost(1.5);

/// Load for so long; with a fleet, one server is stopped soon after the beginning and goes on after the end.
async fn under_load(client: &Client<GoalsRequest>, mode: Mode, seconds: f64, fleet: Option<&Fleet>) -> Result<Tally> {
    let load = Load::start(client, Work { mode, callers: 8, hits: HITS, pause: Duration::from_millis(4) });
    tokio::time::sleep(Duration::from_secs_f64(seconds * 0.2)).await;
    if let Some(fleet) = fleet {
        fleet.servers[0].process.pause()?;
    }
    tokio::time::sleep(Duration::from_secs_f64(seconds * 0.8)).await;
    let tally = load.stop().await?;
    if let Some(fleet) = fleet {
        fleet.servers[0].process.resume()?;
    }
    ensure!(tally.errors.is_empty(), "{:?}", tally.errors.first());
    Ok(tally)
}

/// The same hits by the kit's client and by tonic's stub, in turns, on one connection each.
async fn overhead(options: &Options) -> Result<Row> {
    let fleet = replicas()?;
    let address = fleet.servers[0].address();
    let client = Client::start(GoalsRequest, Fixed::new([address.clone()]), ClientOptions::default());
    let mut stub = GoalsMatcherClient::new(Endpoint::from_shared(format!("http://{address}"))?.connect().await?);
    let mut row =
        row("Get of 100 keys from one host, p50", "a bare call by tonic", Unit::MicrosPerOp, Target::AtMost(1.15));
    for round in 0..options.rounds {
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        let until = Instant::now() + Duration::from_secs_f64(options.seconds);
        while Instant::now() < until {
            let hits = random_hits(HITS);
            let begun = Instant::now();
            let answered = stub.match_sharded(HitsBatch { hits: hits.clone() }).await?.into_inner();
            bare.push(begun.elapsed().as_secs_f64() * 1e6);
            let begun = Instant::now();
            let found = client.get(&hits).await?;
            ours.push(begun.elapsed().as_secs_f64() * 1e6);
            ensure!(found.len() == HITS && answered.reaches.len() == HITS, "all hits are answered");
        }
        row.reference.push(median(&bare));
        row.subject.push(median(&ours));
        eprintln!("overhead, round {}: {:.1} and {:.1} µs", round + 1, median(&bare), median(&ours));
    }
    Ok(row)
}

#[derive(Clone)]
struct Heard;

impl Rated for Heard {
    fn standing(&self, now: Moment) -> Standing {
        Standing { last_good: Some(now), cost: 100, ..Standing::default() }
    }
}

/// Three data centres of ten thousand shards.
fn large_map() -> Map<Heard> {
    let cut = Cut::even(SHARDS);
    let names: Vec<String> =
        DCS.iter().flat_map(|dc| (0..SHARDS).map(move |shard| format!("{dc}-{shard}:4100"))).collect();
    let mut map = Map::default();
    map.set_hosts(&names, |_, _| Heard);
    for (number, name) in (0..).zip(&names) {
        let interval = cut.interval(number % SHARDS);
        let (dc, host) = (name[..3].to_owned(), name.clone());
        let shard = Shard { dc, host, incarnation: 1, epoch: 1, interval, hold: None };
        map.report(Slot::new(number), name, Report { shard, sent: 1 }, Trust::NewerOnly);
    }
    map
}

fn splits(options: &Options) -> Row {
    let work = "split of 1,000 keys over 10,000 shards of three replicas each, p50";
    let mut row = row(work, "200 µs", Unit::MicrosPerOp, Target::AtMost(1.0));
    let view = large_map().view();
    for _ in 0..options.rounds {
        let took: Vec<f64> = (0..500u64).map(|turn| split_micros(&view, turn)).collect();
        row.reference.push(SPLIT_MICROS);
        row.subject.push(median(&took));
    }
    row
}

fn split_micros(view: &View<Heard>, turn: u64) -> f64 {
    let positions: Vec<u64> =
        (0..u64::from(KEYS)).map(|key| (key + turn * 7_919).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let keys: Vec<u32> = (0..KEYS).collect();
    let activity = Activity { silence_max: Duration::from_secs(30), in_flight_max: 1_000 };
    let ground = Ground { view, now: Moment::from_micros(turn), activity, roll: turn };
    let begun = Instant::now();
    let split = ground.to_all(&Wanted { positions: &positions, keys: &keys }, |_, _| true);
    let took = begun.elapsed().as_secs_f64() * 1e6;
    assert!(split.unknown.is_empty(), "every key has its hosts");
    took
}
