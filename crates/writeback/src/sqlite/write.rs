//! Writing rows behind the version fence (write-back 93, 94).

use rusqlite::types::{ToSqlOutput, ValueRef as Stored};
use rusqlite::{CachedStatement, Connection, ToSql, Transaction, TransactionBehavior};
use shardine_model::sql::FlushRow;
use shardine_model::{RowKeyBuf, Table, ValueRef, Version};

use super::fault::classify;
use super::owner;
use super::read::bind_key;
use super::text::SqliteText;
use crate::columns::{self, Column, Part};
use crate::dialect::Dialect;
use crate::error::Error;
use crate::owner::Mark;
use crate::row;

/// Row by row in one transaction: inside the process that is as fast as many rows per statement.
pub(super) fn write(
    connection: &mut Connection,
    table: &Table,
    rows: &[FlushRow],
    mark: Option<&Mark>,
) -> Result<Vec<Version>, Error> {
    // Immediate: the lock is waited for once, before the first row, whatever the first statement will be.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(classify)?;
    if let Some(mark) = mark {
        owner::leave(&transaction, mark)?;
    }
    let held = write_rows(&transaction, table, rows)?;
    transaction.commit().map_err(classify)?;
    Ok(held)
}

fn write_rows(transaction: &Transaction<'_>, table: &Table, rows: &[FlushRow]) -> Result<Vec<Version>, Error> {
    let mut statement = transaction.prepare_cached(&upsert(table)).map_err(classify)?;
    let columns = columns::all(table);
    let mut held = Vec::with_capacity(rows.len());
    for flush in rows {
        bind_row(&mut statement, table, &columns, flush)?;
        let changed = statement.raw_execute().map_err(classify)?;
        held.push(if changed == 1 { flush.version } else { held_version(transaction, table, &flush.row)? });
    }
    Ok(held)
}

/// The whole row, or nothing if SQL's |version| is not below ours.
fn upsert(table: &Table) -> String {
    let columns = columns::all(table);
    let (name, count) = (SqliteText.quoted(columns::table_name(table)), columns.len());
    let address = SqliteText.names(&columns::address(table));
    let changes: Vec<String> = columns
        .iter()
        .filter(|column| column.changes())
        .map(|column| (column, SqliteText.assigned(table, column, |name| format!("excluded.{name}"), "held")))
        .map(|(column, value)| format!("{} = {value}", SqliteText.quoted(column.name)))
        .collect();
    let version = version_name(table);
    let (names, marks, changes) = (SqliteText.names(&columns), SqliteText.marks(1, count), changes.join(", "));
    format!(
        "INSERT INTO {name} AS held ({names}) VALUES ({marks}) ON CONFLICT ({address}) DO UPDATE SET {changes} \
         WHERE abs(excluded.{version}) > abs(held.{version})"
    )
}

/// Binds in the order of the columns, which are all that the table has.
fn bind_row(
    statement: &mut CachedStatement<'_>,
    table: &Table,
    columns: &[Column<'_>],
    flush: &FlushRow,
) -> Result<(), Error> {
    let parts = row::sort_parts(table, &flush.row)?;
    let fields = row::field_values(table, flush)?;
    let mut values = parts.iter().map(|part| part.as_ref()).chain(fields);
    for (column, parameter) in columns.iter().zip(1..) {
        let bound = match column.part {
            Part::Key => bind_key(statement, parameter, table, &flush.row.key),
            Part::Sort => statement.raw_bind_parameter(parameter, &flush.row.sort[..]),
            Part::Version => statement.raw_bind_parameter(parameter, flush.version.0),
            Part::Position => {
                statement.raw_bind_parameter(parameter, row::stored_position(flush.row.as_ref().position()))
            }
            Part::Sorted(_) | Part::Field(_) => {
                let value = values.next().expect("one value per part and field");
                statement.raw_bind_parameter(parameter, Bound(value))
            }
        };
        bound.map_err(classify)?;
    }
    Ok(())
}

/// A table without one is never written.
pub(super) fn version_name(table: &Table) -> String {
    columns::version(table).map(|column| SqliteText.quoted(column.name)).unwrap_or_default()
}

/// A value on its way into a parameter, borrowed.
pub(super) struct Bound<'a>(pub(super) ValueRef<'a>);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        if let ValueRef::Sql(value) = self.0 {
            return Ok(ToSqlOutput::from(value.to_sql_text()));
        }
        Ok(ToSqlOutput::Borrowed(match self.0 {
            ValueRef::Int(value) => Stored::Integer(value),
            ValueRef::Uint(value) => Stored::Integer(value as i64),
            ValueRef::Float(value) => Stored::Real(value),
            ValueRef::Str(value) => Stored::Text(value.as_bytes()),
            ValueRef::Blob(value) => Stored::Blob(value),
            ValueRef::Bool(value) => Stored::Integer(i64::from(value)),
            ValueRef::Json(value) => Stored::Text(value.as_bytes()),
            ValueRef::Null | ValueRef::Sql(_) => Stored::Null,
        }))
    }
}

/// Deletes tombstones, each only at its version.
pub(super) fn purge(connection: &mut Connection, table: &Table, rows: &[(RowKeyBuf, Version)]) -> Result<(), Error> {
    let address = columns::address(table);
    let (name, names) = (SqliteText.quoted(columns::table_name(table)), SqliteText.names(&address));
    let version_column = version_name(table);
    let (marks, last) = (SqliteText.marks(1, address.len()), SqliteText.mark(address.len() + 1));
    let same = format!("{version_column} = {last} AND {version_column} < 0");
    let delete = format!("DELETE FROM {name} WHERE ({names}) = ({marks}) AND {same}");
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(classify)?;
    {
        let mut statement = transaction.prepare_cached(&delete).map_err(classify)?;
        for (row, version) in rows {
            bind_key(&mut statement, 1, table, &row.key).map_err(classify)?;
            if table.has_sort() {
                statement.raw_bind_parameter(2, &row.sort[..]).map_err(classify)?;
            }
            statement.raw_bind_parameter(address.len() + 1, version.0).map_err(classify)?;
            statement.raw_execute().map_err(classify)?;
        }
    }
    transaction.commit().map_err(classify)
}

/// What stands in the way of a write that changed nothing.
pub(super) fn held_version(transaction: &Transaction<'_>, table: &Table, row: &RowKeyBuf) -> Result<Version, Error> {
    let address = columns::address(table);
    let (names, marks) = (SqliteText.names(&address), SqliteText.marks(1, address.len()));
    let (version, name) = (version_name(table), SqliteText.quoted(columns::table_name(table)));
    let select = format!("SELECT {version} FROM {name} WHERE ({names}) = ({marks})");
    let mut statement = transaction.prepare_cached(&select).map_err(classify)?;
    bind_key(&mut statement, 1, table, &row.key).map_err(classify)?;
    if table.has_sort() {
        statement.raw_bind_parameter(2, &row.sort[..]).map_err(classify)?;
    }
    let mut answers = statement.raw_query();
    let held = answers.next().map_err(classify)?.map(|answer| answer.get(0)).transpose().map_err(classify)?;
    Ok(held.map_or(Version::NEVER, Version))
}
