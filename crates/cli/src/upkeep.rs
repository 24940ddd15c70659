//! `kick` and `flush`.

use clap::Args;
use serde_json::json;
use shardine_proto::v1;

use crate::address;
use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::session::Session;
use crate::show::Output;

#[derive(Args)]
pub struct KickArgs {
    /// table:key, or table:key@sort
    key: String,
    /// Fail at once if SQL does not have it yet
    #[arg(long)]
    nowait: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn kick(args: KickArgs, output: Output) -> Result<(), Complaint> {
    let mut session = Session::open(&args.server).await?;
    let (_, row) = address::row(&mut session, &args.key).await?;
    let request = v1::KickRequest { row: Some(row), nowait: args.nowait };
    session.records.kick(request).await.map_err(|status| Complaint::from_status(&status))?;
    output.print(|| "kicked".to_owned(), || json!({ "kicked": true }));
    Ok(())
}

#[derive(Args)]
pub struct FlushArgs {
    /// All tables without one
    table: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn flush(args: FlushArgs, output: Output) -> Result<(), Complaint> {
    let mut session = Session::open(&args.server).await?;
    let scope = match args.table {
        Some(table) => v1::flush_request::Scope::Table(table),
        None => v1::flush_request::Scope::All(true),
    };
    let request = v1::FlushRequest { scope: Some(scope) };
    session.records.flush(request).await.map_err(|status| Complaint::from_status(&status))?;
    output.print(|| "SQL has everything".to_owned(), || json!({ "flushed": true }));
    Ok(())
}
