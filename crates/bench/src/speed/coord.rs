//! Coordination: locks against etcd's, how quickly one changes hands, and what sessions cost that only wait.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use shardine_client::{Acquire, Client, NodeSettings, Session, SessionOptions};
use shardine_testkit::{Doors, Shardine, Sql};
use tokio::runtime::Runtime;

use super::args::Options;
use super::etcd::{Etcd, Lessee};
use super::procfs;
use super::row::{Row, Target, Unit, median};
use super::together::count;
use super::workplace::Workplace;

pub const NODE: &str = "/local/bench";
/// Times that a contended semaphore changes hands in one round.
const HANDS: usize = 400;
const IDLE_SESSIONS: usize = 10_000;
/// Pings follow from it: one from each side every third of it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// What a hand-over may take beyond the commit of one entry.
const HAND_OVER_MICROS: f64 = 2_000.0;

/// All rows of the group.
pub fn measure(place: &Workplace, options: &Options) -> Result<Vec<Row>> {
    let runtime = Runtime::new().context("start tokio")?;
    let mut rows = vec![runtime.block_on(locks(place, options))?];
    rows.push(runtime.block_on(hands(place, options))?);
    for spread in [Spread::Shared, Spread::Alone] {
        rows.push(runtime.block_on(idle(place, options, spread))?);
    }
    Ok(rows)
}

fn row(work: String, against: &str, unit: Unit, target: Target) -> Row {
    Row { work, against: against.to_owned(), unit, target, reference: Vec::new(), subject: Vec::new() }
}

async fn start(place: &Workplace, options: &Options) -> Result<(Shardine, Client)> {
    let (sql, doors, binary) = (Sql::None, Doors::All, options.subject_bin.clone());
    let up = shardine_testkit::Options { sql, doors, binary, ..Default::default() };
    let server = Shardine::start_in(place.dir()?, up)?;
    let client = Client::new(&server.grpc().address().to_string())?;
    client.create_node(NODE, NodeSettings::default()).await?;
    Ok((server, client))
}

/// Each client takes its own lock and gives it back, over and over: two synced changes a time.
async fn locks(place: &Workplace, options: &Options) -> Result<Row> {
    let etcd = Etcd::start(place.dir()?, 1).await?;
    let (_server, client) = start(place, options).await?;
    locks_of(&etcd, &client, options).await
}

/// The same on servers that run.
pub async fn locks_of(etcd: &Etcd, client: &Client, options: &Options) -> Result<Row> {
    let clients = options.connections as usize;
    let mut sessions = Vec::new();
    let mut lessees = Vec::new();
    let channel = etcd.connect(etcd.leader().await?).await?;
    for number in 0..clients {
        let session = client.start_session(NODE, SessionOptions::default()).await?;
        session.create(&lock(number), 1, "").await?;
        sessions.push(session);
        lessees.push(Lessee::new(&channel).await?);
    }
    let work = format!("acquire and release on disk, {clients} sessions on {clients} semaphores");
    let mut row = row(work, "etcd: lease, transaction, delete", Unit::OpsPerSecond, Target::AtLeast(5.0));
    for round in 0..options.rounds {
        let until = || Instant::now() + Duration::from_secs_f64(options.seconds);
        let by_etcd = count(lessees.clone(), until(), |mut lessee, number| async move {
            lessee.acquire_and_release(&lock(number)).await.map(|()| lessee)
        });
        row.reference.push(by_etcd.await? / options.seconds);
        let ours = count(sessions.clone(), until(), |session, number| async move {
            ensure!(session.acquire(&lock(number), Acquire::shared()).await?, "a lock of one's own is free");
            ensure!(session.release(&lock(number)).await?, "what was acquired is held");
            Ok(session)
        });
        row.subject.push(ours.await? / options.seconds);
        let (theirs, ours) = (row.reference.last().unwrap_or(&0.0), row.subject.last().unwrap_or(&0.0));
        eprintln!("locks, round {}: {theirs:.0} and {ours:.0} per second", round + 1);
    }
    Ok(row)
}

fn lock(number: usize) -> String {
    format!("lock-{number}")
}

/// From the moment at which the owner lets go to the moment at which the next one knows that it owns.
async fn hands(place: &Workplace, options: &Options) -> Result<Row> {
    let (_server, client) = start(place, options).await?;
    let one = client.start_session(NODE, SessionOptions::default()).await?;
    let two = client.start_session(NODE, SessionOptions::default()).await?;
    one.create("alone", 1, "").await?;
    one.create("contended", 1, "").await?;
    let work = "a contended semaphore changes hands, p50".to_owned();
    let mut row = row(work, "2 ms over the commit of one entry", Unit::MicrosPerOp, Target::AtMost(1.0));
    for round in 0..options.rounds {
        row.reference.push(commit_micros(&one).await? + HAND_OVER_MICROS);
        row.subject.push(hand_over_micros(&one, &two).await?);
        let (bound, took) = (row.reference.last().unwrap_or(&0.0), row.subject.last().unwrap_or(&0.0));
        eprintln!("hand-over, round {}: at most {bound:.0} µs, and {took:.0} µs", round + 1);
    }
    Ok(row)
}

/// One session alone: an acquire is one entry, and nothing else goes on.
async fn commit_micros(session: &Session) -> Result<f64> {
    let mut took = Vec::new();
    for _ in 0..HANDS {
        let started = Instant::now();
        session.acquire("alone", Acquire::shared()).await?;
        took.push(started.elapsed().as_secs_f64() * 1e6);
        session.release("alone").await?;
    }
    Ok(median(&took))
}

async fn hand_over_micros(one: &Session, two: &Session) -> Result<f64> {
    ensure!(one.acquire("contended", Acquire::shared()).await?, "nobody holds it");
    let (mut owner, mut next) = (one.clone(), two.clone());
    let mut took = Vec::new();
    for _ in 0..HANDS {
        let waiter = next.clone();
        let waiting = tokio::spawn(async move {
            let has = waiter.acquire("contended", Acquire::shared()).await;
            (has, Instant::now())
        });
        wait_until_queued(&owner).await?;
        let started = Instant::now();
        owner.release("contended").await?;
        let (has, at) = waiting.await?;
        ensure!(has?, "a waiter without a limit gets it");
        took.push(at.duration_since(started).as_secs_f64() * 1e6);
        std::mem::swap(&mut owner, &mut next);
    }
    owner.release("contended").await?;
    Ok(median(&took))
}

async fn wait_until_queued(session: &Session) -> Result<()> {
    let waiters = shardine_client::Include { waiters: true, ..Default::default() };
    while session.describe("contended", waiters).await?.waiters.is_empty() {}
    Ok(())
}

/// Whose connections idle sessions have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    /// Sessions of one process share them.
    Shared,
    /// As of ten thousand processes with one session each.
    Alone,
}

/// What the server does for sessions that only say that they are there.
async fn idle(place: &Workplace, options: &Options, spread: Spread) -> Result<Row> {
    let sessions = if options.quick { IDLE_SESSIONS / 20 } else { IDLE_SESSIONS };
    let (mut server, mut client) = start(place, options).await?;
    let mut kept = Vec::new();
    for _ in 0..sessions {
        if spread == Spread::Alone {
            client = Client::new(&server.grpc().address().to_string())?;
        }
        let session = SessionOptions { timeout: IDLE_TIMEOUT, ..Default::default() };
        kept.push(client.start_session(NODE, session).await?);
    }
    let (whose, target) = match spread {
        Spread::Shared => ("of one client", Target::AtMost(1.0)),
        Spread::Alone => ("of as many clients", Target::None),
    };
    let work = format!("{sessions} idle sessions {whose}, timeout {IDLE_TIMEOUT:?}");
    let mut row = row(work, "5 % of a core", Unit::MicrosPerSecond, target);
    let pid = server.process().pid();
    let watched = IDLE_TIMEOUT / 3;
    for round in 0..options.rounds {
        let before = procfs::cpu_time(pid)?;
        tokio::time::sleep(watched).await;
        let spent = procfs::cpu_time(pid)?.saturating_sub(before);
        row.reference.push(50_000.0);
        row.subject.push(spent.as_secs_f64() / watched.as_secs_f64() * 1e6);
        eprintln!(
            "idle sessions {whose}, round {}: {:.1} % of a core",
            round + 1,
            row.subject.last().unwrap_or(&0.0) / 1e4
        );
    }
    let attached = kept.iter().filter(|session| session.state() == shardine_client::State::Attached).count();
    ensure!(attached == sessions, "{attached} of {sessions} sessions were there to the end");
    Ok(row)
}
