//! `kick` and `flush`.

use clap::Args;
use serde_json::json;
use shardine_proto::v1;

use crate::address;
use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::connection::Connection;
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
    let mut connection = Connection::open(&args.server).await?;
    let (_, row) = address::row(&mut connection, &args.key).await?;
    let request = v1::KickRequest { row: Some(row), nowait: args.nowait };
    connection.records.kick(request).await.map_err(|status| Complaint::from_status(&status))?;
    output.print(|| "kicked".to_owned(), || json!({ "kicked": true }));
    Ok(())
}

#[derive(Args)]
pub struct FlushArgs {
    /// A table, or a record as table:key; all tables without one
    #[arg(value_name = "TABLE|KEY")]
    what: Option<String>,
    /// Of a record: wait for this version, which a change has told, or a newer one
    #[arg(long, value_name = "VERSION", allow_negative_numbers = true, requires = "what")]
    version: Option<i64>,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn flush(args: FlushArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let scope = match &args.what {
        Some(key) if key.contains(':') => {
            let (_, row) = address::row(&mut connection, key).await?;
            v1::flush_request::Scope::Row(row)
        }
        Some(table) => v1::flush_request::Scope::Table(table.clone()),
        None => v1::flush_request::Scope::All(true),
    };
    let request = v1::FlushRequest { scope: Some(scope), version: args.version };
    connection.records.flush(request).await.map_err(|status| Complaint::from_status(&status))?;
    output.print(|| "SQL has it".to_owned(), || json!({ "flushed": true }));
    Ok(())
}
