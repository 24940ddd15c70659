//! What MySQL and MariaDB spell their own way.

use std::borrow::Cow;

use shardine_model::{FieldType, Value};

use crate::columns::{Column, Part};
use crate::dialect::{Dialect, hex, holds_decimal, parameters, quoted_text};

pub(crate) struct MysqlText;

impl Dialect for MysqlText {
    fn quoted(&self, name: &str) -> String {
        format!("`{}`", name.replace('`', "``"))
    }

    fn mark(&self, _number: usize) -> String {
        "?".into()
    }

    /// As `information_schema` gives them, without the width of integers, which only MariaDB still tells.
    fn type_of(&self, column: &Column<'_>) -> Cow<'static, str> {
        Cow::Borrowed(match (column.part, column.readable_type()) {
            // The length of `limits::KEY_BYTES_MAX` and `SORT_BYTES_MAX`: an index needs one.
            (Part::Key | Part::Sort, _) => "varbinary(1024)",
            (_, None | Some(FieldType::Int64)) => "bigint",
            (_, Some(FieldType::Uint64)) => "bigint unsigned",
            (_, Some(FieldType::Float64)) => "double",
            (_, Some(FieldType::String)) => "longtext",
            (_, Some(FieldType::Blob)) => "longblob",
            (_, Some(FieldType::Bool)) => "tinyint(1)",
            (_, Some(FieldType::Decimal { precision, scale })) => {
                return Cow::Owned(format!("decimal({precision},{scale})"));
            }
            (_, Some(FieldType::Timestamp { digits: 0 })) => "datetime",
            (_, Some(FieldType::Timestamp { digits })) => return Cow::Owned(format!("datetime({digits})")),
            (_, Some(FieldType::Date)) => "date",
            (_, Some(FieldType::Time { digits: 0 })) => "time",
            (_, Some(FieldType::Time { digits })) => return Cow::Owned(format!("time({digits})")),
            (_, Some(FieldType::Uuid)) => "char(36)",
            // Not MySQL's `json`, which forgets how a text was written.
            (_, Some(FieldType::Json)) => "longtext",
        })
    }

    fn holds(&self, kind: FieldType, declared: &str) -> bool {
        let (name, is_unsigned) =
            (declared.split(['(', ' ']).next().unwrap_or_default(), declared.contains("unsigned"));
        match kind {
            FieldType::Int64 => ["bigint", "int", "mediumint", "smallint"].contains(&name) && !is_unsigned,
            FieldType::Uint64 => ["bigint", "int", "mediumint", "smallint"].contains(&name) && is_unsigned,
            // A `float` would give back another number than it was given.
            FieldType::Float64 => name == "double",
            FieldType::String => ["varchar", "text", "mediumtext", "longtext", "enum"].contains(&name),
            FieldType::Blob => ["varbinary", "blob", "mediumblob", "longblob"].contains(&name),
            FieldType::Bool => declared == "tinyint(1)",
            FieldType::Decimal { precision, scale } => {
                name == "decimal" && !is_unsigned && holds_decimal(&parameters(declared), precision, scale)
            }
            FieldType::Timestamp { digits } => {
                ["datetime", "timestamp"].contains(&name) && seconds(declared) >= digits.into()
            }
            FieldType::Date => name == "date",
            FieldType::Time { digits } => name == "time" && seconds(declared) >= digits.into(),
            FieldType::Uuid => ["char(36)", "varchar(36)", "uuid"].contains(&declared),
            FieldType::Json => ["json", "longtext"].contains(&name),
        }
    }

    /// In parentheses: MySQL takes a default of a text or blob as an expression only.
    fn default(&self, value: &Value) -> Result<String, &'static str> {
        Ok(match value {
            Value::Int(value) => value.to_string(),
            Value::Uint(value) => value.to_string(),
            Value::Float(value) if !value.is_finite() => return Err("is not a finite number"),
            Value::Float(value) => format!("{value:e}"),
            Value::Str(value) => {
                let quoted = quoted_text(value)?;
                // MySQL keeps an expression as a text with backslashes in it, which it cannot read again in a connection
                // without them.
                let is_plain = !value.contains(['\'', '\\']);
                if is_plain {
                    format!("({quoted})")
                } else {
                    format!("(CONVERT(x'{}' USING utf8mb4))", hex(value.as_bytes()))
                }
            }
            Value::Blob(value) => format!("(x'{}')", hex(value)),
            Value::Null => "NULL".to_owned(),
            Value::Bool(value) => u8::from(*value).to_string(),
            Value::Json(value) => format!("(CONVERT(x'{}' USING utf8mb4))", hex(value.as_bytes())),
            Value::Sql(value) => quoted_text(&value.to_sql_text())?,
        })
    }

    /// Neither server looks into an index for a comparison of whole rows; for one of its first column it does.
    fn after(&self, columns: &[String], _first: usize) -> (String, Vec<usize>) {
        let mut bound = vec![0];
        let mut condition = String::new();
        for (index, column) in columns.iter().enumerate() {
            let is_last = index + 1 == columns.len();
            condition += &format!("({column} > ?");
            bound.push(index);
            if !is_last {
                condition += &format!(" OR ({column} = ? AND ");
                bound.push(index);
            }
        }
        condition += &"))".repeat(columns.len() - 1);
        (format!("{} >= ? AND {condition})", columns[0]), bound)
    }
}

/// How many digits of a second a column keeps: none where nothing is said.
fn seconds(declared: &str) -> u32 {
    parameters(declared).first().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen on MySQL 9.7: `('it''s')` is a syntax error under `NO_BACKSLASH_ESCAPES`.
    #[test]
    fn defaults_with_quotes_are_told_in_digits() {
        let default = |text: &str| MysqlText.default(&Value::Str(text.into())).unwrap();

        assert_eq!(default("here"), "('here')");
        assert_eq!(default("it's"), "(CONVERT(x'69742773' USING utf8mb4))");
        assert_eq!(default("a\\b"), "(CONVERT(x'615c62' USING utf8mb4))");
    }

    #[test]
    fn behind_a_row_is_told_column_by_column() {
        let columns = ["p", "k", "s"].map(str::to_owned);

        let (condition, bound) = MysqlText.after(&columns, 1);

        assert_eq!(condition, "p >= ? AND (p > ? OR (p = ? AND (k > ? OR (k = ? AND (s > ?)))))");
        assert_eq!(bound, [0, 0, 0, 1, 1, 2]);
    }
}
