//! `init`: makes a cluster of the nodes that wait for it.

use clap::Args;
use serde_json::json;
use shardine_proto::v1;

use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::connection::Connection;
use crate::show::Output;

#[derive(Args)]
#[command(after_help = "Example:\n  shardine init --server a:7400 --sql postgres://app:secret@db/app --nodes 3")]
pub struct InitArgs {
    /// postgres://…, mysql://…, sqlite:PATH (all nodes on one machine) or none
    #[arg(long, value_name = "URL", default_value = "none", hide_env_values = true)]
    sql: String,
    /// Shards of records at first
    #[arg(long, default_value_t = 4)]
    shards: u32,
    /// Coordination groups
    #[arg(long, default_value_t = 1)]
    coord_groups: u32,
    /// How many nodes must wait; fewer are refused [default: as many as wait]
    #[arg(long, default_value_t = 0)]
    nodes: u32,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(args: InitArgs, output: Output) -> Result<(), Complaint> {
    let InitArgs { sql, shards, coord_groups, nodes, server } = args;
    let request = v1::InitRequest { sql, shards, coord_groups, nodes };
    let v1::InitReply { cluster, nodes } = make(&server, request).await?;
    let id: String = cluster.iter().map(|byte| format!("{byte:02x}")).collect();
    output
        .print(|| format!("cluster {id} is made of {}", nodes.join(", ")), || json!({ "cluster": id, "nodes": nodes }));
    Ok(())
}

pub async fn make(server: &ServerArgs, request: v1::InitRequest) -> Result<v1::InitReply, Complaint> {
    let mut connection = Connection::open(server).await?;
    let reply = connection.formation.init(request).await.map_err(|status| Complaint::from_status(&status))?;
    Ok(reply.into_inner())
}
