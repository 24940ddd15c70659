//! Values and records in JSON. Blobs are base64; integers beyond 2^53 are strings, because many readers of JSON
//! keep numbers as doubles and would change them without a word.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value as Json, json};
use shardine_model::{ErrorCode, FieldType, Refusal, Table, Value, text};
use shardine_service::Record;

const EXACT_MAX: u64 = 1 << 53;

pub(crate) fn integer(number: i64) -> Json {
    if number.unsigned_abs() <= EXACT_MAX { json!(number) } else { json!(number.to_string()) }
}

pub(crate) fn unsigned(number: u64) -> Json {
    if number <= EXACT_MAX { json!(number) } else { json!(number.to_string()) }
}

pub(crate) fn value(value: &Value) -> Json {
    match value {
        Value::Int(number) => integer(*number),
        Value::Uint(number) => unsigned(*number),
        Value::Float(number) => json!(number),
        Value::Str(text) => json!(text),
        Value::Blob(bytes) => json!(STANDARD.encode(bytes)),
        Value::Null => Json::Null,
        Value::Bool(truth) => json!(truth),
        // The text, so that not a blank of it changes on its way through parsers.
        Value::Json(text) => json!(text),
        Value::Sql(value) => json!(value.to_string()),
    }
}

/// A value for a field of this type; integers may come as strings of any size that fits.
pub(crate) fn parse(kind: FieldType, name: &str, given: &Json) -> Result<Value, Refusal> {
    let parsed = match (kind, given) {
        (FieldType::Int64, Json::Number(number)) => number.as_i64().map(Value::Int),
        (FieldType::Int64, Json::String(text)) => text.parse().ok().map(Value::Int),
        (FieldType::Uint64, Json::Number(number)) => number.as_u64().map(Value::Uint),
        (FieldType::Uint64, Json::String(text)) => text.parse().ok().map(Value::Uint),
        (FieldType::Float64, Json::Number(number)) => number.as_f64().map(Value::Float),
        (FieldType::String, Json::String(text)) => Some(Value::Str(text.clone())),
        (FieldType::Blob, Json::String(text)) => STANDARD.decode(text).ok().map(Value::Blob),
        (FieldType::Bool, Json::Bool(truth)) => Some(Value::Bool(*truth)),
        (FieldType::Decimal { .. }, Json::Number(number)) => text::parse(kind, &number.to_string()),
        (FieldType::Decimal { .. } | FieldType::Timestamp { .. } | FieldType::Date, Json::String(given))
        | (FieldType::Time { .. } | FieldType::Uuid | FieldType::Json, Json::String(given)) => text::parse(kind, given),
        (_, _) => None,
    };
    parsed.ok_or_else(|| {
        let form = match kind {
            FieldType::Int64 => "a whole number (as a string beyond 2^53)",
            FieldType::Uint64 => "a whole number from 0 (as a string beyond 2^53)",
            FieldType::Float64 => "a number",
            FieldType::Bool => "true or false",
            FieldType::Json => "a string that is a JSON text",
            FieldType::Decimal { .. } | FieldType::Timestamp { .. } | FieldType::Date => text::rule(kind),
            FieldType::Time { .. } | FieldType::Uuid => text::rule(kind),
            FieldType::String => "a string",
            FieldType::Blob => "a string of base64",
        };
        Refusal::new(ErrorCode::WrongType, format!("field {name} is {}: write it as {form}", kind.name()))
    })
}

/// The value of a named field of a table.
pub(crate) fn parse_field(table: &Table, name: &str, given: &Json) -> Result<Value, Refusal> {
    if table.dynamic {
        return parse(FieldType::Blob, name, given);
    }
    match table.field(name.as_bytes()) {
        // Whether the field may be NULL is looked at with all other rules of the table.
        Some(_) if given.is_null() => Ok(Value::Null),
        Some(field) => parse(field.kind, name, given),
        None => {
            let known: Vec<&str> = table.fields.iter().map(|field| field.name.as_str()).collect();
            let message = format!("table {} has no field {name:?}; it has {}", table.name, known.join(", "));
            Err(Refusal::new(ErrorCode::UnknownField, message))
        }
    }
}

/// Names that are not text, of keys and of fields of dynamic tables, stand in base64 beside those that are.
pub(crate) fn record(record: &Record) -> Json {
    let mut object = Map::new();
    object.insert("table".into(), json!(record.row.table));
    match std::str::from_utf8(&record.row.key) {
        Ok(key) => object.insert("key".into(), json!(key)),
        Err(_) => object.insert("key_base64".into(), json!(STANDARD.encode(&record.row.key))),
    };
    if !record.row.sort.is_empty() {
        object.insert("sort".into(), record.row.sort.iter().map(value).collect());
    }
    object.insert("version".into(), integer(record.version.0));
    object.insert("sql_version".into(), integer(record.sql_version.0));
    if let Some(at) = record.expires_at {
        object.insert("expires_at_ms".into(), unsigned(at.0));
    }
    let (mut fields, mut raw_fields) = (Map::new(), Vec::new());
    for (name, field) in &record.fields {
        match std::str::from_utf8(name) {
            Ok(name) => drop(fields.insert(name.to_owned(), value(field))),
            Err(_) => raw_fields.push(json!({ "name": STANDARD.encode(name), "value": value(field) })),
        }
    }
    object.insert("fields".into(), Json::Object(fields));
    if !raw_fields.is_empty() {
        object.insert("raw_fields".into(), Json::Array(raw_fields));
    }
    Json::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_beyond_doubles_are_strings() {
        assert_eq!(integer(1 << 53), json!(9_007_199_254_740_992_i64));
        assert_eq!(integer((1 << 53) + 1), json!("9007199254740993"));
        assert_eq!(integer(i64::MIN), json!("-9223372036854775808"));
        assert_eq!(unsigned(u64::MAX), json!("18446744073709551615"));
    }

    #[test]
    fn values_come_back() {
        for original in [
            Value::Int(i64::MIN),
            Value::Int(-1),
            Value::Uint(u64::MAX),
            Value::Float(0.1),
            Value::Str("é\"".into()),
            Value::Blob(vec![0, 255]),
            Value::Bool(true),
            Value::Json("{\"a\":  1}".into()),
            text::parse(FieldType::Decimal { precision: 38, scale: 2 }, "-0.10").unwrap(),
            text::parse(FieldType::Timestamp { digits: 6 }, "2026-11-19T19:47:45.000001Z").unwrap(),
            text::parse(FieldType::Uuid, "00112233-4455-6677-8899-aabbccddeeff").unwrap(),
        ] {
            let kind = original.as_ref().field_type().unwrap();

            assert_eq!(parse(kind, "field", &value(&original)), Ok(original));
        }
    }

    #[test]
    fn nothing_is_bent_to_fit() {
        for (kind, given) in [
            (FieldType::Int64, json!(1.5)),
            (FieldType::Int64, json!(true)),
            (FieldType::Uint64, json!(-1)),
            (FieldType::String, json!(1)),
            (FieldType::Blob, json!("not base64!")),
            (FieldType::Float64, json!(null)),
        ] {
            assert_eq!(parse(kind, "field", &given).unwrap_err().code, ErrorCode::WrongType);
        }
    }
}
