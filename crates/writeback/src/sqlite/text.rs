//! Pieces of statements. Values never pass through here except as defaults of columns, which SQL allows only as text.

use shardine_model::{FieldType, Value};

use crate::columns::Column;
use crate::error::Error;

/// A name as SQL takes it whatever it holds. Names are checked long before; this is the second lock on the door.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(super) fn names<'a>(columns: impl IntoIterator<Item = Column<'a>>) -> String {
    let names: Vec<String> = columns.into_iter().map(|column| quoted(column.name())).collect();
    names.join(", ")
}

/// `?, ?, ?`
pub(super) fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}

pub(super) fn type_of(column: &Column<'_>) -> &'static str {
    match column {
        Column::Key | Column::Sort => "BLOB",
        Column::Version | Column::Position => "INTEGER",
        Column::SortPart(part) => field_type(part.kind),
        Column::Field(field) => field_type(field.kind),
    }
}

/// `uint64` lies in the signed integer of the same bits: SQLite has no wider one (record-cache 104).
fn field_type(kind: FieldType) -> &'static str {
    match kind {
        FieldType::Int64 | FieldType::Uint64 => "INTEGER",
        FieldType::Float64 => "REAL",
        FieldType::String => "TEXT",
        FieldType::Blob => "BLOB",
    }
}

/// A column as `CREATE TABLE` and `ADD COLUMN` declare it.
pub(super) fn declaration(column: &Column<'_>) -> Result<String, Error> {
    let (name, kind) = (quoted(column.name()), type_of(column));
    Ok(match column {
        Column::Version => format!("{name} {kind} NOT NULL CHECK ({name} <> 0)"),
        Column::Field(field) => {
            let literal = literal(&field.default)
                .map_err(|fault| Error::definition(format!("the default of {} {fault}", field.name)))?;
            format!("{name} {kind} NOT NULL DEFAULT {literal}")
        }
        Column::Key | Column::Sort | Column::Position | Column::SortPart(_) => format!("{name} {kind} NOT NULL"),
    })
}

fn literal(value: &Value) -> Result<String, &'static str> {
    Ok(match value {
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => (*value as i64).to_string(),
        Value::Float(value) if value.is_nan() => return Err("is not a number"),
        // SQL has no word for infinity, but a number beyond the range is read as one.
        Value::Float(value) if value.is_infinite() => if *value > 0.0 { "9e999" } else { "-9e999" }.to_owned(),
        Value::Float(value) => format!("{value:e}"),
        Value::Str(value) if value.contains('\0') => return Err("holds a NUL, which no SQL text can"),
        Value::Str(value) => format!("'{}'", value.replace('\'', "''")),
        Value::Blob(value) => {
            let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x'{digits}'")
        }
    })
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
        let kind = default.as_ref().field_type();
        let field = Field { id: FieldId(1), name: "f".into(), kind, default: default.clone() };
        let connection = Connection::open_in_memory().unwrap();
        let declared = declaration(&Column::Field(&field)).unwrap();
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

    #[test]
    fn a_quoted_name_cannot_end_itself() {
        assert_eq!(quoted("a\"; DROP TABLE t; --"), "\"a\"\"; DROP TABLE t; --\"");
    }
}
