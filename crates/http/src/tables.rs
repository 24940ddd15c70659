//! Tables: list, create, show, add a field, drop.

use axum::Json as JsonReply;
use axum::extract::State;
use http::{StatusCode, request};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use shardine_model::{Backing, ErrorCode, Mapping, Refusal, SqlOptions, Table, limits};
use shardine_router::{FieldSpec, TableSpec};
use shardine_service::text;
use utoipa::ToSchema;

use crate::body::{self, Body};
use crate::gate::deadline;
use crate::problem::Problem;
use crate::record_path::RecordPath;
use crate::{Door, json, schemas};

/// A field of a definition.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FieldBody {
    #[schema(pattern = "^(?!__)[A-Za-z_][A-Za-z0-9_]{0,62}$")]
    name: String,
    /// int64, uint64, float64, string or blob
    #[serde(rename = "type")]
    #[schema(pattern = "^(int64|uint64|float64|string|blob)$")]
    kind: String,
    /// Absent means the zero of the type.
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Json>,
}

/// What a table is made of.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableBody {
    #[schema(pattern = "^(?!__)[A-Za-z_][A-Za-z0-9_]{0,62}$")]
    name: String,
    fields: Vec<FieldBody>,
    /// Up to two parts, int64 or string, that order rows inside one key.
    #[serde(default)]
    sort: Vec<FieldBody>,
    /// sql (the default) or none
    #[schema(pattern = "^(sql|none)$")]
    backing: Option<String>,
    /// How the table meets SQL.
    sql: Option<SqlBody>,
}

/// When changes go to SQL, who wins there, and which table is meant.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SqlBody {
    /// behind (the default), through or on-evict
    #[schema(pattern = "^(behind|through|on-evict)$")]
    mode: Option<String>,
    delay_ms: Option<u32>,
    batch: Option<u32>,
    /// cache-wins (the default), sql-wins or stop
    #[schema(pattern = "^(cache-wins|sql-wins|stop)$")]
    conflict: Option<String>,
    tombstone_keep_ms: Option<u64>,
    mapping: Option<MappingBody>,
    /// Tables whose rows go to SQL first, for foreign keys that lead there.
    #[serde(default)]
    after: Vec<String>,
}

/// An SQL table that was there before.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MappingBody {
    table: String,
    key: String,
    /// blob, string (the default) or int64
    #[schema(pattern = "^(blob|string|int64)$")]
    key_type: Option<String>,
    /// Absent: the table has none and is only read.
    version: Option<String>,
    /// One column per field, in the order of the fields; absent means of the same names.
    columns: Option<Vec<String>>,
    /// row (the default) or tombstone
    #[schema(pattern = "^(row|tombstone)$")]
    deletes: Option<String>,
}

#[utoipa::path(get, path = "/v1/tables", tag = "tables",
    responses((status = 200, description = "all definitions", body = schemas::TablesView)))]
pub(crate) async fn list(State(door): State<Door>) -> JsonReply<Json> {
    let tables: Vec<Json> = door.record_service.tables().iter().map(|table| table_out(table)).collect();
    JsonReply(json!({ "tables": tables }))
}

#[utoipa::path(post, path = "/v1/tables", tag = "tables", request_body = TableBody,
    responses((status = 201, description = "the definition", body = schemas::TableView)))]
pub(crate) async fn create(
    State(door): State<Door>,
    parts: request::Parts,
    body: Body,
) -> Result<(StatusCode, JsonReply<Json>), Problem> {
    let spec = spec(body::read(body)?)?;
    let table = door.record_service.create_table(spec, deadline(&parts)).await?;
    Ok((StatusCode::CREATED, JsonReply(table_out(&table))))
}

#[utoipa::path(get, path = "/v1/tables/{table}", tag = "tables", params(("table" = String, Path)),
    responses((status = 200, description = "the definition", body = schemas::TableView)))]
pub(crate) async fn show(State(door): State<Door>, parts: request::Parts) -> Result<JsonReply<Json>, Problem> {
    let table = door.record_service.table(&RecordPath::of(&parts.uri)?.table)?;
    Ok(JsonReply(table_out(&table)))
}

#[utoipa::path(post, path = "/v1/tables/{table}/fields", tag = "tables", params(("table" = String, Path)), request_body = FieldBody,
    responses((status = 200, description = "the new definition", body = schemas::TableView)))]
pub(crate) async fn add_field(
    State(door): State<Door>,
    parts: request::Parts,
    body: Body,
) -> Result<JsonReply<Json>, Problem> {
    let field = field(body::read(body)?)?;
    let table = door.record_service.add_field(RecordPath::of(&parts.uri)?.table, field, deadline(&parts)).await?;
    Ok(JsonReply(table_out(&table)))
}

#[utoipa::path(delete, path = "/v1/tables/{table}", tag = "tables", params(("table" = String, Path)),
    responses((status = 204, description = "dropped")))]
pub(crate) async fn remove(State(door): State<Door>, parts: request::Parts) -> Result<StatusCode, Problem> {
    door.record_service.drop_table(RecordPath::of(&parts.uri)?.table, deadline(&parts)).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn spec(body: TableBody) -> Result<TableSpec, Refusal> {
    let backing = match body.backing.as_deref() {
        None | Some("sql") => Backing::Sql,
        Some("none") => Backing::None,
        Some(other) => {
            return Err(Refusal::new(ErrorCode::BadRequest, format!("backing is sql or none, not {other:?}")));
        }
    };
    let sort = body.sort.into_iter().map(|part| Ok((part.name, text::parse_type(&part.kind)?)));
    let names: Vec<String> = body.fields.iter().map(|field| field.name.clone()).collect();
    Ok(TableSpec {
        sql: body.sql.map(|sql| sql_options(sql, names)).transpose()?.unwrap_or_default(),
        name: body.name,
        sort: sort.collect::<Result<_, Refusal>>()?,
        fields: body.fields.into_iter().map(field).collect::<Result<_, _>>()?,
        backing,
    })
}

fn sql_options(body: SqlBody, names: Vec<String>) -> Result<SqlOptions, Refusal> {
    let default = SqlOptions::default();
    let mapping = body.mapping.map(|mapping| {
        Ok::<_, Refusal>(Mapping {
            table: mapping.table,
            key: mapping.key,
            key_type: text::parse_type(mapping.key_type.as_deref().unwrap_or("string"))?,
            version: mapping.version,
            columns: mapping.columns.unwrap_or(names),
            deletes: mapping.deletes.as_deref().map(text::parse_deletes).transpose()?.unwrap_or_default(),
        })
    });
    Ok(SqlOptions {
        mode: body.mode.as_deref().map(text::parse_write_mode).transpose()?.unwrap_or_default(),
        delay_ms: body.delay_ms.unwrap_or(limits::WRITE_DELAY_MS),
        batch: body.batch.unwrap_or(default.batch),
        conflict: body.conflict.as_deref().map(text::parse_conflict).transpose()?.unwrap_or_default(),
        tombstone_keep_ms: body.tombstone_keep_ms.unwrap_or(default.tombstone_keep_ms),
        mapping: mapping.transpose()?,
        after: body.after,
    })
}

fn field(body: FieldBody) -> Result<FieldSpec, Refusal> {
    let (kind, nullable) = text::parse_nullable_type(&body.kind)?;
    let default = body.default.map(|default| json::parse(kind, &body.name, &default)).transpose()?;
    Ok(FieldSpec { name: body.name, kind, nullable, default })
}

fn table_out(table: &Table) -> Json {
    let fields: Vec<FieldBody> = table
        .fields
        .iter()
        .map(|field| FieldBody {
            name: field.name.clone(),
            kind: field.type_text(),
            default: Some(json::value(&field.default)),
        })
        .collect();
    let sort: Vec<FieldBody> = table
        .sort
        .iter()
        .map(|part| FieldBody { name: part.name.clone(), kind: part.kind.name().into_owned(), default: None })
        .collect();
    json!({
        "name": table.name,
        "id": table.id.0,
        "definition_version": table.version,
        "fields": fields,
        "sort": sort,
        "backing": table.backing.name(),
        "dynamic": table.dynamic,
        "sql": (table.backing == Backing::Sql).then(|| sql_out(&table.sql)),
    })
}

fn sql_out(sql: &SqlOptions) -> Json {
    let mapping = sql.mapping.as_ref().map(|mapping| {
        json!({
            "table": mapping.table, "key": mapping.key, "key_type": mapping.key_type.name(),
            "version": mapping.version, "columns": mapping.columns, "deletes": mapping.deletes.name(),
        })
    });
    json!({
        "mode": sql.mode.name(), "delay_ms": sql.delay_ms, "batch": sql.batch, "conflict": sql.conflict.name(),
        "tombstone_keep_ms": sql.tombstone_keep_ms, "read_only": sql.is_read_only(), "mapping": mapping,
        "after": sql.after,
    })
}
