//! Tables: made, compared with their definition, widened and dropped. Each looks first and may be repeated.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use shardine_model::{FieldId, Table};

use super::fault::classify;
use super::text::SqliteText;
use crate::columns::{self, Column, POSITION, Part};
use crate::dialect::Dialect;
use crate::drift::{self, Existing, Family, ForeignKey, agree};
use crate::error::Error;
use crate::job::Drift;

pub(super) fn create(connection: &mut Connection, table: &Table) -> Result<(), Error> {
    let transaction = begin(connection)?;
    transaction.execute_batch(&create_table(table)?).map_err(classify)?;
    // The table may have been there before, made by somebody else for something else.
    agree(check(&transaction, table, Family::NONE)?)?;
    transaction.execute_batch(&create_index(table)).map_err(classify)?;
    transaction.commit().map_err(classify)
}

/// With SQLite's hidden row id, although rows are found by key: measured, new rows go in 1.7 to 3 times as fast at the end
/// of a table as in the middle of a tree of keys, and rows of 2 kB take half the space (`docs/sql.md`).
fn create_table(table: &Table) -> Result<String, Error> {
    Ok(format!("{} STRICT", drift::create_table(&SqliteText, table)?))
}

fn create_index(table: &Table) -> String {
    // No table's name begins with two underscores, so the index's never meets one.
    let index = SqliteText.quoted(&format!("{POSITION}{}", table.name));
    let (name, address) = (SqliteText.quoted(columns::table_name(table)), SqliteText.names(&columns::address(table)));
    format!("CREATE INDEX IF NOT EXISTS {index} ON {name} ({POSITION}, {address})")
}

pub(super) fn check(connection: &Connection, table: &Table, family: Family<'_>) -> Result<Vec<Drift>, Error> {
    match stored_name(connection, columns::table_name(table))? {
        None => Ok(vec![drift::no_table(table)]),
        Some(found) if found != columns::table_name(table) => Ok(vec![other_case(table, found)]),
        Some(_) => {
            let mut drift = drift::compare(&SqliteText, table, &existing_columns(connection, table)?)?;
            if columns::is_mapped(table) {
                drift.extend(unfit(connection, table, family)?);
            }
            Ok(drift)
        }
    }
}

fn unfit(connection: &Connection, table: &Table, family: Family<'_>) -> Result<Vec<Drift>, Error> {
    // A key of several columns has a line for each.
    const FOREIGN_KEYS: &str = "\
        SELECT DISTINCT id, \"table\", on_update IN ('NO ACTION', 'RESTRICT') AND on_delete IN ('NO ACTION', 'RESTRICT') \
        FROM pragma_foreign_key_list(?) ORDER BY id";
    const COLLATION: &str = "SELECT x.coll FROM pragma_index_list(?) l, pragma_index_xinfo(l.name) x \
                             WHERE l.origin = 'pk' AND x.key = 1";
    let name = columns::table_name(table);
    let foreign_key = |row: &rusqlite::Row<'_>| {
        // They have numbers and no names.
        Ok(ForeignKey { name: row.get::<_, i64>(0)?.to_string(), parent: row.get(1)?, only_refuses: row.get(2)? })
    };
    let read = || -> rusqlite::Result<(Vec<ForeignKey>, Option<String>)> {
        let mut statement = connection.prepare(FOREIGN_KEYS)?;
        let keys = statement.query_map([name], foreign_key)?.collect::<rusqlite::Result<_>>()?;
        Ok((keys, connection.query_row(COLLATION, [name], |row| row.get(0)).optional()?))
    };
    let (keys, collation) = read().map_err(classify)?;
    Ok(drift::unfit(table, family, keys, collation))
}

/// SQL first, then the definition (records 129): rows that are there already read as the default.
pub(super) fn add_field(connection: &mut Connection, table: &Table, field: FieldId) -> Result<(), Error> {
    let Some(field) = table.field_by_id(field) else {
        return Err(Error::definition(format!("table {} has no field {field} to add", table.name)));
    };
    let column = Column { part: Part::Field(field), name: &field.name };
    let transaction = begin(connection)?;
    match stored_name(&transaction, columns::table_name(table))? {
        None => return agree(vec![drift::no_table(table)]),
        Some(found) if found != columns::table_name(table) => return agree(vec![other_case(table, found)]),
        Some(_) => {}
    }
    match existing_columns(&transaction, table)?.iter().find(|found| found.name.eq_ignore_ascii_case(&field.name)) {
        Some(found) => agree(drift::compare_type(&SqliteText, table, &column, found).into_iter().collect())?,
        None => {
            let add = drift::add_column(&SqliteText, table, &column)?;
            transaction.execute_batch(&add).map_err(classify)?;
        }
    }
    transaction.commit().map_err(classify)
}

/// The rows go with it: whoever asks has been asked whether they mean it.
pub(super) fn drop_table(connection: &mut Connection, table: &Table) -> Result<(), Error> {
    let transaction = begin(connection)?;
    match stored_name(&transaction, columns::table_name(table))? {
        None => return Ok(()),
        Some(found) if found != columns::table_name(table) => return agree(vec![other_case(table, found)]),
        Some(_) => {}
    }
    drift::check_ours(table, &existing_columns(&transaction, table)?)?;
    transaction
        .execute_batch(&format!("DROP TABLE {}", SqliteText.quoted(columns::table_name(table))))
        .map_err(classify)?;
    transaction.commit().map_err(classify)
}

fn begin(connection: &mut Connection) -> Result<Transaction<'_>, Error> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(classify)
}

fn other_case(table: &Table, found: String) -> Drift {
    Drift::OtherCase { table: table.name.clone(), found }
}

/// The table's name as it was spelled when it was made: SQLite compares names without case.
fn stored_name(connection: &Connection, name: &str) -> Result<Option<String>, Error> {
    let select = "SELECT name FROM sqlite_schema WHERE type = 'table' AND lower(name) = lower(?)";
    connection.query_row(select, [name], |row| row.get(0)).optional().map_err(classify)
}

fn existing_columns(connection: &Connection, table: &Table) -> Result<Vec<Existing>, Error> {
    let read = || -> rusqlite::Result<Vec<Existing>> {
        let select = "SELECT name, type, \"notnull\", dflt_value IS NOT NULL, pk FROM pragma_table_info(?)";
        let mut statement = connection.prepare(select)?;
        let columns = statement.query_map([columns::table_name(table)], |row| {
            Ok(Existing {
                name: row.get(0)?,
                declared_type: row.get(1)?,
                not_null: row.get(2)?,
                has_default: row.get(3)?,
                key_place: row.get(4)?,
            })
        })?;
        columns.collect()
    };
    read().map_err(classify)
}
