//! The table that says who writes to the database.

use shardine_model::sql::Class;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connection::Connection;
use super::fault::classify;
use super::text::PostgresText;
use crate::error::Error;
use crate::owner::{self, Line, Mark, TABLE, softened};

pub(super) fn lines(connection: &mut Connection) -> Result<Vec<Line>, Error> {
    let select = format!("SELECT what, cluster, number, start FROM {TABLE}");
    connection.query(&select, &[])?.iter().map(line).collect()
}

/// Several statements in one go are one transaction. The values are numbers and words of our own.
pub(super) fn claim(connection: &mut Connection, line: &Line, alone: bool) -> Result<(), Error> {
    let Line { what, cluster, number, start } = line;
    let create = owner::create(&PostgresText, "text");
    let gone = if alone { String::new() } else { format!(" WHERE what = '{what}'") };
    connection.run(&format!(
        "{create}; DELETE FROM {TABLE}{gone}; INSERT INTO {TABLE} (what, cluster, number, start) \
         VALUES ('{what}', '{cluster}', {number}, {start})"
    ))
}

/// What goes before a statement so that it leaves a mark; the statement's own condition is [`IS_MARKED`]. `first` is the number
/// of the first place of [`parameters`].
pub(super) fn leave(first: usize) -> String {
    let [what, cluster, number, start, inherited] = std::array::from_fn(|place| first + place);
    format!(
        "WITH mark AS (INSERT INTO {TABLE} AS held (what, cluster, number, start) \
         VALUES (${what}, ${cluster}, ${number}, ${start}) ON CONFLICT (what) \
         DO UPDATE SET number = excluded.number, start = excluded.start \
         WHERE held.start = excluded.start OR held.number <= ${inherited} RETURNING 1) "
    )
}

pub(super) const IS_MARKED: &str = "EXISTS (SELECT 1 FROM mark)";

pub(super) fn parameters(mark: &Mark) -> [&(dyn ToSql + Sync); 5] {
    let Line { what, cluster, number, start } = &mark.line;
    [what, cluster, number, start, &mark.inherited]
}

/// A statement that leaves a mark may fail for want of the rows' table, or of this one.
pub(super) fn told_apart(error: Error) -> Error {
    if error.class == Class::Definition && error.message.contains(TABLE) { softened(error) } else { error }
}

/// Looks whether the mark was left, where the statement has not shown it by what it did.
pub(super) fn check(connection: &mut Connection, mark: &Mark) -> Result<(), Error> {
    let select = format!("SELECT what, cluster, number, start FROM {TABLE} WHERE what = $1");
    let held = connection.query(&select, &[&mark.line.what]).map_err(softened)?;
    held.first().map_or(Ok(()), |held| mark.may_follow(Some(&line(held)?)))
}

fn line(row: &Row) -> Result<Line, Error> {
    let read = || -> Result<Line, tokio_postgres::Error> {
        Ok(Line { what: row.try_get(0)?, cluster: row.try_get(1)?, number: row.try_get(2)?, start: row.try_get(3)? })
    };
    read().map_err(classify)
}
