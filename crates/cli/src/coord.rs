//! `coord`: coordination from the shell.

mod nodes;
mod sessions;
mod semaphores;
mod hold;
mod launch;
mod guard;
mod show;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use shardine_client::{Client, Error, NodeSettings, Session, SessionOptions, Status};
use shardine_model::ErrorCode;

use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::show::Output;

use self::nodes::NodeCommand;
use self::semaphores::SemCommand;
use self::sessions::SessionCommand;

/// Where semaphores of the shell live unless it is said otherwise. Made when it is missed, so that a lock is one line.
const NODE_DEFAULT: &str = "/local/locks";

#[derive(Args)]
pub struct CoordArgs {
    #[command(subcommand)]
    command: CoordCommand,
}

#[derive(Subcommand)]
enum CoordCommand {
    /// Coordination nodes: places that share nothing, each with its sessions and semaphores
    #[command(subcommand)]
    Node(NodeCommand),
    /// Semaphores of a node: locks, queues, small data
    #[command(subcommand)]
    Sem(SemCommand),
    /// Sessions of a node: who is there
    #[command(subcommand)]
    Session(SessionCommand),
    /// Watches over a command that runs under a lock; started by `sem acquire` and by nobody else
    #[command(hide = true, after_help = "Example:\n  shardine coord sem acquire backup --ephemeral -- ./backup.sh")]
    Guard,
    /// Becomes a command under a lock when its guard knows of it; started by `sem acquire` and by nobody else
    #[command(hide = true, after_help = "Example:\n  shardine coord sem acquire backup --ephemeral -- ./backup.sh")]
    Launch {
        /// Who opens the gate
        parent: i32,
        /// What the gate is called there
        gate: i32,
        #[arg(last = true)]
        command: Vec<OsString>,
    },
}

/// Which semaphores are meant.
#[derive(Args)]
struct PlaceArgs {
    /// The coordination node that they belong to
    #[arg(long, env = "SHARDINE_COORD_NODE", default_value = NODE_DEFAULT, value_name = "PATH")]
    node: String,
    #[command(flatten)]
    server: ServerArgs,
}

/// A page of a list.
#[derive(Args)]
struct PageArgs {
    /// At most so many, 1000 at once
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: u32,
}

/// Ends with the exit code of a command that was run meanwhile, or with success.
pub async fn run(args: CoordArgs, output: Output) -> Result<ExitCode, Complaint> {
    match args.command {
        CoordCommand::Node(command) => nodes::run(command, output).await.map(|()| ExitCode::SUCCESS),
        CoordCommand::Sem(command) => semaphores::run(command, output).await,
        CoordCommand::Session(command) => sessions::run(command, output).await.map(|()| ExitCode::SUCCESS),
        CoordCommand::Guard => {
            guard::run();
            Ok(ExitCode::SUCCESS)
        }
        CoordCommand::Launch { parent, gate, command } => launch::run(parent, gate, &command),
    }
}

fn client(server: &ServerArgs) -> Result<Client, Complaint> {
    let client = Client::new(&server.server).map_err(complaint)?;
    match &server.token {
        Some(token) => client.with_token(token).map_err(complaint),
        None => Ok(client),
    }
}

/// A session on the node; on the default one also if it is not there yet.
async fn open(place: &PlaceArgs, options: SessionOptions) -> Result<Session, Complaint> {
    let client = client(&place.server)?;
    match client.start_session(&place.node, options.clone()).await {
        Err(Error::Refused { status: Status::NotFound, .. }) if place.node == NODE_DEFAULT => {
            client.create_node(NODE_DEFAULT, NodeSettings::default()).await.map_err(complaint)?;
            client.start_session(NODE_DEFAULT, options).await.map_err(complaint)
        }
        Err(Error::Refused { status: Status::NotFound, .. }) => {
            let what = format!("there is no coordination node {}", place.node);
            let remedy = format!("shardine coord node create {}", place.node);
            Err(Complaint::failed(what, "it was not made, or was dropped", remedy).coded(ErrorCode::NotFound))
        }
        started => started.map_err(complaint),
    }
}

/// Waits for an answer as long as the user said.
async fn answer<T>(server: &ServerArgs, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Complaint> {
    match tokio::time::timeout(Duration::from_secs(server.timeout), answer).await {
        Ok(answer) => answer.map_err(complaint),
        Err(_) => {
            let what = format!("no answer in {} s", server.timeout);
            Err(Complaint::failed(what, "the server is slow or gone", "a longer --timeout").coded(ErrorCode::InDoubt))
        }
    }
}

fn complaint(error: Error) -> Complaint {
    match error {
        Error::Refused { status, message } => {
            let (code, cause, remedy) = meaning(status);
            let what = if message.is_empty() { status.as_str_name().to_owned() } else { message };
            Complaint::failed(what, format!("{cause} ({})", status.as_str_name()), remedy).coded(code)
        }
        Error::Unreachable { address, cause } => {
            let what = format!("no server answers at {address}");
            Complaint::failed(what, cause, "shardine up, or --server ADDR").coded(ErrorCode::NoLeader)
        }
        Error::Expired | Error::Stopped => {
            let remedy = "the same again; a longer --session-timeout if pauses are usual";
            Complaint::failed("the session is over", "the server could not be reached in time", remedy)
                .coded(ErrorCode::InDoubt)
        }
        Error::Misused(message) => {
            Complaint::misused(message, "it cannot be sent", "shardine coord --help").coded(ErrorCode::BadRequest)
        }
    }
}

/// Our code for a status of YDB's, its usual cause, and the first thing to do.
fn meaning(status: Status) -> (ErrorCode, &'static str, &'static str) {
    match status {
        Status::NotFound => (ErrorCode::NotFound, "nothing has this name", "shardine coord sem create NAME --limit 1"),
        Status::SchemeError => (ErrorCode::NotFound, "no node has this path", "shardine coord node list"),
        Status::AlreadyExists => (ErrorCode::Exists, "somebody made it before", "shardine coord sem describe NAME"),
        Status::PreconditionFailed => (ErrorCode::Busy, "it is in use", "shardine coord sem describe NAME"),
        Status::SessionExpired | Status::BadSession => {
            (ErrorCode::NotFound, "no such session, or somebody else's", "a new one")
        }
        Status::Unauthorized => (
            ErrorCode::Forbidden,
            "the token is missing, wrong, or has no right to this",
            "--token TOKEN, or SHARDINE_TOKEN",
        ),
        Status::Aborted => (ErrorCode::Busy, "a newer request or a delete took its place", "the same again"),
        Status::Unavailable | Status::Timeout => {
            (ErrorCode::NoLeader, "the group has no leader now", "the same again; shardine status")
        }
        Status::Overloaded => (ErrorCode::Busy, "a limit was reached", "docs/coordination.md, Limits"),
        Status::Undetermined => (ErrorCode::InDoubt, "it may or may not have been done", "look, then decide"),
        Status::BadRequest => (ErrorCode::BadRequest, "the request cannot be done", "shardine coord --help"),
        _ => (ErrorCode::Internal, "something broke", "the server's log; shardine doctor"),
    }
}

/// `--wait 1.5` and the like.
fn seconds(typed: &str) -> Result<Duration, String> {
    let seconds: f64 = typed.parse().map_err(|_| "a number of seconds is wanted, like 1.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
