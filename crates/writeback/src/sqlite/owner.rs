//! The table that says who writes to the file.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior};

use super::fault::classify;
use super::text::SqliteText;
use crate::error::Error;
use crate::owner::{self, Line, Mark, TABLE, softened};

pub(super) fn lines(connection: &Connection) -> Result<Vec<Line>, Error> {
    let select = format!("SELECT what, cluster, number, start FROM {TABLE}");
    let mut statement = connection.prepare_cached(&select).map_err(classify)?;
    let lines = statement.query_map([], line).map_err(classify)?;
    lines.collect::<Result<_, _>>().map_err(classify)
}

pub(super) fn claim(connection: &mut Connection, line: &Line, alone: bool) -> Result<(), Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(classify)?;
    transaction.execute_batch(&owner::create(&SqliteText, "text")).map_err(classify)?;
    if alone {
        transaction.execute(&format!("DELETE FROM {TABLE}"), []).map_err(classify)?;
    }
    put(&transaction, line)?;
    transaction.commit().map_err(classify)
}

/// Leaves a mark beside the rows of a transaction, or refuses them.
pub(super) fn leave(transaction: &Transaction<'_>, mark: &Mark) -> Result<(), Error> {
    let select = format!("SELECT what, cluster, number, start FROM {TABLE} WHERE what = ?");
    let mut statement = transaction.prepare_cached(&select).map_err(classify).map_err(softened)?;
    let held = statement.query_row([&mark.line.what], line).optional().map_err(classify).map_err(softened)?;
    mark.may_follow(held.as_ref())?;
    put(transaction, &mark.line).map_err(softened)
}

fn put(transaction: &Transaction<'_>, line: &Line) -> Result<(), Error> {
    let replace = format!("INSERT OR REPLACE INTO {TABLE} (what, cluster, number, start) VALUES (?, ?, ?, ?)");
    let mut statement = transaction.prepare_cached(&replace).map_err(classify)?;
    statement.execute((&line.what, &line.cluster, line.number, line.start)).map(drop).map_err(classify)
}

fn line(row: &Row<'_>) -> rusqlite::Result<Line> {
    Ok(Line { what: row.get(0)?, cluster: row.get(1)?, number: row.get(2)?, start: row.get(3)? })
}
