//! Reading rows by key, many in one statement, and pages of rows in order.

use mysql_async::{Row, Value as Stored};
use shardine_model::{Field, FieldType, RowKeyBuf, Table, ValueRef, Version, limits};

use super::connection::Connection;
use super::text::MysqlText;
use crate::columns;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::job::{Found, ScanJob};
use crate::key::{self, KeyValue};
use crate::pages::{self, Page, Parameter};
use crate::row::{self, Cell};

pub(super) fn load(connection: &mut Connection, table: &Table, rows: &[RowKeyBuf]) -> Result<Found, Error> {
    let Some(last) = rows.last() else { return Ok(Found::default()) };
    // Doubling sizes keep the number of statements to prepare small; the last key fills up what is left, and asking
    // twice for a row returns it once.
    let size = rows.len().next_power_of_two().min(limits::LOAD_ROWS_MAX);
    let asked = rows.iter().chain(std::iter::repeat(last)).take(size);
    let query = format!("SELECT {} {}", MysqlText.names(&columns::selected(table)), held_by_key(table, size));
    let answers = connection.query(&query, addresses(table, asked))?;
    Found::gather(rows, &answers, |found, answer| take(found, table, answer))
}

/// The rows of `count` addresses. Pairs are compared part by part, which the index can answer; as pairs it could not.
pub(super) fn held_by_key(table: &Table, count: usize) -> String {
    let name = MysqlText.quoted(columns::table_name(table));
    let address: Vec<String> = columns::address(table).iter().map(|column| MysqlText.quoted(column.name)).collect();
    match &address[..] {
        [key, sort] => {
            let one = format!("({key} = ? AND {sort} = ?)");
            format!("FROM {name} WHERE {}", vec![one; count].join(" OR "))
        }
        address => format!("FROM {name} WHERE {} IN ({})", address[0], MysqlText.marks(1, count)),
    }
}

pub(super) fn addresses<'a>(table: &Table, rows: impl Iterator<Item = &'a RowKeyBuf>) -> Vec<Stored> {
    let mut values = Vec::new();
    for row in rows {
        // Keys that the column cannot hold were left out long before.
        values.push(match key::to_sql(table, &row.key) {
            Some(KeyValue::Bytes(key)) => Stored::Bytes(key.to_vec()),
            Some(KeyValue::Text(key)) => Stored::Bytes(key.as_bytes().to_vec()),
            Some(KeyValue::Integer(key)) => Stored::Int(key),
            None => Stored::NULL,
        });
        values.extend(table.has_sort().then(|| Stored::Bytes(row.sort.to_vec())));
    }
    values
}

pub(super) fn scan(connection: &mut Connection, job: &ScanJob) -> Result<(Found, Option<RowKeyBuf>), Error> {
    let selected = MysqlText.names(&columns::selected(&job.table));
    let (query, parameters) = pages::select(&MysqlText, job, &selected)?;
    let parameters = parameters.into_iter().map(|parameter| match parameter {
        Parameter::Integer(value) => Stored::Int(value),
        Parameter::Bytes(bytes) => Stored::Bytes(bytes),
        Parameter::Text(text) => Stored::Bytes(text.into_bytes()),
    });
    let answers = connection.query(&query, parameters.collect())?;
    let position = |answer: &Row| match answer.as_ref(pages::position_at(&job.table)) {
        Some(Stored::Int(position)) => Some(*position),
        _ => None,
    };
    Page::of(job, &answers, position, |found, answer| take(found, &job.table, answer))
}

/// The address of a selected row. Fails if somebody made the key column something else than it was.
pub(super) fn row_key(table: &Table, answer: &Row) -> Result<RowKeyBuf, Error> {
    let bytes = |index: usize| match answer.as_ref(index) {
        Some(Stored::Bytes(bytes)) => Ok(bytes.as_slice().into()),
        Some(Stored::Int(number)) if columns::key_type(table) == FieldType::Int64 => {
            Ok(number.to_string().into_bytes().into())
        }
        Some(Stored::UInt(number)) if columns::key_type(table) == FieldType::Int64 => {
            Ok(number.to_string().into_bytes().into())
        }
        _ => Err(Error::definition(format!("the key of table {} is of another type in SQL", table.name))),
    };
    let sort = if table.has_sort() { bytes(1)? } else { Box::default() };
    Ok(RowKeyBuf { table: table.id, key: bytes(0)?, sort })
}

pub(super) fn version(table: &Table, answer: &Row) -> Result<Version, String> {
    let Some(index) = columns::version_at(table) else { return Ok(row::UNVERSIONED) };
    match answer.as_ref(index) {
        Some(Stored::Int(version)) => Ok(Version(*version)),
        other => Err(format!("the version is {}", kind_of(other))),
    }
}

/// Takes a selected row into `found`, checked against the definition, and gives its address.
fn take(found: &mut Found, table: &Table, answer: &Row) -> Result<RowKeyBuf, Error> {
    let row = row_key(table, answer)?;
    let fields = table.fields.iter().zip(columns::fields_at(table)..);
    let cells = fields.map(|(field, index)| cell(field, answer.as_ref(index)));
    found.take(table, row.clone(), version(table, answer), cells);
    Ok(row)
}

/// A stored value as the field's type has it, NULL as `None`.
fn cell<'a>(field: &Field, stored: Option<&'a Stored>) -> Cell<'a> {
    let value = match (field.kind, stored) {
        (_, None | Some(Stored::NULL)) => return Ok(None),
        (FieldType::Int64, Some(Stored::Int(value))) => ValueRef::Int(*value),
        (FieldType::Uint64, Some(Stored::UInt(value))) => ValueRef::Uint(*value),
        (FieldType::Uint64, Some(Stored::Int(value))) if *value >= 0 => ValueRef::Uint(value.unsigned_abs()),
        (FieldType::Float64, Some(Stored::Double(value))) => ValueRef::Float(*value),
        (FieldType::String, Some(Stored::Bytes(bytes))) => ValueRef::Str(text(bytes)?),
        (FieldType::Blob, Some(Stored::Bytes(bytes))) => ValueRef::Blob(bytes),
        (FieldType::Bool, Some(Stored::Int(value @ (0 | 1)))) => ValueRef::Bool(*value == 1),
        (FieldType::Json, Some(Stored::Bytes(bytes))) => ValueRef::Json(text(bytes)?),
        (FieldType::Decimal { .. } | FieldType::Uuid, Some(Stored::Bytes(bytes))) => {
            return row::sql_cell(field.kind, Some(text(bytes)?));
        }
        (
            FieldType::Timestamp { .. } | FieldType::Date | FieldType::Time { .. },
            Some(stored @ (Stored::Date(..) | Stored::Time(..))),
        ) => return row::sql_cell(field.kind, Some(&time_text(field.kind, stored))),
        (kind, other) => return Err(format!("{} where {} is needed", kind_of(other), kind.name())),
    };
    Ok(Some(value))
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "text that is not UTF-8".to_owned())
}

/// A moment, day or time of day as its text; zeros for a day, and times of more than a day, are none that can be read.
fn time_text(kind: FieldType, stored: &Stored) -> String {
    match *stored {
        Stored::Date(year, month, day, 0, 0, 0, 0) if kind == FieldType::Date => {
            format!("{year:04}-{month:02}-{day:02}")
        }
        Stored::Date(year, month, day, hour, minute, second, micros) => {
            format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
        }
        Stored::Time(false, 0, hour, minute, second, micros) => {
            format!("{hour:02}:{minute:02}:{second:02}.{micros:06}")
        }
        Stored::Time(is_negative, days, hour, minute, second, _) => {
            let hours = days * 24 + u32::from(hour);
            format!("{}{hours:02}:{minute:02}:{second:02}", if is_negative { "-" } else { "" })
        }
        _ => String::new(),
    }
}

fn kind_of(stored: Option<&Stored>) -> &'static str {
    match stored {
        None | Some(Stored::NULL) => "NULL",
        Some(Stored::Bytes(_)) => "bytes",
        Some(Stored::Int(_) | Stored::UInt(_)) => "an integer",
        Some(Stored::Float(_) | Stored::Double(_)) => "a float",
        Some(Stored::Date(..) | Stored::Time(..)) => "a time",
    }
}
