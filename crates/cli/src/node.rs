//! Nodes of a cluster: `nodes`, `node list` and `node show`; what is ordered of them is in `orders`.

mod orders;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use shardine_proto::v1;

use crate::args::ServerArgs;
use crate::cluster::duration;
use crate::complaint::Complaint;
use crate::connection::Connection;
use crate::show::{self, Output};
use crate::value;

use self::orders::{DrainArgs, ModeArgs, RemoveArgs, WeightArgs};

#[derive(Args)]
pub struct NodesArgs {
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Args)]
pub struct NodeArgs {
    #[command(subcommand)]
    action: NodeAction,
}

#[derive(Subcommand)]
enum NodeAction {
    /// All nodes: where they are, whether they live, how many groups each leads
    #[command(after_help = "Example:\n  shardine node list --json")]
    List(NodesArgs),
    /// One node, and the shards of which it holds a replica
    #[command(after_help = "Example:\n  shardine node show n2")]
    Show(ShowArgs),
    /// Empty a node: its leads and replicas go to others, and nothing new comes to it
    #[command(
        after_help = "Example:\n  shardine node drain n3 --watch\n  shardine node mode n3 rw      # take it back\n  shardine node remove n3        # once it is empty"
    )]
    Drain(DrainArgs),
    /// What a node is used for: rw, ro (leads nothing that another can lead) or draining
    #[command(after_help = "Example:\n  shardine node mode n3 ro\n  shardine node mode n3 rw")]
    Mode(ModeArgs),
    /// A node's share of reads that any replica may answer; 0 empties it as far as others can hold its replicas
    #[command(after_help = "Example:\n  shardine node weight n3 300\n  shardine node weight n3 0")]
    Weight(WeightArgs),
    /// Take a node out for good: one that is empty, or one that is lost
    #[command(after_help = "Example:\n  shardine node drain n3 --watch\n  shardine node remove n3 --yes")]
    Remove(RemoveArgs),
}

#[derive(Args)]
struct ShowArgs {
    /// Its name, or its number
    node: String,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(args: NodeArgs, output: Output) -> Result<(), Complaint> {
    match args.action {
        NodeAction::List(args) => list(args, output).await,
        NodeAction::Show(args) => show(&args, output).await,
        NodeAction::Drain(args) => orders::drain(args, output).await,
        NodeAction::Mode(args) => orders::mode(args, output).await,
        NodeAction::Weight(args) => orders::weight(args, output).await,
        NodeAction::Remove(args) => orders::remove(args, output).await,
    }
}

pub async fn list(args: NodesArgs, output: Output) -> Result<(), Complaint> {
    let nodes = status(&args.server).await?.nodes;
    let text = || match nodes.is_empty() {
        true => "one node, alone for ever (`shardine up`)".to_owned(),
        false => nodes_text(&nodes),
    };
    output.print(text, || json!({ "nodes": nodes.iter().map(node_json).collect::<Vec<_>>() }));
    Ok(())
}

async fn show(args: &ShowArgs, output: Output) -> Result<(), Complaint> {
    let status = status(&args.server).await?;
    let is_meant = |node: &&v1::Node| node.name == args.node || node.id.to_string() == args.node;
    let Some(node) = status.nodes.iter().find(is_meant) else {
        let cause = "no node of the cluster has that name or number";
        return Err(Complaint::failed(format!("there is no node {}", args.node), cause, "shardine node list"));
    };
    let holds = |shard: &&v1::Shard| shard.replicas.iter().any(|replica| replica.node == node.id);
    let held: Vec<&v1::Shard> = status.shards.iter().filter(holds).collect();
    let led: Vec<u32> = held.iter().filter(|shard| shard.leader == Some(node.id)).map(|shard| shard.id).collect();
    let held: Vec<u32> = held.iter().map(|shard| shard.id).collect();
    let json = || {
        let mut json = node_json(node);
        json["shards"] = json!(held);
        json["leads_shards"] = json!(led);
        json
    };
    output.print(|| node_text(node, &held, &led), json);
    Ok(())
}

async fn status(server: &ServerArgs) -> Result<v1::StatusReply, Complaint> {
    let mut connection = Connection::open(server).await?;
    let reply = connection.cluster.status(v1::StatusRequest {}).await;
    Ok(reply.map_err(|status| Complaint::from_status(&status))?.into_inner())
}

pub fn state(node: &v1::Node) -> String {
    match node.state() {
        _ if node.removed => "REMOVED".to_owned(),
        v1::NodeState::Here => "here".to_owned(),
        v1::NodeState::Up => "up".to_owned(),
        v1::NodeState::Silent => format!("SILENT for {}", duration(node.silent_ms)),
        v1::NodeState::Mute => "DOES NOT ANSWER".to_owned(),
    }
}

/// As it is typed, too.
fn mode_name(mode: v1::NodeMode) -> &'static str {
    match mode {
        v1::NodeMode::Unspecified => "-",
        v1::NodeMode::ReadWrite => "rw",
        v1::NodeMode::ReadOnly => "ro",
        v1::NodeMode::Draining => "draining",
    }
}

/// What it is there for, in one word.
fn use_of(node: &v1::Node) -> &'static str {
    if node.gateway { "gateway" } else { mode_name(node.mode()) }
}

pub fn nodes_text(nodes: &[v1::Node]) -> String {
    let rows = nodes.iter().map(|node| {
        let said = !node.version.is_empty();
        [
            node.name.clone(),
            node.id.to_string(),
            state(node),
            use_of(node).to_owned(),
            node.weight.to_string(),
            format!("{} of {}", node.leads, node.replicas),
            node.redis.clone(),
            node.grpc.clone(),
            node.http.clone(),
            node.peer.clone(),
            if said { duration(node.uptime_ms) } else { "-".to_owned() },
            if said { format!("{} / {}", node.version, node.protocol) } else { "-".to_owned() },
        ]
    });
    let header = [
        "NODE",
        "NUMBER",
        "STATE",
        "MODE",
        "WEIGHT",
        "LEADS",
        "REDIS",
        "GRPC",
        "HTTP",
        "PEERS",
        "UP",
        "VERSION / PROTOCOL",
    ];
    show::table(header, rows.collect())
}

fn node_text(node: &v1::Node, held: &[u32], led: &[u32]) -> String {
    let list = |numbers: &[u32]| match numbers {
        [] => "none".to_owned(),
        numbers => numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut text = format!("node {}   number {}   {}\n", node.name, node.id, state(node));
    let zone = if node.zone.is_empty() { "-" } else { &node.zone };
    text.push_str(&format!("zone        {zone}\n"));
    text.push_str(&format!("mode        {}, weight {}\n", use_of(node), node.weight));
    for (door, address) in [("redis", &node.redis), ("grpc", &node.grpc), ("http", &node.http), ("peers", &node.peer)] {
        text.push_str(&format!("{door:<11} {address}\n"));
    }
    if !node.version.is_empty() {
        let (version, protocol, up) = (&node.version, node.protocol, duration(node.uptime_ms));
        text.push_str(&format!("version     {version}, protocol {protocol}\n"));
        text.push_str(&format!("up          {up}, {} connections\n", node.connections));
    }
    text.push_str(&format!("shards      {}\n", list(held)));
    text.push_str(&format!("leads       {}", list(led)));
    text
}

pub fn node_json(node: &v1::Node) -> Json {
    json!({
        "id": value::unsigned(node.id),
        "name": node.name,
        "zone": node.zone,
        "addresses": { "redis": node.redis, "grpc": node.grpc, "http": node.http, "peer": node.peer },
        "state": node.state().as_str_name().trim_start_matches("NODE_STATE_").to_ascii_lowercase(),
        "silent_ms": (node.state() == v1::NodeState::Silent).then(|| value::unsigned(node.silent_ms)),
        "mode": mode_name(node.mode()),
        "weight": node.weight,
        "starts": value::unsigned(node.incarnation),
        "removed": node.removed,
        "gateway": node.gateway,
        "replicas": value::unsigned(node.replicas),
        "leads": value::unsigned(node.leads),
        "version": Some(&node.version).filter(|version| !version.is_empty()),
        "protocol": (!node.version.is_empty()).then(|| value::unsigned(node.protocol)),
        "uptime_ms": value::unsigned(node.uptime_ms),
        "connections": value::unsigned(node.connections),
    })
}
