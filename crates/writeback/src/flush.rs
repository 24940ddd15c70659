//! Writes a batch so that one bad row costs nobody else their write (write-back 99). The same for all databases.

use std::time::Instant;

use shardine_model::sql::{Class, FlushResult, FlushRow};
use shardine_model::{RowKeyBuf, Version, limits};

use crate::database::Database;
use crate::error::Error;
use crate::guest::{self, Way};
use crate::job::{FlushJob, PurgeJob};
use crate::owner::Mark;

pub(crate) type Results = Vec<(RowKeyBuf, FlushResult)>;

/// Fails as a whole only for reasons that concern all rows. What was written by then stays: repeating it is harmless.
pub(crate) fn write_all(database: &mut dyn Database, job: &FlushJob, mark: Option<&Mark>) -> Result<Results, Error> {
    let table = &job.table;
    if table.sql.is_read_only() {
        return Err(Error::definition(format!("table {} has no version column in SQL and is only read", table.name)));
    }
    let mut results = Vec::with_capacity(job.rows.len());
    for batch in job.rows.chunks(limits::FLUSH_ROWS_MAX) {
        match table.sql.is_guest() {
            true => guest::write(database, job, batch, mark, &mut results)?,
            false => write_halving(database, job, Way::Whole, batch, mark, &mut results)?,
        }
    }
    Ok(results)
}

pub(crate) fn write_halving(
    database: &mut dyn Database,
    job: &FlushJob,
    way: Way,
    rows: &[FlushRow],
    mark: Option<&Mark>,
    results: &mut Results,
) -> Result<(), Error> {
    check_time(job.begin_by)?;
    match (way.write(database, &job.table, rows, mark), rows) {
        (Ok(held), rows) => {
            assert_eq!(held.len(), rows.len(), "a write answers for every row");
            let outcomes =
                rows.iter().zip(held).map(|(row, held)| (row.row.clone(), result_of(way, row.version, held)));
            results.extend(outcomes);
            Ok(())
        }
        (Err(error), [row]) if error.is_of_one_row() => {
            // Where the table has parents, the one that is missing may be on its way (write-back 107); and rows that refer to a
            // deleted one may be on theirs.
            let may_pass = !job.table.sql.after.is_empty() || way == Way::Delete;
            let is_orphan = error.class == Class::ForeignKey && may_pass;
            let result = if is_orphan { FlushResult::Orphan } else { FlushResult::Refused };
            results.push((row.row.clone(), result(error.message)));
            Ok(())
        }
        (Err(error), rows) if error.is_of_one_row() => {
            let (left, right) = rows.split_at(rows.len() / 2);
            write_halving(database, job, way, left, mark, results)?;
            write_halving(database, job, way, right, mark, results)
        }
        (Err(error), _) => Err(error),
    }
}

/// Deletes tombstones. Gives those that rows of other tables still refer to: they stay until those have gone.
pub(crate) fn purge_all(database: &mut dyn Database, job: &PurgeJob) -> Result<Vec<RowKeyBuf>, Error> {
    let mut kept = Vec::new();
    purge_halving(database, job, &job.rows, &mut kept)?;
    Ok(kept)
}

fn purge_halving(
    database: &mut dyn Database,
    job: &PurgeJob,
    rows: &[(RowKeyBuf, Version)],
    kept: &mut Vec<RowKeyBuf>,
) -> Result<(), Error> {
    check_time(job.begin_by)?;
    match (database.purge(&job.table, rows), rows) {
        (Ok(()), _) => Ok(()),
        (Err(error), [(row, _)]) if error.class == Class::ForeignKey => {
            kept.push(row.clone());
            Ok(())
        }
        (Err(error), rows) if error.class == Class::ForeignKey => {
            let (left, right) = rows.split_at(rows.len() / 2);
            purge_halving(database, job, left, kept)?;
            purge_halving(database, job, right, kept)
        }
        (Err(error), _) => Err(error),
    }
}

/// Whether a transaction that changes rows may still begin: later, somebody else may hold the lease (write-back 78).
pub(crate) fn check_time(begin_by: Option<Instant>) -> Result<(), Error> {
    if begin_by.is_some_and(|last| Instant::now() > last) {
        return Err(Error::busy("too much waits for SQL: the time in which this batch might begin is over"));
    }
    Ok(())
}

/// SQL below us is no breach of the fence but somebody else's doing: a trigger that swallowed the row.
fn result_of(way: Way, ours: Version, held: Version) -> FlushResult {
    let has_vanished = held == Version::NEVER && matches!(way, Way::Changed(_));
    if has_vanished {
        FlushResult::Newer(held)
    } else if held == ours {
        FlushResult::Written
    } else if held.magnitude() >= ours.magnitude() {
        FlushResult::Newer(held)
    } else {
        FlushResult::Refused(format!(
            "SQL took the write of version {ours} and still holds {held}: is there a trigger?"
        ))
    }
}
