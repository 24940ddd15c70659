//! Which field a column can be, by the type that its database tells.

use shardine_model::value::SECOND_DIGITS_MAX;
use shardine_model::{FieldType, text};

use crate::dialect::parameters;
use crate::survey::{ColumnFacts, Words};

/// What a column is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    Field { kind: FieldType, remark: Option<String> },
    Nothing { why: String },
}

impl Meeting {
    fn of(kind: FieldType) -> Self {
        match kind.is_within_limits() {
            true => Self::Field { kind, remark: None },
            false => Self::nothing("it has more digits than a decimal has here (38)"),
        }
    }

    fn with(kind: FieldType, remark: &str) -> Self {
        Self::Field { kind, remark: Some(remark.to_owned()) }
    }

    fn nothing(why: &str) -> Self {
        Self::Nothing { why: why.to_owned() }
    }
}

pub(super) fn meet(words: Words, column: &ColumnFacts) -> Meeting {
    let declared = column.declared.to_ascii_lowercase();
    match words {
        Words::Sqlite => sqlite(&declared),
        Words::Postgres if column.is_enum => Meeting::nothing("an enum of PostgreSQL is not mapped yet"),
        Words::Postgres => postgres(&declared),
        Words::Mysql => mysql(&declared),
    }
}

fn number(declared: &str, place: usize) -> Option<u8> {
    parameters(declared).get(place).and_then(|number| u8::try_from(*number).ok())
}

fn decimal(declared: &str) -> Meeting {
    let precision = number(declared, 0).unwrap_or(u8::MAX);
    Meeting::of(FieldType::Decimal { precision, scale: number(declared, 1).unwrap_or(0) })
}

/// By the rules by which SQLite finds a type's affinity, as far as a value comes back as it was.
fn sqlite(declared: &str) -> Meeting {
    let begins = |names: &[&str]| names.iter().any(|name| declared.starts_with(name));
    match () {
        () if begins(&["bool"]) => Meeting::of(FieldType::Bool),
        () if declared.contains("int") => Meeting::of(FieldType::Int64),
        () if begins(&["datetime", "timestamp"]) => {
            Meeting::with(FieldType::Timestamp { digits: SECOND_DIGITS_MAX }, "holds texts, as 2026-11-19 19:47:45")
        }
        () if begins(&["date"]) => Meeting::with(FieldType::Date, "holds texts, as 2026-11-19"),
        () if begins(&["time"]) => {
            Meeting::with(FieldType::Time { digits: SECOND_DIGITS_MAX }, "holds texts, as 19:47:45")
        }
        () if begins(&["text", "varchar", "nvarchar", "clob"]) => Meeting::of(FieldType::String),
        () if begins(&["blob"]) => Meeting::of(FieldType::Blob),
        () if begins(&["real", "double", "float"]) => Meeting::of(FieldType::Float64),
        () if begins(&["decimal", "numeric"]) => {
            Meeting::nothing("SQLite keeps such numbers as floats: exact ones are kept as texts")
        }
        () => Meeting::nothing("there is no type for it here"),
    }
}

fn postgres(declared: &str) -> Meeting {
    let name = declared.split(['(', ' ']).next().unwrap_or_default();
    let digits = number(declared, 0).unwrap_or(SECOND_DIGITS_MAX);
    match name {
        _ if declared.ends_with("[]") => Meeting::nothing("arrays are not mapped yet"),
        "bigint" | "integer" | "smallint" => Meeting::of(FieldType::Int64),
        "double" => Meeting::of(FieldType::Float64),
        "real" => Meeting::nothing("a real would give back another number than it was given"),
        "text" => Meeting::of(FieldType::String),
        "character" if declared.starts_with("character varying") => Meeting::of(FieldType::String),
        "character" => Meeting::nothing("a char(n) does not keep blanks at the end"),
        "bytea" => Meeting::of(FieldType::Blob),
        "boolean" => Meeting::of(FieldType::Bool),
        "numeric" if parameters(declared).is_empty() => {
            Meeting::nothing("a numeric without digits has no limit, and a decimal here has")
        }
        "numeric" => decimal(declared),
        "timestamp" if declared.ends_with("without time zone") => {
            Meeting::with(FieldType::Timestamp { digits }, "has no time zone, and is taken as UTC")
        }
        "timestamp" => Meeting::of(FieldType::Timestamp { digits }),
        "date" => Meeting::of(FieldType::Date),
        "time" if declared.ends_with("without time zone") => Meeting::of(FieldType::Time { digits }),
        "uuid" => Meeting::of(FieldType::Uuid),
        "json" => Meeting::of(FieldType::Json),
        "jsonb" => Meeting::with(FieldType::Json, "a jsonb prints a text otherwise than it was written"),
        _ => Meeting::nothing("there is no type for it here"),
    }
}

fn mysql(declared: &str) -> Meeting {
    let name = declared.split(['(', ' ']).next().unwrap_or_default();
    let is_unsigned = declared.contains("unsigned");
    let digits = number(declared, 0).unwrap_or(0);
    match name {
        "tinyint" if declared == "tinyint(1)" => Meeting::of(FieldType::Bool),
        "bigint" | "int" | "mediumint" | "smallint" => {
            Meeting::of(if is_unsigned { FieldType::Uint64 } else { FieldType::Int64 })
        }
        "double" => Meeting::of(FieldType::Float64),
        "float" => Meeting::nothing("a float would give back another number than it was given"),
        "varchar" | "text" | "mediumtext" | "longtext" => Meeting::of(FieldType::String),
        "enum" => Meeting::with(FieldType::String, "another word than those of the list is a dead letter"),
        "varbinary" | "blob" | "mediumblob" | "longblob" => Meeting::of(FieldType::Blob),
        "decimal" if is_unsigned => Meeting::nothing("an unsigned decimal refuses what a decimal here takes"),
        "decimal" => decimal(declared),
        "datetime" | "timestamp" => Meeting::of(FieldType::Timestamp { digits }),
        "date" => Meeting::of(FieldType::Date),
        "time" => Meeting::of(FieldType::Time { digits }),
        "char" if declared == "char(36)" => Meeting::with(FieldType::Uuid, "is taken for UUIDs"),
        "char" => Meeting::nothing("a char(n) does not keep blanks at the end"),
        "uuid" => Meeting::of(FieldType::Uuid),
        "json" => Meeting::with(FieldType::Json, "MySQL prints a json otherwise than it was written"),
        _ => Meeting::nothing("there is no type for it here"),
    }
}

/// A column's default as `table create` takes it, if it is a value and not an expression.
pub(super) fn literal(kind: FieldType, default: &str) -> Option<String> {
    // PostgreSQL tells the type behind a value: 'new'::character varying.
    let value = match default.rsplit_once("::") {
        Some((value, kind)) if !kind.contains(['\'', '(']) || kind.ends_with(')') => value,
        _ => default,
    };
    let value = value.strip_prefix('(').and_then(|value| value.strip_suffix(')')).unwrap_or(value);
    let inside = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
    let plain = match inside {
        Some(inside) => inside.replace("''", "'"),
        // Letters without quotes are a function or a name, but for the two that are values.
        None if matches!(kind, FieldType::String | FieldType::Blob | FieldType::Json) => return None,
        None => value.to_ascii_lowercase(),
    };
    let parsed = text::parse(kind, &plain)?;
    let is_text = text::print(parsed.as_ref())?.into_owned();
    Some(is_text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;
    use crate::mysql::MysqlText;
    use crate::postgres::PostgresText;
    use crate::sqlite::SqliteText;

    /// What a plan proposes is what the check of a mapping takes.
    #[test]
    fn whatever_field_a_column_meets_it_can_hold() {
        let of = |words, declared: &str| {
            let column = ColumnFacts { declared: declared.to_owned(), ..ColumnFacts::default() };
            match meet(words, &column) {
                Meeting::Field { kind, .. } => Some(kind),
                Meeting::Nothing { .. } => None,
            }
        };
        let postgres = [
            "bigint",
            "integer",
            "smallint",
            "double precision",
            "text",
            "character varying(40)",
            "bytea",
            "boolean",
            "numeric(10,2)",
            "timestamp without time zone",
            "timestamp(3) with time zone",
            "date",
            "uuid",
            "json",
            "jsonb",
            "time(2) without time zone",
        ];
        let mysql = [
            "bigint",
            "int(11)",
            "int(10) unsigned",
            "smallint(6)",
            "double",
            "varchar(255)",
            "longtext",
            "enum('a','b')",
            "varbinary(16)",
            "decimal(10,2)",
            "datetime",
            "datetime(6)",
            "timestamp",
            "date",
            "time(3)",
            "char(36)",
            "json",
            "tinyint(1)",
            "uuid",
        ];
        let sqlite =
            ["INTEGER", "BIGINT", "BOOLEAN", "TEXT", "varchar(255)", "BLOB", "REAL", "datetime", "DATE", "time"];
        let held = |dialect: &dyn Fn(FieldType, &str) -> bool, words, all: &[&str]| {
            for declared in all {
                let kind = of(words, declared).unwrap_or_else(|| panic!("{declared} meets nothing"));
                assert!(dialect(kind, declared), "{declared} does not hold {}", kind.name());
            }
        };
        held(&|kind, declared| PostgresText.holds(kind, declared), Words::Postgres, &postgres);
        held(&|kind, declared| MysqlText.holds(kind, declared), Words::Mysql, &mysql);
        held(&|kind, declared| SqliteText.holds(kind, declared), Words::Sqlite, &sqlite);
        for nothing in ["real", "numeric", "character(3)", "text[]", "point", "numeric(50,2)"] {
            assert_eq!(of(Words::Postgres, nothing), None, "{nothing}");
        }
    }

    #[test]
    fn defaults_are_values_or_the_databases_own() {
        let (text, number, money) =
            (FieldType::String, FieldType::Int64, FieldType::Decimal { precision: 10, scale: 2 });
        for (kind, default, literal) in [
            (text, "'new'::character varying", Some("new")),
            (text, "'it''s'", Some("it's")),
            (text, "''::text", Some("")),
            (number, "0", Some("0")),
            (number, "'-1'::integer", Some("-1")),
            (number, "nextval('orders_id_seq'::regclass)", None),
            (money, "0", Some("0.00")),
            (money, "0.00::numeric(10,2)", Some("0.00")),
            (FieldType::Bool, "true", Some("true")),
            (FieldType::Bool, "0", Some("false")),
            (FieldType::Timestamp { digits: 6 }, "now()", None),
            (FieldType::Timestamp { digits: 0 }, "current_timestamp()", None),
            (text, "CURRENT_USER", None),
            (FieldType::Json, "'{}'::jsonb", Some("{}")),
        ] {
            assert_eq!(super::literal(kind, default).as_deref(), literal, "{default}");
        }
    }
}
