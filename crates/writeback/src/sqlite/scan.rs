//! Reading rows in order, a page at a time.

use rusqlite::Connection;
use rusqlite::types::Value as Parameter;
use shardine_model::key::Interval;
use shardine_model::{Position, RowKeyBuf, Table, limits};

use super::fault::classify;
use super::{read, text};
use crate::columns::{self, Column, KEY, POSITION, SORT, VERSION};
use crate::error::Error;
use crate::job::{Found, Quarantined, ScanJob, Scope};
use crate::row::stored_position;

/// A `WHERE` under construction: its conditions and what they bind.
#[derive(Default)]
struct Conditions {
    texts: Vec<String>,
    parameters: Vec<Parameter>,
}

impl Conditions {
    fn require(&mut self, condition: impl Into<String>, parameters: impl IntoIterator<Item = Parameter>) {
        self.texts.push(condition.into());
        self.parameters.extend(parameters);
    }
}

pub(super) fn scan(connection: &Connection, job: &ScanJob) -> Result<(Found, Option<RowKeyBuf>), Error> {
    let rows_max = job.rows_max.clamp(1, limits::SCAN_ROWS_MAX);
    let (query, parameters) = select(job);
    let mut statement = connection.prepare_cached(&query).map_err(classify)?;
    let parameters = parameters.into_iter().chain([Parameter::Integer(rows_max as i64)]);
    let mut answers = statement.query(rusqlite::params_from_iter(parameters)).map_err(classify)?;

    let (mut page, mut last, mut count, mut bytes) = (Found::default(), None, 0, 0);
    while let Some(answer) = answers.next().map_err(classify)? {
        let row = read::row_key(&job.table, answer).map_err(classify)?;
        take(&mut page, &job.table, row.clone(), answer)?;
        last = Some(row);
        count += 1;
        bytes += page.rows.last().map_or(0, |loaded| loaded.fields.packed.len());
        if bytes >= limits::SCAN_BYTES_MAX {
            return Ok((page, last));
        }
    }
    Ok((page, last.filter(|_| count == rows_max)))
}

/// The query, and what it binds before its limit.
pub(super) fn select(job: &ScanJob) -> (String, Vec<Parameter>) {
    let (conditions, order) = plan(job);
    let (selected, name) = (read::selected(&job.table), text::quoted(&job.table.name));
    let wanted = conditions.texts.join(" AND ");
    let query =
        format!("SELECT {selected}, {POSITION} FROM {name} WHERE {wanted} AND {VERSION} > 0 ORDER BY {order} LIMIT ?");
    (query, conditions.parameters)
}

fn take(page: &mut Found, table: &Table, row: RowKeyBuf, answer: &rusqlite::Row<'_>) -> Result<(), Error> {
    let position_at = columns::address(table).len() + 1 + table.fields.len();
    let stored: Option<i64> = answer.get(position_at).map_err(classify)?;
    if stored == Some(stored_position(row.as_ref().position())) {
        return read::take(page, table, row, answer);
    }
    // Inserted by hand: another shard may hold the key, so this page cannot speak for it.
    let message = format!("{POSITION} does not belong to the key");
    page.quarantined.push(Quarantined { row, message });
    Ok(())
}

/// What to look for and in which order. Both are answered by one tree from front to back: the primary key or the index.
fn plan(job: &ScanJob) -> (Conditions, String) {
    let mut conditions = Conditions::default();
    let address = text::names(columns::address(&job.table));
    match &job.scope {
        Scope::Positions(interval) => {
            within(&mut conditions, &job.table, *interval, job.after.as_ref());
            (conditions, format!("{POSITION}, {address}"))
        }
        Scope::Partition { key, from, to, descending } => {
            conditions.require(format!("{KEY} = ?"), [Parameter::Blob(key.to_vec())]);
            let mut bound = |operator: &str, edge: &[u8]| {
                conditions.require(format!("{SORT} {operator} ?"), [Parameter::Blob(edge.to_vec())]);
            };
            if job.table.has_sort() {
                from.iter().for_each(|edge| bound(">=", edge));
                to.iter().for_each(|edge| bound("<", edge));
                job.after.iter().for_each(|row| bound(if *descending { "<" } else { ">" }, &row.sort));
            } else if job.after.is_some() {
                // The one row that the key has was the last one seen.
                conditions.require("FALSE", []);
            }
            let direction = if *descending { " DESC" } else { "" };
            let last = columns::address(&job.table).pop().unwrap_or(Column::Key);
            (conditions, format!("{}{direction}", text::quoted(last.name())))
        }
    }
}

fn within(conditions: &mut Conditions, table: &Table, interval: Interval, after: Option<&RowKeyBuf>) {
    let integer = |position: Position| Parameter::Integer(stored_position(position));
    match after.filter(|row| row.as_ref().position() >= interval.lo) {
        None => conditions.require(format!("{POSITION} >= ?"), [integer(interval.lo)]),
        Some(row) => {
            let columns = text::names(columns::address(table));
            let marks = text::marks(1 + columns::address(table).len());
            let mut edge = vec![integer(row.as_ref().position()), Parameter::Blob(row.key.to_vec())];
            edge.extend(table.has_sort().then(|| Parameter::Blob(row.sort.to_vec())));
            conditions.require(format!("({POSITION}, {columns}) > ({marks})"), edge);
        }
    }
    if let Some(hi) = interval.hi {
        conditions.require(format!("{POSITION} < ?"), [integer(hi)]);
    }
}
