//! `get` and `scan`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;
use serde_json::json;
use shardine_proto::v1;

use crate::args::ServerArgs;
use crate::complaint::Complaint;
use crate::connection::Connection;
use crate::show::{self, Output};
use crate::{address, value};

#[derive(Args)]
pub struct GetArgs {
    /// table:key, or table:key@sort
    key: String,
    /// Fields to show; all without any
    fields: Vec<String>,
    /// Any replica may answer
    #[arg(long)]
    stale: bool,
    /// With --stale: how old the answer may be
    #[arg(long, requires = "stale", value_name = "MS")]
    max_age_ms: Option<u64>,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn get(args: GetArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let (table, row) = address::row(&mut connection, &args.key).await?;
    for field in &args.fields {
        value::type_of(&table, field)?;
    }
    let GetArgs { fields, stale, max_age_ms, .. } = args;
    let request = v1::GetRequest { row: Some(row), fields, known_version: None, stale, max_age_ms };
    let reply = connection.records.get(request).await.map_err(|status| Complaint::from_status(&status))?;
    let record = reply.into_inner().record.unwrap_or_default();
    output.print(|| show::record_text(&record), || show::record_json(&record));
    Ok(())
}

#[derive(Args)]
pub struct ScanArgs {
    /// table, or table:key for the rows of one key
    scope: String,
    /// First sort key, or its first part
    #[arg(long, value_name = "SORT", allow_hyphen_values = true)]
    from: Option<String>,
    /// As --from, excluding it
    #[arg(long, value_name = "SORT", conflicts_with = "from", allow_hyphen_values = true)]
    after: Option<String>,
    /// Last sort key, or its first part
    #[arg(long, value_name = "SORT", allow_hyphen_values = true)]
    to: Option<String>,
    /// As --to, excluding it
    #[arg(long, value_name = "SORT", conflicts_with = "to", allow_hyphen_values = true)]
    before: Option<String>,
    /// From the last row to the first
    #[arg(long)]
    desc: bool,
    /// Rows of a page
    #[arg(long, default_value_t = 100)]
    limit: u32,
    /// Where the previous page ended
    #[arg(long)]
    cursor: Option<String>,
    /// Fields to show, with commas between; all without any
    #[arg(long, value_delimiter = ',')]
    fields: Vec<String>,
    #[command(flatten)]
    server: ServerArgs,
}

pub async fn scan(args: ScanArgs, output: Output) -> Result<(), Complaint> {
    let mut connection = Connection::open(&args.server).await?;
    let (name, partition) = address::scope(&args.scope);
    let table = connection.table(name).await?;
    let bound = |including: &Option<String>, excluding: &Option<String>| match (including, excluding) {
        (Some(typed), _) => address::bound(&table, typed, false).map(Some),
        (None, Some(typed)) => address::bound(&table, typed, true).map(Some),
        (None, None) => Ok(None),
    };
    let cursor = args.cursor.as_ref().map(|cursor| URL_SAFE_NO_PAD.decode(cursor)).transpose().map_err(|_| {
        Complaint::misused("the cursor is not one of ours", "it was cut or changed", "copy it whole from the last page")
    })?;
    let request = v1::ScanRequest {
        table: name.to_owned(),
        partition,
        from: bound(&args.from, &args.after)?,
        to: bound(&args.to, &args.before)?,
        descending: args.desc,
        limit: args.limit,
        cursor: cursor.unwrap_or_default(),
        fields: args.fields,
    };
    let page = connection.records.scan(request).await.map_err(|status| Complaint::from_status(&status))?.into_inner();
    let next = (!page.next.is_empty()).then(|| URL_SAFE_NO_PAD.encode(&page.next));
    output.print(
        || page_text(&page.records),
        || json!({ "records": page.records.iter().map(show::record_json).collect::<Vec<_>>(), "next": next }),
    );
    match next {
        Some(next) => output.note(&format!("more: --cursor {next}")),
        None => output.note("end"),
    }
    Ok(())
}

fn page_text(records: &[v1::Record]) -> String {
    let rows = records.iter().map(|record| {
        let fields = record.fields.iter();
        let fields = fields.map(|field| format!("{}={}", show::field_name(field), value::text(field.value.as_ref())));
        let key = record.row.as_ref().map(show::row).unwrap_or_default();
        [key, record.version.to_string(), fields.collect::<Vec<_>>().join(" ")]
    });
    show::table(["KEY", "VERSION", "FIELDS"], rows.collect())
}
