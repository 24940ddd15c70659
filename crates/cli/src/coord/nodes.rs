//! `coord node …`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value as Json, json};
use shardine_client::{Consistency, NodeSettings};
use shardine_proto::v1;

use super::{answer, client};
use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::confirm::confirm;
use crate::connection::Connection;
use crate::show::{self, Output};

#[derive(Subcommand)]
pub enum NodeCommand {
    /// Make a node; one that is there already stays as it is
    #[command(after_help = "Example:\n  shardine coord node create /local/locks")]
    Create(SettingsArgs),
    /// Change settings of a node; those not named stay
    #[command(after_help = "Example:\n  shardine coord node alter /local/locks --reads strict")]
    Alter(SettingsArgs),
    /// Show a node's settings
    #[command(after_help = "Example:\n  shardine coord node show /local/locks")]
    Show(NodeArgs),
    /// Remove a node with its sessions and semaphores
    #[command(after_help = "Example:\n  shardine coord node drop /local/locks --yes")]
    Drop {
        #[command(flatten)]
        node: NodeArgs,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// All nodes with how many sessions and semaphores they have
    #[command(after_help = "Example:\n  shardine coord node list")]
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
}

#[derive(Args)]
pub struct NodeArgs {
    /// Like /local/locks
    path: String,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Args)]
pub struct SettingsArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// How often the leader proves to itself that it leads
    #[arg(long, value_name = "MS")]
    self_check_ms: Option<u64>,
    /// How much longer sessions live after a change of leader
    #[arg(long, value_name = "MS")]
    grace_ms: Option<u64>,
    /// Whether a describe goes through the log
    #[arg(long)]
    reads: Option<Mode>,
    /// Whether coming back to a session goes through the log
    #[arg(long)]
    attaches: Option<Mode>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    Strict,
    Relaxed,
}

impl SettingsArgs {
    fn settings(&self) -> NodeSettings {
        let mode = |mode: Option<Mode>| match mode {
            None => Consistency::Unset,
            Some(Mode::Strict) => Consistency::Strict,
            Some(Mode::Relaxed) => Consistency::Relaxed,
        };
        NodeSettings {
            self_check_period: self.self_check_ms.map(Duration::from_millis),
            session_grace_period: self.grace_ms.map(Duration::from_millis),
            reads: mode(self.reads),
            attaches: mode(self.attaches),
        }
    }
}

pub async fn run(command: NodeCommand, output: Output) -> Result<(), Complaint> {
    match command {
        NodeCommand::Create(args) => {
            let NodeArgs { path, server } = &args.node;
            answer(server, client(server)?.create_node(path, args.settings())).await?;
            output.print(|| format!("node {path} is there"), || json!({ "node": path }));
        }
        NodeCommand::Alter(args) => {
            let NodeArgs { path, server } = &args.node;
            answer(server, client(server)?.alter_node(path, args.settings())).await?;
            show_node(&args.node, output).await?;
        }
        NodeCommand::Show(node) => show_node(&node, output).await?,
        NodeCommand::Drop { node: NodeArgs { path, server }, yes } => {
            if !yes {
                let question = format!("drop node {path} with its sessions and semaphores?");
                confirm(&question, &path, &format!("node {path} was not dropped"))?;
            }
            answer(&server, client(&server)?.drop_node(&path)).await?;
            output.print(|| format!("dropped {path}"), || json!({ "dropped": path }));
        }
        NodeCommand::List { server } => {
            let mut connection = Connection::open(&server).await?;
            let reply = connection.cluster.coord_nodes(v1::CoordNodesRequest {}).await;
            let nodes = reply.map_err(|status| Complaint::from_status(&status))?.into_inner().nodes;
            output.print(|| list_text(&nodes), || list_json(&nodes));
        }
    }
    Ok(())
}

async fn show_node(node: &NodeArgs, output: Output) -> Result<(), Complaint> {
    let settings = answer(&node.server, client(&node.server)?.describe_node(&node.path)).await?;
    let millis = |period: Option<Duration>| period.map(|period| period.as_millis() as u64);
    let told = |period| millis(period).map_or_else(|| "default".to_owned(), |ms| format!("{ms} ms"));
    let mode = |mode| match mode {
        Consistency::Unset => None,
        Consistency::Strict => Some("strict"),
        Consistency::Relaxed => Some("relaxed"),
    };
    output.print(
        || {
            let rows = vec![
                ["self-check".to_owned(), told(settings.self_check_period)],
                ["grace".to_owned(), told(settings.session_grace_period)],
                ["reads".to_owned(), mode(settings.reads).unwrap_or("default").to_owned()],
                ["attaches".to_owned(), mode(settings.attaches).unwrap_or("default").to_owned()],
            ];
            show::table(["SETTING", "VALUE"], rows)
        },
        || {
            json!({
                "node": node.path,
                "self_check_ms": millis(settings.self_check_period),
                "grace_ms": millis(settings.session_grace_period),
                "reads": mode(settings.reads),
                "attaches": mode(settings.attaches),
            })
        },
    );
    Ok(())
}

fn list_text(nodes: &[v1::CoordNode]) -> String {
    let rows = nodes.iter().map(|node| [node.path.clone(), node.sessions.to_string(), node.semaphores.to_string()]);
    show::table(["NODE", "SESSIONS", "SEMAPHORES"], rows.collect())
}

fn list_json(nodes: &[v1::CoordNode]) -> Json {
    let nodes: Vec<Json> = nodes
        .iter()
        .map(|node| json!({ "path": node.path, "sessions": node.sessions, "semaphores": node.semaphores }))
        .collect();
    json!({ "nodes": nodes })
}
