//! `coord sem …`.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use shardine_client::{Acquire, Delete, Error, Include, Session, SessionOptions, Watch};
use shardine_model::ErrorCode;
use shardine_proto::v1;

use super::{PageArgs, PlaceArgs, answer, complaint, hold, open, seconds, show};
use crate::complaint::Complaint;
use crate::show::Output;
use crate::value;

#[derive(Subcommand)]
pub enum SemCommand {
    /// Make a semaphore with so many tokens
    #[command(after_help = "Example:\n  shardine coord sem create workers --limit 5")]
    Create {
        name: String,
        /// How many tokens it has
        #[arg(long, value_name = "N")]
        limit: u64,
        /// Data for whoever describes it, like a small configuration
        #[arg(long, default_value = "", value_name = "TEXT")]
        data: String,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Show a semaphore with its owners and waiters
    #[command(after_help = "Example:\n  shardine coord sem describe workers")]
    Describe {
        name: String,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Semaphores of a node by name, with how many own them and wait for them
    #[command(after_help = "Example:\n  shardine coord sem list\n  shardine coord sem list --after lock-42")]
    List {
        /// Go on behind this name
        #[arg(long, value_name = "NAME")]
        after: Option<String>,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Take tokens, for as long as a command runs or for as long as the session lives
    #[command(after_help = ACQUIRE_HELP)]
    Acquire(AcquireArgs),
    /// Give back what a session holds, and end the session
    #[command(after_help = "Example:\n  shardine coord sem release backup --session 7")]
    Release {
        name: String,
        /// The session that `acquire` told
        #[arg(long, value_name = "ID")]
        session: u64,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Replace a semaphore's data; nobody has to hold it for that
    #[command(after_help = "Example:\n  shardine coord sem update config 'workers = 8'")]
    Update {
        name: String,
        data: String,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Delete a semaphore that nobody holds or waits for
    #[command(after_help = "Example:\n  shardine coord sem delete workers --force")]
    Delete {
        name: String,
        /// Also if it is held or waited for: owners lose it without a word
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Print a semaphore now, and after every change of its data or owners
    #[command(after_help = "Example:\n  shardine coord sem watch config --json")]
    Watch {
        name: String,
        /// End after the first change
        #[arg(long)]
        once: bool,
        #[command(flatten)]
        place: PlaceArgs,
    },
}

const ACQUIRE_HELP: &str = "\
With COMMAND it is held while the command runs, whose exit code is passed on. \
If the session expires, because the server could not be reached for its timeout, the command is killed: \
somebody else may hold the semaphore by then. A second process watches over that, so it is also killed when this one is \
stopped for that long, or killed. The command finds its fencing token in SHARDINE_FENCE.

Without COMMAND it is held for --session-timeout, by a session whose number is printed: \
come back to it with --session to hold it longer, or end it with release.

Example:
  shardine coord sem acquire backup --ephemeral -- ./backup.sh
  shardine coord sem acquire backup --ephemeral --wait 0 --session-timeout 600";

#[derive(Args)]
pub struct AcquireArgs {
    name: String,
    /// How many tokens; one if it is not said, or all of an ephemeral semaphore
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Make the semaphore with the first acquire, and let it go with the last owner
    #[arg(long)]
    ephemeral: bool,
    /// Give up after so long; 0 does not wait at all. For ever if it is not said
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,
    /// Data for whoever describes the semaphore
    #[arg(long, default_value = "", value_name = "TEXT")]
    data: String,
    /// How long the session outlives its last sign of life
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    session_timeout: Duration,
    /// Come back to a session instead of a new one
    #[arg(long, value_name = "ID")]
    session: Option<u64>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Run this while it is held
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub async fn run(command: SemCommand, output: Output) -> Result<ExitCode, Complaint> {
    match command {
        SemCommand::Acquire(args) => return acquire(args, output).await,
        SemCommand::List { after, page, place } => {
            let mut server = crate::connection::Connection::open(&place.server).await?;
            let request = v1::CoordSemaphoresRequest { node: place.node, after, limit: page.limit };
            let reply = server.cluster.coord_semaphores(request).await;
            let found = reply.map_err(|status| Complaint::from_status(&status))?.into_inner().semaphores;
            output.print(|| show::list_text(&found), || show::list_json(&found));
        }
        SemCommand::Create { name, limit, data, place } => {
            briefly(&place, async |session| session.create(&name, limit, data).await).await?;
            output.print(|| format!("made {name} with {limit} tokens"), || json!({ "name": name }));
        }
        SemCommand::Describe { name, place } => {
            let all = Include { owners: true, waiters: true };
            let found = briefly(&place, async |session| session.describe(&name, all).await).await?;
            output.print(|| show::text(&found), || show::json(&found));
        }
        SemCommand::Release { name, session, place } => {
            let options = SessionOptions { resume: Some(session), ..left_open(Duration::from_secs(10)) };
            let session = open(&place, options).await?;
            let released = answer(&place.server, session.release(&name)).await?;
            let _ = session.stop().await;
            let word = if released { "released" } else { "was not held" };
            output.print(|| word.to_owned(), || json!({ "released": released }));
        }
        SemCommand::Update { name, data, place } => {
            briefly(&place, async |session| session.update(&name, data).await).await?;
            output.print(|| format!("updated {name}"), || json!({ "name": name }));
        }
        SemCommand::Delete { name, force, place } => {
            let which = if force { Delete::Force } else { Delete::Idle };
            briefly(&place, async |session| session.delete(&name, which).await).await?;
            output.print(|| format!("deleted {name}"), || json!({ "deleted": name }));
        }
        SemCommand::Watch { name, once, place } => watch(&brief(&place).await?, &name, once, output).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks one question in a session of its own, which is gone with the answer.
async fn briefly<T>(place: &PlaceArgs, ask: impl AsyncFnOnce(&Session) -> Result<T, Error>) -> Result<T, Complaint> {
    let session = brief(place).await?;
    let answered = answer(&place.server, ask(&session)).await;
    // If that fails, it ends by itself.
    let _ = session.stop().await;
    answered
}

async fn brief(place: &PlaceArgs) -> Result<Session, Complaint> {
    open(place, SessionOptions { description: "shardine coord".to_owned(), ..SessionOptions::default() }).await
}

/// A session that another run of this program may come back to.
fn left_open(timeout: Duration) -> SessionOptions {
    SessionOptions {
        timeout,
        description: "shardine coord sem acquire".to_owned(),
        protection_key: Some(Vec::new()),
        resume: None,
    }
}

async fn watch(session: &Session, name: &str, once: bool, output: Output) -> Result<(), Complaint> {
    let mut states = session.follow(name, Watch::BOTH);
    for seen in 0_u64.. {
        let found = states.next().await.map_err(complaint)?;
        output.print(|| show::line(&found), || show::json(&found));
        if once && seen == 1 {
            break;
        }
    }
    Ok(())
}

async fn acquire(args: AcquireArgs, output: Output) -> Result<ExitCode, Complaint> {
    let mut options = SessionOptions { resume: args.session, ..left_open(args.session_timeout) };
    if !args.command.is_empty() && args.session.is_none() {
        // Held by this process alone.
        options.protection_key = None;
    }
    let session = open(&args.place, options).await?;
    let everything = if args.ephemeral { u64::MAX } else { 1 };
    let mut how = Acquire::tokens(args.count.unwrap_or(everything)).data(args.data);
    how = if args.ephemeral { how.ephemeral() } else { how };
    how = args.wait.map_or(how.clone(), |wait| how.within(wait));
    let fence = match take(&session, &args.name, how).await {
        Ok(fence) => fence,
        Err(complaint) => {
            // Else it would stay in line, or hold what nobody uses, until its timeout.
            let _ = session.stop().await;
            return Err(complaint);
        }
    };
    if !args.command.is_empty() {
        return hold::run(session, &args.command, fence).await;
    }
    let id = session.leave().await;
    output.print(
        || {
            let (name, held) = (&args.name, args.session_timeout);
            format!("session {id} holds {name} with order {fence} for {held:?}\nshardine coord sem release {name} --session {id}")
        },
        || json!({ "session": value::unsigned(id), "order_id": value::unsigned(fence) }),
    );
    Ok(ExitCode::SUCCESS)
}

/// Waits for the tokens, and says with which order they are held.
async fn take(session: &Session, name: &str, how: Acquire) -> Result<u64, Complaint> {
    let acquired = tokio::select! {
        acquired = session.acquire(name, how) => acquired.map_err(complaint)?,
        () = hold::interrupted() => {
            let what = format!("{name} was not waited for any longer");
            return Err(Complaint::failed(what, "a signal came", "the same again").coded(ErrorCode::Expired));
        }
    };
    if !acquired {
        let (what, remedy) = (format!("{name} was not free in time"), format!("shardine coord sem describe {name}"));
        return Err(Complaint::failed(what, "others hold it", remedy).coded(ErrorCode::Busy));
    }
    Ok(session.fence(name).await.map_err(complaint)?.unwrap_or_default())
}
