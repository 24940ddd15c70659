//! How answers, rows and addresses look in stories.

use shardine_model::table::STRING_FIELD;
use shardine_model::{
    Answer, Catalogue, FieldRef, FieldsView, Outcome, Reply, RowKey, RowView, Table, ValueRef, Version, sort,
};
use shardine_records::Lookup;

/// `v3 age=10`: what an answer says, for a request whose items named these rows.
pub fn answer(catalogue: &Catalogue, answer: &Answer, rows: &[RowKey<'_>]) -> String {
    let table_of = |place: usize| rows.get(place).and_then(|row| catalogue.get(row.table)).map(|table| &**table);
    match answer {
        Answer::One(one) => reply(table_of(0), one),
        Answer::Many(replies) if replies.is_empty() => "done".to_owned(),
        Answer::Many(replies) => {
            let shown: Vec<String> =
                replies.iter().enumerate().map(|(place, one)| reply(table_of(place), one)).collect();
            format!("[{}]", shown.join(" ; "))
        }
        Answer::ConditionFailed => "condition failed".to_owned(),
        Answer::Failed(code) => format!("failed: {code}"),
    }
}

fn reply(table: Option<&Table>, reply: &Reply) -> String {
    let mut shown = match &reply.outcome {
        Outcome::Done { .. } => versions(table, reply.version, reply.sql_version),
        Outcome::Refused { code, .. } => {
            format!("{code} {}", versions(table, reply.version, reply.sql_version))
        }
    };
    // A zero would only be noise.
    if let Outcome::Done { changed: changed @ 1.., .. } = &reply.outcome {
        shown.push_str(&format!(" changed {changed}"));
    }
    if let Some(row) = reply.row() {
        shown.push_str(&format!(" {{{}}}", fields(table, row.view())));
    }
    shown
}

/// The version, and, where SQL stands behind the table, the one that SQL is known to hold.
fn versions(table: Option<&Table>, version: Version, sql_version: Version) -> String {
    match table {
        Some(table) if table.backing == shardine_model::Backing::Sql => format!("v{version} sql v{sql_version}"),
        _ => format!("v{version}"),
    }
}

pub fn lookup(table: Option<&Table>, found: &Lookup<'_>) -> String {
    match found {
        Lookup::Live(view) => row(table, view),
        Lookup::Absent { version, sql_version } => format!("absent {}", versions(table, *version, *sql_version)),
        Lookup::NotResident => "not resident".to_owned(),
        Lookup::UnknownTable => "unknown table".to_owned(),
    }
}

/// A record with its stored fields, and, in brackets, the defaults of those never set.
pub fn row(table: Option<&Table>, view: &RowView<'_>) -> String {
    let mut shown = format!("{} {{{}}}", versions(table, view.version, view.sql_version), fields(table, view.fields));
    let unset = table
        .into_iter()
        .flat_map(|table| &table.fields)
        .filter(|field| view.fields.get(FieldRef::Id(field.id)).is_none());
    let defaults: Vec<String> =
        unset.map(|field| format!("{}={}", field.name, value(field.default.as_ref()))).collect();
    if !defaults.is_empty() {
        shown.push_str(&format!(" ({})", defaults.join(" ")));
    }
    if let Some(at) = view.expires_at {
        shown.push_str(&format!(" expires {}", at.0));
    }
    shown
}

pub fn fields(table: Option<&Table>, view: FieldsView<'_>) -> String {
    let shown: Vec<String> =
        view.iter().map(|entry| format!("{}={}", name(table, entry.field), value(entry.value))).collect();
    shown.join(" ")
}

fn name(table: Option<&Table>, field: FieldRef<'_>) -> String {
    match field {
        FieldRef::Name(name) => String::from_utf8_lossy(name).into_owned(),
        STRING_FIELD if table.is_some_and(|table| table.dynamic) => "$".to_owned(),
        FieldRef::Id(id) => match table.and_then(|table| table.field_by_id(id)) {
            Some(field) => field.name.clone(),
            None => format!("#{id}"),
        },
    }
}

fn value(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Int(number) => number.to_string(),
        ValueRef::Uint(number) => number.to_string(),
        ValueRef::Float(number) => format!("{number:?}"),
        ValueRef::Str(text) => text.to_owned(),
        ValueRef::Blob(bytes) if bytes.iter().all(|byte| byte.is_ascii_graphic()) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        ValueRef::Blob(bytes) => bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect(),
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Bool(truth) => truth.to_string(),
        ValueRef::Json(text) => text.to_owned(),
        ValueRef::Sql(value) => value.to_string(),
    }
}

/// `users:lili`, `posts:lili@7`.
pub fn address(catalogue: &Catalogue, row: RowKey<'_>) -> String {
    let key = String::from_utf8_lossy(row.key);
    let Some(table) = catalogue.get(row.table) else { return format!("#{}:{key}", row.table) };
    if row.sort.is_empty() {
        return format!("{}:{key}", table.name);
    }
    let parts = sort::decode(&table.sort_types(), row.sort).expect("stories give whole sort keys");
    let shown: Vec<String> = parts.iter().map(|part| value(part.as_ref())).collect();
    format!("{}:{key}@{}", table.name, shown.join(","))
}
