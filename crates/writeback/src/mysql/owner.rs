//! The table that says who writes to the database.

use mysql_async::{Row, Value as Stored};

use super::Flavour;
use super::connection::Connection;
use super::text::MysqlText;
use super::write::in_transaction;
use crate::error::Error;
use crate::owner::{self, Line, Mark, TABLE, softened};

pub(super) fn lines(connection: &mut Connection) -> Result<Vec<Line>, Error> {
    let select = format!("SELECT `what`, `cluster`, `number`, `start` FROM {TABLE}");
    connection.query(&select, Vec::new())?.iter().map(line).collect()
}

pub(super) fn claim(connection: &mut Connection, line: &Line, alone: bool) -> Result<(), Error> {
    // A definition ends the transaction that it stands in, so it stands alone.
    connection.run(&owner::create(&MysqlText, "varchar(64)"))?;
    in_transaction(connection, |connection| {
        if alone {
            connection.run(&format!("DELETE FROM {TABLE}"))?;
        }
        let replace = format!("REPLACE INTO {TABLE} (`what`, `cluster`, `number`, `start`) VALUES (?, ?, ?, ?)");
        connection.query(&replace, values(line)).map(drop)
    })
}

/// Leaves a mark beside the rows of a transaction, or refuses them. Assignments are made from left to right, and each sees
/// those before it: behind the first one `start` tells whether the mark may follow.
pub(super) fn leave(connection: &mut Connection, mark: &Mark) -> Result<(), Error> {
    let returning = match connection.flavour {
        Flavour::MariaDb => " RETURNING `what`, `cluster`, `number`, `start`",
        Flavour::Mysql => "",
    };
    let upsert = format!(
        "INSERT INTO {TABLE} (`what`, `cluster`, `number`, `start`) VALUES (?, ?, ?, ?) ON DUPLICATE KEY UPDATE \
         `start` = IF(`start` = ? OR `number` <= ?, ?, `start`), `number` = IF(`start` = ?, ?, `number`){returning}"
    );
    let (number, start) = (Stored::Int(mark.line.number), Stored::Int(mark.line.start));
    let mut bound = values(&mark.line);
    bound.extend([start.clone(), Stored::Int(mark.inherited), start.clone(), start, number]);
    let mut held = connection.query(&upsert, bound).map_err(softened)?;
    if connection.flavour == Flavour::Mysql {
        let select = format!("SELECT `what`, `cluster`, `number`, `start` FROM {TABLE} WHERE `what` = ?");
        held = connection.query(&select, vec![text(&mark.line.what)]).map_err(softened)?;
    }
    held.first().map_or(Ok(()), |held| mark.may_follow(Some(&line(held)?)))
}

fn values(line: &Line) -> Vec<Stored> {
    vec![text(&line.what), text(&line.cluster), Stored::Int(line.number), Stored::Int(line.start)]
}

fn text(text: &str) -> Stored {
    Stored::Bytes(text.as_bytes().to_vec())
}

fn line(row: &Row) -> Result<Line, Error> {
    let (what, cluster, number, start) = mysql_async::from_row_opt(row.clone())
        .map_err(|error| Error::fatal(format!("the table {TABLE} is not one of Shardine's: {error}")))?;
    Ok(Line { what, cluster, number, start })
}
