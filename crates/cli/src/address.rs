//! Addresses as typed, with the table's definition from the server.

use shardine_model::table::KV_NAME;
use shardine_model::{FieldType, Value};
use shardine_proto::v1;
use shardine_service::address;

use crate::complaint::Complaint;
use crate::connection::Connection;
use crate::value;

/// Reads `table:key` or `table:key@sort`.
pub async fn row(connection: &mut Connection, typed: &str) -> Result<(v1::Table, v1::Row), Complaint> {
    let (name, rest) = address::split_table(typed).map_err(Complaint::from_usage)?;
    let table = connection.table(name).await?;
    let (key, sort) = address::split_sort(rest, &sort_types(&table)).map_err(Complaint::from_usage)?;
    let sort = sort.into_iter().map(value::from_model).collect();
    let row = v1::Row { table: name.to_owned(), key: key_bytes(name, key), sort };
    Ok((table, row))
}

/// Reads `table`, or `table:key` for all rows of a key.
pub fn scope(typed: &str) -> (&str, Option<Vec<u8>>) {
    match typed.split_once(':') {
        Some((table, key)) => (table, Some(key_bytes(table, key))),
        None => (typed, None),
    }
}

/// In a table with a definition a key may stand in braces.
fn key_bytes(table: &str, typed: &str) -> Vec<u8> {
    let key = if table == KV_NAME { typed } else { address::bare_key(typed) };
    key.as_bytes().to_vec()
}

/// A key as [`key_bytes`] reads it.
pub fn key_text(table: &str, key: &[u8]) -> String {
    let text = value::bytes_text(key);
    if table == KV_NAME { text } else { address::format_key(&text) }
}

/// Reads a sort key or its first part.
pub fn bound(table: &v1::Table, typed: &str, exclusive: bool) -> Result<v1::SortBound, Complaint> {
    let parts = address::parse_sort(typed, &sort_types(table)).map_err(Complaint::from_usage)?;
    Ok(v1::SortBound { parts: parts.into_iter().map(value::from_model).collect(), exclusive })
}

pub fn sort_text(parts: &[v1::Value]) -> String {
    let parts: Vec<Value> = parts.iter().filter_map(value::to_model).collect();
    address::format_sort(&parts)
}

fn sort_types(table: &v1::Table) -> Vec<FieldType> {
    table.sort.iter().map(|part| value::field_type(part.r#type)).collect()
}
