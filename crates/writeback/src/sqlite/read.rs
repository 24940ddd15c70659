//! Reading rows by key: one statement for up to 200 of them (records 39).

use rusqlite::types::ValueRef as Stored;
use rusqlite::{CachedStatement, Connection, Row};
use shardine_model::{FieldType, RowKeyBuf, Table, ValueRef, Version, limits};

use super::fault::classify;
use super::text::SqliteText;
use crate::columns;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::job::Found;
use crate::key::{self, KeyValue};
use crate::row::{self, Cell};

pub(super) fn load(connection: &Connection, table: &Table, rows: &[RowKeyBuf]) -> Result<Found, Error> {
    assert!(rows.len() <= limits::LOAD_ROWS_MAX, "one statement reads at most {} rows", limits::LOAD_ROWS_MAX);
    let mut found = Found::default();
    let Some(last) = rows.last() else { return Ok(found) };
    // Doubling sizes keep the number of statements to prepare small; the last key fills up what is left, and asking
    // twice for a row returns it once.
    let size = rows.len().next_power_of_two().min(limits::LOAD_ROWS_MAX);
    let mut statement = connection.prepare_cached(&select(table, size)).map_err(classify)?;
    bind_keys(&mut statement, table, rows.iter().chain(std::iter::repeat(last)).take(size)).map_err(classify)?;

    let mut answers = statement.raw_query();
    while let Some(answer) = answers.next().map_err(classify)? {
        let row = row_key(table, answer).map_err(classify)?;
        take(&mut found, table, row, answer);
    }
    Ok(found.in_order(rows))
}

pub(super) fn select(table: &Table, size: usize) -> String {
    let (selected, name) = (SqliteText.names(&columns::selected(table)), SqliteText.quoted(columns::table_name(table)));
    let address = columns::address(table);
    let keys = if address.len() == 1 {
        SqliteText.marks(1, size)
    } else {
        format!("VALUES {}", vec![format!("({})", SqliteText.marks(1, address.len())); size].join(", "))
    };
    format!("SELECT {selected} FROM {name} WHERE ({}) IN ({keys})", SqliteText.names(&address))
}

fn bind_keys<'a>(
    statement: &mut CachedStatement<'_>,
    table: &Table,
    rows: impl Iterator<Item = &'a RowKeyBuf>,
) -> rusqlite::Result<()> {
    let mut parameter = 0;
    for row in rows {
        parameter += 1;
        bind_key(statement, parameter, table, &row.key)?;
        if table.has_sort() {
            parameter += 1;
            statement.raw_bind_parameter(parameter, &row.sort[..])?;
        }
    }
    Ok(())
}

/// Keys that the column cannot hold were left out long before.
pub(super) fn bind_key(
    statement: &mut CachedStatement<'_>,
    parameter: usize,
    table: &Table,
    key: &[u8],
) -> rusqlite::Result<()> {
    match key::to_sql(table, key) {
        Some(KeyValue::Text(text)) => statement.raw_bind_parameter(parameter, text),
        Some(KeyValue::Integer(number)) => statement.raw_bind_parameter(parameter, number),
        Some(KeyValue::Bytes(bytes)) => statement.raw_bind_parameter(parameter, bytes),
        None => statement.raw_bind_parameter(parameter, rusqlite::types::Null),
    }
}

/// The address of a selected row. Fails if somebody made the key column something else than it was.
pub(super) fn row_key(table: &Table, answer: &Row<'_>) -> rusqlite::Result<RowKeyBuf> {
    let key = match (columns::key_type(table), answer.get_ref(0)?) {
        (FieldType::String, stored) => stored.as_str()?.as_bytes().into(),
        (FieldType::Int64, stored) => stored.as_i64()?.to_string().into_bytes().into(),
        (_, stored) => stored.as_blob()?.into(),
    };
    let sort = if table.has_sort() { answer.get_ref(1)?.as_blob()?.into() } else { Box::default() };
    Ok(RowKeyBuf { table: table.id, key, sort })
}

/// Takes a selected row into `found`, checked against the definition.
pub(super) fn take(found: &mut Found, table: &Table, address: RowKeyBuf, answer: &Row<'_>) {
    let stored = |index: usize| answer.get_ref(index).map_err(|error| error.to_string());
    let version = match columns::version_at(table).map(stored) {
        None => Ok(row::UNVERSIONED),
        Some(Ok(Stored::Integer(version))) => Ok(Version(version)),
        Some(Ok(other)) => Err(format!("the version is {}", other.data_type())),
        Some(Err(error)) => Err(error),
    };
    let cells =
        table.fields.iter().zip(columns::fields_at(table)..).map(|(field, index)| cell(field.kind, stored(index)?));
    found.take(table, address, version, cells);
}

/// A stored value as the field's type has it, NULL as `None`.
pub(super) fn cell(kind: FieldType, stored: Stored<'_>) -> Cell<'_> {
    let value = match (kind, stored) {
        (_, Stored::Null) => return Ok(None),
        (FieldType::Int64, Stored::Integer(value)) => ValueRef::Int(value),
        (FieldType::Uint64, Stored::Integer(value)) => ValueRef::Uint(value as u64),
        (FieldType::Float64, Stored::Real(value)) => ValueRef::Float(value),
        (FieldType::String, Stored::Text(bytes)) => ValueRef::Str(text(bytes)?),
        (FieldType::Blob, Stored::Blob(bytes)) => ValueRef::Blob(bytes),
        (FieldType::Bool, Stored::Integer(value @ (0 | 1))) => ValueRef::Bool(value == 1),
        (FieldType::Json, Stored::Text(bytes)) => ValueRef::Json(text(bytes)?),
        (
            FieldType::Decimal { .. }
            | FieldType::Timestamp { .. }
            | FieldType::Date
            | FieldType::Time { .. }
            | FieldType::Uuid,
            Stored::Text(bytes),
        ) => return row::sql_cell(kind, Some(text(bytes)?)),
        (kind, other) => return Err(format!("{} where {} is needed", other.data_type(), kind.name())),
    };
    Ok(Some(value))
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|_| "text that is not UTF-8".to_owned())
}
