//! Output: tables for people, JSON for machines.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Map, Value as Json, json};
use shardine_proto::v1;

use crate::{address, value};

#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub json: bool,
}

impl Output {
    /// Prints one of the two forms; only the wanted one is made.
    pub fn print(self, text: impl FnOnce() -> String, json: impl FnOnce() -> Json) {
        if self.json {
            println!("{}", json());
        } else {
            let text = text();
            if !text.is_empty() {
                println!("{}", text.trim_end());
            }
        }
    }

    /// A word beside the data, for people only.
    pub fn note(self, text: &str) {
        if !self.json {
            eprintln!("{text}");
        }
    }
}

/// A table without frames, so that columns can be cut and copied.
pub fn table<const N: usize>(header: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// What was said, and when; nothing if nothing was.
pub fn ago(said: &str, ago_ms: u64) -> String {
    let seconds = ago_ms / 1_000;
    match (said.is_empty(), seconds) {
        (true, _) => String::new(),
        (false, 0..120) => format!("{seconds} s ago: {said}"),
        (false, 120..7_200) => format!("{} min ago: {said}", seconds / 60),
        (false, _) => format!("{} h ago: {said}", seconds / 3_600),
    }
}

/// `table:key@sort`, as commands read it.
pub fn row(row: &v1::Row) -> String {
    let key = address::key_text(&row.table, &row.key);
    if row.sort.is_empty() {
        return format!("{}:{key}", row.table);
    }
    format!("{}:{key}@{}", row.table, address::sort_text(&row.sort))
}

pub fn field_name(field: &v1::Field) -> String {
    if field.raw_name.is_empty() { field.name.clone() } else { value::bytes_text(&field.raw_name) }
}

pub fn record_text(record: &v1::Record) -> String {
    let fields = record.fields.iter().map(|field| [field_name(field), value::text(field.value.as_ref())]);
    let mut text = table(["FIELD", "VALUE"], fields.collect());
    text.push_str(&format!("\nversion {}, in SQL {}", record.version, record.sql_version));
    text
}

pub fn record_json(record: &v1::Record) -> Json {
    let mut object = Map::new();
    if let Some(row) = &record.row {
        object.insert("table".into(), json!(row.table));
        object.insert("key".into(), json!(value::bytes_text(&row.key)));
        if !row.sort.is_empty() {
            object.insert("sort".into(), row.sort.iter().map(|part| value::json(Some(part))).collect());
        }
    }
    object.insert("version".into(), value::integer(record.version));
    object.insert("sql_version".into(), value::integer(record.sql_version));
    if let Some(at) = record.expires_at_ms {
        object.insert("expires_at_ms".into(), value::unsigned(at));
    }
    let fields = record.fields.iter().map(|field| (field_name(field), value::json(field.value.as_ref())));
    object.insert("fields".into(), Json::Object(fields.collect()));
    Json::Object(object)
}
