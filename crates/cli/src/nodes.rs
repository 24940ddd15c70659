//! `up --nodes N`: a cluster on this machine. Each node is a process of this binary, so that `kill -9` in a demonstration is a real
//! one; this process watches over them, and none of them outlives it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use shardine_proto::v1;
use shardine_server::UpOptions;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::init;
use crate::log::LogFormat;
use crate::show::Output;
use crate::up::StopSignals;

/// How long a dead node stays dead, so that whoever looks can see what its death means.
const RESTART_AFTER: Duration = Duration::from_secs(5);
/// How long nodes may take to come up, and to go down.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// More of them on one machine teach nothing.
const NODES_MAX: u32 = 9;
const PEER_PORT: u16 = 7500;

/// One of the nodes: how it is started, and the process if it lives.
struct NodeChild {
    name: String,
    data: PathBuf,
    redis: SocketAddr,
    grpc: SocketAddr,
    http: SocketAddr,
    peer: SocketAddr,
    log_format: LogFormat,
    child: Option<Child>,
    restart_at: Option<Instant>,
}

pub fn run(
    count: u32,
    restarts: bool,
    options: &UpOptions,
    log_format: LogFormat,
    output: Output,
) -> Result<(), Complaint> {
    if count == 0 || count > NODES_MAX {
        let cause = format!("--nodes is {count}");
        return Err(Complaint::misused(format!("there may be 1 to {NODES_MAX} nodes"), cause, "--nodes 3"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Complaint::from_io)?;
    runtime.block_on(async {
        let mut stop = StopSignals::new().map_err(Complaint::from_io)?;
        let mut nodes: Vec<NodeChild> = (0..count).map(|place| NodeChild::new(place, options, log_format)).collect();
        let join: Vec<String> = nodes.iter().map(|node| node.grpc.to_string()).collect();
        let join = join.join(",");
        let is_new = nodes.iter().all(|node| !node.data.join("IDENTITY").exists());
        for node in &mut nodes {
            node.start(&join, options)?;
        }
        let begun = tokio::select! {
            begun = begin(&mut nodes, is_new, options) => begun.map(|()| true),
            () = stop.wait() => Ok(false),
        };
        if matches!(begun, Ok(true)) {
            greet(&nodes, options, output);
            watch(&mut nodes, restarts, &join, options, &mut stop, output).await;
        }
        stop_all(&mut nodes, &mut stop, output).await;
        begun.map(drop)
    })
}

impl NodeChild {
    fn new(place: u32, options: &UpOptions, log_format: LogFormat) -> Self {
        let place = u16::try_from(place).unwrap_or(u16::MAX);
        let next = |address: SocketAddr| SocketAddr::new(address.ip(), address.port().saturating_add(place));
        let name = format!("n{}", place + 1);
        // Whoever chose another gRPC port gets a peer port as far from it as the default one is.
        let default = UpOptions::default().grpc.port();
        let peer_port = PEER_PORT.wrapping_add(options.grpc.port().wrapping_sub(default));
        Self {
            data: options.data.join(&name),
            name,
            redis: next(options.redis),
            grpc: next(options.grpc),
            http: next(options.http),
            peer: next(SocketAddr::new(options.grpc.ip(), peer_port)),
            log_format,
            child: None,
            restart_at: None,
        }
    }

    fn start(&mut self, join: &str, options: &UpOptions) -> Result<(), Complaint> {
        let program = std::env::current_exe().map_err(Complaint::from_io)?;
        let mut command = Command::new(program);
        command
            .args(["start", "--stop-with-stdin", "--name", &self.name, "--join", join])
            .arg("--data")
            .arg(&self.data);
        let doors = [("--redis", self.redis), ("--grpc", self.grpc), ("--http", self.http), ("--peer", self.peer)];
        for (flag, address) in doors {
            command.arg(flag).arg(address.to_string());
        }
        for (flag, value) in [
            ("--snapshot-log-bytes", options.snapshot_log_bytes),
            ("--memory-max", options.memory_max),
            ("--checksum-every", options.checksum_every.as_secs()),
            ("--split-size", options.split.bytes),
            ("--split-records", options.split.records),
            ("--split-requests", options.split.load.requests_per_s),
            ("--split-cpu", options.split.load.cpu_permille / 10),
            ("--split-written", options.split.load.written_per_s),
            ("--flush-timeout", options.flush_timeout.as_secs()),
            ("--connections-max", options.connections_max as u64),
        ] {
            command.arg(flag).arg(value.to_string());
        }
        if let Some(lanes) = options.lanes {
            command.arg("--lanes").arg(lanes.to_string());
        }
        if self.log_format == LogFormat::Json {
            command.args(["--log-format", "json"]);
        }
        for host in &options.http_hosts {
            command.args(["--http-host", host]);
        }
        if options.insecure {
            command.arg("--insecure");
        }
        if let Some(token) = &options.token {
            // Not on the command line, where every user of the machine can read it.
            command.env("SHARDINE_TOKEN", token);
        }
        // Ctrl-C goes to this process alone, which stops the others in order.
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let child = command.spawn().map_err(Complaint::from_io)?;
        self.child = Some(child);
        self.restart_at = None;
        Ok(())
    }

    fn pid(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    /// What has become of a process that is gone.
    fn death(&mut self) -> Option<std::process::ExitStatus> {
        let status = self.child.as_mut()?.try_wait().ok().flatten()?;
        self.child = None;
        Some(status)
    }
}

/// Makes the cluster, unless there is one, and waits until every node serves.
async fn begin(nodes: &mut [NodeChild], is_new: bool, options: &UpOptions) -> Result<(), Complaint> {
    let until = Instant::now() + PATIENCE;
    let server =
        ServerArgs { server: nodes[0].grpc.to_string(), token: options.token.clone(), timeout: PATIENCE.as_secs() };
    if is_new {
        let request = v1::InitRequest {
            sql: sql(options)?,
            shards: options.shards.unwrap_or(0),
            coord_groups: options.coord_groups.unwrap_or(1),
            nodes: u32::try_from(nodes.len()).unwrap_or(u32::MAX),
        };
        while let Err(complaint) = init::make(&server, request.clone()).await {
            if Instant::now() >= until {
                return Err(complaint);
            }
            look_for_deaths(nodes)?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    for place in 0..nodes.len() {
        while !is_ready(nodes[place].http).await {
            if Instant::now() >= until {
                let what = format!("node {} does not serve after {} s", nodes[place].name, PATIENCE.as_secs());
                return Err(Complaint::failed(what, "its own lines above say why", "shardine doctor"));
            }
            look_for_deaths(nodes)?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    Ok(())
}

/// A path is meant from where the command was typed, and all nodes must mean the same file.
fn sql(options: &UpOptions) -> Result<String, Complaint> {
    let absolute = |path: PathBuf| std::path::absolute(path).map_err(Complaint::from_io);
    match &options.sql {
        None => Ok(format!("sqlite:{}", absolute(options.data.join("shardine.db"))?.display())),
        Some(url) => match url.strip_prefix("sqlite:") {
            Some(path) => Ok(format!("sqlite:{}", absolute(PathBuf::from(path))?.display())),
            None => Ok(url.clone()),
        },
    }
}

/// Asks `/readyz`, in the fewest words that HTTP allows.
async fn is_ready(address: SocketAddr) -> bool {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let ask = async {
        let mut stream = tokio::net::TcpStream::connect(address).await.ok()?;
        let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.ok()?;
        Some(answer.ends_with(b" 200"))
    };
    tokio::time::timeout(Duration::from_secs(3), ask).await.ok().flatten().unwrap_or(false)
}

fn look_for_deaths(nodes: &mut [NodeChild]) -> Result<(), Complaint> {
    for node in nodes {
        if let Some(status) = node.death() {
            let what = format!("node {} ended before the cluster was up ({status})", node.name);
            return Err(Complaint::failed(what, "its own lines above say why", "shardine doctor"));
        }
    }
    Ok(())
}

/// Until it is told to stop: says who has died, and starts it again.
async fn watch(
    nodes: &mut [NodeChild],
    restarts: bool,
    join: &str,
    options: &UpOptions,
    stop: &mut StopSignals,
    output: Output,
) {
    loop {
        tokio::select! {
            () = stop.wait() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        for node in &mut *nodes {
            if let Some(status) = node.death() {
                let then = if restarts { "; it is started again in 5 s" } else { "; it stays dead (--no-restart)" };
                output.note(&format!("node {} has died ({status}){then}", node.name));
                node.restart_at = restarts.then(|| Instant::now() + RESTART_AFTER);
            }
            if node.restart_at.is_some_and(|at| at <= Instant::now()) {
                match node.start(join, options) {
                    Ok(()) => {
                        output.note(&format!("node {} is started again, pid {}", node.name, node.pid().unwrap_or(0)))
                    }
                    Err(complaint) => complaint.report(output),
                }
            }
        }
    }
}

/// Asks every node to stop, and waits; a second signal ends them at once.
async fn stop_all(nodes: &mut [NodeChild], stop: &mut StopSignals, output: Output) {
    output.note("stopping");
    for node in nodes.iter() {
        if let Some(pid) = node.pid().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed())) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
    let all = async {
        for node in &mut *nodes {
            if let Some(child) = &mut node.child {
                let _ = child.wait().await;
            }
        }
    };
    tokio::select! {
        () = all => output.note("stopped"),
        () = stop.wait() => output.note("stopped at once; nothing is lost: the logs have it"),
        () = tokio::time::sleep(PATIENCE) => output.note("some nodes did not stop in time, and were killed; the logs have everything"),
    }
}

fn greet(nodes: &[NodeChild], options: &UpOptions, output: Output) {
    let line = |node: &NodeChild| {
        let pid = node.pid().unwrap_or(0);
        format!("  {:<4} pid {pid:<8} redis {}   grpc {}   http http://{}", node.name, node.redis, node.grpc, node.http)
    };
    let first = &nodes[0];
    let password = if options.token.is_some() { " -a TOKEN" } else { "" };
    output.print(
        || {
            let lines: Vec<String> = nodes.iter().map(line).collect();
            let last = nodes.last().unwrap_or(first);
            format!(
                "shardine {}: a cluster of {} nodes is up\n{}\n  data {}\n\ntry:\n  redis-cli{password} -p {} SET hello world\n  kill -9 {}\n  redis-cli{password} -p {} GET hello\n  shardine status --server {}",
                env!("CARGO_PKG_VERSION"),
                nodes.len(),
                lines.join("\n"),
                options.data.display(),
                first.redis.port(),
                first.pid().unwrap_or(0),
                last.redis.port(),
                last.grpc,
            )
        },
        || {
            let one = |node: &NodeChild| {
                json!({ "name": node.name, "pid": node.pid(), "redis": node.redis, "grpc": node.grpc, "http": node.http, "peer": node.peer })
            };
            json!({ "nodes": nodes.iter().map(one).collect::<Vec<_>>(), "data": options.data })
        },
    );
    output.note("Ctrl-C stops it");
}
