//! `status`, `shards` and `explain`: what they say is meant for the cluster, whichever node is asked.

use clap::{Args, Subcommand};
use serde_json::{Map, Value as Json, json};
use shardine_model::ShardId;
use shardine_proto::v1;

use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::connection::Connection;
use crate::show::{self, Output};
use crate::{address, node, value};

#[derive(Args)]
pub struct StatusArgs {
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ShardsArgs {
    #[command(subcommand)]
    action: Option<ShardsAction>,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Subcommand)]
enum ShardsAction {
    /// Answer every request of a shard with `suspended`; write-back goes on
    #[command(after_help = "Example:\n  shardine shards suspend 2\n  shardine shards suspend")]
    Suspend(SuspendArgs),
    /// Serve a suspended shard again
    #[command(after_help = "Example:\n  shardine shards resume 2\n  shardine shards resume")]
    Resume(SuspendArgs),
    /// Have another node lead a shard; answers when it does
    #[command(
        after_help = "Example:\n  shardine shard transfer-leader 2 --to n3\n  shardine shard transfer-leader meta"
    )]
    TransferLeader(TransferLeaderArgs),
    /// Part a shard in two, under load; answers when all nodes know both halves
    #[command(after_help = "Example:\n  shardine shard split 1\n  shardine shard split 1 --at users:lili")]
    Split(SplitArgs),
    /// Begin to move a shard's replica from one node to another
    #[command(
        after_help = "Example:\n  shardine shard move 2 --from n1 --to n4 --dry-run\n  shardine shard move 2 --from n1 --to n4\n  shardine events --follow"
    )]
    Move(MoveArgs),
}

#[derive(Args)]
struct MoveArgs {
    /// The shard's number as `shardine shards` shows it, `coordination` or `meta`
    #[arg(value_parser = group)]
    shard: ShardId,
    /// The name or number of the node that it leaves
    #[arg(long, value_name = "NODE")]
    from: String,
    /// The name or number of the node that it goes to
    #[arg(long, value_name = "NODE")]
    to: String,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Args)]
struct SplitArgs {
    /// The shard's number as `shardine shards` shows it
    shard: u32,
    /// The first key of the new shard (table:key); where the data has its middle without it
    #[arg(long, value_name = "KEY")]
    at: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Args)]
struct TransferLeaderArgs {
    /// The shard's number as `shardine shards` shows it, `coordination` or `meta`
    #[arg(value_parser = group)]
    shard: ShardId,
    /// The name or number of a node that has a vote; without one the best heir leads
    #[arg(long, value_name = "NODE")]
    to: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

fn group(text: &str) -> Result<ShardId, &'static str> {
    ShardId::named(text).ok_or("a shard's number, `coordination` or `meta`")
}

#[derive(Args)]
struct SuspendArgs {
    /// The shard's number as `shardine shards` shows it; all shards without one
    shard: Option<u32>,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Args)]
pub struct ExplainArgs {
    /// table:key, or table:key@sort; with --scan table or table:key
    what: String,
    /// Explain a scan instead of a key
    #[arg(long)]
    scan: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn status(args: StatusArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let reply =
        connection.cluster.status(v1::StatusRequest {}).await.map_err(|status| Complaint::from_status(&status))?;
    let status = reply.into_inner();
    output.print(|| status_text(&status), || status_json(&status));
    Ok(())
}

pub async fn shards(args: ShardsArgs, output: Output) -> Result<(), Complaint> {
    let server = match args.action {
        None => args.server,
        Some(ShardsAction::Suspend(args)) => {
            let mut connection = Connection::open(&args.server).await?;
            let request = v1::SuspendShardsRequest { shard: args.shard };
            connection.cluster.suspend_shards(request).await.map_err(|status| Complaint::from_status(&status))?;
            args.server
        }
        Some(ShardsAction::Resume(args)) => {
            let mut connection = Connection::open(&args.server).await?;
            let request = v1::ResumeShardsRequest { shard: args.shard };
            connection.cluster.resume_shards(request).await.map_err(|status| Complaint::from_status(&status))?;
            args.server
        }
        Some(ShardsAction::Split(args)) => return split(args, output).await,
        Some(ShardsAction::Move(args)) => return move_replica(args, output).await,
        Some(ShardsAction::TransferLeader(args)) => return transfer_leader(args, output).await,
    };
    let mut connection = Connection::open(&server).await?;
    let reply =
        connection.cluster.shards(v1::ShardsRequest {}).await.map_err(|status| Complaint::from_status(&status))?;
    let shards = reply.into_inner().shards;
    output.print(|| shards_text(&shards), || json!({ "shards": shards.iter().map(shard_json).collect::<Vec<_>>() }));
    Ok(())
}

async fn transfer_leader(args: TransferLeaderArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let request = v1::TransferLeaderRequest { group: args.shard.0, to: args.to.unwrap_or_default() };
    let reply = connection.cluster.transfer_leader(request).await.map_err(|status| Complaint::from_status(&status))?;
    let leader = reply.into_inner().node;
    let status = connection.cluster.status(v1::StatusRequest {}).await;
    let nodes = status.map_err(|status| Complaint::from_status(&status))?.into_inner().nodes;
    let name = nodes.into_iter().find(|node| node.id == leader).map_or_else(|| leader.to_string(), |node| node.name);
    output.print(
        || format!("{} is led by {name}", args.shard.label()),
        || json!({ "group": args.shard.0, "leader": value::unsigned(leader), "leader_name": name }),
    );
    Ok(())
}

async fn move_replica(args: MoveArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let MoveArgs { shard, from, to, dry_run, .. } = args;
    let request = v1::MoveReplicaRequest { group: shard.0, from, to, dry_run };
    let reply = connection.cluster.move_replica(request).await.map_err(|status| Complaint::from_status(&status))?;
    let what = reply.into_inner().what;
    output.print(
        || if dry_run { format!("would begin: {what}") } else { format!("begins: {what}") },
        || json!({ "group": shard.0, "what": what, "dry_run": dry_run }),
    );
    Ok(())
}

async fn split(args: SplitArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let at = match &args.at {
        Some(key) => Some(address::row(&mut connection, key).await?.1),
        None => None,
    };
    let request = v1::SplitShardRequest { shard: args.shard, at };
    let reply = connection.cluster.split_shard(request).await.map_err(|status| Complaint::from_status(&status))?;
    let (shard, child) = (args.shard, reply.into_inner().child);
    output.print(
        || format!("shard {shard} was split: the upper half is shard {child}"),
        || json!({ "shard": shard, "child": child }),
    );
    Ok(())
}

pub async fn explain(args: ExplainArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let what = if args.scan {
        let (table, partition) = address::scope(&args.what);
        v1::explain_request::What::Scan(v1::ScanShape { table: table.to_owned(), partition })
    } else {
        let (_, row) = address::row(&mut connection, &args.what).await?;
        v1::explain_request::What::Row(row)
    };
    let request = v1::ExplainRequest { what: Some(what) };
    let reply = connection.cluster.explain(request).await.map_err(|status| Complaint::from_status(&status))?;
    let reply = reply.into_inner();
    let status = connection.cluster.status(v1::StatusRequest {}).await;
    let status = status.map_err(|status| Complaint::from_status(&status))?.into_inner();
    let way = if args.scan { None } else { way(&reply, &status) };
    output.print(
        || explain_text(&args.what, args.scan, way.as_ref(), &reply),
        || explain_json(args.scan, way.as_ref(), &reply),
    );
    Ok(())
}

/// Who is asked and who answers, in a cluster.
struct Way {
    asked: String,
    /// The leader; none has one that nobody leads.
    answers: Option<String>,
}

fn way(reply: &v1::ExplainReply, status: &v1::StatusReply) -> Option<Way> {
    let asked = status.nodes.iter().find(|node| node.id == status.node)?.name.clone();
    let leader = reply.shards.first()?.leader_name.clone();
    Some(Way { asked, answers: Some(leader).filter(|leader| !leader.is_empty()) })
}

impl Way {
    fn is_here(&self) -> bool {
        self.answers.as_ref() == Some(&self.asked)
    }

    fn text(&self) -> String {
        match &self.answers {
            None => format!("held at {} until somebody leads", self.asked),
            Some(_) if self.is_here() => format!("here, by {}, which leads", self.asked),
            Some(leader) => format!("by {leader}, which leads; {} forwards to it", self.asked),
        }
    }
}

/// A shard that serves has a leader and has not stopped.
pub fn is_well(shard: &v1::Shard) -> bool {
    shard.leader.is_some() && shard.stopped.is_empty()
}

fn status_text(status: &v1::StatusReply) -> String {
    let well = status.shards.iter().filter(|shard| is_well(shard)).count();
    let name = status.nodes.iter().find(|node| node.id == status.node);
    let name = name.map_or_else(|| status.node.to_string(), |node| node.name.clone());
    let records: u64 = status.shards.iter().map(|shard| shard.records).sum();
    let bytes: u64 = status.shards.iter().map(|shard| shard.bytes).sum();
    let mut text = format!(
        "node {name}   {}   shardine {}   up {}   {} lanes   {} connections\n",
        health(status),
        status.version,
        duration(status.uptime_ms),
        status.lanes,
        status.connections
    );
    text.push_str(&format!(
        "{} shards ({well} ok)   {records} records   {} in memory   log {}\n",
        status.shards.len(),
        size(bytes),
        size(status.log_bytes)
    ));
    for trouble in &status.trouble {
        text.push_str(&format!("! {trouble}\n"));
    }
    text.push_str(&clock_text(status.wall_ahead_ms));
    text.push_str(&writeback_text(status.writeback.as_ref()));
    for group in &status.coordination {
        text.push_str(&group_text(group, &status.nodes));
    }
    text.push_str("\n\n");
    if !status.nodes.is_empty() {
        text.push_str(&node::nodes_text(&status.nodes));
        text.push_str("\n\n");
    }
    text.push_str(&shards_text(&status.shards));
    text
}

fn health(status: &v1::StatusReply) -> &'static str {
    if status.trouble.is_empty() { "HEALTHY" } else { "DEGRADED" }
}

/// A line about the machine's clock, if that is not believed.
fn clock_text(wall_ahead_ms: Option<i64>) -> String {
    let Some(ahead_ms) = wall_ahead_ms else { return String::new() };
    let place = if ahead_ms < 0 { "behind" } else { "ahead of" };
    let off = duration(ahead_ms.unsigned_abs());
    format!("CLOCK not believed: it is {off} {place} the time that this node goes by; set it, or restart the node\n")
}

fn group_text(group: &v1::CoordGroup, nodes: &[v1::Node]) -> String {
    let name = |leader| nodes.iter().find(|node| node.id == leader).map(|node| node.name.clone());
    let state = match (group.stopped.is_empty(), group.leader) {
        (false, _) => format!("STOPPED: {}", group.stopped),
        (true, None) => "NO LEADER".to_owned(),
        (true, Some(leader)) => format!("led by {}", name(leader).unwrap_or_else(|| leader.to_string())),
    };
    format!(
        "\ncoordination {state}   {} nodes   {} sessions ({} connected)   {} semaphores   {} waiting   applied {}",
        group.nodes, group.sessions, group.streams, group.semaphores, group.waiters, group.applied
    )
}

fn writeback_text(writeback: Option<&v1::Writeback>) -> String {
    match writeback {
        None => "no SQL database behind it".to_owned(),
        Some(writeback) => {
            let state = if writeback.connected { "connected" } else { "NOT CONNECTED" };
            let error = match show::ago(&writeback.last_error, writeback.last_error_ago_ms) {
                error if error.is_empty() => error,
                error => format!("   last error, {error}"),
            };
            let ahead = match &writeback.tables_ahead[..] {
                [] => String::new(),
                tables => format!(
                    "\nSQL IS AHEAD of this node in {}: nothing of that is written; shardine doctor",
                    tables.join(", ")
                ),
            };
            format!("SQL {}   {state}   {} rows to write{error}{ahead}", writeback.url, writeback.dirty)
        }
    }
}

fn shards_text(shards: &[v1::Shard]) -> String {
    let rows = shards.iter().map(|shard| {
        let hi = shard.hi.map_or_else(|| "end".to_owned(), |hi| format!("{hi:016x}"));
        let state = match (shard.stopped.is_empty(), shard.leader) {
            (false, _) => "STOPPED".to_owned(),
            (true, None) => "NO LEADER".to_owned(),
            (true, Some(_)) if shard.suspended => "SUSPENDED".to_owned(),
            (true, Some(leader)) if shard.leader_name.is_empty() => format!("led by {leader}"),
            (true, Some(_)) => format!("led by {}", shard.leader_name),
        };
        [
            shard.id.to_string(),
            format!("{:016x}..{hi}", shard.lo),
            state,
            replicas_text(shard),
            shard.term.to_string(),
            shard.lane.to_string(),
            shard.records.to_string(),
            size(shard.bytes),
            shard.dirty.to_string(),
            shard.applied.to_string(),
            shard.snapshot.to_string(),
        ]
    });
    let header = [
        "SHARD",
        "POSITIONS",
        "STATE",
        "REPLICAS",
        "TERM",
        "LANE",
        "RECORDS",
        "MEMORY",
        "DIRTY",
        "APPLIED",
        "SNAPSHOT",
    ];
    let mut text = show::table(header, rows.collect());
    for shard in shards.iter().filter(|shard| !shard.stopped.is_empty()) {
        text.push_str(&format!("\n! shard {}: {}", shard.id, shard.stopped));
    }
    for shard in shards.iter().filter(|shard| !shard.unsplit.is_empty()) {
        text.push_str(&format!("\nshard {} is too much for one and cannot be split: {}", shard.id, shard.unsplit));
    }
    text
}

/// `n1 n2* n3!`: the leader has a star, one that does not live an exclamation mark. A node that is alone has one replica.
fn replicas_text(shard: &v1::Shard) -> String {
    let name = |replica: &v1::Replica| {
        let star = if shard.leader == Some(replica.node) { "*" } else { "" };
        let dead = if replica.lives { "" } else { "!" };
        format!("{}{star}{dead}", replica.name)
    };
    match &shard.replicas[..] {
        [] => "1".to_owned(),
        replicas => replicas.iter().map(name).collect::<Vec<_>>().join(" "),
    }
}

fn access(reply: &v1::ExplainReply) -> &'static str {
    match reply.access() {
        v1::Access::SingleShard => "SINGLE_SHARD",
        v1::Access::ShardMerge => "SHARD_MERGE",
    }
}

fn residence(reply: &v1::ExplainReply) -> &'static str {
    match reply.residence() {
        v1::Residence::Unspecified => "unknown",
        v1::Residence::Live => "live, in memory",
        v1::Residence::Absent => "absent",
        v1::Residence::NotInMemory => "not in memory, only SQL can tell",
    }
}

fn explain_text(what: &str, scan: bool, way: Option<&Way>, reply: &v1::ExplainReply) -> String {
    let shards = shards_text(&reply.shards);
    if scan {
        return format!("scan {what}   {}\n\n{shards}", access(reply));
    }
    let dirty = if reply.version == reply.sql_version { "" } else { " (SQL is behind)" };
    let again = match reply.retries {
        0 => String::new(),
        1 => "; sent again once".to_owned(),
        retries => format!("; sent again {retries} times"),
    };
    let way = way.map(|way| format!("\nanswered    {}{again}", way.text())).unwrap_or_default();
    let epoch = reply.shards.first().filter(|shard| !shard.replicas.is_empty());
    let epoch = epoch.map(|shard| {
        let (generation, range, conf) = (shard.generation, shard.range_version, shard.conf_version);
        format!("\nepoch       generation {generation}, range {range}, members {conf}")
    });
    let epoch = epoch.unwrap_or_default();
    let expiry = reply.expires_at_ms.map(|at| format!("\nexpires     {at} ms since 1970")).unwrap_or_default();
    format!(
        "{what}   {}\npartition   {}\nposition    {:016x}\nresidence   {}\nversion     {}, in SQL {}{dirty}{expiry}{way}{epoch}\n\n{shards}",
        access(reply),
        value::bytes_text(&reply.partition_key),
        reply.position,
        residence(reply),
        reply.version,
        reply.sql_version
    )
}

fn explain_json(scan: bool, way: Option<&Way>, reply: &v1::ExplainReply) -> Json {
    let mut object = Map::new();
    if let Some(way) = way {
        object.insert("node".into(), json!(way.asked));
        object.insert("answered_by".into(), json!(way.answers));
        object.insert("answered_here".into(), json!(way.is_here()));
    }
    object.insert("access".into(), json!(access(reply)));
    object.insert("table".into(), json!(reply.table));
    object.insert("shards".into(), reply.shards.iter().map(shard_json).collect());
    if !scan {
        object.insert("partition_key".into(), json!(value::bytes_text(&reply.partition_key)));
        object.insert("position".into(), json!(format!("{:016x}", reply.position)));
        let residence = reply.residence().as_str_name().trim_start_matches("RESIDENCE_").to_ascii_lowercase();
        object.insert("residence".into(), json!(residence));
        object.insert("version".into(), value::integer(reply.version));
        object.insert("sql_version".into(), value::integer(reply.sql_version));
        object.insert("expires_at_ms".into(), reply.expires_at_ms.map_or(Json::Null, value::unsigned));
        object.insert("retries".into(), json!(reply.retries));
    }
    Json::Object(object)
}

fn status_json(status: &v1::StatusReply) -> Json {
    let mut counters: Vec<_> = status.counters.iter().collect();
    counters.sort();
    let counters: Map<String, Json> =
        counters.into_iter().map(|(name, count)| (name.clone(), value::unsigned(*count))).collect();
    let writeback = status.writeback.as_ref().map(|writeback| {
        json!({
            "url": writeback.url,
            "connected": writeback.connected,
            "dirty": value::unsigned(writeback.dirty),
            "last_error": Some(&writeback.last_error).filter(|error| !error.is_empty()),
            "last_error_ago_ms": (!writeback.last_error.is_empty()).then_some(writeback.last_error_ago_ms),
            "tables_ahead": writeback.tables_ahead,
        })
    });
    json!({
        "nodes": status.nodes.iter().map(node::node_json).collect::<Vec<_>>(),
        "node": value::unsigned(status.node),
        "version": status.version,
        "uptime_ms": value::unsigned(status.uptime_ms),
        "wall_ahead_ms": status.wall_ahead_ms.map(value::integer),
        "lanes": status.lanes,
        "connections": value::unsigned(status.connections),
        "log_bytes": value::unsigned(status.log_bytes),
        "health": health(status),
        "trouble": status.trouble,
        "shards": status.shards.iter().map(shard_json).collect::<Vec<_>>(),
        "writeback": writeback,
        "coordination": status.coordination.iter().map(group_json).collect::<Vec<_>>(),
        "counters": counters,
    })
}

fn group_json(group: &v1::CoordGroup) -> Json {
    json!({
        "group": group.group,
        "leader": group.leader.map(value::unsigned),
        "term": value::unsigned(group.term),
        "applied": value::unsigned(group.applied),
        "snapshot": value::unsigned(group.snapshot),
        "nodes": value::unsigned(group.nodes),
        "sessions": value::unsigned(group.sessions),
        "semaphores": value::unsigned(group.semaphores),
        "bytes": value::unsigned(group.bytes),
        "streams": value::unsigned(group.streams),
        "watches": value::unsigned(group.watches),
        "waiters": value::unsigned(group.waiters),
        "stopped": Some(&group.stopped).filter(|stopped| !stopped.is_empty()),
    })
}

fn shard_json(shard: &v1::Shard) -> Json {
    json!({
        "id": shard.id,
        "lo": format!("{:016x}", shard.lo),
        "hi": shard.hi.map(|hi| format!("{hi:016x}")),
        "lane": shard.lane,
        "leader": shard.leader.map(value::unsigned),
        "term": value::unsigned(shard.term),
        "applied": value::unsigned(shard.applied),
        "committed": value::unsigned(shard.committed),
        "snapshot": value::unsigned(shard.snapshot),
        "records": value::unsigned(shard.records),
        "bytes": value::unsigned(shard.bytes),
        "dirty": value::unsigned(shard.dirty),
        "stopped": Some(&shard.stopped).filter(|stopped| !stopped.is_empty()),
        "unsplit": Some(&shard.unsplit).filter(|unsplit| !unsplit.is_empty()),
        "suspended": shard.suspended,
        "leader_name": Some(&shard.leader_name).filter(|name| !name.is_empty()),
        "replicas": shard.replicas.iter().map(replica_json).collect::<Vec<_>>(),
        "epoch": {
            "generation": value::unsigned(shard.generation),
            "range": value::unsigned(shard.range_version),
            "conf": value::unsigned(shard.conf_version),
        },
    })
}

fn replica_json(replica: &v1::Replica) -> Json {
    json!({ "node": value::unsigned(replica.node), "name": replica.name, "lives": replica.lives })
}

/// `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut amount = bytes as f64;
    let mut unit = 0;
    while amount >= 1_024.0 && unit + 1 < units.len() {
        amount /= 1_024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{amount:.1} {}", units[unit]) }
}

/// `2d 3h`, `5m 12s`: the two largest units.
pub fn duration(ms: u64) -> String {
    let seconds = ms / 1_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {minutes}m"),
        (_, _, _) => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!(size(1_023), "1023 B");
        assert_eq!(size(1_572_864), "1.5 MiB");
        assert_eq!(duration(59_999), "59s");
        assert_eq!(duration(3_661_000), "1h 1m");
        assert_eq!(duration(90_000_000), "1d 1h");
    }
}
