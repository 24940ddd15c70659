//! How a table meets SQL, as typed on the command line and as shown.

use clap::Args;
use serde_json::{Value as Json, json};
use shardine_model::{Conflict, Deletes, WriteMode};
use shardine_proto::v1;
use shardine_service::text;

use crate::complaint::Complaint;
use crate::value;

#[derive(Args)]
pub struct SqlArgs {
    /// When changes go to SQL: behind the answer, through (before it), or on-evict
    #[arg(long, value_name = "MODE", default_value = "behind")]
    write: String,
    /// How long a change may wait for others of its row, in ms: fewer writes of hot rows, more lag [default: 100]
    #[arg(long, value_name = "MS")]
    write_delay: Option<u32>,
    /// Rows per batch [default: 1000]
    #[arg(long, value_name = "ROWS")]
    write_batch: Option<u32>,
    /// Who wins when somebody else raised a row in SQL: cache-wins, sql-wins, or stop (dead letter)
    #[arg(long, value_name = "POLICY", default_value = "cache-wins")]
    on_conflict: String,
    /// How long tombstones stay in SQL, in ms [default: a week]
    #[arg(long, value_name = "MS")]
    keep_tombstones: Option<u64>,
    /// A table whose rows go to SQL first, because this one's foreign keys lead there; repeat for more
    #[arg(long, value_name = "TABLE")]
    after: Vec<String>,
    /// An SQL table that is there already; it is checked and left as it is
    #[arg(long, value_name = "SQL_TABLE", requires = "map_key")]
    map: Option<String>,
    /// Its key column as COLUMN or COLUMN:TYPE (string, int64 or blob)
    #[arg(long, value_name = "COLUMN[:TYPE]", requires = "map")]
    map_key: Option<String>,
    /// Its version column, a signed integer that is never 0; without one the table is only read
    #[arg(long, value_name = "COLUMN", requires = "map")]
    map_version: Option<String>,
    /// The column of a field, if it has another name; repeat for more
    #[arg(long, value_name = "FIELD=COLUMN", requires = "map")]
    map_field: Vec<String>,
    /// What becomes of a deleted row: row (it is deleted, and of others only what changed is written), or tombstone (it stays with
    /// a version below zero, for users of the table who know of versions)
    #[arg(long, value_name = "HOW", default_value = "row", requires = "map")]
    map_deletes: String,
}

impl SqlArgs {
    pub fn options(&self, fields: &[v1::FieldDefinition]) -> Result<v1::SqlOptions, Complaint> {
        let mode = match text::parse_write_mode(&self.write).map_err(Complaint::from_usage)? {
            WriteMode::Behind => v1::WriteMode::Behind,
            WriteMode::Through => v1::WriteMode::Through,
            WriteMode::OnEvict => v1::WriteMode::OnEvict,
        };
        let conflict = match text::parse_conflict(&self.on_conflict).map_err(Complaint::from_usage)? {
            Conflict::CacheWins => v1::Conflict::CacheWins,
            Conflict::SqlWins => v1::Conflict::SqlWins,
            Conflict::Stop => v1::Conflict::Stop,
        };
        Ok(v1::SqlOptions {
            mode: mode.into(),
            delay_ms: self.write_delay,
            batch: self.write_batch.unwrap_or(0),
            conflict: conflict.into(),
            tombstone_keep_ms: self.keep_tombstones.unwrap_or(0),
            mapping: self.mapping(fields)?,
            after: self.after.clone(),
        })
    }

    fn mapping(&self, fields: &[v1::FieldDefinition]) -> Result<Option<v1::Mapping>, Complaint> {
        let (Some(table), Some(key)) = (&self.map, &self.map_key) else { return Ok(None) };
        let (key, kind) = key.split_once(':').unwrap_or((key, "string"));
        let deletes = match text::parse_deletes(&self.map_deletes).map_err(Complaint::from_usage)? {
            Deletes::Row => v1::Deletes::Row,
            Deletes::Tombstone => v1::Deletes::Tombstone,
        };
        let mut columns: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
        for typed in &self.map_field {
            let place = typed.split_once('=').and_then(|(field, column)| {
                Some((fields.iter().position(|known| known.name == field)?, column.to_owned()))
            });
            let Some((index, column)) = place else {
                let what = format!("--map-field {typed} names no field of the table");
                return Err(Complaint::misused(what, "it is FIELD=COLUMN", "--map-field name=full_name"));
            };
            columns[index] = column;
        }
        Ok(Some(v1::Mapping {
            table: table.clone(),
            key: key.to_owned(),
            key_type: value::field_type_out(text::parse_type(kind).map_err(Complaint::from_usage)?),
            version: self.map_version.clone().unwrap_or_default(),
            columns,
            deletes: deletes.into(),
        }))
    }
}

fn mode(sql: &v1::SqlOptions) -> &'static str {
    match sql.mode() {
        v1::WriteMode::Behind => WriteMode::Behind.name(),
        v1::WriteMode::Through => WriteMode::Through.name(),
        v1::WriteMode::OnEvict => WriteMode::OnEvict.name(),
    }
}

fn conflict(sql: &v1::SqlOptions) -> &'static str {
    match sql.conflict() {
        v1::Conflict::CacheWins => Conflict::CacheWins.name(),
        v1::Conflict::SqlWins => Conflict::SqlWins.name(),
        v1::Conflict::Stop => Conflict::Stop.name(),
    }
}

fn deletes(mapping: &v1::Mapping) -> &'static str {
    match mapping.deletes() {
        v1::Deletes::Row => Deletes::Row.name(),
        v1::Deletes::Tombstone => Deletes::Tombstone.name(),
    }
}

pub fn text_of(sql: &v1::SqlOptions) -> String {
    let (mode, conflict) = (mode(sql), conflict(sql));
    let mut head = format!("writes {mode}, delay {} ms, batch {}, on conflict {conflict}", sql.delay_ms(), sql.batch);
    if !sql.after.is_empty() {
        head += &format!(", after {}", sql.after.join(", "));
    }
    match &sql.mapping {
        None => head,
        Some(mapping) if mapping.version.is_empty() => {
            format!("mapped to {} by {}, which has no version column: read only", mapping.table, mapping.key)
        }
        Some(mapping) => {
            let (table, key, version) = (&mapping.table, &mapping.key, &mapping.version);
            format!("{head}\nmapped to {table} by {key}, version {version}, deleted rows: {}", deletes(mapping))
        }
    }
}

pub fn json_of(sql: &v1::SqlOptions) -> Json {
    let mapping = sql.mapping.as_ref().map(|mapping| {
        json!({
            "table": mapping.table, "key": mapping.key, "key_type": value::field_type(mapping.key_type).name(),
            "version": mapping.version, "columns": mapping.columns, "deletes": deletes(mapping),
        })
    });
    json!({
        "mode": mode(sql), "delay_ms": sql.delay_ms(), "batch": sql.batch, "conflict": conflict(sql),
        "tombstone_keep_ms": sql.tombstone_keep_ms, "mapping": mapping,
        "after": sql.after,
    })
}
