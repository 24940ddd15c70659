//! `up`: a node in this process, from the first line to Ctrl-C; or several, each a process of its own ([`crate::nodes`]).

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use shardine_model::{ErrorCode, Slot};
use shardine_server::{Addresses, Flushing, LoadLimits, Node, SplitLimits, StartError, Stopped, UpOptions};
use tokio::signal::unix::{SignalKind, signal};

use crate::complaint::{Code, Complaint};
use crate::config::{self, File};
use crate::log::{self, LogFormat};
use crate::nodes;
use crate::progress::Progress;
use crate::show::Output;
use crate::size::Size;

/// A week: longer than anybody waits for a stop.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(7 * 86_400);

#[derive(Args)]
#[command(
    after_help = "Flags win over the environment, the environment over --config, and that over defaults.\n\nExample:\n  shardine up\n  shardine up --data /var/lib/shardine --sql sqlite:/var/lib/shardine/rows.db\n  shardine up --redis 0.0.0.0:7379 --token \"$TOKEN\""
)]
pub struct UpArgs {
    /// Nodes of the cluster; more than one are processes of their own, which this one watches over
    #[arg(long, default_value_t = 1)]
    nodes: u32,
    /// Leave a node dead that has died, instead of starting it again after five seconds
    #[arg(long)]
    no_restart: bool,
    #[command(flatten)]
    node: NodeArgs,
}

/// What every node can be told, whether it is alone or not.
#[derive(Args)]
pub struct NodeArgs {
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
    /// A name that the HTTP door answers to beside its address; may be repeated [default: localhost where it is]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    http_host: Vec<String>,
    /// postgres://…, mysql://…, sqlite:PATH or none [default: SQLite inside the data directory]
    #[arg(long, value_name = "URL", hide_env_values = true)]
    sql: Option<String>,
    /// Take the SQL database over from a cluster that is gone for good; once, and then start without it again
    #[arg(long)]
    adopt_sql: bool,
    /// Shards of a new data directory, which keeps its number [default: 4]
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
    /// Log behind a snapshot before the next one is cut, per shard [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    snapshot_log_bytes: Option<Size>,
    /// Records in memory, as 20MB or 2GiB; above, records that SQL has are evicted [default: no limit]
    #[arg(long, value_name = "SIZE")]
    memory_max: Option<Size>,
    /// How often replicas of a shard are compared, in seconds; 0 is never [default: 600]
    #[arg(long, value_name = "SECONDS")]
    checksum_every: Option<u64>,
    /// Records in a shard of a cluster; above, it is split [default: 128MiB; 0 means never]
    #[arg(long, value_name = "SIZE")]
    split_size: Option<Size>,
    /// The same by their number [default: 1000000; 0 means never]
    #[arg(long, value_name = "COUNT")]
    split_records: Option<u64>,
    /// Requests a second to a shard, for ten seconds; above, it is split [default: 2500; 0 means never]
    #[arg(long, value_name = "COUNT")]
    split_requests: Option<u64>,
    /// The same for what a shard takes of one core, in percent [default: 50; 0 means never]
    #[arg(long, value_name = "PERCENT")]
    split_cpu: Option<u64>,
    /// The same for what is written to a shard in a second [default: 16MiB; 0 means never]
    #[arg(long, value_name = "SIZE")]
    split_written: Option<Size>,
    /// How long a clean stop waits for SQL to take what it lacks [default: 10]
    #[arg(long, value_name = "SECONDS")]
    flush_timeout: Option<u64>,
    /// The form of the log on stderr [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// A TOML file with these options
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub fn run(args: UpArgs, output: Output) -> Result<(), Complaint> {
    if args.nodes != 1 {
        let (nodes, restarts) = (args.nodes, !args.no_restart);
        let (options, log_format) = read(args.node)?;
        return nodes::run(nodes, restarts, &options, log_format, output);
    }
    let mut process = NodeProcess::begin(args.node, output)?;
    let node = Node::start(&process.options).map_err(|error| refused(&process.options, &error))?;
    greet(node.addresses(), &process.options, output);
    process.runtime.block_on(process.stop.wait());
    process.end(node, output);
    Ok(())
}

/// A process that is a node: its options, and how it hears that it is to stop.
pub struct NodeProcess {
    pub options: UpOptions,
    pub runtime: tokio::runtime::Runtime,
    pub stop: StopSignals,
}

impl NodeProcess {
    pub fn begin(args: NodeArgs, output: Output) -> Result<Self, Complaint> {
        let (options, log_format) = read(args)?;
        log::to_stderr(log_format);
        raise_file_limit(output);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Complaint::from_io)?;
        // Signals are listened for before the node starts, so that one during a long recovery is not lost.
        let stop = {
            let _inside = runtime.enter();
            StopSignals::new().map_err(Complaint::from_io)?
        };
        Ok(Self { options, runtime, stop })
    }

    pub fn end(self, node: Node, output: Output) {
        let Self { options, runtime, mut stop } = self;
        stop_node(&options, &runtime, &mut stop, node, output);
    }
}

/// The options, and how the log is written.
pub fn read(args: NodeArgs) -> Result<(UpOptions, LogFormat), Complaint> {
    let file = args.config.as_deref().map(config::read).transpose()?.unwrap_or_default();
    let log_format = args.log_format.or(file.log_format).unwrap_or_default();
    Ok((options(args, file)?, log_format))
}

fn stop_node(
    options: &UpOptions,
    runtime: &tokio::runtime::Runtime,
    stop: &mut StopSignals,
    node: Node,
    output: Output,
) {
    output.note("stopping");
    let mut progress = Progress::new(output);
    let stopped = node.stop(options.flush_timeout, &mut |flushing: Flushing| {
        let written = flushing.rows_at_first.saturating_sub(flushing.rows_left);
        progress.show(written, Some(flushing.rows_at_first), "rows written to SQL; Ctrl-C stops at once");
        if runtime.block_on(stop.came()) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    progress.finish();
    take_leave(&stopped, output);
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
fn options(args: NodeArgs, file: File) -> Result<UpOptions, Complaint> {
    let default = UpOptions::default();
    let split = split_limits(&args, &file);
    let shards = args.shards.or(file.shards);
    check_shards(shards)?;
    let access = file.access();
    // An empty one, as from an unset variable in a script, is none.
    let token = args.token.filter(|token| !token.is_empty()).or_else(|| file.token.clone());
    let token = token.filter(|token| !token.is_empty());
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
        http_hosts: if args.http_host.is_empty() { file.http_host.unwrap_or_default() } else { args.http_host },
        sql: args.sql.or(file.sql).or(default.sql),
        adopt_sql: args.adopt_sql,
        shards,
        coord_groups: args.coord_groups.or(file.coord_groups).or(default.coord_groups),
        lanes: args.lanes.or(file.lanes).or(default.lanes),
        token,
        access,
        insecure: args.insecure || file.insecure.unwrap_or(default.insecure),
        connections_max: args.connections_max.or(file.connections_max).unwrap_or(default.connections_max),
        snapshot_log_bytes: bytes(args.snapshot_log_bytes.or(file.snapshot_log_bytes))
            .unwrap_or(default.snapshot_log_bytes),
        memory_max: bytes(args.memory_max.or(file.memory_max)).unwrap_or(default.memory_max),
        checksum_every: args.checksum_every.or(file.checksum_every).map_or(default.checksum_every, Duration::from_secs),
        split,
        flush_timeout: args.flush_timeout.or(file.flush_timeout).map_or(default.flush_timeout, flush_time),
        cluster: None,
    })
}

/// Above which a shard is split.
fn split_limits(args: &NodeArgs, file: &File) -> SplitLimits {
    let default = SplitLimits::default();
    let load = LoadLimits {
        requests_per_s: args.split_requests.or(file.split_requests).unwrap_or(default.load.requests_per_s),
        cpu_permille: args.split_cpu.or(file.split_cpu).map_or(default.load.cpu_permille, |percent| percent * 10),
        written_per_s: bytes(args.split_written.or(file.split_written)).unwrap_or(default.load.written_per_s),
    };
    SplitLimits {
        bytes: bytes(args.split_size.or(file.split_size)).unwrap_or(default.bytes),
        records: args.split_records.or(file.split_records).unwrap_or(default.records),
        load,
    }
}

fn check_shards(shards: Option<u32>) -> Result<(), Complaint> {
    match shards {
        Some(0) => Err(Complaint::misused("there must be at least one shard", "--shards is 0", "--shards 4")),
        Some(shards) if shards > Slot::COUNT => {
            let cause = format!("--shards is {shards}, and a keyspace begins with one shard per slot at most");
            let most = format!("there are at most {} shards at first", Slot::COUNT);
            Err(Complaint::misused(most, cause, "--shards 4"))
        }
        Some(_) | None => Ok(()),
    }
}

fn bytes(size: Option<Size>) -> Option<u64> {
    size.map(|size| size.0)
}

/// Clocks cannot count as far as numbers can.
fn flush_time(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(FLUSH_TIME_MAX)
}

/// Every connection is a file. The softer of the two limits is there for programs that cannot count beyond it.
fn raise_file_limit(output: Output) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        output.note(&format!("the limit of open files stays where it is: {error}"));
    }
}

pub fn refused(options: &UpOptions, error: &anyhow::Error) -> Complaint {
    let doctor = format!("shardine doctor --data {}", options.data.display());
    let Some(named) = error.downcast_ref::<StartError>() else {
        let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
        let cause = if causes.is_empty() { "the node refused to start".to_owned() } else { causes.join(": ") };
        return Complaint::failed(error.to_string(), cause, doctor);
    };
    let (code, cause, remedy): (Code, &str, &str) = match named {
        StartError::Exposed { .. } => (
            Code::Exposed,
            "anybody who reaches it could read and change everything",
            "--token TOKEN; --insecure if that is meant",
        ),
        StartError::Listen { .. } => {
            (Code::Listen, "another program has it, or this user may not", "another address for this door")
        }
        StartError::OtherLayout { .. } => (
            Code::OtherLayout,
            "the number is decided once, when the directory is made",
            "leave it out, or begin with a new --data DIR",
        ),
        StartError::InUse(_) => (
            ErrorCode::Busy.into(),
            "one process at a time may use a data directory",
            "stop that process, or --data DIR",
        ),
        StartError::OtherForm(_) => {
            (Code::OtherForm, "another version of shardine wrote it", "that version, or a new --data DIR")
        }
        StartError::Damaged(_) => (Code::Damaged, "what was acknowledged would be missing", "docs/damage.md"),
        StartError::Disk(_) => (Code::Disk, "the system refused", &doctor),
        StartError::SqlAddress(_) => (
            ErrorCode::BadRequest.into(),
            "it is not the address of a database",
            "postgres://USER:PASSWORD@HOST/DATABASE, mysql://…, sqlite:PATH or none",
        ),
        StartError::SqlForeign(_) => (
            ErrorCode::Forbidden.into(),
            "a database has one cluster, and of each of its nodes the newest start",
            "docs/damage.md, \"An old copy\"",
        ),
        StartError::SqlUnusable(_) => (
            Code::SqlUnusable,
            "SQL does not let this user in, has no such database, or its file is damaged",
            "user, password and database in --sql; docs/sql.md",
        ),
        StartError::SqlBusy(_) => {
            (ErrorCode::BackendUnavailable.into(), "SQL cannot be used at the moment", "the same again when it can")
        }
    };
    Complaint::failed(named.to_string(), cause, remedy).coded(code)
}

fn greet(addresses: &Addresses, options: &UpOptions, output: Output) {
    let Addresses { redis, grpc, http, sql } = addresses;
    // Whoever started it may not read; the node serves all the same.
    let _ = output.try_print(
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

pub struct StopSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl StopSignals {
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Whether another signal has come: somebody is in a hurry.
    pub async fn came(&mut self) -> bool {
        tokio::time::timeout(Duration::ZERO, self.wait()).await.is_ok()
    }
}
