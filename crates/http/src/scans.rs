//! Pages: of a whole table in routing order, or of one partition in sort order.

use axum::Json as JsonReply;
use axum::extract::State;
use http::request;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use shardine_model::{ErrorCode, Refusal, Table};
use shardine_service::{Edge, Page, Scan, address};
use utoipa::ToSchema;

use crate::gate::deadline;
use crate::problem::Problem;
use crate::record_path::RecordPath;
use crate::{Door, body, json, query, schemas};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableParameters {
    cursor: Option<String>,
    limit: Option<usize>,
    fields: Option<String>,
}

/// Which way rows of one key are read.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Direction {
    Asc,
    Desc,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartitionParameters {
    from: Option<String>,
    after: Option<String>,
    to: Option<String>,
    before: Option<String>,
    order: Option<Direction>,
    limit: Option<usize>,
    cursor: Option<String>,
    fields: Option<String>,
}

#[utoipa::path(get, path = "/v1/tables/{table}/records", tag = "records",
    params(("table" = String, Path), ("cursor" = Option<String>, Query, description = "what the previous page gave as next"),
        ("limit" = Option<usize>, Query), ("fields" = Option<String>, Query)),
    responses((status = 200, description = "records, and next unless this is the end; a page may be short and still have a next", body = schemas::PageView)))]
pub(crate) async fn table(State(door): State<Door>, parts: request::Parts) -> Result<JsonReply<Json>, Problem> {
    let parameters: TableParameters = query::read(&parts.uri)?;
    let scan = Scan {
        table: RecordPath::of(&parts.uri)?.table,
        limit: parameters.limit.unwrap_or(0),
        cursor: body::cursor(parameters.cursor.as_deref())?,
        fields: names(parameters.fields),
        ..Scan::default()
    };
    Ok(page_out(&door.record_service.scan(scan, deadline(&parts)).await?))
}

#[utoipa::path(get, path = "/v1/tables/{table}/partitions/{key}", tag = "records",
    params(("table" = String, Path), ("key" = String, Path),
        ("from" = Option<String>, Query, description = "first sort key, parts joined by commas, or its first part"),
        ("after" = Option<String>, Query, description = "as from, excluding it"), ("to" = Option<String>, Query, description = "last sort key"),
        ("before" = Option<String>, Query, description = "as to, excluding it"), ("order" = Option<Direction>, Query),
        ("limit" = Option<usize>, Query), ("cursor" = Option<String>, Query), ("fields" = Option<String>, Query)),
    responses((status = 200, description = "records in sort order, and next unless this is the end", body = schemas::PageView)))]
pub(crate) async fn partition(State(door): State<Door>, parts: request::Parts) -> Result<JsonReply<Json>, Problem> {
    let parameters: PartitionParameters = query::read(&parts.uri)?;
    let place = RecordPath::of(&parts.uri)?;
    let table = door.record_service.table(&place.table)?;
    let descending = matches!(parameters.order, Some(Direction::Desc));
    let scan = Scan {
        table: place.table,
        partition: Some(place.key),
        from: edge(&table, parameters.from, parameters.after)?,
        to: edge(&table, parameters.to, parameters.before)?,
        descending,
        limit: parameters.limit.unwrap_or(0),
        cursor: body::cursor(parameters.cursor.as_deref())?,
        fields: names(parameters.fields),
    };
    Ok(page_out(&door.record_service.scan(scan, deadline(&parts)).await?))
}

fn edge(table: &Table, including: Option<String>, excluding: Option<String>) -> Result<Option<Edge>, Refusal> {
    let (text, exclusive) = match (including, excluding) {
        (Some(_), Some(_)) => {
            let message = "from and after exclude each other, as do to and before";
            return Err(Refusal::new(ErrorCode::BadRequest, message));
        }
        (Some(text), None) => (text, false),
        (None, Some(text)) => (text, true),
        (None, None) => return Ok(None),
    };
    Ok(Some(Edge { parts: address::parse_sort(&text, &table.sort_types())?, exclusive }))
}

fn names(fields: Option<String>) -> Vec<Vec<u8>> {
    fields.map(|names| names.split(',').map(|name| name.as_bytes().to_vec()).collect()).unwrap_or_default()
}

fn page_out(page: &Page) -> JsonReply<Json> {
    let records: Vec<Json> = page.records.iter().map(json::record).collect();
    JsonReply(json!({ "records": records, "next": page.next.as_deref().map(body::cursor_out) }))
}
