//! `balancer` and `events`: what the cluster moves by itself, whether and how fast it may, and what it did.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use shardine_model::{ShardId, SqlValue};
use shardine_proto::v1;

use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::connection::Connection;
use crate::show::{self, Output};
use crate::value;

/// How often a follower of the history looks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Args)]
pub struct BalancerArgs {
    #[command(subcommand)]
    action: BalancerAction,
}

#[derive(Subcommand)]
enum BalancerAction {
    /// Whether it is on, what is on each node, what is being moved
    #[command(after_help = "Example:\n  shardine balancer status")]
    Status(LookArgs),
    /// What would be begun now, and why; does nothing
    #[command(after_help = "Example:\n  shardine balancer plan --json")]
    Plan(LookArgs),
    /// Move replicas for the sake of balance again
    #[command(after_help = "Example:\n  shardine balancer on")]
    On(LookArgs),
    /// Move nothing for the sake of balance; what is lost is still made again, and nodes are still emptied
    #[command(after_help = "Example:\n  shardine balancer off")]
    Off(LookArgs),
    /// How much a node sends of copies in a second, in MiB; counts at once, also for what is under way
    #[command(after_help = "Example:\n  shardine balancer speed 16\n  shardine balancer speed default")]
    Speed(SetArgs),
    /// At which time of day (UTC) moves may begin
    #[command(after_help = "Example:\n  shardine balancer window 22:00-04:00\n  shardine balancer window always")]
    Window(SetArgs),
    /// For how many seconds leads are to be unequal before any is given away
    #[command(after_help = "Example:\n  shardine balancer leads-after 10\n  shardine balancer leads-after default")]
    LeadsAfter(SetArgs),
    /// After how many seconds of silence a node is taken for gone, and what it held is made again elsewhere
    #[command(after_help = "Example:\n  shardine balancer gone-after 600\n  shardine balancer gone-after default")]
    GoneAfter(SetArgs),
}

#[derive(Args)]
struct LookArgs {
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Args)]
struct SetArgs {
    /// The new value; `default` or `always` is as it was at first
    value: String,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Args)]
pub struct EventsArgs {
    /// Go on with what happens, until Ctrl-C
    #[arg(long)]
    follow: bool,
    /// Only what came behind the event of this number
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    after: u64,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn run(args: BalancerArgs, output: Output) -> Result<(), Complaint> {
    match args.action {
        BalancerAction::Status(args) => {
            let report = look(&args.server).await?;
            output.print(|| status_text(&report), || report_json(&report));
            Ok(())
        }
        BalancerAction::Plan(args) => {
            let report = look(&args.server).await?;
            output.print(|| plan_text(&report), || report_json(&report));
            Ok(())
        }
        BalancerAction::On(args) => set(&args.server, "balancer", Some("on"), output).await,
        BalancerAction::Off(args) => set(&args.server, "balancer", Some("off"), output).await,
        BalancerAction::Speed(args) => set(&args.server, "balancer.speed", value_of(&args), output).await,
        BalancerAction::Window(args) => set(&args.server, "balancer.window", value_of(&args), output).await,
        BalancerAction::LeadsAfter(args) => set(&args.server, "balancer.leads_after", value_of(&args), output).await,
        BalancerAction::GoneAfter(args) => set(&args.server, "node.gone_after", value_of(&args), output).await,
    }
}

fn value_of(args: &SetArgs) -> Option<&str> {
    Some(args.value.as_str()).filter(|value| !["default", "always"].contains(value))
}

async fn look(server: &ServerArgs) -> Result<v1::BalancerReply, Complaint> {
    let mut connection = Connection::open(server).await?;
    let reply = connection.cluster.balancer(v1::BalancerRequest {}).await;
    Ok(reply.map_err(|status| Complaint::from_status(&status))?.into_inner())
}

async fn set(server: &ServerArgs, name: &str, value: Option<&str>, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(server).await?;
    let request = v1::SetSettingRequest { name: name.to_owned(), value: value.map(str::to_owned) };
    connection.cluster.set_setting(request).await.map_err(|status| Complaint::from_status(&status))?;
    let text = || format!("{name} is {}", value.unwrap_or("as it was at first"));
    output.print(text, || json!({ "setting": name, "value": value }));
    Ok(())
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn status_text(report: &v1::BalancerReply) -> String {
    let state = match (report.on, report.in_window) {
        (false, _) => "off: nothing moves for the sake of balance",
        (true, false) => "on, but this is not the time of day for it",
        (true, true) => "on",
    };
    let window = report.settings.get("balancer.window").map_or("always", String::as_str);
    let (speed, gone) = (mib(report.speed_bytes), report.gone_after_ms / 1_000);
    let mut text = format!("balancer    {state}\nwindow      {window}\nspeed       {speed}/s from each node\n");
    text.push_str(&format!("gone after  {gone} s of silence\n\n"));
    let rows = report.nodes.iter().map(|node| {
        let zone = if node.zone.is_empty() { "-" } else { &node.zone };
        let numbers = [node.weight.to_string(), node.replicas.to_string(), mib(node.bytes), node.leads.to_string()];
        let [weight, replicas, bytes, leads] = numbers;
        [node.name.clone(), zone.to_owned(), weight, replicas, bytes, leads]
    });
    text.push_str(&show::table(["NODE", "ZONE", "WEIGHT", "REPLICAS", "BYTES", "LEADS"], rows.collect()));
    text.push_str("\n\n");
    if report.running.is_empty() {
        text.push_str("nothing is being moved");
    } else {
        let rows = report.running.iter().map(|line| [ShardId(line.group).label(), line.what.clone()]);
        text.push_str(&show::table(["GROUP", "IS BEING MOVED"], rows.collect()));
    }
    text
}

fn plan_text(report: &v1::BalancerReply) -> String {
    if report.planned.is_empty() {
        return match report.running.len() {
            0 => "nothing is to be moved".to_owned(),
            count => format!("nothing more is to be begun while {count} moves are under way: shardine balancer status"),
        };
    }
    let waits = match (report.on, report.in_window) {
        (true, true) => "",
        (true, false) => "waits for its time of day: ",
        (false, _) => "waits, the balancer is off: ",
    };
    let rows = report.planned.iter().map(|line| {
        let waits = if line.for_balance { waits } else { "" };
        [ShardId(line.group).label(), line.what.clone(), format!("{waits}{}", line.why)]
    });
    show::table(["GROUP", "MOVE", "WHY"], rows.collect())
}

fn report_json(report: &v1::BalancerReply) -> Json {
    let line = |line: &v1::PlannedMove| json!({ "group": line.group, "name": ShardId(line.group).label(), "what": line.what, "why": line.why, "for_balance": line.for_balance });
    let node = |node: &v1::NodeFill| {
        json!({
            "id": value::unsigned(node.id),
            "name": node.name,
            "zone": node.zone,
            "weight": node.weight,
            "replicas": value::unsigned(node.replicas),
            "bytes": value::unsigned(node.bytes),
            "leads": value::unsigned(node.leads),
        })
    };
    json!({
        "on": report.on,
        "in_window": report.in_window,
        "settings": report.settings.iter().collect::<std::collections::BTreeMap<_, _>>(),
        "speed_bytes": value::unsigned(report.speed_bytes),
        "gone_after_ms": value::unsigned(report.gone_after_ms),
        "nodes": report.nodes.iter().map(node).collect::<Vec<_>>(),
        "running": report.running.iter().map(line).collect::<Vec<_>>(),
        "planned": report.planned.iter().map(line).collect::<Vec<_>>(),
    })
}

/// With `--follow` a line, or a JSON object on a line, for each event.
pub async fn events(args: EventsArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let mut after = args.after;
    loop {
        let reply = connection.cluster.events(v1::EventsRequest { after }).await;
        let events = reply.map_err(|status| Complaint::from_status(&status))?.into_inner().events;
        after = events.last().map_or(after, |event| event.number);
        if !args.follow {
            let text = || match events.is_empty() {
                true => "nothing has happened".to_owned(),
                false => events.iter().map(event_text).collect::<Vec<_>>().join("\n"),
            };
            output.print(text, || json!({ "events": events.iter().map(event_json).collect::<Vec<_>>() }));
            return Ok(());
        }
        for event in &events {
            output.print(|| event_text(event), || event_json(event));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn event_text(event: &v1::ClusterEvent) -> String {
    format!("{:>6}  {}  {}", event.number, when(event.at_ms), event.text)
}

/// To the second, in UTC.
fn when(at_ms: u64) -> String {
    let micros = i64::try_from(at_ms / 1_000 * 1_000_000).unwrap_or(i64::MAX);
    SqlValue::Timestamp(micros).to_string()
}

fn event_json(event: &v1::ClusterEvent) -> Json {
    json!({ "number": value::unsigned(event.number), "at_ms": value::unsigned(event.at_ms), "text": event.text })
}
