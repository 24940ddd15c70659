//! Changing and deleting rows of others: a statement per row and one look at the end, in one transaction. A statement for many
//! rows would be an insert, of which the server checks foreign keys and fires triggers before it finds that the row is there.

use mysql_async::Value as Stored;
use shardine_model::sql::FlushRow;
use shardine_model::{ChangedFields, Table, Version};

use super::connection::Connection;
use super::owner;
use super::read::addresses;
use super::text::MysqlText;
use super::write::{by_address, in_transaction, read_back, stored};
use crate::batch::Batch;
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
    let changed = columns::changed(table, fields);
    let version = version_name(table);
    let mut sets: Vec<String> =
        changed.iter().map(|(_, column)| format!("{} = ?", MysqlText.quoted(column.name))).collect();
    sets.push(format!("{version} = ?"));
    let name = MysqlText.quoted(columns::table_name(table));
    let update = format!("UPDATE {name} SET {} {}", sets.join(", "), fence(table));
    each(connection, table, rows, mark, &update, |flush| {
        let values = row::field_values(table, flush)?;
        let mut bound = changed.iter().map(|(place, _)| stored(values[*place])).collect::<Result<Vec<_>, Error>>()?;
        bound.push(Stored::Int(flush.version.0));
        Ok(bound)
    })
}

pub(super) fn delete(
    connection: &mut Connection,
    table: &Table,
    rows: &[FlushRow],
    mark: Option<&Mark>,
) -> Result<Vec<Version>, Error> {
    let delete = format!("DELETE FROM {} {}", MysqlText.quoted(columns::table_name(table)), fence(table));
    each(connection, table, rows, mark, &delete, |_| Ok(Vec::new()))
}

/// Runs a statement that ends with the fence for each row, by key, and asks what SQL holds then.
fn each(
    connection: &mut Connection,
    table: &Table,
    rows: &[FlushRow],
    mark: Option<&Mark>,
    statement: &str,
    values: impl Fn(&FlushRow) -> Result<Vec<Stored>, Error>,
) -> Result<Vec<Version>, Error> {
    let mut batch = Batch::new(rows);
    let ordered = batch.by_key();
    in_transaction(connection, |connection| {
        if let Some(mark) = mark {
            owner::leave(connection, mark)?;
        }
        for flush in &ordered {
            let mut bound = values(flush)?;
            bound.extend(addresses(table, std::iter::once(&flush.row)));
            bound.push(Stored::UInt(flush.version.magnitude()));
            connection.query(statement, bound)?;
        }
        read_back(connection, table, &ordered, &mut batch)
    })?;
    Ok(batch.into_versions())
}

/// The row, if its |version| in SQL is below ours.
fn fence(table: &Table) -> String {
    format!("WHERE {} AND ABS({}) < ?", by_address(table), version_name(table))
}

fn version_name(table: &Table) -> String {
    columns::version(table).map(|column| MysqlText.quoted(column.name)).unwrap_or_default()
}
