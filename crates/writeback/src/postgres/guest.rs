//! Changing and deleting rows of others: a whole batch in one statement, one array per column.

use shardine_model::sql::FlushRow;
use shardine_model::{ChangedFields, Table, Version};

use super::connection::Connection;
use super::owner;
use super::read::key_array;
use super::text::{PostgresText, key_type, wire_type};
use super::write::{Array, array, ask_for_others, execute, held_forms, note};
use crate::batch::Batch;
use crate::columns::{self, Column, Part};
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
    let mut batch = Batch::new(rows);
    let ordered = batch.by_key();
    let mut arrays = key_and_version(table, &ordered);
    let mut values = Vec::with_capacity(ordered.len());
    for flush in &ordered {
        values.push(row::field_values(table, flush)?);
    }
    for (place, column) in &changed {
        let Part::Field(field) = column.part else { continue };
        arrays.push(array(field.kind, values.iter().map(|values| values[*place]))?);
    }
    let columns: Vec<Column<'_>> = changed.iter().map(|(_, column)| *column).collect();
    let answers = execute(connection, &arrays, mark, |mark_at| update_text(table, &columns, mark_at))?;
    note(&mut batch, table, &answers)?;
    ask_for_others(connection, table, &mut batch, mark)?;
    Ok(batch.into_versions())
}

pub(super) fn delete(
    connection: &mut Connection,
    table: &Table,
    rows: &[FlushRow],
    mark: Option<&Mark>,
) -> Result<Vec<Version>, Error> {
    let mut batch = Batch::new(rows);
    let arrays = key_and_version(table, &batch.by_key());
    let deleted = execute(connection, &arrays, mark, |mark_at| delete_text(table, mark_at))?;
    if deleted.len() < rows.len() {
        ask_for_others(connection, table, &mut batch, mark)?;
    }
    Ok(batch.into_versions())
}

type Arrays<'a> = Vec<Array<'a>>;

fn key_and_version<'a>(table: &Table, rows: &[&'a FlushRow]) -> Arrays<'a> {
    let versions: Vec<i64> = rows.iter().map(|flush| flush.version.0).collect();
    vec![key_array(table, rows.iter().map(|flush| &flush.row)), Box::new(versions)]
}

fn delete_text(table: &Table, mark_at: Option<usize>) -> String {
    let (key, name) = (key_type(table), PostgresText.quoted(columns::table_name(table)));
    let (marked, fence) = (marked(mark_at), fence(table, mark_at));
    format!(
        "{marked}DELETE FROM {name} AS held USING unnest($1::{key}[], $2::bigint[]) AS batch (key, version) \
         WHERE {fence} RETURNING 1"
    )
}

fn update_text(table: &Table, columns: &[Column<'_>], mark_at: Option<usize>) -> String {
    let version = columns::version(table).map(|column| PostgresText.quoted(column.name)).unwrap_or_default();
    let mut types = vec![key_type(table), "bigint"];
    let (mut aliases, mut sets) =
        (vec!["key".to_owned(), "version".to_owned()], vec![format!("{version} = batch.version")]);
    for (column, number) in columns.iter().zip(1..) {
        let (wire, kind) = (wire_type(table, column), PostgresText.type_of(column));
        types.push(wire);
        aliases.push(format!("c{number}"));
        let cast = if wire == kind { String::new() } else { format!("::{kind}") };
        sets.push(format!("{} = batch.c{number}{cast}", PostgresText.quoted(column.name)));
    }
    let arrays: Vec<String> = types.iter().zip(1..).map(|(kind, number)| format!("${number}::{kind}[]")).collect();
    format!(
        "{}UPDATE {} AS held SET {} FROM unnest({}) AS batch ({}) WHERE {} RETURNING {}",
        marked(mark_at),
        PostgresText.quoted(columns::table_name(table)),
        sets.join(", "),
        arrays.join(", "),
        aliases.join(", "),
        fence(table, mark_at),
        held_forms(table),
    )
}

fn marked(mark_at: Option<usize>) -> String {
    mark_at.map_or_else(String::new, owner::leave)
}

/// The row of the batch, if its |version| in SQL is below ours, and the mark was left.
fn fence(table: &Table, mark_at: Option<usize>) -> String {
    let key = PostgresText.quoted(columns::address(table)[0].name);
    let version = columns::version(table).map(|column| PostgresText.quoted(column.name)).unwrap_or_default();
    let is_marked = if mark_at.is_some() { format!(" AND {}", owner::IS_MARKED) } else { String::new() };
    format!("held.{key} = batch.key AND abs(held.{version}) < abs(batch.version){is_marked}")
}
