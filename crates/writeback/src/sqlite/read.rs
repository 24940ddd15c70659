//! Reading rows by key: one statement for up to 200 of them (record-cache 39).

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::types::ValueRef as Stored;
use rusqlite::{CachedStatement, Connection, Row};
use shardine_model::{FieldType, RowKeyBuf, Table, ValueRef, Version, limits};

use super::fault::classify;
use super::text;
use crate::columns::{self, Column};
use crate::error::Error;
use crate::job::Found;
use crate::row::Cell;

pub(super) fn load(connection: &Connection, table: &Table, rows: &[RowKeyBuf]) -> Result<Found, Error> {
    assert!(rows.len() <= limits::LOAD_ROWS_MAX, "one statement reads at most {} rows", limits::LOAD_ROWS_MAX);
    let mut found = Found::default();
    let Some(last) = rows.last() else { return Ok(found) };
    // Doubling sizes keep the number of statements to prepare small; the last key fills up what is left, and asking
    // twice for a row returns it once.
    let size = rows.len().next_power_of_two().min(limits::LOAD_ROWS_MAX);
    let mut statement = connection.prepare_cached(&select(table, size)).map_err(classify)?;
    bind_keys(&mut statement, table, rows.iter().chain(std::iter::repeat(last)).take(size)).map_err(classify)?;

    // Answers come in SQL's order and are given in the order of the question.
    let mut stored = BTreeMap::new();
    let mut answers = statement.raw_query();
    while let Some(answer) = answers.next().map_err(classify)? {
        let row = row_key(table, answer).map_err(classify)?;
        let mut one = Found::default();
        take(&mut one, table, row.clone(), answer)?;
        stored.insert(row, one);
    }
    let mut answered = BTreeSet::new();
    for row in rows.iter().filter(|row| answered.insert(*row)) {
        match stored.remove(row) {
            Some(one) => found.absorb(one),
            None => found.take_absent(row.clone()),
        }
    }
    Ok(found)
}

/// What every reading statement selects: the address, the version, the fields.
pub(super) fn selected(table: &Table) -> String {
    let fields = table.fields.iter().map(Column::Field);
    text::names(columns::address(table).into_iter().chain([Column::Version]).chain(fields))
}

pub(super) fn select(table: &Table, size: usize) -> String {
    let (selected, name, address) = (selected(table), text::quoted(&table.name), columns::address(table));
    let keys = if address.len() == 1 {
        text::marks(size)
    } else {
        format!("VALUES {}", vec![format!("({})", text::marks(address.len())); size].join(", "))
    };
    format!("SELECT {selected} FROM {name} WHERE ({}) IN ({keys})", text::names(address))
}

fn bind_keys<'a>(
    statement: &mut CachedStatement<'_>,
    table: &Table,
    rows: impl Iterator<Item = &'a RowKeyBuf>,
) -> rusqlite::Result<()> {
    let mut parameter = 0;
    for row in rows {
        parameter += 1;
        statement.raw_bind_parameter(parameter, &row.key[..])?;
        if table.has_sort() {
            parameter += 1;
            statement.raw_bind_parameter(parameter, &row.sort[..])?;
        }
    }
    Ok(())
}

/// The address of a selected row. Fails if somebody made the key column something else than bytes.
pub(super) fn row_key(table: &Table, answer: &Row<'_>) -> rusqlite::Result<RowKeyBuf> {
    let key = answer.get_ref(0)?.as_blob()?.into();
    let sort = if table.has_sort() { answer.get_ref(1)?.as_blob()?.into() } else { Box::default() };
    Ok(RowKeyBuf { table: table.id, key, sort })
}

/// Takes a selected row into `found`, checked against the definition.
pub(super) fn take(found: &mut Found, table: &Table, row: RowKeyBuf, answer: &Row<'_>) -> Result<(), Error> {
    let version_at = columns::address(table).len();
    let version = match answer.get_ref(version_at).map_err(classify)? {
        Stored::Integer(version) => Ok(Version(version)),
        other => Err(format!("the version is {}", other.data_type())),
    };
    let cells = table.fields.iter().enumerate().map(|(index, field)| {
        let stored = answer.get_ref(version_at + 1 + index).map_err(|error| error.to_string())?;
        cell(field.kind, stored)
    });
    found.take(table, row, version, cells);
    Ok(())
}

/// A stored value as the field's type has it, NULL as `None`.
pub(super) fn cell(kind: FieldType, stored: Stored<'_>) -> Cell<'_> {
    let value = match (kind, stored) {
        (_, Stored::Null) => return Ok(None),
        (FieldType::Int64, Stored::Integer(value)) => ValueRef::Int(value),
        (FieldType::Uint64, Stored::Integer(value)) => ValueRef::Uint(value as u64),
        (FieldType::Float64, Stored::Real(value)) => ValueRef::Float(value),
        (FieldType::String, Stored::Text(bytes)) => {
            ValueRef::Str(std::str::from_utf8(bytes).map_err(|_| "text that is not UTF-8".to_owned())?)
        }
        (FieldType::Blob, Stored::Blob(bytes)) => ValueRef::Blob(bytes),
        (kind, other) => return Err(format!("{} where {} is needed", other.data_type(), kind.name())),
    };
    Ok(Some(value))
}
