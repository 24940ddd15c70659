//! Between the text of the protocol and typed values: which field is meant, what a word means for it, how a value prints.
//!
//! Reads and writes no record.

use shardine_model::json::is_json;
use shardine_model::number::float;
use shardine_model::row::FieldRef;
use shardine_model::table::{STRING_FIELD, VALUE_FIELD};
use shardine_model::{ErrorCode, Field, FieldType, FieldsView, SqlValue, Table, ValueRef, limits, text as model_text};

use crate::failure::Failure;
use crate::wire::{self, Protocol};

/// A field as commands name it. In tables with a definition it always has a value, at least its default.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a> {
    pub(crate) reference: FieldRef<'a>,
    pub(crate) field: Option<&'a Field>,
}

impl<'a> Slot<'a> {
    /// Finds the field `name` of a table; `None` is the dynamic table, which takes every name.
    #[inline]
    pub(crate) fn find(table: Option<&'a Table>, name: &'a [u8]) -> Result<Self, Failure> {
        let Some(table) = table else { return Ok(Self { reference: FieldRef::Name(name), field: None }) };
        match table.field(name) {
            Some(field) => Ok(Self { reference: FieldRef::Id(field.id), field: Some(field) }),
            None => Err(unknown_field(table, name)),
        }
    }

    /// The field that makes a record a string.
    #[inline]
    pub(crate) fn of_string(table: Option<&'a Table>) -> Result<Self, Failure> {
        let Some(table) = table else { return Ok(Self { reference: STRING_FIELD, field: None }) };
        Self::find(Some(table), VALUE_FIELD.as_bytes()).map_err(|_| {
            let name = &table.name;
            let sentence = format!("records of {name} are no strings: the table has no field '{VALUE_FIELD}'");
            Failure::new(ErrorCode::WrongType, sentence)
        })
    }

    /// The value; NULL is none, as a field that is not there has none in Redis.
    #[inline]
    pub(crate) fn read<'r>(&self, fields: &FieldsView<'r>) -> Option<ValueRef<'r>>
    where
        'a: 'r,
    {
        let value = fields.get(self.reference).or_else(|| self.field.map(|field| field.default.as_ref()));
        value.filter(|value| *value != ValueRef::Null)
    }

    /// A word as a value of this field.
    #[inline]
    pub(crate) fn parse<'v>(&self, text: &'v [u8]) -> Result<ValueRef<'v>, Failure> {
        if text.len() > limits::VALUE_BYTES_MAX {
            let (length, limit) = (text.len(), limits::VALUE_BYTES_MAX);
            return Err(Failure::new(
                ErrorCode::TooLarge,
                format!("the value has {length} bytes, the limit is {limit}"),
            ));
        }
        let Some(field) = self.field else { return Ok(ValueRef::Blob(text)) };
        let value = match field.kind {
            FieldType::Int64 => decimal(text).map(ValueRef::Int),
            FieldType::Uint64 => unsigned(text).map(ValueRef::Uint),
            // `nan` and `inf` would poison every sum that they enter.
            FieldType::Float64 => float(text).filter(|number| number.is_finite()).map(ValueRef::Float),
            FieldType::String => plain(text).map(ValueRef::Str),
            FieldType::Blob => Some(ValueRef::Blob(text)),
            FieldType::Bool => plain(text).and_then(model_text::truth).map(ValueRef::Bool),
            FieldType::Json => plain(text).filter(|text| is_json(text)).map(ValueRef::Json),
            kind @ (FieldType::Decimal { .. } | FieldType::Timestamp { .. } | FieldType::Date)
            | kind @ (FieldType::Time { .. } | FieldType::Uuid) => {
                plain(text).and_then(|text| SqlValue::parse(kind, text)).map(ValueRef::Sql)
            }
        };
        value.ok_or_else(|| {
            let (name, kind) = (&field.name, field.kind.name());
            let rule = if field.kind.is_plain() {
                String::new()
            } else {
                format!(": it wants {}", model_text::rule(field.kind))
            };
            Failure::new(ErrorCode::WrongType, format!("field {name} is {kind}, and {} is none{rule}", quote(text)))
        })
    }
}

fn plain(text: &[u8]) -> Option<&str> {
    std::str::from_utf8(text).ok()
}

fn unknown_field(table: &Table, name: &[u8]) -> Failure {
    let names: Vec<&str> = table.fields.iter().take(16).map(|field| field.name.as_str()).collect();
    let more = if table.fields.len() > 16 { ", …" } else { "" };
    let (wanted, table, names) = (quote(name), &table.name, names.join(", "));
    Failure::new(ErrorCode::UnknownField, format!("table {table} has no field {wanted}, only {names}{more}"))
}

/// A word from outside as it may stand in an error: short and printable.
pub(crate) fn quote(text: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 64;
    let shown = text.get(..SHOWN_BYTES_MAX).unwrap_or(text);
    let dots = if shown.len() < text.len() { "…" } else { "" };
    format!("'{}{dots}'", shown.escape_ascii())
}

/// A value where NULL may be one.
pub(crate) fn write_value(out: &mut Vec<u8>, value: ValueRef<'_>, protocol: Protocol) {
    match value {
        ValueRef::Null => wire::null(out, protocol),
        value => write_bulk(out, value),
    }
}

/// A value that is not NULL, which whoever writes it has seen to.
#[inline]
pub(crate) fn write_bulk(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::Blob(bytes) => wire::bulk(out, bytes),
        ValueRef::Str(text) => wire::bulk(out, text.as_bytes()),
        ValueRef::Int(number) => wire::bulk(out, itoa::Buffer::new().format(number).as_bytes()),
        ValueRef::Uint(number) => wire::bulk(out, itoa::Buffer::new().format(number).as_bytes()),
        ValueRef::Float(number) => wire::bulk(out, number.to_string().as_bytes()),
        value => with_text(value, |text| wire::bulk(out, text)),
    }
}

/// The value as text, for commands that look inside it.
pub(crate) fn with_text<T>(value: ValueRef<'_>, look: impl FnOnce(&[u8]) -> T) -> T {
    match value {
        ValueRef::Blob(bytes) => look(bytes),
        ValueRef::Str(text) => look(text.as_bytes()),
        ValueRef::Int(number) => look(itoa::Buffer::new().format(number).as_bytes()),
        ValueRef::Uint(number) => look(itoa::Buffer::new().format(number).as_bytes()),
        ValueRef::Float(number) => look(number.to_string().as_bytes()),
        ValueRef::Null => look(b""),
        ValueRef::Bool(truth) => look(if truth { b"true" } else { b"false" }),
        ValueRef::Json(text) => look(text.as_bytes()),
        ValueRef::Sql(value) => look(value.to_string().as_bytes()),
    }
}

/// A whole number as Redis takes it: in range, and written as Redis would write it, so no plus sign, no `-0`, no `01`.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-").unwrap_or(text) {
        [b'1'..=b'9', ..] => decimal(text),
        [b'0'] if text.len() == 1 => Some(0),
        _ => None,
    }
}

/// A whole number for a field, which may have zeros in front.
fn decimal(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if !digits.first()?.is_ascii_digit() {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

pub(crate) fn unsigned(text: &[u8]) -> Option<u64> {
    if !text.first()?.is_ascii_digit() {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A cursor as Redis takes it, which reads it with C's `strtoul`: signs and zeros in front, and nothing at all, are allowed.
pub(crate) fn cursor(text: &[u8]) -> Option<u64> {
    match text {
        [] => Some(0),
        [b'-', digits @ ..] => unsigned(digits).map(u64::wrapping_neg),
        [b'+', digits @ ..] | digits => unsigned(digits),
    }
}

/// Whether a word is an option's name, whatever its case.
#[inline]
pub(crate) fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_as_redis_takes_them() {
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        for text in [&b""[..], b"+1", b" 1", b"1 ", b"-", b"-0", b"01", b"9223372036854775808", b"1.0"] {
            assert_eq!(integer(text), None, "{:?}", String::from_utf8_lossy(text));
        }
        assert_eq!(
            (integer(b"0"), cursor(b"-1"), cursor(b""), cursor(b"+01")),
            (Some(0), Some(u64::MAX), Some(0), Some(1))
        );
    }

    #[test]
    fn a_quoted_word_is_short_and_printable() {
        assert_eq!(quote(b"a\r\nb"), "'a\\r\\nb'");
        assert!(quote(&[b'x'; 500]).len() < 80);
    }
}
