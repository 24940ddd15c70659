//! What PostgreSQL spells its own way.

use std::borrow::Cow;

use shardine_model::value::SECOND_DIGITS_MAX;
use shardine_model::{FieldType, Table, Value};

use crate::columns::{self, Column, Part};
use crate::dialect::{Dialect, hex, holds_decimal, parameters, quoted_text};

pub(crate) struct PostgresText;

impl Dialect for PostgresText {
    fn quoted(&self, name: &str) -> String {
        format!("\"{}\"", name.replace('"', "\"\""))
    }

    fn mark(&self, number: usize) -> String {
        format!("${number}")
    }

    /// As `format_type` gives them. `uint64` needs a decimal: there is no unsigned integer (write-back 104).
    fn type_of(&self, column: &Column<'_>) -> Cow<'static, str> {
        Cow::Borrowed(match (column.part, column.readable_type()) {
            (Part::Key | Part::Sort, _) => "bytea",
            (_, None | Some(FieldType::Int64)) => "bigint",
            (_, Some(FieldType::Uint64)) => "numeric(20,0)",
            (_, Some(FieldType::Float64)) => "double precision",
            (_, Some(FieldType::String)) => "text",
            (_, Some(FieldType::Blob)) => "bytea",
            (_, Some(FieldType::Bool)) => "boolean",
            (_, Some(FieldType::Decimal { precision, scale })) => {
                return Cow::Owned(format!("numeric({precision},{scale})"));
            }
            (_, Some(FieldType::Timestamp { digits: SECOND_DIGITS_MAX })) => "timestamp with time zone",
            (_, Some(FieldType::Timestamp { digits })) => {
                return Cow::Owned(format!("timestamp({digits}) with time zone"));
            }
            (_, Some(FieldType::Date)) => "date",
            (_, Some(FieldType::Time { digits: SECOND_DIGITS_MAX })) => "time without time zone",
            (_, Some(FieldType::Time { digits })) => return Cow::Owned(format!("time({digits}) without time zone")),
            (_, Some(FieldType::Uuid)) => "uuid",
            // Not `jsonb`, which forgets how a text was written.
            (_, Some(FieldType::Json)) => "json",
        })
    }

    fn holds(&self, kind: FieldType, declared: &str) -> bool {
        match kind {
            FieldType::Int64 => ["bigint", "integer", "smallint"].contains(&declared),
            FieldType::Uint64 => declared == "numeric(20,0)",
            // A `real` would give back another number than it was given.
            FieldType::Float64 => declared == "double precision",
            FieldType::String => declared == "text" || declared.starts_with("character varying"),
            FieldType::Blob => declared == "bytea",
            FieldType::Bool => declared == "boolean",
            FieldType::Decimal { precision, scale } => {
                declared == "numeric"
                    || is_of(declared, "numeric") && holds_decimal(&parameters(declared), precision, scale)
            }
            FieldType::Timestamp { digits } => is_of(declared, "timestamp") && seconds(declared) >= u32::from(digits),
            FieldType::Date => declared == "date",
            FieldType::Time { digits } => {
                is_of(declared, "time")
                    && declared.ends_with("without time zone")
                    && seconds(declared) >= u32::from(digits)
            }
            FieldType::Uuid => declared == "uuid",
            FieldType::Json => ["json", "jsonb"].contains(&declared),
        }
    }

    fn default(&self, value: &Value) -> Result<String, &'static str> {
        Ok(match value {
            Value::Int(value) => format!("'{value}'::bigint"),
            Value::Uint(value) => value.to_string(),
            Value::Float(value) if value.is_nan() => return Err("is not a number"),
            Value::Float(value) if value.is_infinite() => {
                format!("'{}Infinity'::float8", if *value > 0.0 { "" } else { "-" })
            }
            Value::Float(value) => format!("'{value:e}'::float8"),
            Value::Str(value) => quoted_text(value)?,
            Value::Blob(value) => format!("'\\x{}'::bytea", hex(value)),
            Value::Null => "NULL".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Json(value) => quoted_text(value)?,
            Value::Sql(value) => quoted_text(&value.to_string())?,
        })
    }
}

/// How a column travels in a batch: as an array of this type, turned into the column's own by a cast.
pub(super) fn wire_type(table: &Table, column: &Column<'_>) -> &'static str {
    match (column.part, column.readable_type()) {
        (Part::Key, _) => key_type(table),
        (Part::Sort, _) | (_, Some(FieldType::Blob)) => "bytea",
        (_, None | Some(FieldType::Int64)) => "bigint",
        (_, Some(FieldType::Float64)) => "double precision",
        (_, Some(FieldType::Bool)) => "boolean",
        (_, Some(_)) => "text",
    }
}

/// The type in which keys are given and read.
pub(super) fn key_type(table: &Table) -> &'static str {
    match columns::key_type(table) {
        FieldType::String => "text",
        FieldType::Int64 => "bigint",
        // A definition lets no other type into a key.
        _ => "bytea",
    }
}

/// Before the first digit of a parameter there is a name and nothing else.
fn is_of(declared: &str, name: &str) -> bool {
    declared.split(['(', ' ']).next() == Some(name)
}

/// How many digits of a second a column keeps.
fn seconds(declared: &str) -> u32 {
    parameters(declared).first().copied().unwrap_or(u32::from(SECOND_DIGITS_MAX))
}

/// A column as it is read: what SQL has beside numbers and bytes as text, in UTC, and what is mapped by the type
/// that Shardine knows it as.
pub(super) fn read_form(table: &Table, column: &Column<'_>) -> String {
    let (name, wire) = (PostgresText.quoted(column.name), wire_type(table, column));
    let is_own = !columns::is_mapped(table) && wire == PostgresText.type_of(column);
    if is_own { name } else { format!("{name}::{wire}") }
}
