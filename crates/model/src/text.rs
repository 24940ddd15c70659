//! The text form of values: one for all doors (`docs/sql.md`, Types), whatever else a door has for some of them.

use std::borrow::Cow;

use crate::json::is_json;
use crate::sql_value::SqlValue;
use crate::value::{FieldType, Value, ValueRef};

/// Reads a text as a value of this type; NULL has no text. A blob is the bytes of the text itself. `None` if it is not of the
/// type, or if a field of the type could only keep it by changing it; [`rule`] says what it should have been.
#[must_use]
pub fn parse(kind: FieldType, text: &str) -> Option<Value> {
    match kind {
        FieldType::Int64 => text.parse().ok().map(Value::Int),
        FieldType::Uint64 => text.parse().ok().map(Value::Uint),
        FieldType::Float64 => text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Float),
        FieldType::String => Some(Value::Str(text.to_owned())),
        FieldType::Blob => Some(Value::Blob(text.as_bytes().to_vec())),
        FieldType::Bool => truth(text).map(Value::Bool),
        FieldType::Json => is_json(text).then(|| Value::Json(text.to_owned())),
        FieldType::Decimal { .. }
        | FieldType::Timestamp { .. }
        | FieldType::Date
        | FieldType::Time { .. }
        | FieldType::Uuid => SqlValue::parse(kind, text).map(Value::Sql),
    }
}

/// `true` or `false`; 1 and 0 are understood.
#[must_use]
pub fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// What a text of this type looks like, for whoever gave another.
#[must_use]
pub fn rule(kind: FieldType) -> &'static str {
    match kind {
        FieldType::Int64 => "a whole number from -2^63 to 2^63-1",
        FieldType::Uint64 => "a whole number from 0 to 2^64-1",
        FieldType::Float64 => "a finite number",
        FieldType::String => "a text",
        FieldType::Blob => "bytes",
        FieldType::Bool => "true or false",
        FieldType::Decimal { .. } => "a decimal number with no more digits than the field keeps, like 12.50",
        FieldType::Timestamp { .. } => {
            "a moment of the years 1 to 9999 with no more digits of a second than the field keeps, like 2026-11-19T19:47:45Z"
        }
        FieldType::Date => "a day of the years 1 to 9999, like 2026-11-19",
        FieldType::Time { .. } => "a time of day with no more digits of a second than the field keeps, like 19:47:45.5",
        FieldType::Uuid => "a UUID, like 00112233-4455-6677-8899-aabbccddeeff",
        FieldType::Json => "a JSON text",
    }
}

/// The text of a value; none for NULL, and for bytes that are no text.
#[must_use]
pub fn print(value: ValueRef<'_>) -> Option<Cow<'_, str>> {
    Some(match value {
        ValueRef::Int(number) => Cow::Owned(number.to_string()),
        ValueRef::Uint(number) => Cow::Owned(number.to_string()),
        ValueRef::Float(number) => Cow::Owned(number.to_string()),
        ValueRef::Str(text) | ValueRef::Json(text) => Cow::Borrowed(text),
        ValueRef::Blob(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).ok()?),
        ValueRef::Null => return None,
        ValueRef::Bool(truth) => Cow::Borrowed(if truth { "true" } else { "false" }),
        ValueRef::Sql(value) => Cow::Owned(value.to_string()),
    })
}
