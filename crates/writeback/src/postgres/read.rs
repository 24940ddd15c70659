//! Reading rows by key in one statement, and pages of rows in order.

use shardine_model::{Field, FieldType, RowKeyBuf, Table, ValueRef, Version};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::connection::Connection;
use super::fault::classify;
use super::text::{PostgresText, key_type, read_form};
use crate::columns;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::job::{Found, ScanJob};
use crate::key::{self, KeyValue};
use crate::pages::{self, Page, Parameter};
use crate::row::{self, Cell};

pub(super) fn load(connection: &mut Connection, table: &Table, rows: &[RowKeyBuf]) -> Result<Found, Error> {
    let answers = query_by_key(connection, table, &select(table), rows)?;
    Found::gather(rows, &answers, |found, answer| take(found, table, answer))
}

/// Runs a query that is built on `held_by_key`.
pub(super) fn query_by_key(
    connection: &mut Connection,
    table: &Table,
    query: &str,
    rows: &[RowKeyBuf],
) -> Result<Vec<Row>, Error> {
    let keys = key_array(table, rows.iter());
    let sorts: Vec<&[u8]> = rows.iter().map(|row| &row.sort[..]).collect();
    let arrays: [&(dyn ToSql + Sync); 2] = [&*keys, &sorts];
    connection.query(query, &arrays[..columns::address(table).len()])
}

/// Keys as an array of the type in which they are given. Those that the column cannot hold were left out long before.
pub(super) fn key_array<'a>(table: &Table, rows: impl Iterator<Item = &'a RowKeyBuf>) -> Box<dyn ToSql + Sync + 'a> {
    let mut bytes: Vec<&[u8]> = Vec::new();
    let mut texts: Vec<&str> = Vec::new();
    let mut numbers: Vec<i64> = Vec::new();
    for row in rows {
        match key::to_sql(table, &row.key) {
            Some(KeyValue::Bytes(key)) => bytes.push(key),
            Some(KeyValue::Text(key)) => texts.push(key),
            Some(KeyValue::Integer(key)) => numbers.push(key),
            None => {}
        }
    }
    match columns::key_type(table) {
        FieldType::String => Box::new(texts),
        FieldType::Int64 => Box::new(numbers),
        _ => Box::new(bytes),
    }
}

fn select(table: &Table) -> String {
    format!("SELECT {} {}", read_forms(table, "held."), held_by_key(table))
}

/// The rows of a table whose addresses are given as one array per column.
pub(super) fn held_by_key(table: &Table) -> String {
    let name = PostgresText.quoted(columns::table_name(table));
    let address: Vec<String> = columns::address(table).iter().map(|column| PostgresText.quoted(column.name)).collect();
    if table.has_sort() {
        // Distinct, because asking twice for a row returns it once.
        format!(
            "FROM (SELECT DISTINCT * FROM unnest($1::bytea[], $2::bytea[])) AS wanted (key, sort) \
             JOIN {name} AS held ON held.{} = wanted.key AND held.{} = wanted.sort",
            address[0], address[1]
        )
    } else {
        format!("FROM {name} AS held WHERE held.{} = ANY($1::{}[])", address[0], key_type(table))
    }
}

fn read_forms(table: &Table, prefix: &str) -> String {
    let selected = columns::selected(table);
    let forms: Vec<String> = selected.iter().map(|column| format!("{prefix}{}", read_form(table, column))).collect();
    forms.join(", ")
}

pub(super) fn scan(connection: &mut Connection, job: &ScanJob) -> Result<(Found, Option<RowKeyBuf>), Error> {
    let (query, parameters) = pages::select(&PostgresText, job, &read_forms(&job.table, ""))?;
    let parameters: Vec<&(dyn ToSql + Sync)> = parameters
        .iter()
        .map(|parameter| match parameter {
            Parameter::Integer(value) => value as &(dyn ToSql + Sync),
            Parameter::Bytes(bytes) => bytes,
            Parameter::Text(text) => text,
        })
        .collect();
    let answers = connection.query(&query, &parameters)?;
    let position = |answer: &Row| answer.try_get(pages::position_at(&job.table)).ok();
    Page::of(job, &answers, position, |found, answer| take(found, &job.table, answer))
}

/// The address of a selected row. Fails if somebody made the key column something else than it was.
pub(super) fn row_key(table: &Table, answer: &Row) -> Result<RowKeyBuf, Error> {
    let bytes = |index: usize| answer.try_get::<_, &[u8]>(index).map(Into::into).map_err(classify);
    let key = match columns::key_type(table) {
        FieldType::String => answer.try_get::<_, &str>(0).map_err(classify)?.as_bytes().into(),
        FieldType::Int64 => answer.try_get::<_, i64>(0).map_err(classify)?.to_string().into_bytes().into(),
        _ => bytes(0)?,
    };
    let sort = if table.has_sort() { bytes(1)? } else { Box::default() };
    Ok(RowKeyBuf { table: table.id, key, sort })
}

/// Takes a selected row into `found`, checked against the definition, and gives its address.
fn take(found: &mut Found, table: &Table, answer: &Row) -> Result<RowKeyBuf, Error> {
    let row = row_key(table, answer)?;
    let version = match columns::version_at(table) {
        None => Ok(row::UNVERSIONED),
        Some(index) => answer.try_get(index).map(Version).map_err(|_| "the version is no bigint".to_owned()),
    };
    let cells = table.fields.iter().zip(columns::fields_at(table)..).map(|(field, index)| cell(field, answer, index));
    found.take(table, row.clone(), version, cells);
    Ok(row)
}

/// A stored value as the field's type has it, NULL as `None`.
fn cell<'a>(field: &Field, answer: &'a Row, index: usize) -> Cell<'a> {
    let stored = answer.columns()[index].type_();
    let wrong = || format!("{stored} where {} is needed", field.kind.name());
    let value = match (field.kind, stored) {
        (FieldType::Int64, &Type::INT8) => get(answer, index)?.map(ValueRef::Int),
        (FieldType::Uint64, &Type::TEXT) => {
            let digits: Option<&str> = get(answer, index)?;
            let number = digits.map(|digits| digits.parse().map_err(|_| format!("{digits} is no uint64")));
            number.transpose()?.map(ValueRef::Uint)
        }
        (FieldType::Float64, &Type::FLOAT8) => get(answer, index)?.map(ValueRef::Float),
        (FieldType::String, &Type::TEXT) => get(answer, index)?.map(ValueRef::Str),
        (FieldType::Blob, &Type::BYTEA) => get(answer, index)?.map(ValueRef::Blob),
        (FieldType::Bool, &Type::BOOL) => get(answer, index)?.map(ValueRef::Bool),
        (FieldType::Json, &Type::TEXT) => get(answer, index)?.map(ValueRef::Json),
        (kind, &Type::TEXT) => row::sql_cell(kind, get(answer, index)?)?,
        _ => return Err(wrong()),
    };
    Ok(value)
}

fn get<'a, T: tokio_postgres::types::FromSql<'a>>(answer: &'a Row, index: usize) -> Result<Option<T>, String> {
    answer.try_get(index).map_err(|error| error.to_string())
}
