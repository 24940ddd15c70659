//! A record's key as the key column of its table holds it. In a managed table that is bytes; a mapped table may hold text
//! or numbers, and then not every key can be there.

use shardine_model::{FieldType, Table};

use crate::columns;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyValue<'a> {
    Bytes(&'a [u8]),
    Text(&'a str),
    Integer(i64),
}

/// The key as SQL holds it; `None` if SQL cannot hold it, so that no row of it can be there.
pub(crate) fn to_sql<'a>(table: &Table, key: &'a [u8]) -> Option<KeyValue<'a>> {
    let text = || std::str::from_utf8(key).ok();
    match columns::key_type(table) {
        // Some databases compare texts as if they had no spaces behind them: such keys would be one row with others.
        FieldType::String => text().filter(|text| !text.ends_with(' ') && !text.contains('\0')).map(KeyValue::Text),
        // `042` and `+42` would be one row with `42`.
        FieldType::Int64 => {
            let text = text()?;
            let number: i64 = text.parse().ok()?;
            (number.to_string() == text).then_some(KeyValue::Integer(number))
        }
        // A definition lets no other type into a key.
        _ => Some(KeyValue::Bytes(key)),
    }
}

/// Why a row cannot be written.
pub(crate) fn unfit(table: &Table) -> String {
    let kind = columns::key_type(table).name();
    format!("the key is no {kind} as the key column of {} holds it", columns::table_name(table))
}

#[cfg(test)]
mod tests {
    use shardine_model::{Deletes, Mapping};

    use super::*;

    fn mapped(key_type: FieldType) -> Table {
        let (version, deletes) = (Some("v".into()), Deletes::Row);
        let (table, key, columns) = ("t".into(), "k".into(), Vec::new());
        let mapping = Mapping { table, key, key_type, version, columns, deletes };
        let mut table = Table::kv();
        table.sql.mapping = Some(mapping);
        table
    }

    #[test]
    fn two_keys_are_never_one_row() {
        let numbers = mapped(FieldType::Int64);
        assert_eq!(to_sql(&numbers, b"-42"), Some(KeyValue::Integer(-42)));
        for odd in [&b"042"[..], b"+42", b" 42", b"42 ", b"", b"-0", b"x", b"9223372036854775808", b"\xff"] {
            assert_eq!(to_sql(&numbers, odd), None, "{odd:?}");
        }
        let texts = mapped(FieldType::String);
        assert_eq!(to_sql(&texts, "ключ".as_bytes()), Some(KeyValue::Text("ключ")));
        for odd in [&b"Bob "[..], b"\xff", b"a\0b"] {
            assert_eq!(to_sql(&texts, odd), None, "{odd:?}");
        }
        assert_eq!(to_sql(&Table::kv(), b"\xff "), Some(KeyValue::Bytes(b"\xff ")));
    }
}
