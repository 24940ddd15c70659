//! `coord session …`.

use clap::Subcommand;
use serde_json::{Value as Json, json};
use shardine_proto::v1;

use super::{PageArgs, PlaceArgs};
use crate::complaint::Complaint;
use crate::connection::Connection;
use crate::show::{self, Output};
use crate::value;

#[derive(Subcommand)]
pub enum SessionCommand {
    /// Sessions of a node by id: whether a client is connected, and how much it holds or waits for
    #[command(after_help = "Example:\n  shardine coord session list\n  shardine coord session list --after 100 --json")]
    List {
        /// Go on behind this one
        #[arg(long, default_value_t = 0, value_name = "ID")]
        after: u64,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        place: PlaceArgs,
    },
}

pub async fn run(command: SessionCommand, output: Output) -> Result<(), Complaint> {
    let SessionCommand::List { after, page, place } = command;
    let mut server = Connection::open(&place.server).await?;
    let request = v1::CoordSessionsRequest { node: place.node, after, limit: page.limit };
    let reply = server.cluster.coord_sessions(request).await;
    let sessions = reply.map_err(|status| Complaint::from_status(&status))?.into_inner().sessions;
    output.print(|| text(&sessions), || json(&sessions));
    Ok(())
}

fn text(sessions: &[v1::CoordSession]) -> String {
    let rows = sessions.iter().map(|session| {
        [
            session.id.to_string(),
            if session.attached { "connected" } else { "detached" }.to_owned(),
            format!("{} ms", session.timeout_ms),
            session.claims.to_string(),
            session.description.clone(),
        ]
    });
    show::table(["SESSION", "STATE", "TIMEOUT", "SEMAPHORES", "DESCRIPTION"], rows.collect())
}

fn json(sessions: &[v1::CoordSession]) -> Json {
    let each = sessions.iter().map(|session| {
        json!({
            "id": value::unsigned(session.id),
            "attached": session.attached,
            "timeout_ms": value::unsigned(session.timeout_ms),
            "claims": value::unsigned(session.claims),
            "description": session.description,
        })
    });
    json!({ "sessions": each.collect::<Vec<_>>() })
}
