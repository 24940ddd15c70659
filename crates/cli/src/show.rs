//! Output: tables for people, JSON for machines.

use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Map, Value as Json, json};
use shardine_proto::v1;

use crate::{address, value};

#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub json: bool,
}

/// What a shell shows of a program that a closed pipe ended.
const PIPE_CLOSED: i32 = 141;

impl Output {
    /// Prints one of the two forms; only the wanted one is made. Ends the process if nobody can read it.
    pub fn print(self, text: impl FnOnce() -> String, json: impl FnOnce() -> Json) {
        if let Err(error) = self.try_print(text, json) {
            unread(&error);
        }
    }

    /// The same for a process that goes on whoever reads.
    pub fn try_print(self, text: impl FnOnce() -> String, json: impl FnOnce() -> Json) -> io::Result<()> {
        let shown = if self.json { json().to_string() } else { text().trim_end().to_owned() };
        if shown.is_empty() { Ok(()) } else { put(format!("{shown}\n").as_bytes()) }
    }

    /// A word beside the data, for people only.
    pub fn note(self, text: &str) {
        if !self.json {
            say(text);
        }
    }
}

/// Puts finished data on stdout; the same end as [`Output::print`] if nobody reads it.
pub fn print_bytes(data: &[u8]) {
    if let Err(error) = put(data) {
        unread(&error);
    }
}

/// A line on stderr. Who has closed it does not want to know.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn put(data: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(data)?;
    stdout.flush()
}

/// `status | head -1` has read what it wanted, and there is nobody to tell; a full disk is a failure like any other.
fn unread(error: &io::Error) -> ! {
    if error.kind() != io::ErrorKind::BrokenPipe {
        say(&format!("error: the output could not be written: {error}"));
        std::process::exit(1);
    }
    std::process::exit(PIPE_CLOSED)
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
