//! Bodies of changes: the fields of a record, or one of the other things that can be done to it.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use shardine_model::{ErrorCode, FieldType, Refusal, Table, Value};
use shardine_service::{Deed, Step, StepOperator};
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::{json, schemas};

pub(crate) type Body = Result<Bytes, BytesRejection>;

pub(crate) fn read<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    let bytes = body.map_err(|rejection| {
        let code = if rejection.status() == 413 { ErrorCode::TooLarge } else { ErrorCode::BadRequest };
        Problem::new(code, rejection.body_text())
    })?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Problem::new(ErrorCode::BadRequest, format!("the body is not the JSON expected here: {error}"))
    })
}

/// Fields of a record: `{"age": 10}`, or as a record shows them, `{"fields": {"age": 10}}`. A field never holds an
/// object, so the two cannot be confused.
pub(crate) fn fields(table: &Table, object: &Map<String, Json>) -> Result<Vec<(Vec<u8>, Value)>, Refusal> {
    let object = match object.get("fields") {
        Some(Json::Object(fields)) => fields,
        Some(_) | None => object,
    };
    object.iter().map(|(name, given)| Ok((name.clone().into_bytes(), json::parse_field(table, name, given)?))).collect()
}

/// What `POST` does: `{"insert": {…}}` (or just the fields), `{"update": […], "create": true}`, `{"cas": {…}}` or `{"incr": {…}}`.
pub(crate) fn deed(table: &Table, object: &Map<String, Json>) -> Result<Deed, Refusal> {
    match (object.get("insert"), object.get("update"), object.get("cas"), object.get("incr")) {
        (Some(Json::Object(given)), None, None, None) => Ok(Deed::Insert(fields(table, given)?)),
        (None, Some(Json::Array(operations)), None, None) => {
            update(table, operations, object.get("create") == Some(&Json::Bool(true)))
        }
        (None, None, Some(given @ Json::Object(_)), None) => cas(table, given),
        (None, None, None, Some(given @ Json::Object(_))) => incr(table, given),
        (_, _, _, _) => Ok(Deed::Insert(fields(table, object)?)),
    }
}

pub(crate) fn update(table: &Table, operations: &[Json], create: bool) -> Result<Deed, Refusal> {
    let steps = operations.iter().map(|operation| step(table, operation)).collect::<Result<_, _>>()?;
    Ok(Deed::Update { create, steps })
}

/// What `POST` takes: one of these, or the fields of a new record.
#[allow(dead_code, reason = "only its shape is used, by the document; `deed` reads it")]
#[derive(ToSchema)]
pub(crate) struct PostBody {
    insert: Option<schemas::Fields>,
    update: Option<Vec<Operation>>,
    /// With `update`: makes the record if it is absent.
    create: Option<bool>,
    cas: Option<Cas>,
    incr: Option<Incr>,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cas {
    field: String,
    #[schema(value_type = schemas::FieldValue)]
    old: Json,
    #[schema(value_type = schemas::FieldValue)]
    new: Json,
    #[serde(default)]
    create: bool,
}

pub(crate) fn cas(table: &Table, given: &Json) -> Result<Deed, Refusal> {
    let Cas { field, old, new, create } = shaped("cas", given)?;
    let old = json::parse_field(table, &field, &old)?;
    let new = json::parse_field(table, &field, &new)?;
    Ok(Deed::Cas { create, field: field.into_bytes(), old, new })
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Incr {
    field: String,
    /// 1 without it.
    #[schema(value_type = Option<schemas::FieldValue>)]
    by: Option<Json>,
}

pub(crate) fn incr(table: &Table, given: &Json) -> Result<Deed, Refusal> {
    let Incr { field, by } = shaped("incr", given)?;
    let by = by.map_or(Ok(Value::Int(1)), |by| amount(table, &field, &by))?;
    Ok(Deed::Incr { field: field.into_bytes(), by })
}

/// A number for arithmetic, of whatever type it can be; the service makes it suit the field.
fn amount(table: &Table, field: &str, given: &Json) -> Result<Value, Refusal> {
    let kinds = [FieldType::Int64, FieldType::Uint64, FieldType::Float64];
    let found = kinds.into_iter().find_map(|kind| json::parse(kind, field, given).ok());
    found.map_or_else(|| json::parse_field(table, field, given), Ok)
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Operation {
    /// = + - & | ^ min max append splice unset
    op: String,
    field: String,
    #[schema(value_type = Option<schemas::FieldValue>)]
    #[serde(default, deserialize_with = "given")]
    value: Option<Json>,
    at: Option<i64>,
    cut: Option<u64>,
}

/// A `null` that is there is a value, and not the lack of one.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

fn step(table: &Table, given: &Json) -> Result<Step, Refusal> {
    let Operation { op, field, value, at, cut } = shaped("an operation", given)?;
    let missing = || Refusal::new(ErrorCode::BadRequest, format!("operation {op:?} on {field} needs a value"));
    let operand = || -> Result<Value, Refusal> {
        let given = value.as_ref().ok_or_else(missing)?;
        if table.dynamic { amount(table, &field, given) } else { json::parse_field(table, &field, given) }
    };
    let operator = match op.as_str() {
        "=" => StepOperator::Assign(json::parse_field(table, &field, value.as_ref().ok_or_else(missing)?)?),
        "+" => StepOperator::Add(operand()?),
        "-" => StepOperator::Subtract(operand()?),
        "&" => StepOperator::And(operand()?),
        "|" => StepOperator::Or(operand()?),
        "^" => StepOperator::Xor(operand()?),
        "min" => StepOperator::Min(operand()?),
        "max" => StepOperator::Max(operand()?),
        "append" => StepOperator::Append(bytes(table, &field, value.as_ref().ok_or_else(missing)?)?),
        "splice" => {
            let paste = value.as_ref().map_or(Ok(Vec::new()), |given| bytes(table, &field, given))?;
            StepOperator::Splice { at: at.unwrap_or(0), cut: cut.unwrap_or(0), paste }
        }
        "unset" => StepOperator::Unset,
        _ => {
            let message = format!("operation {op:?} is not one of = + - & | ^ min max append splice unset");
            return Err(Refusal::new(ErrorCode::BadRequest, message));
        }
    };
    Ok(Step { field: field.into_bytes(), operator })
}

/// What is appended or pasted: text into strings, base64 into blobs.
fn bytes(table: &Table, field: &str, given: &Json) -> Result<Vec<u8>, Refusal> {
    match json::parse_field(table, field, given)? {
        Value::Str(text) => Ok(text.into_bytes()),
        Value::Blob(bytes) => Ok(bytes),
        other => {
            let kind = other.as_ref().kind_name();
            Err(Refusal::new(ErrorCode::WrongType, format!("field {field} is {kind}: it has no bytes to append to")))
        }
    }
}

fn shaped<T: DeserializeOwned>(what: &str, given: &Json) -> Result<T, Refusal> {
    T::deserialize(given).map_err(|error| Refusal::new(ErrorCode::BadRequest, format!("{what} is malformed: {error}")))
}

/// Cursors are bytes of the engine's own making.
pub(crate) fn cursor(text: Option<&str>) -> Result<Option<Vec<u8>>, Refusal> {
    let decoded = text.map(|text| base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text)).transpose();
    decoded.map_err(|_| Refusal::new(ErrorCode::BadRequest, "the cursor is not one that a page gave as `next`"))
}

pub(crate) fn cursor_out(cursor: &[u8]) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(cursor)
}

/// Bytes that are shown for people: text where they are text.
pub(crate) fn shown(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => Json::String(text.to_owned()),
        Err(_) => serde_json::json!({ "base64": STANDARD.encode(bytes) }),
    }
}
