//! `map plan | apply`: what of an SQL schema that is there can be cached, and how.

use clap::{Args, Parser as _, Subcommand};
use serde_json::{Value as Json, json};
use shardine_model::ErrorCode;
use shardine_writeback::{Plan, PlanOptions, Proposal, Survey, TablePlan, Url, plan};

use crate::args::{Cli, Command, ServerArgs};
use crate::complaint::{Code, Complaint};
use crate::connection::Connection;
use crate::show::Output;

#[derive(Args)]
pub struct MapArgs {
    #[command(subcommand)]
    command: MapCommand,
}

#[derive(Subcommand)]
enum MapCommand {
    /// Say table by table what can be cached, and by which command; nothing in SQL is changed
    #[command(after_help = "Example:\n  shardine map plan postgres://app@db/shop --table orders --table customers")]
    Plan(PlanArgs),
    /// The same, and map what can be mapped; nothing in SQL is changed
    #[command(after_help = "Example:\n  shardine map apply postgres://app@db/shop --table customers")]
    Apply {
        #[command(flatten)]
        plan: PlanArgs,
        #[command(flatten)]
        server: ServerArgs,
    },
}

#[derive(Args)]
struct PlanArgs {
    /// The database, as the server's --sql takes it
    url: String,
    /// Only this table; repeat for more
    #[arg(long = "table", value_name = "TABLE")]
    tables: Vec<String>,
    /// What the version column is called in tables that have one
    #[arg(long, value_name = "COLUMN", default_value = "rev")]
    version_column: String,
}

/// Looks at the database before anything else is started: each connection brings a runtime of its own.
pub fn run(args: MapArgs, output: Output) -> Result<(), Complaint> {
    match args.command {
        MapCommand::Plan(args) => {
            let plan = args.plan()?;
            output.print(|| plan.to_string(), || json_of(&plan));
            Ok(())
        }
        MapCommand::Apply { plan, server } => {
            let plan = plan.plan()?;
            crate::talk(apply(&plan, &server, output))
        }
    }
}

impl PlanArgs {
    fn plan(&self) -> Result<Plan, Complaint> {
        let url: Url = self.url.parse().map_err(|error: shardine_writeback::UrlError| {
            Complaint::misused(
                error.to_string(),
                "it is no URL of a database",
                "sqlite:PATH, postgres://… or mysql://…",
            )
        })?;
        let survey = Survey::of(&url).map_err(|error| {
            Complaint::failed(
                "the database cannot be looked at",
                error.to_string(),
                "check the URL, and that its user may log in",
            )
            .coded(Code::SqlUnusable)
        })?;
        let is_known = |wanted: &&String| survey.tables.iter().any(|table| table.name.eq_ignore_ascii_case(wanted));
        if let Some(unknown) = self.tables.iter().find(|wanted| !is_known(wanted)) {
            let what = format!("the database has no table {unknown}");
            return Err(Complaint::misused(
                what,
                "it is not in the schema that the URL leads to",
                "shardine map plan URL",
            ));
        }
        let options = PlanOptions { tables: self.tables.clone(), version: self.version_column.clone() };
        Ok(plan(&survey, &options))
    }
}

/// Makes the mappings, parents first. One that is refused keeps nobody else from being made.
async fn apply(plan: &Plan, server: &ServerArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(server).await?;
    let (mut made, mut refused) = (Vec::new(), Vec::new());
    for table in &plan.tables {
        let Some(proposal) = &table.mapping else { continue };
        match connection.tables.create(request(proposal)?).await {
            Ok(_) => made.push(&*table.name),
            Err(status) => refused.push((&*table.name, Complaint::from_status(&status))),
        }
    }
    let told = |(name, complaint): &(&str, Complaint)| format!("{name}: {}", complaint.what);
    output.print(
        || {
            let mut lines: Vec<String> = made.iter().map(|name| format!("{name}: mapped")).collect();
            lines.extend(refused.iter().map(told));
            lines.join("\n")
        },
        || json!({ "mapped": made, "refused": refused.iter().map(|(name, why)| json!({ "table": name, "why": why.what })).collect::<Vec<_>>() }),
    );
    if refused.is_empty() {
        return Ok(());
    }
    let what = format!("{} of {} tables were not mapped", refused.len(), made.len() + refused.len());
    let first = refused.iter().map(told).next().unwrap_or_default();
    Err(Complaint::failed(what, first, "shardine map plan URL says what to do").coded(ErrorCode::BadRequest))
}

/// The request that the words of a proposal stand for: they are read as if somebody had typed them.
fn request(proposal: &Proposal) -> Result<shardine_proto::v1::CreateTableRequest, Complaint> {
    let words = std::iter::once("shardine".to_owned()).chain(proposal.words());
    let misread = |why: String| Complaint::failed("a proposed line cannot be read", why, "please report this");
    match Cli::try_parse_from(words).map_err(|error| misread(error.to_string()))?.command {
        Command::Table(table) => {
            table.create_request().unwrap_or_else(|| Err(misread("it creates nothing".to_owned())))
        }
        _ => Err(misread("it is no table command".to_owned())),
    }
}

fn json_of(plan: &Plan) -> Json {
    let table = |table: &TablePlan| {
        let mapping = table.mapping.as_ref();
        json!({
            "table": table.name,
            "cached": mapping.is_some(),
            "written": mapping.is_some_and(|proposal| proposal.version.is_some()),
            "obstacles": table.obstacles,
            "remarks": table.remarks,
            "command": mapping.map(Proposal::words),
        })
    };
    json!({ "tables": plan.tables.iter().map(table).collect::<Vec<_>>() })
}
