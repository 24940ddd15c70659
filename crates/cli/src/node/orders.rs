//! `node drain`, `node mode`, `node weight` and `node remove`.

use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::{Value as Json, json};
use shardine_model::ShardId;
use shardine_proto::v1;

use super::mode_name;
use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::confirm::confirm;
use crate::connection::Connection;
use crate::progress::Progress;
use crate::show::{self, Output};
use crate::value;

/// How often a drain is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// For how long everything that is left may be stuck before nobody waits for it any more: a node that restarts is back by then.
const STUCK_TIME: Duration = Duration::from_secs(20);

#[derive(Args)]
pub struct DrainArgs {
    /// Its name, or its number
    node: String,
    /// Wait until it is empty; fails, with the reasons, when nothing moves any more
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Args)]
pub struct ModeArgs {
    /// Its name, or its number
    node: String,
    mode: Mode,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    /// Leads and holds what it can
    Rw,
    /// Holds replicas and answers reads; leads nothing that another can lead
    Ro,
    /// Is being emptied, as by `node drain`
    Draining,
}

#[derive(Args)]
pub struct WeightArgs {
    /// Its name, or its number
    node: String,
    /// 0 to 1000; 100 unless somebody said otherwise
    weight: u16,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Args)]
pub struct RemoveArgs {
    /// Its name, or its number
    node: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn drain(args: DrainArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    set_mode(&mut connection, &args.node, v1::NodeMode::Draining).await?;
    let report = match args.watch {
        true => watch(&mut connection, &args.node, output).await?,
        false => look(&mut connection, &args.node).await?,
    };
    output.print(|| drain_text(&report), || drain_json(&report));
    Ok(())
}

pub async fn mode(args: ModeArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let mode = match args.mode {
        Mode::Rw => v1::NodeMode::ReadWrite,
        Mode::Ro => v1::NodeMode::ReadOnly,
        Mode::Draining => v1::NodeMode::Draining,
    };
    set_mode(&mut connection, &args.node, mode).await?;
    let (node, mode) = (&args.node, mode_name(mode));
    output.print(|| format!("node {node} is {mode}"), || json!({ "node": node, "mode": mode }));
    Ok(())
}

pub async fn weight(args: WeightArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let (node, weight) = (&args.node, args.weight);
    let request = v1::SetNodeWeightRequest { node: node.clone(), weight: weight.into() };
    connection.cluster.set_node_weight(request).await.map_err(|status| Complaint::from_status(&status))?;
    output.print(|| format!("node {node} has weight {weight}"), || json!({ "node": node, "weight": weight }));
    Ok(())
}

pub async fn remove(args: RemoveArgs, output: Output) -> Result<(), Complaint> {
    let node = &args.node;
    if !args.yes {
        let question = format!("take node {node} out for good (its directory is of no use afterwards)?");
        confirm(&question, node, &format!("node {node} was not removed"))?;
    }
    let mut connection = Connection::open(&args.server).await?;
    let request = v1::RemoveNodeRequest { node: node.clone() };
    connection.cluster.remove_node(request).await.map_err(|status| Complaint::from_status(&status))?;
    output.print(|| format!("node {node} is out"), || json!({ "node": node, "removed": true }));
    Ok(())
}

async fn set_mode(connection: &mut Connection, node: &str, mode: v1::NodeMode) -> Result<(), Complaint> {
    let request = v1::SetNodeModeRequest { node: node.to_owned(), mode: mode.into() };
    connection.cluster.set_node_mode(request).await.map_err(|status| Complaint::from_status(&status))?;
    Ok(())
}

async fn look(connection: &mut Connection, node: &str) -> Result<v1::NodeDrainReply, Complaint> {
    let reply = connection.cluster.node_drain(v1::NodeDrainRequest { node: node.to_owned() }).await;
    Ok(reply.map_err(|status| Complaint::from_status(&status))?.into_inner())
}

/// Looks until nothing is left, or until nothing moves.
async fn watch(connection: &mut Connection, node: &str, output: Output) -> Result<v1::NodeDrainReply, Complaint> {
    let mut progress = Progress::new(output);
    let mut all = 0;
    let mut moved = Instant::now();
    loop {
        let report = look(connection, node).await?;
        let left = report.left.len();
        all = all.max(left);
        if left == 0 {
            progress.finish();
            return Ok(report);
        }
        if report.mode() != v1::NodeMode::Draining {
            progress.finish();
            return Err(Complaint::failed(
                format!("node {node} is {} again, and still holds {left} groups", mode_name(report.mode())),
                "somebody has taken the drain back",
                format!("shardine node drain {node} --watch"),
            ));
        }
        if report.left.iter().any(|left| !left.stuck) {
            moved = Instant::now();
        }
        if moved.elapsed() > STUCK_TIME {
            progress.finish();
            show::say(&drain_text(&report));
            return Err(Complaint::failed(
                format!("node {node} is not empty: {left} groups cannot be moved"),
                "each says above what it waits for; they are moved as soon as they can be",
                format!("shardine node list; shardine node mode {node} rw takes the drain back"),
            ));
        }
        progress.show((all - left) as u64, Some(all as u64), "groups moved");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn drain_text(report: &v1::NodeDrainReply) -> String {
    let name = &report.name;
    if report.left.is_empty() {
        return format!("node {name} is empty: shardine node remove {name} takes it out");
    }
    let rows = report.left.iter().map(|left| {
        let leads = if left.leads { "leads" } else { "" };
        let stuck = if left.stuck { "STUCK: " } else { "" };
        [ShardId(left.group).label(), leads.to_owned(), format!("{stuck}{}", left.waits_for)]
    });
    format!(
        "node {name} is {}\n\n{}",
        mode_name(report.mode()),
        show::table(["GROUP", "LEADS", "WAITS FOR"], rows.collect())
    )
}

fn drain_json(report: &v1::NodeDrainReply) -> Json {
    let left = report.left.iter().map(|left| {
        json!({ "group": left.group, "name": ShardId(left.group).label(), "leads": left.leads, "stuck": left.stuck, "waits_for": left.waits_for })
    });
    json!({
        "id": value::unsigned(report.id),
        "name": report.name,
        "mode": mode_name(report.mode()),
        "weight": report.weight,
        "left": left.collect::<Vec<_>>(),
    })
}
