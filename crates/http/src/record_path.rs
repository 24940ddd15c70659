//! What a path names: a table, and the key of a row or partition. Keys are bytes, so the path is decoded by hand.

use http::Uri;
use percent_encoding::percent_decode_str;
use shardine_model::{ErrorCode, Refusal, Table, Value};
use shardine_service::address;

/// `/v1/tables/{table}/…/{key}`.
pub(crate) struct RecordPath {
    pub table: String,
    /// Empty where the path has none.
    pub key: Vec<u8>,
}

impl RecordPath {
    pub(crate) fn of(uri: &Uri) -> Result<Self, Refusal> {
        // The route was matched, so the segments are there: "", v1, tables, table, kind, key.
        let mut segments = uri.path().split('/').skip(3);
        let table = segments.next().unwrap_or_default();
        let key = segments.nth(1).unwrap_or_default();
        let table = percent_decode_str(table)
            .decode_utf8()
            .map_err(|_| Refusal::new(ErrorCode::BadRequest, "the table's name is not UTF-8 after percent-decoding"))?;
        Ok(Self { table: table.into_owned(), key: percent_decode_str(key).collect() })
    }
}

/// The sort key of a row, from the parameter `sort`.
pub(crate) fn sort_of(table: &Table, sort: Option<&str>) -> Result<Vec<Value>, Refusal> {
    match sort {
        None => Ok(Vec::new()),
        Some(text) => address::parse_sort(text, &table.sort_types()),
    }
}
