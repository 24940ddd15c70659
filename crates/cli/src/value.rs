//! Values between text, JSON and protobuf.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use shardine_model::{ErrorCode, FieldType, Refusal, Value};
use shardine_proto::v1;
use shardine_proto::v1::value::Kind;
use shardine_service::text as desk_text;

use crate::complaint::Complaint;

const EXACT_MAX: u64 = 1 << 53;

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
        None => Json::Null,
    }
}

pub fn text(value: Option<&v1::Value>) -> String {
    match value.and_then(|value| value.kind.as_ref()) {
        Some(Kind::Int64(number)) => number.to_string(),
        Some(Kind::Uint64(number)) => number.to_string(),
        Some(Kind::Float64(number)) => number.to_string(),
        Some(Kind::String(text)) => printable(text),
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
    })
}

pub fn field_type(kind: i32) -> FieldType {
    match v1::FieldType::try_from(kind) {
        Ok(v1::FieldType::Int64) => FieldType::Int64,
        Ok(v1::FieldType::Uint64) => FieldType::Uint64,
        Ok(v1::FieldType::Float64) => FieldType::Float64,
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
    }
}

/// The type of a field; dynamic tables hold blobs under any name.
pub fn type_of(table: &v1::Table, name: &str) -> Result<FieldType, Complaint> {
    if table.dynamic {
        return Ok(FieldType::Blob);
    }
    match table.fields.iter().find(|field| field.name == name) {
        Some(field) => Ok(field_type(field.r#type)),
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

/// `FIELD=VALUE`.
pub fn parse_assignment(table: &v1::Table, typed: &str) -> Result<v1::Field, Complaint> {
    let Some((name, given)) = typed.split_once('=') else {
        let what = format!("{typed:?} is not an assignment");
        return Err(Complaint::misused(what, "there is no = in it", "FIELD=VALUE, like age=10"));
    };
    Ok(v1::Field { name: name.to_owned(), value: Some(parse(table, name, given)?), raw_name: Vec::new() })
}
