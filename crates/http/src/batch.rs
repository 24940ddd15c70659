//! Commands on one partition at one moment, all or none.

use axum::Json as JsonReply;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::request;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use shardine_model::command::Existence;
use shardine_model::{ErrorCode, Refusal, Table, Version};
use shardine_service::{BatchOrder, Deed, Get, Item, Order, RowAddress, Terms};
use utoipa::ToSchema;

use crate::body::{self, Body};
use crate::gate::deadline;
use crate::problem::Problem;
use crate::record_path::sort_of;
use crate::records::{Acknowledged, ChangeParameters, Returned, changed_out, delivery, expiry, give};
use crate::{Door, query, schemas};

/// What must hold, and what is then done.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    /// Executed in this order; each sees what those before it did.
    commands: Vec<CommandBody>,
    /// Records that must be at these versions; 0 means never written.
    #[serde(default)]
    conditions: Vec<ConditionBody>,
}

/// A record, and one of `get`, `set`, `insert`, `replace`, `update`, `cas`, `incr`, `delete`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandBody {
    table: String,
    /// Raw, as everywhere here: braces belong to it.
    key: Option<String>,
    /// Instead of `key`, for keys that are not text.
    key_base64: Option<String>,
    /// The sort key, parts joined by commas.
    sort: Option<String>,
    /// Names of fields; an empty list means all.
    get: Option<Vec<String>>,
    #[schema(value_type = Option<schemas::Fields>)]
    set: Option<Map<String, Json>>,
    #[schema(value_type = Option<schemas::Fields>)]
    insert: Option<Map<String, Json>>,
    #[schema(value_type = Option<schemas::Fields>)]
    replace: Option<Map<String, Json>>,
    /// Operations: `[{"op": "+", "field": "age", "value": 1}]`.
    #[schema(value_type = Option<Vec<body::Operation>>)]
    update: Option<Vec<Json>>,
    /// With `update`: makes the record if it is absent.
    #[serde(default)]
    create: bool,
    #[schema(value_type = Option<body::Cas>)]
    cas: Option<Json>,
    #[schema(value_type = Option<body::Incr>)]
    incr: Option<Json>,
    #[serde(default)]
    delete: bool,
    /// Only at this version.
    if_version: Option<i64>,
    /// Only if there is such a record (true), or none (false).
    exists: Option<bool>,
    ttl_ms: Option<u64>,
    #[serde(default)]
    persist: bool,
    #[serde(rename = "return")]
    give: Option<Returned>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConditionBody {
    table: String,
    key: Option<String>,
    key_base64: Option<String>,
    sort: Option<String>,
    version: i64,
}

#[utoipa::path(post, path = "/v1/batch", tag = "records", request_body = BatchBody,
    params(("ack" = Option<Acknowledged>, Query), ("client" = Option<u64>, Query), ("sequence" = Option<u64>, Query, minimum = 1),
        ("lowest" = Option<u64>, Query), ("again" = Option<bool>, Query)),
    responses((status = 200, description = "what each command did", body = schemas::BatchView)))]
pub(crate) async fn batch(
    State(door): State<Door>,
    parts: request::Parts,
    body: Body,
) -> Result<JsonReply<Json>, Problem> {
    let parameters: ChangeParameters = query::read(&parts.uri)?;
    let body: BatchBody = body::read(body)?;
    let deleted: Vec<bool> = body.commands.iter().map(|command| command.delete).collect();
    let order = BatchOrder {
        conditions: body.conditions.into_iter().map(|it| condition(&door, it)).collect::<Result<_, Problem>>()?,
        items: body.commands.into_iter().map(|it| item(&door, it)).collect::<Result<_, Problem>>()?,
        delivery: delivery(&parameters)?,
    };
    let changed = door.record_service.batch(order, deadline(&parts)).await?;
    let replies: Vec<Json> =
        changed.iter().zip(deleted).map(|(changed, deleted)| changed_out(changed, deleted)).collect();
    Ok(JsonReply(json!({ "replies": replies })))
}

fn condition(door: &Door, given: ConditionBody) -> Result<(RowAddress, Version), Problem> {
    let table = door.record_service.table(&given.table)?;
    let row = row(&table, given.key, given.key_base64, given.sort.as_deref())?;
    Ok((row, Version(given.version)))
}

fn item(door: &Door, given: CommandBody) -> Result<Item, Problem> {
    let table = door.record_service.table(&given.table)?;
    let row = row(&table, given.key.clone(), given.key_base64.clone(), given.sort.as_deref())?;
    if let Some(names) = &given.get {
        let others = deeds(&table, &given)?;
        return match &others[..] {
            [] => Ok(Item::Read(Get {
                row,
                fields: names.iter().map(|name| name.clone().into_bytes()).collect(),
                ..Get::default()
            })),
            [..] => Err(one_each().into()),
        };
    }
    let mut deeds = deeds(&table, &given)?;
    match (deeds.pop(), deeds.is_empty()) {
        (Some(deed), true) => Ok(Item::Change(Order { row, terms: terms(&given)?, deed })),
        (_, _) => Err(one_each().into()),
    }
}

fn one_each() -> Refusal {
    let message = "a command has one of get, set, insert, replace, update, cas, incr and delete";
    Refusal::new(ErrorCode::BadRequest, message)
}

/// Everything that a command wants done; more than one thing is a mistake.
fn deeds(table: &Table, given: &CommandBody) -> Result<Vec<Deed>, Refusal> {
    let mut deeds = Vec::new();
    let fields = |object: &Map<String, Json>| body::fields(table, object);
    if let Some(object) = &given.set {
        deeds.push(Deed::Set(fields(object)?));
    }
    if let Some(object) = &given.insert {
        deeds.push(Deed::Insert(fields(object)?));
    }
    if let Some(object) = &given.replace {
        deeds.push(Deed::Replace(fields(object)?));
    }
    if let Some(operations) = &given.update {
        deeds.push(body::update(table, operations, given.create)?);
    }
    if let Some(cas) = &given.cas {
        deeds.push(body::cas(table, cas)?);
    }
    if let Some(incr) = &given.incr {
        deeds.push(body::incr(table, incr)?);
    }
    if given.delete {
        deeds.push(Deed::Delete);
    }
    Ok(deeds)
}

fn terms(given: &CommandBody) -> Result<Terms, Refusal> {
    Ok(Terms {
        if_version: given.if_version.map(Version),
        existence: match given.exists {
            None => Existence::default(),
            Some(true) => Existence::Live,
            Some(false) => Existence::Absent,
        },
        give: give(given.give),
        expiry: expiry(given.ttl_ms, given.persist)?,
    })
}

fn row(table: &Table, key: Option<String>, base64: Option<String>, sort: Option<&str>) -> Result<RowAddress, Refusal> {
    let bad = |message: &str| Refusal::new(ErrorCode::BadRequest, message);
    let key = match (key, base64) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(text)) => STANDARD.decode(text).map_err(|_| bad("key_base64 is not base64"))?,
        (_, _) => return Err(bad("a command names its record by key, or by key_base64")),
    };
    Ok(RowAddress { table: table.name.clone(), key, sort: sort_of(table, sort)? })
}
