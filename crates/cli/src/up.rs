//! `up`: a node in this process, from the first line to Ctrl-C.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use shardine_model::{ErrorCode, Refusal, Slot};
use shardine_server::{Addresses, Flushing, Node, Stopped, UpOptions};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::complaint::Complaint;
use crate::config;
use crate::progress::Progress;
use crate::show::Output;

#[derive(Args)]
#[command(
    after_help = "Flags win over the environment, the environment over --config, and that over defaults.\n\nExample:\n  shardine up\n  shardine up --data /var/lib/shardine --sql sqlite:/var/lib/shardine/rows.db\n  shardine up --redis 0.0.0.0:7379 --token \"$TOKEN\""
)]
pub struct UpArgs {
    /// Nodes in this process; more than one comes with clusters
    #[arg(long, default_value_t = 1)]
    nodes: u32,
    /// Where the log and the snapshots live [default: shardine-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The Redis door [default: 127.0.0.1:7379]
    #[arg(long, value_name = "ADDR")]
    redis: Option<SocketAddr>,
    /// The gRPC door [default: 127.0.0.1:7400]
    #[arg(long, value_name = "ADDR")]
    grpc: Option<SocketAddr>,
    /// The HTTP door [default: 127.0.0.1:7480]
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// sqlite:PATH or none [default: SQLite inside the data directory]
    #[arg(long, value_name = "URL", hide_env_values = true)]
    sql: Option<String>,
    /// Take the SQL database over from a cluster that is gone for good; once, and then start without it again
    #[arg(long)]
    adopt_sql: bool,
    /// Shards of a new data directory [default: 4]
    #[arg(long)]
    shards: Option<u32>,
    /// Coordination groups of a new data directory; nodes are dealt out to them by path [default: 1]
    #[arg(long, value_name = "N")]
    coord_groups: Option<u32>,
    /// Threads that own shards and connections [default: half of the cores]
    #[arg(long)]
    lanes: Option<usize>,
    /// Redis password and bearer token of the other doors
    #[arg(long, env = "SHARDINE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Listen beyond this machine without a token
    #[arg(long)]
    insecure: bool,
    /// Redis connections at once [default: 10000]
    #[arg(long)]
    connections_max: Option<usize>,
    /// Log bytes behind a snapshot before the next one is cut, per shard [default: 67108864]
    #[arg(long)]
    snapshot_log_bytes: Option<u64>,
    /// Bytes of records in memory; above, records that SQL has are evicted [default: no limit]
    #[arg(long, value_name = "BYTES")]
    memory_max: Option<u64>,
    /// How long a clean stop waits for SQL to take what it lacks [default: 10]
    #[arg(long, value_name = "SECONDS")]
    flush_timeout: Option<u64>,
    /// A TOML file with these options
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub fn run(args: UpArgs, output: Output) -> Result<(), Complaint> {
    if args.nodes != 1 {
        let what = format!("{} nodes in one process are not offered yet", args.nodes);
        let complaint = Complaint::misused(what, "this version runs one node", "shardine up");
        return Err(complaint.coded(ErrorCode::Unsupported));
    }
    log_to_stderr();
    raise_file_limit(output);
    let options = options(args)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Complaint::from_io)?;
    // Signals are listened for before the node starts, so that one during a long recovery is not lost.
    let mut stop = {
        let _inside = runtime.enter();
        StopSignals::new().map_err(Complaint::from_io)?
    };
    let node = Node::start(&options).map_err(|error| refused(&options, &error))?;
    greet(node.addresses(), &options, output);
    runtime.block_on(stop.wait());
    output.note("stopping");
    let mut progress = Progress::new(output);
    let stopped = node.stop(options.flush_timeout, &mut |flushing: Flushing| {
        let written = flushing.rows_at_first.saturating_sub(flushing.rows_left);
        progress.show(written, Some(flushing.rows_at_first), "rows written to SQL; Ctrl-C stops at once");
        if runtime.block_on(stop.came()) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    progress.finish();
    take_leave(&stopped, output);
    Ok(())
}

/// What SQL does not have is no loss, but whoever reads SQL should know (write-back 116).
fn take_leave(stopped: &Stopped, output: Output) {
    for (table, rows) in &stopped.dirty {
        output.note(&format!("{rows} rows of {table} are not in SQL yet"));
    }
    if stopped.dirty.is_empty() {
        return output.note("stopped");
    }
    output.note("stopped; nothing is lost: the log has these rows, and SQL gets them after the next start");
}

/// Flag and environment (which clap has joined), then the file, then the default.
fn options(args: UpArgs) -> Result<UpOptions, Complaint> {
    let file = args.config.as_deref().map(config::read).transpose()?.unwrap_or_default();
    let default = UpOptions::default();
    let shards = args.shards.or(file.shards).unwrap_or(default.shards);
    if shards == 0 {
        return Err(Complaint::misused("there must be at least one shard", "--shards is 0", "--shards 4"));
    }
    if shards > Slot::COUNT {
        let cause = format!("--shards is {shards}, and a keyspace begins with one shard per slot at most");
        let most = format!("there are at most {} shards at first", Slot::COUNT);
        return Err(Complaint::misused(most, cause, "--shards 4"));
    }
    let access = file.access();
    let token = args.token.or_else(|| file.token.clone()).or(default.token);
    file.check_access(token.as_deref())?;
    if !access.is_empty() && token.is_none() {
        let cause = "without it everybody may do everything at every door, and [[access]] would mean nothing";
        return Err(Complaint::misused(
            "[[access]] needs a token beside it that may everything",
            cause,
            "--token TOKEN",
        ));
    }
    Ok(UpOptions {
        data: args.data.or(file.data).unwrap_or(default.data),
        redis: args.redis.or(file.redis).unwrap_or(default.redis),
        grpc: args.grpc.or(file.grpc).unwrap_or(default.grpc),
        http: args.http.or(file.http).unwrap_or(default.http),
        sql: args.sql.or(file.sql).or(default.sql),
        adopt_sql: args.adopt_sql,
        shards,
        coord_groups: args.coord_groups.or(file.coord_groups).or(default.coord_groups),
        lanes: args.lanes.or(file.lanes).or(default.lanes),
        token,
        access,
        insecure: args.insecure || file.insecure.unwrap_or(default.insecure),
        connections_max: args.connections_max.or(file.connections_max).unwrap_or(default.connections_max),
        snapshot_log_bytes: args.snapshot_log_bytes.or(file.snapshot_log_bytes).unwrap_or(default.snapshot_log_bytes),
        memory_max: args.memory_max.or(file.memory_max).unwrap_or(default.memory_max),
        flush_timeout: args.flush_timeout.or(file.flush_timeout).map_or(default.flush_timeout, Duration::from_secs),
    })
}

/// Every connection is a file. The softer of the two limits is there for programs that cannot count beyond it.
fn raise_file_limit(output: Output) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        output.note(&format!("the limit of open files stays where it is: {error}"));
    }
}

fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("SHARDINE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    // A second subscriber is refused; the first one serves as well.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
}

fn refused(options: &UpOptions, error: &anyhow::Error) -> Complaint {
    let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    let cause = if causes.is_empty() { "the node refused to start".to_owned() } else { causes.join(": ") };
    let remedy = format!("shardine doctor --data {}", options.data.display());
    match error.downcast_ref::<Refusal>() {
        Some(Refusal { code: ErrorCode::Busy, message }) => {
            let cause = "one process at a time may use a data directory";
            Complaint::failed(message, cause, "stop that process, or --data DIR").coded(ErrorCode::Busy)
        }
        Some(Refusal { code: ErrorCode::Forbidden, message }) => {
            let cause = "a database has one cluster, and of each of its nodes the newest start";
            Complaint::failed(message, cause, "docs/damage.md, \"An old copy\"").coded(ErrorCode::Forbidden)
        }
        Some(refusal) => Complaint::failed(&refusal.message, cause, remedy).coded(refusal.code),
        None => Complaint::failed(error.to_string(), cause, remedy),
    }
}

fn greet(addresses: &Addresses, options: &UpOptions, output: Output) {
    let Addresses { redis, grpc, http, sql } = addresses;
    output.print(
        || {
            let password = if options.token.is_some() { " -a TOKEN" } else { "" };
            format!(
                "shardine {} is up\n  redis  {redis}\n  grpc   {grpc}\n  http   http://{http}\n  data   {}\n  sql    {sql}\n\ntry:\n  shardine table create users --field name:string --field age:int64 --server {grpc}\n  redis-cli{password} -h {} -p {} HSET users:lili name Lili age 10\n  shardine get users:lili --server {grpc}",
                env!("CARGO_PKG_VERSION"),
                options.data.display(),
                redis.ip(),
                redis.port()
            )
        },
        || json!({ "redis": redis, "grpc": grpc, "http": http, "data": options.data, "sql": sql }),
    );
    output.note("Ctrl-C stops it");
}

struct StopSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl StopSignals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Whether another signal has come: somebody is in a hurry.
    async fn came(&mut self) -> bool {
        tokio::time::timeout(Duration::ZERO, self.wait()).await.is_ok()
    }
}
