//! One episode: a store, ten servers, clients that ask in all modes, and a plan that is carried out meanwhile. At its end
//! everything is let go on, and everything has to be well again.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use shardine_kit::{Client, Error, How, Mode, Options, WhileSilent};
use tokio::task::JoinSet;

use super::list::{List, Reading};
use super::place::{Kind, Place};
use super::script::{Fault, Plan, SHARDS};
use super::verdict::{Failed, Verdict};
use super::watch;
use crate::goals::data::expected;
use crate::goals::fleet::{DCS, Fleet, Plan as FleetPlan};
use crate::goals::load::random_hits;
use crate::goals::request::GoalsRequest;

/// Between two proofs of a claim; it times out after six.
const PING_MS: u64 = 1_000;
const BOUNDS: [u64; SHARDS - 1] = [1_000, 2_000];
/// How long everything may take to be well again.
const HEALING: Duration = Duration::from_secs(90);
const TICK: Duration = Duration::from_millis(20);

pub struct Outcome {
    pub calls: u64,
    failed: u64,
    restarts: u32,
    pub violations: Vec<String>,
}

impl Outcome {
    pub fn line(&self) -> String {
        let (calls, failed, restarts, violations) = (self.calls, self.failed, self.restarts, self.violations.len());
        format!(
            "{calls} calls, {failed} failed while nobody well had the key, {restarts} servers ended by themselves, {violations} violations"
        )
    }
}

type Shared = Arc<Mutex<Verdict>>;

fn lock(verdict: &Shared) -> MutexGuard<'_, Verdict> {
    verdict.lock().unwrap_or_else(PoisonError::into_inner)
}

pub async fn run(plan: &Plan, kind: Kind, program: &Path, tell: &dyn Fn(&str)) -> Result<Outcome> {
    let mut world = World::start(plan, kind, program)?;
    let verdict: Shared = Arc::new(Mutex::new(Verdict::new(plan.silent, world.fleet.servers.len())));
    let addresses: Vec<String> = world.fleet.servers.iter().map(crate::goals::fleet::Server::address).collect();
    let watching = watch::start(&addresses, &verdict)?;
    let list = List::new(addresses);
    let client = Client::start(GoalsRequest, list.clone(), options());
    let mut callers = Callers::start(&client, &verdict);
    world.carry_out(plan, &list, &verdict, tell).await?;
    world.let_go(&list, &verdict).await?;
    healed(&verdict, &mut world).await?;
    callers.tasks.shutdown().await;
    for mode in [Mode::All, Mode::Hedge, Mode::One] {
        let found = client.get_how(&random_hits(100), How::mode(mode).within(HEALING)).await;
        ensure!(found.is_ok(), "everything is well, and {:?}", found.err());
    }
    drop(watching);
    let metrics = settled(&client).await;
    let mut violations = std::mem::take(&mut lock(&verdict).violations);
    violations.extend(metrics.err().map(|error| error.to_string()));
    let client = client.metrics();
    Ok(Outcome { calls: client.calls, failed: client.failed_calls, restarts: world.restarts, violations })
}

fn options() -> Options {
    Options {
        ping_period: Duration::from_millis(500),
        search_period: Duration::from_millis(100),
        host_timeout: Duration::from_secs(2),
        deadline: Duration::from_secs(8),
        ..Options::default()
    }
}

/// kit A-53: every request has come to an end, and is counted once.
async fn settled(client: &Client<GoalsRequest>) -> Result<()> {
    let until = Instant::now() + HEALING;
    loop {
        let all = client.metrics();
        let ends = all.answers + all.refusals + all.errors + all.timeouts + all.cancelled + all.late_replies;
        if all.requests == ends {
            return Ok(());
        }
        ensure!(Instant::now() < until, "{} requests, {ends} ends: {all:?}", all.requests);
        tokio::time::sleep(TICK).await;
    }
}

/// Waits until every data centre has all its shards.
async fn healed(verdict: &Shared, world: &mut World) -> Result<()> {
    let until = Instant::now() + HEALING;
    while DCS.iter().any(|dc| lock(verdict).served(dc) < SHARDS) {
        world.supervise()?;
        let served: Vec<usize> = DCS.iter().map(|dc| lock(verdict).served(dc)).collect();
        ensure!(Instant::now() < until, "nothing is wrong any more, and {served:?} of {SHARDS} shards each are served");
        tokio::time::sleep(TICK).await;
    }
    Ok(())
}

/// Those who ask.
struct Callers {
    tasks: JoinSet<()>,
}

impl Callers {
    fn start(client: &Client<GoalsRequest>, verdict: &Shared) -> Self {
        let mut tasks = JoinSet::new();
        for mode in [Mode::All, Mode::Hedge, Mode::One] {
            tasks.spawn(ask(client.clone(), mode, Arc::clone(verdict)));
        }
        Self { tasks }
    }
}

async fn ask(client: Client<GoalsRequest>, mode: Mode, verdict: Shared) {
    loop {
        let (hits, begun) = (random_hits(20), Instant::now());
        match client.get_how(&hits, How::mode(mode)).await {
            Ok(found) => {
                for hit in hits.iter().filter(|hit| found.get(&hit.watch_id) != Some(&expected(hit))) {
                    lock(&verdict).wrong(format!("{hit:?} has {:?}", found.get(&hit.watch_id)));
                }
            }
            Err(error) => {
                let ids = match &error {
                    Error::NoShard { ids } | Error::Missing { ids, .. } => ids.clone(),
                    Error::Duplicate { id } => vec![*id],
                };
                let counters =
                    hits.iter().filter(|hit| ids.contains(&hit.watch_id)).map(|hit| hit.counter_id).collect();
                let told = format!("{mode:?}: {error}; knew {}", known(&client));
                lock(&verdict).failed(Failed { begun, ended: Instant::now(), counters, told });
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What a client knows, for whoever has to find out why it failed.
fn known(client: &Client<GoalsRequest>) -> String {
    let told = client.hosts().into_iter().map(|(address, shard)| {
        format!(
            "{address} {} by {}.{} generation {}",
            shard.interval(),
            shard.incarnation,
            shard.epoch,
            shard.generation
        )
    });
    told.collect::<Vec<_>>().join(", ")
}

/// How a server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Up,
    Paused,
    Away,
}

/// What is undone after a while.
#[derive(Debug)]
enum Undo {
    Resume(usize),
    Start { server: usize, words: Vec<String> },
    ResumeStore,
    StartStore,
    List,
}

struct World {
    place: Place,
    fleet: Fleet,
    servers: Vec<Standing>,
    /// Of each data centre.
    cuts: Vec<Vec<u64>>,
    store_is_up: bool,
    undo: Vec<(Instant, Undo)>,
    restarts: u32,
}

impl World {
    fn start(plan: &Plan, kind: Kind, program: &Path) -> Result<Self> {
        let place = Place::start(kind)?;
        let fleet = FleetPlan {
            program: program.to_owned(),
            claims: Some(place.url()),
            bounds: BOUNDS.to_vec(),
            ping_ms: PING_MS,
        };
        let words: &[&str] = if plan.silent == WhileSilent::Stop { &["--stop-while-silent"] } else { &[] };
        let mut fleet = Fleet::start_with(fleet, words)?;
        fleet.add(DCS[0])?;
        place.back_up()?;
        let (servers, cuts) = (vec![Standing::Up; fleet.servers.len()], vec![BOUNDS.to_vec(); DCS.len()]);
        Ok(Self { place, fleet, servers, cuts, store_is_up: true, undo: Vec::new(), restarts: 0 })
    }

    async fn carry_out(&mut self, plan: &Plan, list: &List, verdict: &Shared, tell: &dyn Fn(&str)) -> Result<()> {
        let begun = Instant::now();
        let mut faults = plan.faults.iter().peekable();
        while begun.elapsed() < plan.lasts {
            while let Some((_, fault)) = faults.next_if(|(at, _)| *at <= begun.elapsed()) {
                let is_done = self.do_to(fault, list, verdict).await?;
                let not = if is_done { "" } else { "not possible now: " };
                tell(&format!("{:7.1} s  {not}{fault:?}", begun.elapsed().as_secs_f64()));
            }
            self.undo_until(Instant::now(), list, verdict)?;
            self.supervise()?;
            tokio::time::sleep(TICK).await;
        }
        Ok(())
    }

    /// Does it, if that is possible at this moment.
    async fn do_to(&mut self, fault: &Fault, list: &List, verdict: &Shared) -> Result<bool> {
        let later = |lasts: &Duration| Instant::now() + *lasts;
        match fault {
            Fault::Kill { server, away, clock_behind_ms, slow_ms } => {
                let behind = ["--clock-behind-ms".to_owned(), clock_behind_ms.to_string()];
                let slow = ["--slow-ms".to_owned(), slow_ms.to_string()];
                return self.kill(*server, later(away), [behind, slow].concat());
            }
            Fault::Pause { server, lasts } => {
                if self.servers[*server] != Standing::Up {
                    return Ok(false);
                }
                self.fleet.servers[*server].process.pause()?;
                self.servers[*server] = Standing::Paused;
                self.undo.push((later(lasts), Undo::Resume(*server)));
            }
            Fault::Recut { dc, away, bounds } => {
                self.cuts[*dc] = bounds.clone();
                for server in 0..self.servers.len() {
                    if self.fleet.servers[server].dc == DCS[*dc] {
                        self.kill(server, later(away), Vec::new())?;
                    }
                }
            }
            Fault::SilentStore { lasts } | Fault::DeadStore { away: lasts } => {
                if !std::mem::take(&mut self.store_is_up) {
                    return Ok(false);
                }
                let is_dead = matches!(fault, Fault::DeadStore { .. });
                lock(verdict).store(true);
                if is_dead {
                    self.place.kill()?
                } else {
                    self.place.pause()?
                }
                self.undo.push((later(lasts), if is_dead { Undo::StartStore } else { Undo::ResumeStore }));
            }
            Fault::StoreClock { .. } | Fault::LostRows | Fault::OldRows if !self.store_is_up => return Ok(false),
            Fault::StoreClock { hours } => {
                lock(verdict).tampered();
                // A busy store may refuse it; nothing was done then.
                return Ok(self.place.jump(*hours).is_ok());
            }
            Fault::LostRows => {
                lock(verdict).tampered();
                return Ok(self.place.lose().await.is_ok());
            }
            Fault::OldRows => {
                lock(verdict).tampered();
                return Ok(self.place.put_back().is_ok());
            }
            Fault::List { reading, lasts } => {
                list.reads(*reading);
                self.undo.push((later(lasts), Undo::List));
            }
        }
        Ok(true)
    }

    fn kill(&mut self, server: usize, until: Instant, words: Vec<String>) -> Result<bool> {
        if self.servers[server] == Standing::Away {
            return Ok(false);
        }
        self.fleet.servers[server].process.kill9()?;
        self.servers[server] = Standing::Away;
        self.undo.push((until, Undo::Start { server, words }));
        Ok(true)
    }

    fn undo_until(&mut self, now: Instant, list: &List, verdict: &Shared) -> Result<()> {
        let (due, later) = std::mem::take(&mut self.undo).into_iter().partition(|(at, _)| *at <= now);
        self.undo = later;
        for (_, undo) in Vec::into_iter(due) {
            match undo {
                // It may have been killed meanwhile.
                Undo::Resume(server) if self.servers[server] == Standing::Paused => {
                    self.fleet.servers[server].process.resume()?;
                    self.servers[server] = Standing::Up;
                }
                Undo::Resume(_) => {}
                Undo::Start { server, words } => self.start_server(server, &words)?,
                Undo::ResumeStore | Undo::StartStore => {
                    match undo {
                        Undo::StartStore => self.place.start_again()?,
                        _ => self.place.resume()?,
                    }
                    self.store_is_up = true;
                    lock(verdict).store(false);
                }
                Undo::List => list.reads(Reading::Whole),
            }
        }
        Ok(())
    }

    fn start_server(&mut self, server: usize, words: &[String]) -> Result<()> {
        let dc = DCS.iter().position(|dc| *dc == self.fleet.servers[server].dc).unwrap_or_default();
        self.fleet.start_again_with(server, &self.cuts[dc], words)?;
        self.servers[server] = Standing::Up;
        Ok(())
    }

    /// Starts again who has ended by itself, as whoever runs servers does.
    fn supervise(&mut self) -> Result<()> {
        for server in 0..self.servers.len() {
            if self.servers[server] == Standing::Up && !self.fleet.servers[server].process.is_running() {
                self.restarts += 1;
                self.start_server(server, &[])?;
            }
        }
        Ok(())
    }

    async fn let_go(&mut self, list: &List, verdict: &Shared) -> Result<()> {
        let last = self.undo.iter().map(|(at, _)| *at).max().unwrap_or_else(Instant::now);
        self.undo_until(last, list, verdict)
    }
}
