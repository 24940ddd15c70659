//! `start`: one node of a cluster. Before there is one it waits, and says for what.

use std::net::SocketAddr;

use clap::Args;
use serde_json::json;
use shardine_server::{ClusterOptions, Found, Node, UpOptions, find_cluster};
use tokio::io::AsyncReadExt;

use crate::complaint::Complaint;
use crate::show::Output;
use crate::up::{self, NodeArgs, NodeProcess};

#[derive(Args)]
#[command(
    after_help = "The same line on every machine, with its own name.\n\nExample:\n  shardine start --name a --data /var/lib/shardine --join a:7400,b:7400,c:7400 --advertise a --token \"$TOKEN\"\n  shardine init --server a:7400 --sql postgres://app:secret@db/app     (once, ever)"
)]
pub struct StartArgs {
    /// What the node is called; no two of a cluster are called alike
    #[arg(long)]
    name: String,
    /// gRPC doors of nodes that may know the cluster; the node's own among them does no harm
    #[arg(long, value_name = "ADDR", value_delimiter = ',', required = true)]
    join: Vec<String>,
    /// Where other nodes reach this one [default: 127.0.0.1:7500]
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7500")]
    peer: SocketAddr,
    /// The host by which other machines reach this one, if that is not what is listened on
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,
    /// Where the node stands; replicas go to different zones first
    #[arg(long, default_value = "")]
    zone: String,
    /// Hold no data: take requests on all doors and pass them on
    #[arg(long)]
    gateway: bool,
    /// Stop when standard input ends: for whoever starts nodes and must not leave them behind
    #[arg(long, hide = true)]
    stop_with_stdin: bool,
    #[command(flatten)]
    node: NodeArgs,
}

pub fn run(args: StartArgs, output: Output) -> Result<(), Complaint> {
    let StartArgs { name, join, peer, advertise, zone, gateway: is_gateway, stop_with_stdin, node } = args;
    let cluster = ClusterOptions { name, zone, is_gateway, join, peer, advertise };
    let mut process = NodeProcess::begin(node, output)?;
    process.options.cluster = Some(cluster.clone());
    check(&cluster, &process.options)?;
    let stdin = process.runtime.block_on(async { stop_with_stdin.then(|| tokio::spawn(end_of_stdin())) });
    let found = find(&mut process, &cluster, output)?;
    let Some(found) = found else { return Ok(()) };
    let node = Node::start_found(&process.options, found).map_err(|error| up::refused(&process.options, &error))?;
    greet(&node, &cluster, output);
    process.runtime.block_on(async {
        match stdin {
            Some(stdin) => tokio::select! { () = process.stop.wait() => {}, _ = stdin => {} },
            None => process.stop.wait().await,
        }
    });
    process.end(node, output);
    Ok(())
}

/// The cluster's peer port carries no TLS yet: what listens beyond this machine lies open to it.
fn check(cluster: &ClusterOptions, options: &UpOptions) -> Result<(), Complaint> {
    if !cluster.peer.ip().is_loopback() && !options.insecure {
        let what =
            format!("--peer {} is reachable from other machines, and its traffic is not encrypted", cluster.peer);
        let cause = "TLS between nodes is not there yet";
        let complaint = Complaint::misused(what, cause, "--insecure, in a network that nobody else is in");
        return Err(complaint.coded(shardine_model::ErrorCode::Forbidden));
    }
    Ok(())
}

/// `None` if it is told to stop before there is a cluster.
fn find(process: &mut NodeProcess, cluster: &ClusterOptions, output: Output) -> Result<Option<Found>, Complaint> {
    let NodeProcess { options, runtime, stop } = process;
    let search = async {
        let mut found = std::pin::pin!(find_cluster(options, cluster));
        let patience = std::time::Duration::from_millis(500);
        tokio::select! {
            found = &mut found => return found.map(Some),
            () = stop.wait() => return Ok(None),
            () = tokio::time::sleep(patience) => {}
        }
        output.note(&format!(
            "node {} waits for a cluster; when all nodes wait, make it once: shardine init --server {}",
            cluster.name, options.grpc
        ));
        tokio::select! {
            found = found => found.map(Some),
            () = stop.wait() => Ok(None),
        }
    };
    let found = runtime.block_on(search);
    found.map_err(|error| up::refused(options, &error))
}

fn greet(node: &Node, cluster: &ClusterOptions, output: Output) {
    let shardine_server::Addresses { redis, grpc, http, sql } = node.addresses();
    output.print(
        || format!("node {} is up   redis {redis}   grpc {grpc}   http http://{http}   sql {sql}", cluster.name),
        || json!({ "name": cluster.name, "redis": redis, "grpc": grpc, "http": http, "peer": cluster.peer, "sql": sql }),
    );
}

async fn end_of_stdin() {
    let mut stdin = tokio::io::stdin();
    let mut buffer = [0; 64];
    while stdin.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}
