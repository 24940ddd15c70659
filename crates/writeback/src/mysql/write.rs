//! Writing rows behind the version fence (write-back 93-97): many rows per statement, all in one transaction.

use mysql_async::Value as Stored;
use shardine_model::sql::FlushRow;
use shardine_model::{RowKeyBuf, Table, ValueRef, Version, limits};

use super::Flavour;
use super::connection::Connection;
use super::owner;
use super::read::{addresses, held_by_key, row_key, version};
use super::text::MysqlText;
use crate::batch::Batch;
use crate::columns::{self, Part};
use crate::dialect::Dialect;
use crate::error::Error;
use crate::owner::Mark;
use crate::row;

/// Marks in one prepared statement end at this number.
const MARKS_MAX: usize = 65_535;

pub(super) fn write(
    connection: &mut Connection,
    table: &Table,
    rows: &[FlushRow],
    mark: Option<&Mark>,
) -> Result<Vec<Version>, Error> {
    let mut batch = Batch::new(rows);
    let ordered = batch.by_key();
    if mark.is_none()
        && connection.flavour == Flavour::MariaDb
        && !columns::tombstones_keep_fields(table)
        && statement_rows(table, rows.len()) == rows.len()
    {
        // A transaction by itself, which saves two ways to the server and back.
        write_statement(connection, table, &ordered, &mut batch)?;
        return Ok(batch.into_versions());
    }
    in_transaction(connection, |connection| {
        if let Some(mark) = mark {
            owner::leave(connection, mark)?;
        }
        if !columns::tombstones_keep_fields(table) {
            return write_rows(connection, table, &ordered, &mut batch);
        }
        let (live, dead): (Vec<_>, Vec<_>) = ordered.iter().partition(|flush| flush.version.is_live());
        write_rows(connection, table, &live, &mut batch)?;
        bury(connection, table, &dead, &mut batch)
    })?;
    Ok(batch.into_versions())
}

pub(super) fn in_transaction<T>(
    connection: &mut Connection,
    work: impl FnOnce(&mut Connection) -> Result<T, Error>,
) -> Result<T, Error> {
    connection.run("START TRANSACTION")?;
    let outcome = work(connection).inspect_err(|_| {
        // Nothing of it may stay for the next job. On a lost connection this fails too, and the server sees to it.
        let _ = connection.run("ROLLBACK");
    })?;
    connection.run("COMMIT")?;
    Ok(outcome)
}

/// Deletes tombstones, each only at its version. Row by row: there are few, and none is in a hurry.
pub(super) fn purge(connection: &mut Connection, table: &Table, rows: &[(RowKeyBuf, Version)]) -> Result<(), Error> {
    let version = columns::version(table).map(|column| MysqlText.quoted(column.name)).unwrap_or_default();
    let (name, address) = (MysqlText.quoted(columns::table_name(table)), by_address(table));
    let delete = format!("DELETE FROM {name} WHERE {address} AND {version} = ? AND {version} < 0");
    in_transaction(connection, |connection| {
        rows.iter().try_for_each(|(row, version)| {
            let mut values = addresses(table, std::iter::once(row));
            values.push(Stored::Int(version.0));
            connection.query(&delete, values).map(drop)
        })
    })
}

/// Writes tombstones that keep what their rows held. Not by an upsert: MySQL looks at the foreign keys of the new row before
/// it finds that there is one already. What is not there yet is inserted like any row.
fn bury(connection: &mut Connection, table: &Table, rows: &[&FlushRow], batch: &mut Batch<'_>) -> Result<(), Error> {
    let Some(version) = columns::version(table).map(|column| MysqlText.quoted(column.name)) else { return Ok(()) };
    let (name, address) = (MysqlText.quoted(columns::table_name(table)), by_address(table));
    let update = format!("UPDATE {name} SET {version} = ? WHERE {address} AND ABS({version}) < ?");
    for flush in rows {
        let mut values = vec![Stored::Int(flush.version.0)];
        values.extend(addresses(table, std::iter::once(&flush.row)));
        values.push(Stored::UInt(flush.version.magnitude()));
        connection.query(&update, values)?;
        read_back(connection, table, &[flush], batch)?;
        if !batch.knows(&flush.row) {
            write_statement(connection, table, &[flush], batch)?;
        }
    }
    Ok(())
}

fn write_rows(
    connection: &mut Connection,
    table: &Table,
    rows: &[&FlushRow],
    batch: &mut Batch<'_>,
) -> Result<(), Error> {
    let mut left = rows;
    while !left.is_empty() {
        let (rows, rest) = left.split_at(statement_rows(table, left.len()));
        write_statement(connection, table, rows, batch)?;
        left = rest;
    }
    Ok(())
}

/// A full batch, or the largest power of two that fits: so few statements are prepared, whatever the batch.
fn statement_rows(table: &Table, count: usize) -> usize {
    let fitting = count.min(MARKS_MAX / columns::all(table).len());
    let full = limits::FLUSH_ROWS_MAX.min(table.sql.batch.max(1) as usize);
    if fitting >= full { full } else { 1 << fitting.ilog2() }
}

fn write_statement(
    connection: &mut Connection,
    table: &Table,
    rows: &[&FlushRow],
    batch: &mut Batch<'_>,
) -> Result<(), Error> {
    let mut values = Vec::with_capacity(rows.len() * columns::all(table).len());
    for flush in rows {
        push_row(&mut values, table, flush)?;
    }
    let upsert = upsert(connection.flavour, table, rows.len());
    let answers = connection.query(&upsert, values)?;
    if connection.flavour == Flavour::Mysql {
        // It cannot say what a row holds after a write, and a count of changed rows is no proof (write-back 96).
        return read_back(connection, table, rows, batch);
    }
    note(table, &answers, batch)
}

/// Asks what SQL holds of these rows.
pub(super) fn read_back(
    connection: &mut Connection,
    table: &Table,
    rows: &[&FlushRow],
    batch: &mut Batch<'_>,
) -> Result<(), Error> {
    let select = format!("SELECT {} {}", held_names(table), held_by_key(table, rows.len()));
    let answers = connection.query(&select, addresses(table, rows.iter().map(|flush| &flush.row)))?;
    note(table, &answers, batch)
}

fn note(table: &Table, answers: &[mysql_async::Row], batch: &mut Batch<'_>) -> Result<(), Error> {
    for answer in answers {
        batch.note(&row_key(table, answer)?, version(table, answer).map_err(Error::definition)?);
    }
    Ok(())
}

/// A condition on the address of one row.
pub(super) fn by_address(table: &Table) -> String {
    let conditions: Vec<String> =
        columns::address(table).iter().map(|column| format!("{} = ?", MysqlText.quoted(column.name))).collect();
    conditions.join(" AND ")
}

/// Whole rows; one whose |version| in SQL is not below ours keeps what it has. The version comes last, because each
/// assignment sees those before it (write-back 95).
fn upsert(flavour: Flavour, table: &Table, count: usize) -> String {
    let columns = columns::all(table);
    let (name, names) = (MysqlText.quoted(columns::table_name(table)), MysqlText.names(&columns));
    let fresh = |column: &str| match flavour {
        Flavour::MariaDb => format!("VALUES({column})"),
        Flavour::Mysql => format!("fresh.{column}"),
    };
    let version = columns::version(table).map(|column| MysqlText.quoted(column.name)).unwrap_or_default();
    let changes: Vec<String> = columns
        .iter()
        .filter(|column| column.changes() && !matches!(column.part, Part::Version))
        .chain(&columns::version(table))
        .map(|column| {
            let is_newer = format!("ABS({}) > ABS({name}.{version})", fresh(&version));
            let column = MysqlText.quoted(column.name);
            format!("{column} = IF({is_newer}, {}, {name}.{column})", fresh(&column))
        })
        .collect();
    let row = format!("({})", MysqlText.marks(1, columns.len()));
    let rows = vec![row; count].join(", ");
    let (alias, returning) = match flavour {
        Flavour::MariaDb => ("", format!(" RETURNING {}", held_names(table))),
        Flavour::Mysql => (" AS fresh", String::new()),
    };
    let changes = changes.join(", ");
    format!("INSERT INTO {name} ({names}) VALUES {rows}{alias} ON DUPLICATE KEY UPDATE {changes}{returning}")
}

/// The address and the version of a row.
fn held_names(table: &Table) -> String {
    let wanted: Vec<_> = columns::address(table).into_iter().chain(columns::version(table)).collect();
    MysqlText.names(&wanted)
}

/// In the order of `columns::all`.
fn push_row(values: &mut Vec<Stored>, table: &Table, flush: &FlushRow) -> Result<(), Error> {
    let parts = row::sort_parts(table, &flush.row)?;
    let fields = row::field_values(table, flush)?;
    values.extend(addresses(table, std::iter::once(&flush.row)));
    values.push(Stored::Int(flush.version.0));
    if !columns::is_mapped(table) {
        values.push(Stored::Int(row::stored_position(flush.row.as_ref().position())));
    }
    for value in parts.iter().map(|part| part.as_ref()).chain(fields) {
        values.push(stored(value)?);
    }
    Ok(())
}

/// A value on its way into a parameter.
pub(super) fn stored(value: ValueRef<'_>) -> Result<Stored, Error> {
    Ok(match value {
        ValueRef::Int(value) => Stored::Int(value),
        ValueRef::Uint(value) => Stored::UInt(value),
        ValueRef::Float(value) if !value.is_finite() => {
            return Err(Error::row(format!("{value} is not a number that SQL keeps")));
        }
        ValueRef::Float(value) => Stored::Double(value),
        ValueRef::Str(value) => Stored::Bytes(value.as_bytes().to_vec()),
        ValueRef::Blob(value) => Stored::Bytes(value.to_vec()),
        ValueRef::Null => Stored::NULL,
        ValueRef::Bool(value) => Stored::Int(i64::from(value)),
        ValueRef::Json(value) => Stored::Bytes(value.as_bytes().to_vec()),
        ValueRef::Sql(value) => Stored::Bytes(value.to_sql_text().into_bytes()),
    })
}

#[cfg(test)]
mod tests {
    use shardine_model::{Backing, Field, FieldId, TableId, Value};

    use super::*;

    fn table() -> Table {
        let field = |id, name: &str| Field::of(FieldId(id), name, Value::Int(0));
        Table {
            id: TableId(2),
            name: "users".into(),
            version: 1,
            fields: vec![field(1, "age"), field(2, "height")],
            sort: Vec::new(),
            backing: Backing::Sql,
            sql: Default::default(),
            dynamic: false,
            dropped: false,
            next_field: FieldId(3),
        }
    }

    /// write-back 95: each assignment sees those before it, so the version must be the last to change.
    #[test]
    fn write_back_95_the_version_is_assigned_last() {
        for flavour in [Flavour::MariaDb, Flavour::Mysql] {
            let text = upsert(flavour, &table(), 2);

            let assignment = |column: &str| text.find(&format!("`{column}` = IF(")).expect("it is assigned");
            assert!(assignment("__version__") > assignment("age").max(assignment("height")), "{text}");
        }
    }

    /// write-back 97: MariaDB knows no row alias and says what it holds; MySQL wants the alias and cannot say.
    #[test]
    fn write_back_97_each_of_the_two_is_spoken_to_in_its_own_words() {
        let (mariadb, mysql) = (upsert(Flavour::MariaDb, &table(), 2), upsert(Flavour::Mysql, &table(), 2));

        assert!(mariadb.contains("VALUES(`age`)") && mariadb.contains(" RETURNING "), "{mariadb}");
        assert!(!mariadb.contains(" AS fresh"), "{mariadb}");
        assert!(mysql.contains(") AS fresh ON DUPLICATE KEY UPDATE ") && mysql.contains("fresh.`age`"), "{mysql}");
        assert!(!mysql.contains("RETURNING") && !mysql.contains("VALUES(`"), "{mysql}");
    }

    #[test]
    fn a_full_batch_is_one_statement_and_others_are_few_sizes() {
        let (mut table, full) = (table(), limits::FLUSH_ROWS_MAX);
        assert_eq!([full, full - 1, 700, 3, 1].map(|rows| statement_rows(&table, rows)), [full, 512, 512, 2, 1]);

        table.sql.batch = 6;

        assert_eq!([1_000, 6, 5].map(|rows| statement_rows(&table, rows)), [6, 6, 4]);
    }
}
