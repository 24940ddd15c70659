//! What SQLite spells its own way.

use std::borrow::Cow;

use shardine_model::{FieldType, Value};

use crate::columns::{Column, Part};
use crate::dialect::{Dialect, hex, quoted_text};

pub(crate) struct SqliteText;

impl Dialect for SqliteText {
    fn quoted(&self, name: &str) -> String {
        format!("\"{}\"", name.replace('"', "\"\""))
    }

    fn mark(&self, _number: usize) -> String {
        "?".into()
    }

    /// `uint64` lies in the signed integer of the same bits: SQLite has no wider one (write-back 104).
    fn type_of(&self, column: &Column<'_>) -> Cow<'static, str> {
        Cow::Borrowed(match (column.part, column.readable_type()) {
            (Part::Key | Part::Sort, _) => "BLOB",
            (_, None | Some(FieldType::Int64 | FieldType::Uint64)) => "INTEGER",
            (_, Some(FieldType::Float64)) => "REAL",
            (_, Some(FieldType::String)) => "TEXT",
            (_, Some(FieldType::Blob)) => "BLOB",
            (_, Some(FieldType::Bool)) => "INTEGER",
            // Its numbers are 64 bits at most, and its functions for dates read texts.
            (_, Some(FieldType::Decimal { .. } | FieldType::Timestamp { .. } | FieldType::Date)) => "TEXT",
            (_, Some(FieldType::Time { .. } | FieldType::Uuid | FieldType::Json)) => "TEXT",
        })
    }

    fn holds(&self, kind: FieldType, declared: &str) -> bool {
        let declared = declared.to_ascii_uppercase();
        let begins = |names: &[&str]| names.iter().any(|name| declared.starts_with(name));
        match kind {
            FieldType::Int64 => declared.contains("INT"),
            // The bits of a managed table's `uint64` would read as negative numbers to everybody else.
            FieldType::Uint64 => false,
            FieldType::Float64 => begins(&["REAL", "DOUBLE", "FLOAT"]),
            FieldType::String => begins(&["TEXT", "VARCHAR", "NVARCHAR", "CLOB"]),
            FieldType::Blob => begins(&["BLOB"]),
            FieldType::Bool => begins(&["BOOL"]) || declared.contains("INT"),
            // A column of another name for numbers would make a float of it.
            FieldType::Decimal { .. } | FieldType::Json | FieldType::Uuid => {
                begins(&["TEXT", "VARCHAR", "CHAR", "CLOB"])
            }
            FieldType::Timestamp { .. } => begins(&["TEXT", "VARCHAR", "DATETIME", "TIMESTAMP"]),
            FieldType::Date | FieldType::Time { .. } => begins(&["TEXT", "VARCHAR", "DATE", "TIME"]),
        }
    }

    fn default(&self, value: &Value) -> Result<String, &'static str> {
        Ok(match value {
            Value::Int(value) => value.to_string(),
            Value::Uint(value) => (*value as i64).to_string(),
            Value::Float(value) if value.is_nan() => return Err("is not a number"),
            // SQL has no word for infinity, but a number beyond the range is read as one.
            Value::Float(value) if value.is_infinite() => if *value > 0.0 { "9e999" } else { "-9e999" }.to_owned(),
            Value::Float(value) => format!("{value:e}"),
            Value::Str(value) => quoted_text(value)?,
            Value::Blob(value) => format!("x'{}'", hex(value)),
            Value::Null => "NULL".to_owned(),
            Value::Bool(value) => u8::from(*value).to_string(),
            Value::Json(value) => quoted_text(value)?,
            Value::Sql(value) => quoted_text(&value.to_sql_text())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rusqlite::Connection;
    use shardine_model::{Field, FieldId};

    use super::*;
    use crate::sqlite::read::cell;

    /// What SQLite makes of a column's default.
    fn defaulted(default: &Value) -> Value {
        let field = Field::of(FieldId(1), "f", default.clone());
        let kind = field.kind;
        let connection = Connection::open_in_memory().unwrap();
        let declared = SqliteText.declaration(&Column { part: Part::Field(&field), name: &field.name }).unwrap();
        connection.execute_batch(&format!("CREATE TABLE t (k INTEGER, {declared}) STRICT")).unwrap();
        connection.execute("INSERT INTO t (k) VALUES (1)", []).unwrap();
        let read = |row: &rusqlite::Row<'_>| Ok(cell(kind, row.get_ref(0)?).unwrap().unwrap().to_owned());
        connection.query_row("SELECT f FROM t", [], read).unwrap()
    }

    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<i64>().prop_map(Value::Int),
            any::<u64>().prop_map(Value::Uint),
            any::<f64>().prop_filter("a number", |value| !value.is_nan()).prop_map(Value::Float),
            "[^\\x00]{0,12}".prop_map(Value::Str),
            any::<Vec<u8>>().prop_map(Value::Blob),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn a_default_comes_back_as_it_was_declared(default in any_value()) {
            prop_assert_eq!(defaulted(&default), default);
        }
    }

    #[test]
    fn the_ends_of_the_ranges_survive() {
        let ends = [i64::MIN, i64::MAX].map(Value::Int);
        let floats = [f64::MAX, f64::MIN_POSITIVE, f64::INFINITY, f64::NEG_INFINITY, 0.1].map(Value::Float);
        let texts = ["it's", "'); DROP TABLE t; --", "\"", "ключ"].map(|text| Value::Str(text.into()));
        for default in ends.into_iter().chain(floats).chain(texts).chain([Value::Uint(u64::MAX)]) {
            assert_eq!(defaulted(&default), default);
        }
    }

    /// reliability I93.
    #[test]
    fn a_quoted_name_cannot_end_itself() {
        assert_eq!(SqliteText.quoted("a\"; DROP TABLE t; --"), "\"a\"\"; DROP TABLE t; --\"");
    }
}
