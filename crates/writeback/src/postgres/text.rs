//! What PostgreSQL spells its own way.

use shardine_model::{FieldType, Table, Value};

use crate::columns::{self, Column, Part};
use crate::dialect::{Dialect, hex, quoted_text};

pub(super) struct PostgresText;

impl Dialect for PostgresText {
    fn quoted(&self, name: &str) -> String {
        format!("\"{}\"", name.replace('"', "\"\""))
    }

    fn mark(&self, number: usize) -> String {
        format!("${number}")
    }

    /// As `format_type` gives them. `uint64` needs a decimal: there is no unsigned integer (write-back 104).
    fn type_of(&self, column: &Column<'_>) -> &'static str {
        match (column.part, column.readable_type()) {
            (Part::Key | Part::Sort, _) => "bytea",
            (_, None | Some(FieldType::Int64)) => "bigint",
            (_, Some(FieldType::Uint64)) => "numeric(20,0)",
            (_, Some(FieldType::Float64)) => "double precision",
            (_, Some(FieldType::String)) => "text",
            (_, Some(FieldType::Blob)) => "bytea",
        }
    }

    fn holds(&self, kind: FieldType, declared: &str) -> bool {
        match kind {
            FieldType::Int64 => ["bigint", "integer", "smallint"].contains(&declared),
            FieldType::Uint64 => declared == "numeric(20,0)",
            // A `real` would give back another number than it was given.
            FieldType::Float64 => declared == "double precision",
            FieldType::String => declared == "text" || declared.starts_with("character varying"),
            FieldType::Blob => declared == "bytea",
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
        })
    }
}

/// How a column travels in a batch: as an array of this type, turned into the column's own by a cast.
pub(super) fn wire_type(table: &Table, column: &Column<'_>) -> &'static str {
    match (column.part, PostgresText.type_of(column)) {
        (Part::Key, _) => key_type(table),
        (_, "numeric(20,0)") => "text",
        (_, other) => other,
    }
}

/// The type in which keys are given and read.
pub(super) fn key_type(table: &Table) -> &'static str {
    match columns::key_type(table) {
        FieldType::String => "text",
        FieldType::Int64 => "bigint",
        FieldType::Blob | FieldType::Uint64 | FieldType::Float64 => "bytea",
    }
}

/// A column as it is read: decimals as text, because the driver has no type for them, and what is mapped by the type
/// that Shardine knows it as.
pub(super) fn read_form(table: &Table, column: &Column<'_>) -> String {
    let (name, wire) = (PostgresText.quoted(column.name), wire_type(table, column));
    let is_own = !columns::is_mapped(table) && wire == PostgresText.type_of(column);
    if is_own { name } else { format!("{name}::{wire}") }
}
