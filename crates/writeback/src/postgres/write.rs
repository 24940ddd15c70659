//! Writing rows behind the version fence (write-back 93, 94): a whole batch in one statement, one array per column.

use shardine_model::sql::FlushRow;
use shardine_model::{FieldType, RowKeyBuf, SqlValue, Table, Value, ValueRef, Version};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connection::Connection;
use super::fault::classify;
use super::owner;
use super::read::{held_by_key, key_array, query_by_key, row_key};
use super::text::{PostgresText, key_type, read_form, wire_type};
use crate::batch::Batch;
use crate::columns::{self, Column, Part};
use crate::dialect::Dialect;
use crate::error::Error;
use crate::owner::Mark;
use crate::row;

pub(super) fn write(
    connection: &mut Connection,
    table: &Table,
    rows: &[FlushRow],
    mark: Option<&Mark>,
) -> Result<Vec<Version>, Error> {
    let mut batch = Batch::new(rows);
    let arrays = arrays(table, &batch.by_key())?;
    let answers = execute(connection, &arrays, mark, |mark_at| upsert(table, mark_at))?;
    note(&mut batch, table, &answers)?;
    ask_for_others(connection, table, &mut batch, mark)?;
    Ok(batch.into_versions())
}

/// Runs a statement over arrays, with a mark if there is one, whose first place is told to whoever makes the text.
pub(super) fn execute(
    connection: &mut Connection,
    arrays: &[Array<'_>],
    mark: Option<&Mark>,
    text: impl Fn(Option<usize>) -> String,
) -> Result<Vec<Row>, Error> {
    let mut parameters: Vec<&(dyn ToSql + Sync)> = arrays.iter().map(|array| &**array as &(dyn ToSql + Sync)).collect();
    let mark_at = mark.map(|_| parameters.len() + 1);
    parameters.extend(mark.iter().flat_map(|mark| owner::parameters(mark)));
    connection.query(&text(mark_at), &parameters).map_err(owner::told_apart)
}

/// Asks what SQL holds of the rows of which a statement has said nothing.
pub(super) fn ask_for_others(
    connection: &mut Connection,
    table: &Table,
    batch: &mut Batch<'_>,
    mark: Option<&Mark>,
) -> Result<(), Error> {
    let unchanged = batch.unknown();
    if unchanged.is_empty() {
        return Ok(());
    }
    mark.map_or(Ok(()), |mark| owner::check(connection, mark))?;
    let select = format!("SELECT {} {}", held_forms(table), held_by_key(table));
    note(batch, table, &query_by_key(connection, table, &select, &unchanged)?)
}

/// Takes down what SQL says that it holds.
pub(super) fn note(batch: &mut Batch<'_>, table: &Table, answers: &[Row]) -> Result<(), Error> {
    let version_at = columns::address(table).len();
    for answer in answers {
        batch.note(&row_key(table, answer)?, Version(answer.try_get(version_at).map_err(classify)?));
    }
    Ok(())
}

/// The address and the version of a row that SQL holds.
pub(super) fn held_forms(table: &Table) -> String {
    let wanted = columns::address(table).into_iter().chain(columns::version(table));
    let forms: Vec<String> = wanted.map(|column| format!("held.{}", read_form(table, &column))).collect();
    forms.join(", ")
}

/// Deletes tombstones, each only at its version.
pub(super) fn purge(connection: &mut Connection, table: &Table, rows: &[(RowKeyBuf, Version)]) -> Result<(), Error> {
    let keys = key_array(table, rows.iter().map(|(row, _)| row));
    let sorts: Vec<&[u8]> = rows.iter().map(|(row, _)| &row.sort[..]).collect();
    let versions: Vec<i64> = rows.iter().map(|(_, version)| version.0).collect();
    let name = PostgresText.quoted(columns::table_name(table));
    let held = |column: &Column<'_>| format!("held.{}", PostgresText.quoted(column.name));
    let address: Vec<String> = columns::address(table).iter().map(held).collect();
    let version = columns::version(table).map(|column| held(&column)).unwrap_or_default();
    let same_version = format!("{version} = old.version AND {version} < 0");
    if let [key, sort] = &address[..] {
        let delete = format!(
            "DELETE FROM {name} AS held USING unnest($1::bytea[], $2::bytea[], $3::bigint[]) AS old (key, sort, version) \
             WHERE {key} = old.key AND {sort} = old.sort AND {same_version}"
        );
        connection.query(&delete, &[&*keys, &sorts, &versions])?;
    } else {
        let delete = format!(
            "DELETE FROM {name} AS held USING unnest($1::{}[], $2::bigint[]) AS old (key, version) \
             WHERE {} = old.key AND {same_version}",
            key_type(table),
            address[0]
        );
        connection.query(&delete, &[&*keys, &versions])?;
    }
    Ok(())
}

/// The whole rows, or nothing of those whose |version| in SQL is not below ours. Returns what it changed. With the number of
/// a mark's first place, nothing at all where the mark may not be left.
fn upsert(table: &Table, mark_at: Option<usize>) -> String {
    let columns = columns::all(table);
    let (name, names, address) =
        (PostgresText.quoted(columns::table_name(table)), PostgresText.names(&columns), columns::address(table));
    let version = columns::version(table).map(|column| PostgresText.quoted(column.name)).unwrap_or_default();
    let arrays: Vec<String> =
        columns.iter().zip(1..).map(|(column, number)| format!("${number}::{}[]", wire_type(table, column))).collect();
    let (mut aliases, mut values) = (Vec::new(), Vec::new());
    for (column, number) in columns.iter().zip(1..) {
        let kind = PostgresText.type_of(column);
        aliases.push(format!("c{number}"));
        let is_cast = column.readable_type().is_some() && wire_type(table, column) != kind;
        values.push(if is_cast { format!("c{number}::{kind}") } else { format!("c{number}") });
    }
    let changes: Vec<String> = columns
        .iter()
        .filter(|column| column.changes())
        .map(|column| (column, PostgresText.assigned(table, column, |name| format!("excluded.{name}"), "held")))
        .map(|(column, value)| format!("{} = {value}", PostgresText.quoted(column.name)))
        .collect();
    let (marked, condition) = match mark_at {
        Some(first) => (owner::leave(first), format!("WHERE {} ", owner::IS_MARKED)),
        None => Default::default(),
    };
    format!(
        "{marked}INSERT INTO {name} AS held ({names}) SELECT {} FROM unnest({}) AS batch ({}) {condition}\
         ON CONFLICT ({}) DO UPDATE SET {} WHERE abs(excluded.{version}) > abs(held.{version}) \
         RETURNING {}",
        values.join(", "),
        arrays.join(", "),
        aliases.join(", "),
        PostgresText.names(&address),
        changes.join(", "),
        held_forms(table),
    )
}

pub(super) type Array<'a> = Box<dyn ToSql + Sync + 'a>;

/// One array per column, in the order of `columns::all`.
fn arrays<'a>(table: &'a Table, rows: &[&'a FlushRow]) -> Result<Vec<Array<'a>>, Error> {
    let mut parts: Vec<Vec<Value>> = Vec::with_capacity(rows.len());
    let mut fields: Vec<Vec<ValueRef<'a>>> = Vec::with_capacity(rows.len());
    for flush in rows {
        parts.push(row::sort_parts(table, &flush.row)?);
        fields.push(row::field_values(table, flush)?);
    }
    let (mut part_at, mut field_at) = (0, 0);
    let mut arrays: Vec<Array<'a>> = Vec::new();
    for column in columns::all(table) {
        arrays.push(match column.part {
            Part::Key => key_array(table, rows.iter().map(|flush| &flush.row)),
            Part::Sort => Box::new(rows.iter().map(|flush| &flush.row.sort[..]).collect::<Vec<_>>()),
            Part::Version => Box::new(rows.iter().map(|flush| flush.version.0).collect::<Vec<_>>()),
            Part::Position => Box::new(
                rows.iter().map(|flush| row::stored_position(flush.row.as_ref().position())).collect::<Vec<_>>(),
            ),
            Part::Sorted(_) => {
                part_at += 1;
                // Owned, because they were decoded here and end with this function.
                let values = parts.iter().map(|parts| parts[part_at - 1].clone());
                owned_array(column.readable_type(), values)
            }
            Part::Field(field) => {
                field_at += 1;
                array(field.kind, fields.iter().map(|values| values[field_at - 1]))?
            }
        });
    }
    Ok(arrays)
}

fn owned_array<'a>(kind: Option<FieldType>, values: impl Iterator<Item = Value>) -> Array<'a> {
    match kind {
        Some(FieldType::Int64) => Box::new(
            values
                .filter_map(|value| if let Value::Int(value) = value { Some(value) } else { None })
                .collect::<Vec<_>>(),
        ),
        _ => Box::new(
            values
                .filter_map(|value| if let Value::Str(value) = value { Some(value) } else { None })
                .collect::<Vec<_>>(),
        ),
    }
}

/// Values of one field, whose types were checked against it.
pub(super) fn array<'a>(kind: FieldType, values: impl Iterator<Item = ValueRef<'a>>) -> Result<Array<'a>, Error> {
    macro_rules! collect {
        ($variant:ident, $turn:expr) => {
            Box::new(
                values
                    .map(|value| match value {
                        ValueRef::Null => Ok(None),
                        ValueRef::$variant(value) => $turn(value).map(Some),
                        other => unreachable!("{} in a column of {}", other.kind_name(), kind.name()),
                    })
                    .collect::<Result<Vec<_>, Error>>()?,
            )
        };
    }
    Ok(match kind {
        FieldType::Int64 => collect!(Int, Ok),
        FieldType::Uint64 => collect!(Uint, |value: u64| Ok(value.to_string())),
        FieldType::Float64 => collect!(Float, finite),
        FieldType::String => collect!(Str, without_nul),
        FieldType::Blob => collect!(Blob, Ok),
        FieldType::Bool => collect!(Bool, Ok),
        FieldType::Json => collect!(Json, without_nul),
        FieldType::Decimal { .. }
        | FieldType::Timestamp { .. }
        | FieldType::Date
        | FieldType::Time { .. }
        | FieldType::Uuid => collect!(Sql, |value: SqlValue| Ok(value.to_string())),
    })
}

/// PostgreSQL would take it, and no other database could: better the same everywhere (write-back 104).
fn finite(value: f64) -> Result<f64, Error> {
    if value.is_finite() { Ok(value) } else { Err(Error::row(format!("{value} is not a number that SQL keeps"))) }
}

fn without_nul(value: &str) -> Result<&str, Error> {
    if value.contains('\0') { Err(Error::row("PostgreSQL keeps no text with a NUL in it")) } else { Ok(value) }
}
