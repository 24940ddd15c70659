//! Writes rows of a table that SQL shares with others who know nothing of Shardine: of each row only the columns that changed,
//! so that what nobody touched keeps its bytes, and a deleted row is deleted. The same for all databases.

use shardine_model::sql::{FlushResult, FlushRow};
use shardine_model::{ChangedFields, Conflict, Table, Version};

use crate::database::Database;
use crate::error::Error;
use crate::flush::{Results, write_halving};
use crate::job::FlushJob;
use crate::owner::Mark;

/// How rows go to SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Whole, by an upsert: SQL may have the row or not.
    Whole,
    /// Only these fields and the version, where SQL has the row.
    Changed(ChangedFields),
    Delete,
}

impl Way {
    pub(crate) fn write(
        self,
        database: &mut dyn Database,
        table: &Table,
        rows: &[FlushRow],
        mark: Option<&Mark>,
    ) -> Result<Vec<Version>, Error> {
        match self {
            Self::Whole => database.write(table, rows, mark),
            Self::Changed(fields) => database.update(table, fields, rows, mark),
            Self::Delete => {
                let held = database.delete(table, rows, mark)?;
                // A row that is not there is as deleted as it can be.
                let as_deleted =
                    |(row, held): (&FlushRow, Version)| if held == Version::NEVER { row.version } else { held };
                Ok(rows.iter().zip(held).map(as_deleted).collect())
            }
        }
    }

    fn of(row: &FlushRow) -> Self {
        match row.changed {
            _ if !row.version.is_live() => Self::Delete,
            fields if fields.is_all() => Self::Whole,
            fields => Self::Changed(fields),
        }
    }

    /// What goes first: a deleted row makes room for another of the same unique name, and a changed one may.
    fn turn(self) -> u8 {
        match self {
            Self::Delete => 0,
            Self::Changed(_) => 1,
            Self::Whole => 2,
        }
    }
}

/// Writes a batch, way by way.
pub(crate) fn write(
    database: &mut dyn Database,
    job: &FlushJob,
    rows: &[FlushRow],
    mark: Option<&Mark>,
    results: &mut Results,
) -> Result<(), Error> {
    let mut outcomes: Vec<FlushResult> = vec![FlushResult::Written; rows.len()];
    let mut write = |way: Way, places: &[usize], outcomes: &mut [FlushResult]| -> Result<(), Error> {
        let part: Vec<FlushRow> = places.iter().map(|place| rows[*place].clone()).collect();
        let mut told = Vec::with_capacity(part.len());
        write_halving(database, job, way, &part, mark, &mut told)?;
        places.iter().zip(told).for_each(|(place, (_, outcome))| outcomes[*place] = outcome);
        Ok(())
    };
    for (way, places) in by_way(rows) {
        write(way, &places, &mut outcomes)?;
    }
    // Rows that refer to those may have been deleted, or may refer to others, since: they may be of the same table.
    let referred =
        places(&outcomes, |outcome| matches!(outcome, FlushResult::Orphan(_)), |row| !rows[row].version.is_live());
    if !referred.is_empty() {
        write(Way::Delete, &referred, &mut outcomes)?;
    }
    // Somebody else has deleted them. Where memory wins they are there again, whole.
    let vanished = places(&outcomes, |outcome| *outcome == FlushResult::Newer(Version::NEVER), |_| true);
    if !vanished.is_empty() && job.table.sql.conflict == Conflict::CacheWins {
        write(Way::Whole, &vanished, &mut outcomes)?;
    }
    results.extend(rows.iter().map(|row| row.row.clone()).zip(outcomes));
    Ok(())
}

fn places(
    outcomes: &[FlushResult],
    is_meant: impl Fn(&FlushResult) -> bool,
    is_row_meant: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let all = outcomes.iter().enumerate();
    all.filter(|(place, outcome)| is_meant(outcome) && is_row_meant(*place)).map(|(place, _)| place).collect()
}

/// The places of rows that go the same way, in the order in which the ways take their turn.
fn by_way(rows: &[FlushRow]) -> Vec<(Way, Vec<usize>)> {
    let mut ways: Vec<(Way, Vec<usize>)> = Vec::new();
    for (place, row) in rows.iter().enumerate() {
        let way = Way::of(row);
        match ways.iter_mut().find(|(known, _)| *known == way) {
            Some((_, places)) => places.push(place),
            None => ways.push((way, vec![place])),
        }
    }
    ways.sort_by_key(|(way, _)| way.turn());
    ways
}
