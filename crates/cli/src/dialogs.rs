//! `dialogs`: the chat service, in front of a cluster that may come later than it.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use shardine_client::Client;
use shardine_client::records::ErrorCode;
use shardine_dialogs::{Dialogs, Error, Options};
use shardine_service::GateOptions;
use tokio::net::TcpListener;

use crate::complaint::{Code, Complaint};
use crate::log::{self, LogFormat};
use crate::show::Output;
use crate::up::StopSignals;

/// Between two tries to reach a cluster that is not there yet.
const PAUSE: Duration = Duration::from_millis(500);

/// Where the token may stand, as the description of the service says.
const TOKEN_VARIABLE: &str = "DIALOGS_TOKEN";

#[derive(Args)]
#[command(
    after_help = "Example:\n  shardine dialogs --token SOME_SECRET_TOKEN\n  curl -XPOST http://127.0.0.1:8009/chats -d '{\"users\":[1, 2]}' -H \"Authorization:Bearer SOME_SECRET_TOKEN\""
)]
pub struct DialogsArgs {
    /// Where the service listens
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8009")]
    listen: SocketAddr,
    /// gRPC doors of the cluster, with commas between them
    #[arg(long, env = "SHARDINE_SERVER", default_value = "127.0.0.1:7400", value_name = "ADDR")]
    server: String,
    /// What requests to the service have to bring; a random one, which is printed, if nothing is said here or in `DIALOGS_TOKEN`
    #[arg(long, hide_env_values = true)]
    token: Option<String>,
    /// The token that the cluster was started with
    #[arg(long, env = "SHARDINE_TOKEN", hide_env_values = true)]
    server_token: Option<String>,
}

pub fn run(args: DialogsArgs, output: Output) -> Result<(), Complaint> {
    log::to_stderr(LogFormat::Text);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Complaint::from_io)?;
    runtime.block_on(serve(args, output))
}

async fn serve(args: DialogsArgs, output: Output) -> Result<(), Complaint> {
    let mut stop = StopSignals::new().map_err(Complaint::from_io)?;
    let client = client(&args)?;
    let listener = TcpListener::bind(args.listen).await.map_err(|error| {
        let what = format!("{} cannot be listened on", args.listen);
        Complaint::failed(what, error.to_string(), "--listen with another address").coded(Code::Listen)
    })?;
    let address = listener.local_addr().map_err(Complaint::from_io)?;
    let dialogs = tokio::select! {
        dialogs = start(&client, &args.server, output) => dialogs?,
        () = stop.wait() => return Ok(()),
    };
    let given = args.token.or_else(|| std::env::var(TOKEN_VARIABLE).ok()).filter(|token| !token.is_empty());
    let token = given.clone().unwrap_or_else(|| format!("{:032x}", rand::random::<u128>()));
    // A token that somebody gave is no news to him, and a secret to whoever reads the log.
    let told = given.is_none().then_some(&token);
    output.print(
        || {
            told.map_or_else(String::new, |token| format!("token {token}\n"))
                + &format!("listening on http://{address}")
        },
        || json!({ "address": address.to_string(), "token": told }),
    );
    let options = Options { gate: GateOptions { token: Some(token), ..GateOptions::default() } };
    shardine_dialogs::serve(dialogs, listener, options, async move { stop.wait().await }).await;
    Ok(())
}

fn client(args: &DialogsArgs) -> Result<Client, Complaint> {
    let misused = |error: shardine_client::Error| {
        Complaint::misused("the cluster cannot be asked", error.to_string(), "--server 127.0.0.1:7400")
    };
    let client = Client::new(&args.server).map_err(misused)?;
    match args.server_token.as_deref().filter(|token| !token.is_empty()) {
        Some(token) => client.with_token(token).map_err(misused),
        None => Ok(client),
    }
}

/// Waits for a cluster that is not there yet: whatever is started first, both find each other (sharding B-62).
async fn start(client: &Client, server: &str, output: Output) -> Result<Dialogs, Complaint> {
    let mut has_told = false;
    loop {
        let error = match Dialogs::start(client).await {
            Ok(dialogs) => return Ok(dialogs),
            Err(error) => error,
        };
        if !may_pass(&error) {
            let remedy = "a cluster of its own for the service, or --server-token";
            return Err(Complaint::failed("the service cannot begin", error.to_string(), remedy).coded(error.code()));
        }
        if !has_told {
            output.note(&format!("waiting for Shardine at {server}: {error}"));
            has_told = true;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn may_pass(error: &Error) -> bool {
    let never = [ErrorCode::Unauthenticated, ErrorCode::Forbidden, ErrorCode::Internal, ErrorCode::BadRequest];
    !never.contains(&error.code())
}
