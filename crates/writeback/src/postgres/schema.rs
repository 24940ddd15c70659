//! Tables: made, compared with their definition, widened and dropped. Each looks first and may be repeated, so a failure in the middle is mended by the next try.

use shardine_model::{FieldId, Table};
use tokio_postgres::Row;

use super::connection::Connection;
use super::fault::classify;
use super::text::PostgresText;
use crate::columns::{self, Column, POSITION, Part};
use crate::dialect::Dialect;
use crate::drift::{self, Existing, Family, ForeignKey, agree};
use crate::error::Error;
use crate::job::Drift;

pub(super) fn create(connection: &mut Connection, table: &Table) -> Result<(), Error> {
    connection.run(&drift::create_table(&PostgresText, table)?)?;
    // The table may have been there before, made by somebody else for something else.
    agree(check(connection, table, Family::NONE)?)?;
    connection.run(&create_index(table))
}

fn create_index(table: &Table) -> String {
    // Cut as PostgreSQL itself cuts names, which it does without a word; no table's name begins with two underscores.
    let mut index = format!("{POSITION}{}", table.name);
    index.truncate(shardine_model::limits::NAME_BYTES_MAX);
    let (index, name) = (PostgresText.quoted(&index), PostgresText.quoted(columns::table_name(table)));
    let address = PostgresText.names(&columns::address(table));
    format!("CREATE INDEX IF NOT EXISTS {index} ON {name} ({POSITION}, {address})")
}

pub(super) fn check(connection: &mut Connection, table: &Table, family: Family<'_>) -> Result<Vec<Drift>, Error> {
    match existing_columns(connection, table)? {
        None => Ok(vec![drift::no_table(table)]),
        Some(existing) => {
            let mut drift = drift::compare(&PostgresText, table, &existing)?;
            if columns::is_mapped(table) {
                drift.extend(unfit(connection, table, family)?);
            }
            Ok(drift)
        }
    }
}

/// Texts are equal here when their bytes are, unless somebody made a collation that says otherwise.
fn unfit(connection: &mut Connection, table: &Table, family: Family<'_>) -> Result<Vec<Drift>, Error> {
    const FOREIGN_KEYS: &str = "\
        SELECT conname::text, confrelid::regclass::text, confdeltype IN ('a', 'r') AND confupdtype IN ('a', 'r') \
        FROM pg_constraint WHERE conrelid = to_regclass($1) AND contype = 'f' ORDER BY conname";
    const COLLATION: &str = "\
        SELECT l.collname::text FROM pg_attribute a JOIN pg_collation l ON l.oid = a.attcollation \
        WHERE a.attrelid = to_regclass($1) AND a.attname = $2 AND NOT l.collisdeterministic";
    let name = PostgresText.quoted(columns::table_name(table));
    let key = columns::address(table)[0].name;
    let keys = connection.query(FOREIGN_KEYS, &[&name])?;
    let keys: Result<Vec<ForeignKey>, _> = keys.iter().map(foreign_key).collect();
    let collation = connection.query(COLLATION, &[&name, &key])?;
    let collation = collation.first().map(|answer| answer.try_get(0)).transpose().map_err(classify)?;
    Ok(drift::unfit(table, family, keys.map_err(classify)?, collation))
}

fn foreign_key(answer: &Row) -> Result<ForeignKey, tokio_postgres::Error> {
    // In quotes where it needs them, and behind its schema where it is not in ours.
    let parent: &str = answer.try_get(1)?;
    Ok(ForeignKey {
        name: answer.try_get(0)?,
        parent: parent.trim_matches('"').to_owned(),
        only_refuses: answer.try_get(2)?,
    })
}

/// SQL first, then the definition (records 129): rows that are there already read as the default.
pub(super) fn add_field(connection: &mut Connection, table: &Table, field: FieldId) -> Result<(), Error> {
    let Some(field) = table.field_by_id(field) else {
        return Err(Error::definition(format!("table {} has no field {field} to add", table.name)));
    };
    let Some(existing) = existing_columns(connection, table)? else {
        return agree(vec![drift::no_table(table)]);
    };
    let column = Column { part: Part::Field(field), name: &field.name };
    match existing.iter().find(|found| found.name.eq_ignore_ascii_case(&field.name)) {
        Some(found) => agree(drift::compare_type(&PostgresText, table, &column, found).into_iter().collect()),
        None => connection.run(&drift::add_column(&PostgresText, table, &column)?),
    }
}

/// The rows go with it: whoever asks has been asked whether they mean it.
pub(super) fn drop_table(connection: &mut Connection, table: &Table) -> Result<(), Error> {
    let Some(existing) = existing_columns(connection, table)? else { return Ok(()) };
    drift::check_ours(table, &existing)?;
    connection.run(&format!("DROP TABLE {}", PostgresText.quoted(columns::table_name(table))))
}

/// The columns of the table that the name leads to on this connection's search path.
fn existing_columns(connection: &mut Connection, table: &Table) -> Result<Option<Vec<Existing>>, Error> {
    const SELECT: &str = "\
        SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, \
               a.atthasdef OR a.attidentity <> '', \
               coalesce(array_position(i.indkey::int2[], a.attnum), -1)::int4 + 1, c.relkind::text \
        FROM pg_class c \
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
        LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary \
        WHERE c.oid = to_regclass($1) ORDER BY a.attnum";
    let answers = connection.query(SELECT, &[&PostgresText.quoted(columns::table_name(table))])?;
    if answers.is_empty() {
        return Ok(None);
    }
    let read = |answer: &tokio_postgres::Row| {
        Ok(Existing {
            name: answer.try_get(0)?,
            declared_type: answer.try_get(1)?,
            not_null: answer.try_get(2)?,
            has_default: answer.try_get(3)?,
            key_place: answer.try_get::<_, i32>(4)?.unsigned_abs(),
        })
    };
    let existing: Result<Vec<Existing>, tokio_postgres::Error> = answers.iter().map(read).collect();
    existing.map(Some).map_err(classify)
}
