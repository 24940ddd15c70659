//! Values between text, JSON and protobuf.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use shardine_model::value::{DECIMAL_DIGITS_MAX, SECOND_DIGITS_MAX};
use shardine_model::{ErrorCode, FieldType, Refusal, SqlValue, Value};
use shardine_proto::v1;
use shardine_proto::v1::value::Kind;
use shardine_service::text as desk_text;

use crate::complaint::Complaint;

const EXACT_MAX: u64 = 1 << 53;

/// How NULL is shown, and typed where no text could stand.
const NULL: &str = "NULL";

/// Integers beyond 2^53 are strings, as in the HTTP door.
pub fn integer(number: i64) -> Json {
    if number.unsigned_abs() <= EXACT_MAX { json!(number) } else { json!(number.to_string()) }
}

pub fn unsigned(number: u64) -> Json {
    if number <= EXACT_MAX { json!(number) } else { json!(number.to_string()) }
}

pub fn json(value: Option<&v1::Value>) -> Json {
    match value.and_then(|value| value.kind.as_ref()) {
        Some(Kind::Int64(number)) => integer(*number),
        Some(Kind::Uint64(number)) => unsigned(*number),
        Some(Kind::Float64(number)) => json!(number),
        Some(Kind::String(text)) => json!(text),
        Some(Kind::Blob(bytes)) => json!(STANDARD.encode(bytes)),
        Some(Kind::Null(v1::Null {})) => Json::Null,
        Some(Kind::Bool(truth)) => json!(truth),
        Some(Kind::Decimal(text) | Kind::Timestamp(text) | Kind::Date(text)) => json!(text),
        Some(Kind::Time(text) | Kind::Uuid(text) | Kind::Json(text)) => json!(text),
        None => Json::Null,
    }
}

pub fn text(value: Option<&v1::Value>) -> String {
    match value.and_then(|value| value.kind.as_ref()) {
        Some(Kind::Int64(number)) => number.to_string(),
        Some(Kind::Uint64(number)) => number.to_string(),
        Some(Kind::Float64(number)) => number.to_string(),
        // The text NULL is no NULL.
        Some(Kind::String(text)) if text == NULL => format!("\"{NULL}\""),
        Some(Kind::String(text)) => printable(text),
        Some(Kind::Null(v1::Null {})) => NULL.to_owned(),
        Some(Kind::Bool(truth)) => truth.to_string(),
        Some(Kind::Decimal(text) | Kind::Timestamp(text) | Kind::Date(text)) => text.clone(),
        Some(Kind::Time(text) | Kind::Uuid(text) | Kind::Json(text)) => printable(text),
        Some(Kind::Blob(bytes)) => bytes_text(bytes),
        None => String::new(),
    }
}

/// Bytes as text where they are text, else in base64 with a mark.
pub fn bytes_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => printable(text),
        Err(_) => format!("base64:{}", STANDARD.encode(bytes)),
    }
}

/// Control characters would let stored data steer the terminal.
fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|character| {
            let shown: Vec<char> =
                if character.is_control() { character.escape_default().collect() } else { vec![character] };
            shown
        })
        .collect()
}

pub fn from_model(value: Value) -> v1::Value {
    let kind = match value {
        Value::Int(number) => Kind::Int64(number),
        Value::Uint(number) => Kind::Uint64(number),
        Value::Float(number) => Kind::Float64(number),
        Value::Str(text) => Kind::String(text),
        Value::Blob(bytes) => Kind::Blob(bytes),
        Value::Null => Kind::Null(v1::Null {}),
        Value::Bool(truth) => Kind::Bool(truth),
        Value::Json(text) => Kind::Json(text),
        Value::Sql(value @ SqlValue::Decimal(_)) => Kind::Decimal(value.to_string()),
        Value::Sql(value @ SqlValue::Timestamp(_)) => Kind::Timestamp(value.to_string()),
        Value::Sql(value @ SqlValue::Date(_)) => Kind::Date(value.to_string()),
        Value::Sql(value @ SqlValue::Time(_)) => Kind::Time(value.to_string()),
        Value::Sql(value @ SqlValue::Uuid(_)) => Kind::Uuid(value.to_string()),
    };
    v1::Value { kind: Some(kind) }
}

pub fn to_model(value: &v1::Value) -> Option<Value> {
    Some(match value.kind.clone()? {
        Kind::Int64(number) => Value::Int(number),
        Kind::Uint64(number) => Value::Uint(number),
        Kind::Float64(number) => Value::Float(number),
        Kind::String(text) => Value::Str(text),
        Kind::Blob(bytes) => Value::Blob(bytes),
        Kind::Null(v1::Null {}) => Value::Null,
        Kind::Bool(truth) => Value::Bool(truth),
        Kind::Json(text) => Value::Json(text),
        // Nobody orders rows by these.
        Kind::Decimal(_) | Kind::Timestamp(_) | Kind::Date(_) | Kind::Time(_) | Kind::Uuid(_) => return None,
    })
}

/// The type of a sort part or of a key, which have no parameters.
pub fn field_type(kind: i32) -> FieldType {
    typed(kind, &[])
}

fn typed(kind: i32, parameters: &[u32]) -> FieldType {
    let small =
        |at: usize, without: u8| parameters.get(at).map_or(without, |number| u8::try_from(*number).unwrap_or(u8::MAX));
    match v1::FieldType::try_from(kind) {
        Ok(v1::FieldType::Int64) => FieldType::Int64,
        Ok(v1::FieldType::Uint64) => FieldType::Uint64,
        Ok(v1::FieldType::Float64) => FieldType::Float64,
        Ok(v1::FieldType::Bool) => FieldType::Bool,
        Ok(v1::FieldType::Decimal) => {
            FieldType::Decimal { precision: small(0, DECIMAL_DIGITS_MAX), scale: small(1, 0) }
        }
        Ok(v1::FieldType::Timestamp) => FieldType::Timestamp { digits: small(0, SECOND_DIGITS_MAX) },
        Ok(v1::FieldType::Date) => FieldType::Date,
        Ok(v1::FieldType::Time) => FieldType::Time { digits: small(0, SECOND_DIGITS_MAX) },
        Ok(v1::FieldType::Uuid) => FieldType::Uuid,
        Ok(v1::FieldType::Json) => FieldType::Json,
        Ok(v1::FieldType::String) => FieldType::String,
        // A type that a newer server knows and we do not: its bytes are at least not misread.
        Ok(v1::FieldType::Blob | v1::FieldType::Unspecified) | Err(_) => FieldType::Blob,
    }
}

pub fn field_type_out(kind: FieldType) -> i32 {
    match kind {
        FieldType::Int64 => v1::FieldType::Int64.into(),
        FieldType::Uint64 => v1::FieldType::Uint64.into(),
        FieldType::Float64 => v1::FieldType::Float64.into(),
        FieldType::String => v1::FieldType::String.into(),
        FieldType::Blob => v1::FieldType::Blob.into(),
        FieldType::Bool => v1::FieldType::Bool.into(),
        FieldType::Decimal { .. } => v1::FieldType::Decimal.into(),
        FieldType::Timestamp { .. } => v1::FieldType::Timestamp.into(),
        FieldType::Date => v1::FieldType::Date.into(),
        FieldType::Time { .. } => v1::FieldType::Time.into(),
        FieldType::Uuid => v1::FieldType::Uuid.into(),
        FieldType::Json => v1::FieldType::Json.into(),
    }
}

/// The type of a field as `table create` takes it, with a `?` if it may be NULL.
pub fn type_text(field: &v1::FieldDefinition) -> String {
    let kind = typed(field.r#type, &field.parameters);
    format!("{}{}", kind.name(), if field.nullable { "?" } else { "" })
}

pub fn parameters_out(kind: FieldType) -> Vec<u32> {
    match kind {
        FieldType::Decimal { precision, scale } => vec![u32::from(precision), u32::from(scale)],
        FieldType::Timestamp { digits } | FieldType::Time { digits } => vec![u32::from(digits)],
        FieldType::Int64 | FieldType::Uint64 | FieldType::Float64 | FieldType::String | FieldType::Blob => Vec::new(),
        FieldType::Bool | FieldType::Date | FieldType::Uuid | FieldType::Json => Vec::new(),
    }
}

/// The type of a field; dynamic tables hold blobs under any name.
pub fn type_of(table: &v1::Table, name: &str) -> Result<FieldType, Complaint> {
    if table.dynamic {
        return Ok(FieldType::Blob);
    }
    match table.fields.iter().find(|field| field.name == name) {
        Some(field) => Ok(typed(field.r#type, &field.parameters)),
        None => {
            let known: Vec<&str> = table.fields.iter().map(|field| field.name.as_str()).collect();
            let message = format!("table {} has no field {name:?}; it has {}", table.name, known.join(", "));
            Err(Complaint::from_usage(Refusal::new(ErrorCode::UnknownField, message)))
        }
    }
}

/// A typed text as a value of the named field.
pub fn parse(table: &v1::Table, name: &str, typed: &str) -> Result<v1::Value, Complaint> {
    let kind = type_of(table, name)?;
    desk_text::parse(kind, typed).map(from_model).map_err(Complaint::from_usage)
}

/// What is assigned to a field with these words: `FIELD:NULL`, which no text can be mistaken for, because there is no `=` in it.
pub fn nulled(typed: &str) -> Option<&str> {
    typed.strip_suffix(NULL)?.strip_suffix(':').filter(|field| !field.contains('='))
}

pub fn null() -> v1::Value {
    v1::Value { kind: Some(Kind::Null(v1::Null {})) }
}

/// `FIELD=VALUE`, or `FIELD:NULL`.
pub fn parse_assignment(table: &v1::Table, typed: &str) -> Result<v1::Field, Complaint> {
    if let Some(name) = nulled(typed) {
        type_of(table, name)?;
        return Ok(v1::Field { name: name.to_owned(), value: Some(null()), raw_name: Vec::new() });
    }
    let Some((name, given)) = typed.split_once('=') else {
        let what = format!("{typed:?} is not an assignment");
        return Err(Complaint::misused(what, "there is no = in it", "FIELD=VALUE, like age=10, or FIELD:NULL"));
    };
    Ok(v1::Field { name: name.to_owned(), value: Some(parse(table, name, given)?), raw_name: Vec::new() })
}
