//! A server of goals: claims a shard, reads what belongs to it, and answers for as long as the claim holds.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use shardine_kit::claim::Store;
use shardine_kit::{Claim, ClaimOptions, Cut, Identity, Interval, Shard, Times, WhileSilent};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use super::claims::{self, Claims};
use super::data::Goals;
use super::goals_matcher_server::{GoalsMatcher, GoalsMatcherServer};
use super::{GoalReaches, GoalReachesShardedBatch, Hit, HitsBatch};

/// How old the goals may become.
const RELOAD: Duration = Duration::from_secs(60);

/// How a server is started.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The data centre, in which every shard is served once.
    #[arg(long)]
    pub dc: String,
    /// Where to listen; also the name by which this server gets its shard back, and clients find it.
    #[arg(long)]
    pub listen: SocketAddr,
    /// Where claims are kept: `sqlite:PATH`, `postgres://…`, `mysql://…` or `shardine://HOST:PORT`.
    #[arg(long)]
    pub claims: String,
    /// The counters at which the second and further shards begin.
    #[arg(long, value_delimiter = ',')]
    pub bounds: Vec<u64>,
    /// The table of goals, in SQLite.
    #[arg(long)]
    pub goals: PathBuf,
    /// Between two proofs of the claim, in milliseconds; it times out after six of them.
    #[arg(long, default_value_t = 5_000)]
    pub ping_ms: u64,
    /// Stops answering while claims cannot be proven, after four of those, instead of going on.
    #[arg(long)]
    pub stop_while_silent: bool,
    /// What a batch takes at least, in milliseconds: for tests of slow servers.
    #[arg(long, default_value_t = 0)]
    pub slow_ms: u64,
    /// Counts its starts on a clock that is so much behind, in milliseconds: for tests of clocks that were set back.
    #[arg(long, default_value_t = 0)]
    pub clock_behind_ms: u64,
}

impl Options {
    fn ping(&self) -> Duration {
        Duration::from_millis(self.ping_ms)
    }

    fn timeout(&self) -> Duration {
        self.ping() * 6
    }

    fn incarnation(&self) -> u64 {
        let now = UNIX_EPOCH.elapsed().unwrap_or_default().saturating_sub(Duration::from_millis(self.clock_behind_ms));
        u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
    }
}

/// Runs until the process ends. A lost claim ends it.
pub async fn run(options: Options) -> Result<()> {
    let cut = Cut::at(&options.bounds);
    match claims::open(&options.claims, cut.shards(), options.timeout())? {
        Claims::Postgres(store) => {
            prepare(async || store.prepare(&options.dc).await, &options).await;
            serve(*store, cut, options).await
        }
        Claims::Mysql(store) => {
            prepare(async || store.prepare(&options.dc).await, &options).await;
            serve(store, cut, options).await
        }
        Claims::Sqlite(store) => {
            prepare(async || store.prepare(&options.dc).await, &options).await;
            serve(store, cut, options).await
        }
        Claims::Shardine(store) => serve(*store, cut, options).await,
    }
}

/// Makes the table and its rows. A store that does not answer yet is waited for, as it is later on.
async fn prepare(make: impl AsyncFn() -> Result<(), shardine_kit::claim::Error>, options: &Options) {
    while let Err(error) = make().await {
        eprintln!("waiting for the claims: {error}");
        tokio::time::sleep(options.ping()).await;
    }
}

async fn serve<S: Store>(store: S, cut: Cut, options: Options) -> Result<()> {
    let identity = Identity::new(&options.dc, options.listen.to_string());
    let shard = Shard::with_incarnation(identity.clone(), options.incarnation());
    let matcher = Matcher { shard: shard.clone(), goals: Arc::default(), slow: Duration::from_millis(options.slow_ms) };
    let listener = TcpListener::bind(options.listen).await.with_context(|| format!("listen on {}", options.listen))?;
    let serving = tonic::transport::Server::builder()
        .add_service(GoalsMatcherServer::new(matcher.clone()))
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
    let times = Times { ping: options.ping(), margin: options.ping() * 2 };
    let while_silent = if options.stop_while_silent { WhileSilent::Stop } else { WhileSilent::Serve };
    let claim_options = ClaimOptions { times, while_silent, ..ClaimOptions::default() };
    let claim = Claim::start(Arc::new(store), identity, claim_options);
    tokio::select! {
        served = serving => served.context("serve"),
        read = matcher.read(&claim, &cut, &options) => read,
    }
}

/// What answers: the guard, and the goals of its shard.
#[derive(Clone, Debug)]
struct Matcher {
    shard: Shard,
    goals: Arc<RwLock<Arc<Goals>>>,
    slow: Duration,
}

impl Matcher {
    /// Reads the goals of the claimed shard, lets it be served, and reads them anew from time to time.
    async fn read<S: Store>(&self, claim: &Claim<S>, cut: &Cut, options: &Options) -> Result<()> {
        eprintln!("listening on {}, waiting for a shard", options.listen);
        let hold = claim.taken().await;
        let interval = cut.interval(hold.shard);
        self.reload(options, interval).await?;
        claim.open(&self.shard, interval);
        let (dc, counters) = (&options.dc, self.goals().counters());
        eprintln!("serving {dc} shard {} generation {} {interval}, {counters} counters", hold.shard, hold.generation);
        loop {
            tokio::time::sleep(RELOAD).await;
            self.reload(options, interval).await?;
        }
    }

    async fn reload(&self, options: &Options, interval: Interval) -> Result<()> {
        let path = options.goals.clone();
        let goals = tokio::task::spawn_blocking(move || Goals::read(&path, interval)).await??;
        *self.goals.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(goals);
        Ok(())
    }

    fn goals(&self) -> Arc<Goals> {
        Arc::clone(&self.goals.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[tonic::async_trait]
impl GoalsMatcher for Matcher {
    async fn match_sharded(&self, batch: Request<HitsBatch>) -> Result<Response<GoalReachesShardedBatch>, Status> {
        let hits = batch.into_inner().hits;
        let read = async |hits: &[Hit]| {
            if !self.slow.is_zero() {
                tokio::time::sleep(self.slow).await;
            }
            let goals = self.goals();
            let reaches = |hit: &Hit| GoalReaches { watch_id: hit.watch_id, goal_ids: goals.reached(hit) };
            Ok(hits.iter().map(reaches).collect())
        };
        let answer = self.shard.get(&hits, |hit| hit.counter_id.into(), read).await?;
        let (reaches, all_matched, shard) = (answer.values, answer.all_matched, Some(answer.shard));
        Ok(Response::new(GoalReachesShardedBatch { reaches, all_matched, shard }))
    }
}
