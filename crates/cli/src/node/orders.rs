//! `node drain`, `node mode`, `node weight` and `node remove`.

use std::collections::BTreeMap;
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
    let sizes = sizes(&mut connection).await?;
    let report = match args.watch {
        true => watch(&mut connection, &args.node, &sizes, output).await?,
        false => look(&mut connection, &args.node).await?,
    };
    output.print(|| drain_text(&report, &sizes), || drain_json(&report, &sizes));
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

/// How many bytes each shard has; other groups are small.
type Sizes = BTreeMap<u32, u64>;

async fn sizes(connection: &mut Connection) -> Result<Sizes, Complaint> {
    let reply = connection.cluster.shards(v1::ShardsRequest {}).await;
    let shards = reply.map_err(|status| Complaint::from_status(&status))?.into_inner().shards;
    Ok(shards.into_iter().map(|shard| (shard.id, shard.bytes)).collect())
}

fn bytes_left(report: &v1::NodeDrainReply, sizes: &Sizes) -> u64 {
    report.left.iter().filter_map(|left| sizes.get(&left.group)).sum()
}

/// How far it is: bytes that are left, how many go in a second, and how long that will take.
fn pace(all: u64, left: u64, since: Duration) -> String {
    let rate = all.saturating_sub(left) as f64 / since.as_secs_f64().max(0.001);
    let to_go = match rate {
        rate if rate < 1.0 || left == 0 => String::new(),
        rate => format!(", {:.0} s to go", left as f64 / rate),
    };
    format!("groups moved, {:.1} MiB left, {:.1} MiB/s{to_go}", mib(left as f64), mib(rate))
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// Looks until nothing is left, or until nothing moves.
async fn watch(
    connection: &mut Connection,
    node: &str,
    sizes: &Sizes,
    output: Output,
) -> Result<v1::NodeDrainReply, Complaint> {
    let mut progress = Progress::new(output);
    let (mut all, mut all_bytes) = (0, 0);
    let began = Instant::now();
    let mut moved = began;
    loop {
        let report = look(connection, node).await?;
        let left = report.left.len();
        let bytes = bytes_left(&report, sizes);
        (all, all_bytes) = (all.max(left), all_bytes.max(bytes));
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
            show::say(&drain_text(&report, sizes));
            return Err(Complaint::failed(
                format!("node {node} is not empty: {left} groups cannot be moved"),
                "each says above what it waits for; they are moved as soon as they can be",
                format!("shardine node list; shardine node mode {node} rw takes the drain back"),
            ));
        }
        progress.show((all - left) as u64, Some(all as u64), &pace(all_bytes, bytes, began.elapsed()));
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn drain_text(report: &v1::NodeDrainReply, sizes: &Sizes) -> String {
    let name = &report.name;
    if report.left.is_empty() {
        return format!("node {name} is empty: shardine node remove {name} takes it out");
    }
    let rows = report.left.iter().map(|left| {
        let leads = if left.leads { "leads" } else { "" };
        let stuck = if left.stuck { "STUCK: " } else { "" };
        let bytes = sizes.get(&left.group).map_or("-".to_owned(), |bytes| format!("{:.1} MiB", mib(*bytes as f64)));
        [ShardId(left.group).label(), leads.to_owned(), bytes, format!("{stuck}{}", left.waits_for)]
    });
    format!(
        "node {name} is {}\n\n{}",
        mode_name(report.mode()),
        show::table(["GROUP", "LEADS", "BYTES", "WAITS FOR"], rows.collect())
    )
}

fn drain_json(report: &v1::NodeDrainReply, sizes: &Sizes) -> Json {
    let left = report.left.iter().map(|left| {
        json!({ "group": left.group, "name": ShardId(left.group).label(), "leads": left.leads, "bytes": sizes.get(&left.group).map(|bytes| value::unsigned(*bytes)), "stuck": left.stuck, "waits_for": left.waits_for })
    });
    json!({
        "id": value::unsigned(report.id),
        "name": report.name,
        "mode": mode_name(report.mode()),
        "weight": report.weight,
        "bytes_left": value::unsigned(bytes_left(report, sizes)),
        "left": left.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_says_how_long_it_will_take() {
        let ten = Duration::from_secs(10);
        assert_eq!(pace(30 << 20, 10 << 20, ten), "groups moved, 10.0 MiB left, 2.0 MiB/s, 5 s to go");
        assert_eq!(pace(30 << 20, 30 << 20, ten), "groups moved, 30.0 MiB left, 0.0 MiB/s");
        assert_eq!(pace(0, 0, ten), "groups moved, 0.0 MiB left, 0.0 MiB/s");
    }
}
