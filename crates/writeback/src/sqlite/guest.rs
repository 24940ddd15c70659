//! Changing and deleting rows of others, row by row in one transaction.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use shardine_model::sql::FlushRow;
use shardine_model::{ChangedFields, Table, Version};

use super::fault::classify;
use super::owner;
use super::read::bind_key;
use super::text::SqliteText;
use super::write::{Bound, held_version, version_name};
use crate::columns;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::owner::Mark;
use crate::row;

pub(super) fn update(
    connection: &mut Connection,
    table: &Table,
    fields: ChangedFields,
    rows: &[FlushRow],
    mark: Option<&Mark>,
) -> Result<Vec<Version>, Error> {
    let (changed, version) = (columns::changed(table, fields), version_name(table));
    let mut sets: Vec<String> =
        changed.iter().map(|(_, column)| format!("{} = ?", SqliteText.quoted(column.name))).collect();
    sets.push(format!("{version} = ?"));
    let name = SqliteText.quoted(columns::table_name(table));
    let update = format!("UPDATE {name} SET {} {}", sets.join(", "), fenced(table));
    in_transaction(connection, mark, |transaction| {
        let mut statement = transaction.prepare_cached(&update).map_err(classify)?;
        let mut held = Vec::with_capacity(rows.len());
        for flush in rows {
            let values = row::field_values(table, flush)?;
            let mut next = 0;
            for (place, _) in &changed {
                next += 1;
                statement.raw_bind_parameter(next, Bound(values[*place])).map_err(classify)?;
            }
            statement.raw_bind_parameter(next + 1, flush.version.0).map_err(classify)?;
            bind_fence(&mut statement, next + 2, table, flush)?;
            let changed = statement.raw_execute().map_err(classify)?;
            held.push(if changed == 1 { flush.version } else { held_version(transaction, table, &flush.row)? });
        }
        Ok(held)
    })
}

pub(super) fn delete(
    connection: &mut Connection,
    table: &Table,
    rows: &[FlushRow],
    mark: Option<&Mark>,
) -> Result<Vec<Version>, Error> {
    let delete = format!("DELETE FROM {} {}", SqliteText.quoted(columns::table_name(table)), fenced(table));
    in_transaction(connection, mark, |transaction| {
        let mut statement = transaction.prepare_cached(&delete).map_err(classify)?;
        rows.iter()
            .map(|flush| {
                bind_fence(&mut statement, 1, table, flush)?;
                statement.raw_execute().map_err(classify)?;
                held_version(transaction, table, &flush.row)
            })
            .collect()
    })
}

/// The row, if its |version| in SQL is below ours.
fn fenced(table: &Table) -> String {
    let key = SqliteText.names(&columns::address(table));
    format!("WHERE {key} = ? AND abs({}) < ?", version_name(table))
}

fn bind_fence(
    statement: &mut rusqlite::CachedStatement<'_>,
    first: usize,
    table: &Table,
    flush: &FlushRow,
) -> Result<(), Error> {
    bind_key(statement, first, table, &flush.row.key).map_err(classify)?;
    // No version that is written is beyond the signed ones.
    let magnitude = i64::try_from(flush.version.magnitude()).unwrap_or(i64::MAX);
    statement.raw_bind_parameter(first + 1, magnitude).map_err(classify)
}

fn in_transaction(
    connection: &mut Connection,
    mark: Option<&Mark>,
    work: impl FnOnce(&Transaction<'_>) -> Result<Vec<Version>, Error>,
) -> Result<Vec<Version>, Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(classify)?;
    if let Some(mark) = mark {
        owner::leave(&transaction, mark)?;
    }
    let held = work(&transaction)?;
    transaction.commit().map_err(classify)?;
    Ok(held)
}
