//! Tables: made, compared with their definition, widened and dropped. Each looks first and may be repeated.

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use shardine_model::{FieldId, Table};

use super::fault::classify;
use super::text::{declaration, names, quoted, type_of};
use crate::columns::{self, Column, KEY, POSITION};
use crate::error::Error;
use crate::job::Drift;

/// A column as the file has it.
struct Existing {
    name: String,
    declared_type: String,
    not_null: bool,
    has_default: bool,
    /// Its place in the primary key, from 1; 0 outside.
    key_place: u32,
}

pub(super) fn create(connection: &mut Connection, table: &Table) -> Result<(), Error> {
    let transaction = begin(connection)?;
    transaction.execute_batch(&create_table(table)?).map_err(classify)?;
    // The table may have been there before, made by somebody else for something else.
    agree(check(&transaction, table)?)?;
    transaction.execute_batch(&create_index(table)).map_err(classify)?;
    transaction.commit().map_err(classify)
}

/// With SQLite's hidden row id, although rows are found by key: measured, new rows go in 1.7 to 3 times as fast at the end
/// of a table as in the middle of a tree of keys, and rows of 2 kB take half the space (`docs/sql.md`).
fn create_table(table: &Table) -> Result<String, Error> {
    let columns: Result<Vec<String>, Error> = columns::all(table).iter().map(declaration).collect();
    let (name, columns, address) = (quoted(&table.name), columns?.join(", "), names(columns::address(table)));
    Ok(format!("CREATE TABLE IF NOT EXISTS {name} ({columns}, PRIMARY KEY ({address})) STRICT"))
}

fn create_index(table: &Table) -> String {
    // No table's name begins with two underscores, so the index's never meets one.
    let index = quoted(&format!("{POSITION}{}", table.name));
    let (name, address) = (quoted(&table.name), names(columns::address(table)));
    format!("CREATE INDEX IF NOT EXISTS {index} ON {name} ({POSITION}, {address})")
}

pub(super) fn check(connection: &Connection, table: &Table) -> Result<Vec<Drift>, Error> {
    match stored_name(connection, &table.name)? {
        None => Ok(vec![Drift::NoTable { table: table.name.clone() }]),
        Some(found) if found != table.name => Ok(vec![other_case(table, found)]),
        Some(_) => compare(table, &existing_columns(connection, table)?),
    }
}

/// The definition against the file, in the order of the definition. Columns that Shardine does not know are welcome as
/// long as a row can be inserted without them.
fn compare(table: &Table, existing: &[Existing]) -> Result<Vec<Drift>, Error> {
    let mut drift = Vec::new();
    let wanted = columns::all(table);
    for column in &wanted {
        let named = |candidate: &&Existing| candidate.name.eq_ignore_ascii_case(column.name());
        match existing.iter().find(named) {
            None => drift.push(missing(table, column)?),
            Some(found) => drift.extend(compare_type(table, column, found)),
        }
    }
    drift.extend(compare_key(table, existing));
    let is_known = |found: &Existing| wanted.iter().any(|column| found.name.eq_ignore_ascii_case(column.name()));
    for found in existing.iter().filter(|found| found.not_null && !found.has_default && !is_known(found)) {
        drift.push(Drift::Unfilled { table: table.name.clone(), column: found.name.clone() });
    }
    Ok(drift)
}

fn missing(table: &Table, column: &Column<'_>) -> Result<Drift, Error> {
    let remedy = format!("ALTER TABLE {} ADD COLUMN {}", quoted(&table.name), declaration(column)?);
    Ok(Drift::NoColumn { table: table.name.clone(), column: column.name().to_owned(), remedy })
}

fn compare_type(table: &Table, column: &Column<'_>, found: &Existing) -> Option<Drift> {
    let expected = type_of(column);
    (!found.declared_type.eq_ignore_ascii_case(expected)).then(|| Drift::OtherType {
        table: table.name.clone(),
        column: found.name.clone(),
        expected: expected.to_owned(),
        found: found.declared_type.clone(),
    })
}

fn compare_key(table: &Table, existing: &[Existing]) -> Option<Drift> {
    let mut found: Vec<&Existing> = existing.iter().filter(|column| column.key_place > 0).collect();
    found.sort_by_key(|column| column.key_place);
    let found: Vec<String> = found.iter().map(|column| column.name.clone()).collect();
    let expected: Vec<&str> = columns::address(table).iter().map(Column::name).collect();
    (found != expected).then(|| Drift::OtherPrimaryKey {
        table: table.name.clone(),
        expected: expected.join(", "),
        found: found.join(", "),
    })
}

/// SQL first, then the definition (record-cache 129): rows that are there already read as the default.
pub(super) fn add_field(connection: &mut Connection, table: &Table, field: FieldId) -> Result<(), Error> {
    let Some(field) = table.field_by_id(field) else {
        return Err(Error::definition(format!("table {} has no field {field} to add", table.name)));
    };
    let column = Column::Field(field);
    let transaction = begin(connection)?;
    match stored_name(&transaction, &table.name)? {
        None => return agree(vec![Drift::NoTable { table: table.name.clone() }]),
        Some(found) if found != table.name => return agree(vec![other_case(table, found)]),
        Some(_) => {}
    }
    match existing_columns(&transaction, table)?.iter().find(|found| found.name.eq_ignore_ascii_case(&field.name)) {
        Some(found) => agree(compare_type(table, &column, found).into_iter().collect())?,
        None => {
            let add = format!("ALTER TABLE {} ADD COLUMN {}", quoted(&table.name), declaration(&column)?);
            transaction.execute_batch(&add).map_err(classify)?;
        }
    }
    transaction.commit().map_err(classify)
}

/// The rows go with it: whoever asks has been asked whether they mean it.
pub(super) fn drop_table(connection: &mut Connection, table: &Table) -> Result<(), Error> {
    let transaction = begin(connection)?;
    match stored_name(&transaction, &table.name)? {
        None => return Ok(()),
        Some(found) if found != table.name => return agree(vec![other_case(table, found)]),
        Some(_) => {}
    }
    if !existing_columns(&transaction, table)?.iter().any(|column| column.name == KEY) {
        return Err(Error::definition(format!("table {} was not made by Shardine and is left alone", table.name)));
    }
    transaction.execute_batch(&format!("DROP TABLE {}", quoted(&table.name))).map_err(classify)?;
    transaction.commit().map_err(classify)
}

fn begin(connection: &mut Connection) -> Result<Transaction<'_>, Error> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(classify)
}

fn agree(drift: Vec<Drift>) -> Result<(), Error> {
    if drift.is_empty() {
        return Ok(());
    }
    let faults: Vec<String> = drift.iter().map(Drift::to_string).collect();
    Err(Error::definition(faults.join("; ")))
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
        let columns = statement.query_map([&table.name], |row| {
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
