//! One record: read, replace, set, insert, update, delete.

use axum::Json as JsonReply;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ETAG, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, request};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use shardine_model::command::{Existence, Give};
use shardine_model::{AckAfter, ErrorCode, Refusal, Table, Version};
use shardine_service::{Changed, Deed, Delivery, Expiry, Get, Numbered, Order, RowAddress, Terms};
use utoipa::ToSchema;

use crate::body::{self, Body};
use crate::gate::deadline;
use crate::problem::Problem;
use crate::record_path::{RecordPath, sort_of};
use crate::{Door, json, query, schemas};

/// How far the log was applied in the state that a stale read saw.
const APPLIED_INDEX: HeaderName = HeaderName::from_static("applied-index");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetParameters {
    sort: Option<String>,
    /// Names with commas between them.
    fields: Option<String>,
    /// Any replica may answer, with a state that is this old.
    #[serde(default)]
    stale: bool,
    max_age_ms: Option<u64>,
}

/// Which record a change shows.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Returned {
    Old,
    New,
    Touched,
}

/// Who must have a change before it is answered.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Acknowledged {
    Raft,
    Sql,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeParameters {
    sort: Option<String>,
    ttl_ms: Option<u64>,
    #[serde(default)]
    persist: bool,
    #[serde(rename = "return")]
    give: Option<Returned>,
    ack: Option<Acknowledged>,
    client: Option<u64>,
    sequence: Option<u64>,
    lowest: Option<u64>,
    #[serde(default)]
    again: bool,
}

#[utoipa::path(get, path = "/v1/tables/{table}/records/{key}", tag = "records",
    params(("table" = String, Path), ("key" = String, Path, description = "percent-encoded bytes"),
        ("sort" = Option<String>, Query, description = "the sort key, parts joined by commas"),
        ("fields" = Option<String>, Query, description = "names joined by commas; all without it"),
        ("stale" = Option<bool>, Query, description = "any replica may answer, at once, with an older state; its place in the log stands in Applied-Index"),
        ("max_age_ms" = Option<u64>, Query, description = "with stale: how old it may be; any age without it"),
        ("If-None-Match" = Option<String>, Header, description = "a known version; 304 if it still holds")),
    responses((status = 200, description = "the record, its version in ETag", body = schemas::RecordView),
        (status = 304, description = "unchanged")))]
pub(crate) async fn get(State(door): State<Door>, parts: request::Parts) -> Result<Response, Problem> {
    let parameters: GetParameters = query::read(&parts.uri)?;
    let (_, row) = address(&door, &parts, parameters.sort.as_deref())?;
    let fields = parameters.fields.map(|names| names.split(',').map(|name| name.as_bytes().to_vec()).collect());
    let known_version = match parts.headers.get(IF_NONE_MATCH) {
        Some(tag) => Some(version_of(tag)?),
        None => None,
    };
    let max_age_ms = parameters.stale.then(|| parameters.max_age_ms.unwrap_or(u64::MAX));
    let get = Get { row, fields: fields.unwrap_or_default(), known_version, max_age_ms };
    let got = door.record_service.get(get, deadline(&parts)).await?;
    let tag = etag(got.record.version);
    let mut response = match got.unchanged {
        true => (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response(),
        false => ([(ETAG, tag)], JsonReply(json::record(&got.record))).into_response(),
    };
    if let Some(applied) = got.applied {
        response.headers_mut().insert(APPLIED_INDEX, HeaderValue::from(applied));
    }
    Ok(response)
}

#[utoipa::path(put, path = "/v1/tables/{table}/records/{key}", tag = "records",
    params(("table" = String, Path), ("key" = String, Path, description = "percent-encoded bytes"),
        ("sort" = Option<String>, Query, description = "the sort key, parts joined by commas"),
        ("ttl_ms" = Option<u64>, Query), ("persist" = Option<bool>, Query),
        ("return" = Option<Returned>, Query), ("ack" = Option<Acknowledged>, Query),
        ("client" = Option<u64>, Query), ("sequence" = Option<u64>, Query, minimum = 1),
        ("lowest" = Option<u64>, Query, description = "the lowest sequence whose answer the client does not have"),
        ("again" = Option<bool>, Query, description = "the request was sent before"),
        ("If-Match" = Option<String>, Header, description = "the version to change, or * for any that lives"),
        ("If-None-Match" = Option<String>, Header, description = "* to create only")),
    request_body(content = schemas::Fields, description = "fields by name; those not named return to their defaults"),
    responses((status = 200, description = "version, sql_version, changed", body = schemas::ChangeView)))]
pub(crate) async fn replace(State(door): State<Door>, parts: request::Parts, body: Body) -> Result<Response, Problem> {
    let object: Map<String, Json> = body::read(body)?;
    submit(&door, &parts, |table| Ok(Deed::Replace(body::fields(table, &object)?))).await
}

#[utoipa::path(patch, path = "/v1/tables/{table}/records/{key}", tag = "records",
    params(("table" = String, Path), ("key" = String, Path, description = "percent-encoded bytes"),
        ("sort" = Option<String>, Query, description = "the sort key, parts joined by commas"),
        ("ttl_ms" = Option<u64>, Query), ("persist" = Option<bool>, Query),
        ("return" = Option<Returned>, Query), ("ack" = Option<Acknowledged>, Query),
        ("client" = Option<u64>, Query), ("sequence" = Option<u64>, Query, minimum = 1),
        ("lowest" = Option<u64>, Query, description = "the lowest sequence whose answer the client does not have"),
        ("again" = Option<bool>, Query, description = "the request was sent before"),
        ("If-Match" = Option<String>, Header, description = "the version to change, or * for any that lives"),
        ("If-None-Match" = Option<String>, Header, description = "* to create only")),
    request_body(content = schemas::Fields, description = "fields to set; the others stay"),
    responses((status = 200, description = "version, sql_version, changed", body = schemas::ChangeView)))]
pub(crate) async fn set(State(door): State<Door>, parts: request::Parts, body: Body) -> Result<Response, Problem> {
    let object: Map<String, Json> = body::read(body)?;
    submit(&door, &parts, |table| Ok(Deed::Set(body::fields(table, &object)?))).await
}

#[utoipa::path(post, path = "/v1/tables/{table}/records/{key}", tag = "records",
    params(("table" = String, Path), ("key" = String, Path, description = "percent-encoded bytes"),
        ("sort" = Option<String>, Query, description = "the sort key, parts joined by commas"),
        ("ttl_ms" = Option<u64>, Query), ("persist" = Option<bool>, Query),
        ("return" = Option<Returned>, Query), ("ack" = Option<Acknowledged>, Query),
        ("client" = Option<u64>, Query), ("sequence" = Option<u64>, Query, minimum = 1),
        ("lowest" = Option<u64>, Query, description = "the lowest sequence whose answer the client does not have"),
        ("again" = Option<bool>, Query, description = "the request was sent before"),
        ("If-Match" = Option<String>, Header, description = "the version to change, or * for any that lives"),
        ("If-None-Match" = Option<String>, Header, description = "* to create only")),
    request_body(content = body::PostBody,
        description = "fields to insert, or {\"update\": [{\"op\": \"+\", \"field\": \"age\", \"value\": 1}], \"create\": true}, {\"cas\": {\"field\", \"old\", \"new\", \"create\"}}, {\"incr\": {\"field\", \"by\"}}"),
    responses((status = 200, description = "version, sql_version, changed", body = schemas::ChangeView),
        (status = 201, description = "inserted", body = schemas::ChangeView)))]
pub(crate) async fn change(State(door): State<Door>, parts: request::Parts, body: Body) -> Result<Response, Problem> {
    let object: Map<String, Json> = body::read(body)?;
    let mut inserted = false;
    let mut response = submit(&door, &parts, |table| {
        let deed = body::deed(table, &object)?;
        inserted = matches!(deed, Deed::Insert(_));
        Ok(deed)
    })
    .await?;
    if inserted {
        *response.status_mut() = StatusCode::CREATED;
    }
    Ok(response)
}

#[utoipa::path(delete, path = "/v1/tables/{table}/records/{key}", tag = "records",
    params(("table" = String, Path), ("key" = String, Path, description = "percent-encoded bytes"),
        ("sort" = Option<String>, Query, description = "the sort key, parts joined by commas"),
        ("ttl_ms" = Option<u64>, Query), ("persist" = Option<bool>, Query),
        ("return" = Option<Returned>, Query), ("ack" = Option<Acknowledged>, Query),
        ("client" = Option<u64>, Query), ("sequence" = Option<u64>, Query, minimum = 1),
        ("lowest" = Option<u64>, Query, description = "the lowest sequence whose answer the client does not have"),
        ("again" = Option<bool>, Query, description = "the request was sent before"),
        ("If-Match" = Option<String>, Header, description = "the version to change, or * for any that lives"),
        ("If-None-Match" = Option<String>, Header, description = "* to create only")),
    responses((status = 200, description = "version, sql_version, existed", body = schemas::ChangeView)))]
pub(crate) async fn delete(State(door): State<Door>, parts: request::Parts) -> Result<Response, Problem> {
    submit(&door, &parts, |_| Ok(Deed::Delete)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlushParameters {
    sort: Option<String>,
    version: Option<i64>,
}

#[utoipa::path(post, path = "/v1/tables/{table}/records/{key}/flush", tag = "records",
    params(("table" = String, Path), ("key" = String, Path), ("sort" = Option<String>, Query),
        ("version" = Option<i64>, Query, description = "the version that a change has told; without it the record as it is now")),
    responses((status = 200, description = "SQL has it", body = schemas::FlushedView)))]
pub(crate) async fn flush(State(door): State<Door>, parts: request::Parts) -> Result<Response, Problem> {
    let parameters: FlushParameters = query::read(&parts.uri)?;
    let (_, row) = address(&door, &parts, parameters.sort.as_deref())?;
    door.record_service.flush_row(&row, parameters.version.map(Version), deadline(&parts)).await?;
    Ok(JsonReply(json!({ "flushed": true })).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KickParameters {
    sort: Option<String>,
    #[serde(default)]
    nowait: bool,
}

#[utoipa::path(post, path = "/v1/tables/{table}/records/{key}/kick", tag = "records",
    params(("table" = String, Path), ("key" = String, Path), ("sort" = Option<String>, Query),
        ("nowait" = Option<bool>, Query, description = "busy at once if SQL does not have the record yet")),
    responses((status = 200, description = "the record has left memory; SQL has it", body = schemas::KickedView)))]
pub(crate) async fn kick(State(door): State<Door>, parts: request::Parts) -> Result<Response, Problem> {
    let parameters: KickParameters = query::read(&parts.uri)?;
    let (_, row) = address(&door, &parts, parameters.sort.as_deref())?;
    door.record_service.kick(&row, parameters.nowait, deadline(&parts)).await?;
    Ok(JsonReply(json!({ "kicked": true })).into_response())
}

async fn submit(
    door: &Door,
    parts: &request::Parts,
    deed: impl FnOnce(&Table) -> Result<Deed, Refusal>,
) -> Result<Response, Problem> {
    let parameters: ChangeParameters = query::read(&parts.uri)?;
    let (table, row) = address(door, parts, parameters.sort.as_deref())?;
    let deed = deed(&table)?;
    let deleted = matches!(deed, Deed::Delete);
    let order = Order { row, terms: terms(&parameters, &parts.headers)?, deed };
    let changed = door.record_service.change(order, delivery(&parameters)?, deadline(parts)).await?;
    Ok(([(ETAG, etag(changed.version))], JsonReply(changed_out(&changed, deleted))).into_response())
}

fn address(
    door: &Door,
    parts: &request::Parts,
    sort: Option<&str>,
) -> Result<(std::sync::Arc<Table>, RowAddress), Problem> {
    let place = RecordPath::of(&parts.uri)?;
    let table = door.record_service.table(&place.table)?;
    let sort = sort_of(&table, sort)?;
    Ok((table, RowAddress { table: place.table, key: place.key, sort }))
}

pub(crate) fn changed_out(changed: &Changed, deleted: bool) -> Json {
    let mut object = Map::new();
    object.insert("version".into(), json::integer(changed.version.0));
    object.insert("sql_version".into(), json::integer(changed.sql_version.0));
    if deleted {
        object.insert("existed".into(), json!(changed.changed > 0));
    } else {
        object.insert("changed".into(), json!(changed.changed));
    }
    if let Some(record) = changed.record.as_ref().filter(|_| !deleted || changed.changed > 0) {
        object.insert("record".into(), json::record(record));
    }
    Json::Object(object)
}

fn terms(parameters: &ChangeParameters, headers: &HeaderMap) -> Result<Terms, Refusal> {
    let mut terms = Terms::default();
    match headers.get(IF_MATCH).map(HeaderValue::as_bytes) {
        Some(b"*") => terms.existence = Existence::Live,
        Some(_) => terms.if_version = headers.get(IF_MATCH).map(version_of).transpose()?,
        None => {}
    }
    match headers.get(IF_NONE_MATCH).map(HeaderValue::as_bytes) {
        Some(b"*") => terms.existence = Existence::Absent,
        Some(_) => {
            return Err(Refusal::new(
                ErrorCode::BadRequest,
                "If-None-Match of a change is *, which means: create only",
            ));
        }
        None => {}
    }
    terms.give = give(parameters.give);
    terms.expiry = expiry(parameters.ttl_ms, parameters.persist)?;
    Ok(terms)
}

pub(crate) fn give(wanted: Option<Returned>) -> Give {
    match wanted {
        None => Give::Nothing,
        Some(Returned::Old) => Give::Old,
        Some(Returned::New) => Give::New,
        Some(Returned::Touched) => Give::Touched,
    }
}

pub(crate) fn expiry(ttl_ms: Option<u64>, persist: bool) -> Result<Expiry, Refusal> {
    match (ttl_ms, persist) {
        (Some(_), true) => Err(Refusal::new(ErrorCode::BadRequest, "ttl_ms and persist exclude each other")),
        (Some(ms), false) => Ok(Expiry::AfterMs(ms)),
        (None, true) => Ok(Expiry::Clear),
        (None, false) => Ok(Expiry::Keep),
    }
}

pub(crate) fn delivery(parameters: &ChangeParameters) -> Result<Delivery, Refusal> {
    let ack = match parameters.ack {
        None => AckAfter::Table,
        Some(Acknowledged::Raft) => AckAfter::Raft,
        Some(Acknowledged::Sql) => AckAfter::Sql,
    };
    let origin = match (parameters.client, parameters.sequence) {
        (Some(client), Some(sequence)) => {
            let (lowest, again) = (parameters.lowest, parameters.again);
            Some(Numbered { client, sequence, lowest, again }.origin()?)
        }
        (None, None) => None,
        (_, _) => return Err(Refusal::new(ErrorCode::BadRequest, "client and sequence go together")),
    };
    Ok(Delivery { origin, ack })
}

fn etag(version: Version) -> HeaderValue {
    HeaderValue::try_from(format!("\"{version}\"")).expect("a number between quotes is a header value")
}

/// `"7"`, the form of our own ETags.
fn version_of(tag: &HeaderValue) -> Result<Version, Refusal> {
    let number = tag.to_str().ok().and_then(|tag| tag.trim().trim_matches('"').parse().ok());
    number.map(Version).ok_or_else(|| {
        Refusal::new(ErrorCode::BadRequest, format!("{tag:?} is not a version between quotes, like \"7\""))
    })
}
