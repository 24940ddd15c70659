//! Writing rows behind the version fence (record-cache 93, 94).

use rusqlite::types::{ToSqlOutput, ValueRef as Stored};
use rusqlite::{CachedStatement, Connection, OptionalExtension, ToSql, Transaction, TransactionBehavior};
use shardine_model::{RowKeyBuf, Table, ValueRef, Version};

use super::fault::classify;
use super::text;
use crate::columns::{self, VERSION};
use crate::error::Error;
use crate::job::FlushRow;
use crate::row;

/// Row by row in one transaction: inside the process that is as fast as many rows per statement.
pub(super) fn write(connection: &mut Connection, table: &Table, rows: &[FlushRow]) -> Result<Vec<Version>, Error> {
    // Immediate: the lock is waited for once, before the first row, whatever the first statement will be.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(classify)?;
    let held = write_rows(&transaction, table, rows)?;
    transaction.commit().map_err(classify)?;
    Ok(held)
}

fn write_rows(transaction: &Transaction<'_>, table: &Table, rows: &[FlushRow]) -> Result<Vec<Version>, Error> {
    let mut statement = transaction.prepare_cached(&upsert(table)).map_err(classify)?;
    let mut held = Vec::with_capacity(rows.len());
    for flush in rows {
        bind_row(&mut statement, table, flush)?;
        let changed = statement.raw_execute().map_err(classify)?;
        held.push(if changed == 1 { flush.version } else { held_version(transaction, table, &flush.row)? });
    }
    Ok(held)
}

/// The whole row, or nothing if SQL's |version| is not below ours.
fn upsert(table: &Table) -> String {
    let columns = columns::all(table);
    let (name, count) = (text::quoted(&table.name), columns.len());
    let address = text::names(columns::address(table));
    let changes: Vec<String> = columns
        .iter()
        .filter(|column| column.changes())
        .map(|column| text::quoted(column.name()))
        .map(|column| format!("{column} = excluded.{column}"))
        .collect();
    let (names, marks, changes) = (text::names(columns), text::marks(count), changes.join(", "));
    format!(
        "INSERT INTO {name} AS held ({names}) VALUES ({marks}) ON CONFLICT ({address}) DO UPDATE SET {changes} \
         WHERE abs(excluded.{VERSION}) > abs(held.{VERSION})"
    )
}

/// Binds in the order of `columns::all`.
fn bind_row(statement: &mut CachedStatement<'_>, table: &Table, flush: &FlushRow) -> Result<(), Error> {
    let parts = row::sort_parts(table, &flush.row)?;
    let fields = row::field_values(table, flush)?;
    let mut parameter = 0;
    let mut bind = |value: &dyn ToSql| {
        parameter += 1;
        statement.raw_bind_parameter(parameter, value).map_err(classify)
    };
    bind(&&flush.row.key[..])?;
    if table.has_sort() {
        bind(&&flush.row.sort[..])?;
    }
    bind(&flush.version.0)?;
    bind(&row::stored_position(flush.row.as_ref().position()))?;
    for value in parts.iter().map(|part| part.as_ref()).chain(fields) {
        bind(&Bound(value))?;
    }
    Ok(())
}

/// A value on its way into a parameter, borrowed.
struct Bound<'a>(ValueRef<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            ValueRef::Int(value) => Stored::Integer(value),
            ValueRef::Uint(value) => Stored::Integer(value as i64),
            ValueRef::Float(value) => Stored::Real(value),
            ValueRef::Str(value) => Stored::Text(value.as_bytes()),
            ValueRef::Blob(value) => Stored::Blob(value),
        }))
    }
}

/// What stands in the way of a write that changed nothing.
fn held_version(transaction: &Transaction<'_>, table: &Table, row: &RowKeyBuf) -> Result<Version, Error> {
    let address = columns::address(table);
    let (names, marks) = (text::names(address.iter().copied()), text::marks(address.len()));
    let select = format!("SELECT {VERSION} FROM {} WHERE ({names}) = ({marks})", text::quoted(&table.name));
    let mut statement = transaction.prepare_cached(&select).map_err(classify)?;
    let values: [&[u8]; 2] = [&row.key, &row.sort];
    let parameters = rusqlite::params_from_iter(&values[..address.len()]);
    let version = statement.query_row(parameters, |answer| answer.get(0)).optional().map_err(classify)?;
    Ok(version.map_or(Version::NEVER, Version))
}
