//! What a file tells of its schema.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::fault::classify;
use crate::error::Error;
use crate::survey::{ColumnFacts, ForeignKeyFacts, Made, TableFacts, TableKind};

/// Opened for reading only: a connection as jobs use it would change the file's journal.
pub(crate) fn survey(path: &Path) -> Result<Vec<TableFacts>, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let read = || -> rusqlite::Result<Vec<TableFacts>> {
        let connection = Connection::open_with_flags(path, flags)?;
        let select = "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
                      AND name NOT LIKE '\\_\\_%' ESCAPE '\\' ORDER BY name";
        let mut statement = connection.prepare(select)?;
        let names = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let names: Vec<(String, String)> = names.collect::<rusqlite::Result<_>>()?;
        names.into_iter().map(|(name, kind)| table(&connection, name, &kind)).collect()
    };
    read().map_err(classify)
}

fn table(connection: &Connection, name: String, kind: &str) -> rusqlite::Result<TableFacts> {
    let made: String =
        connection
            .query_row("SELECT coalesce(sql, '') FROM sqlite_schema WHERE name = ?", [&name], |row| row.get(0))?;
    let made = made.to_ascii_lowercase();
    let (columns, key) = columns(connection, &name, &made)?;
    let mut facts = TableFacts { columns, key, ..TableFacts::default() };
    if kind == "view" {
        facts.kind = TableKind::View;
    }
    facts.uniques = uniques(connection, &name)?;
    facts.foreign_keys = foreign_keys(connection, &name)?;
    // They have no names that could be asked for.
    facts.checks = made.contains("check").then(|| "of the table".to_owned()).into_iter().collect();
    let select = "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? ORDER BY name";
    facts.triggers = texts(connection, select, &name)?;
    facts.name = name;
    Ok(facts)
}

fn columns(connection: &Connection, name: &str, made: &str) -> rusqlite::Result<(Vec<ColumnFacts>, Vec<String>)> {
    const SELECT: &str = "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?)";
    const COLLATION: &str = "SELECT x.coll FROM pragma_index_list(?) l, pragma_index_xinfo(l.name) x \
                             WHERE l.origin = 'pk' AND x.key = 1";
    let mut statement = connection.prepare(SELECT)?;
    let mut key: Vec<(u32, String)> = Vec::new();
    let mut columns = Vec::new();
    let mut answers = statement.query([name])?;
    while let Some(row) = answers.next()? {
        let (place, hidden): (u32, u32) = (row.get(4)?, row.get(5)?);
        let column = ColumnFacts {
            name: row.get(0)?,
            declared: row.get(1)?,
            not_null: row.get::<_, bool>(2)? || place > 0,
            default: row.get(3)?,
            made: if hidden > 1 { Made::Computed } else { Made::Nothing },
            ..ColumnFacts::default()
        };
        if place > 0 {
            key.push((place, column.name.clone()));
        }
        columns.push(column);
    }
    key.sort();
    let collation: Option<String> = connection.query_row(COLLATION, [name], |row| row.get(0)).optional()?;
    if let ([(_, only)], Some(column)) =
        (&key[..], columns.iter_mut().find(|column| Some(&column.name) == key.first().map(|(_, name)| name)))
    {
        debug_assert_eq!(*only, column.name);
        column.collation = collation.filter(|collation| collation != "BINARY");
        // Such a key is the row id, which SQLite counts.
        if column.declared.eq_ignore_ascii_case("integer") && !made.contains("without rowid") {
            column.made = Made::Number;
        }
    }
    Ok((columns, key.into_iter().map(|(_, name)| name).collect()))
}

fn uniques(connection: &Connection, name: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    let indexes = texts(
        connection,
        "SELECT name FROM pragma_index_list(?) WHERE \"unique\" AND origin <> 'pk' ORDER BY name",
        name,
    )?;
    indexes
        .iter()
        .map(|index| texts(connection, "SELECT coalesce(name, '…') FROM pragma_index_info(?) ORDER BY seqno", index))
        .collect()
}

fn foreign_keys(connection: &Connection, name: &str) -> rusqlite::Result<Vec<ForeignKeyFacts>> {
    const SELECT: &str =
        "SELECT id, \"table\", \"from\", on_delete, on_update FROM pragma_foreign_key_list(?) ORDER BY id, seq";
    let mut statement = connection.prepare(SELECT)?;
    let mut answers = statement.query([name])?;
    let (mut keys, mut last): (Vec<ForeignKeyFacts>, Option<i64>) = (Vec::new(), None);
    while let Some(row) = answers.next()? {
        let (id, column): (i64, String) = (row.get(0)?, row.get(2)?);
        if last != Some(id) {
            last = Some(id);
            let actions = crate::survey::actions(&row.get::<_, String>(3)?, &row.get::<_, String>(4)?);
            keys.push(ForeignKeyFacts { columns: Vec::new(), parent: row.get(1)?, actions });
        }
        keys.last_mut().expect("it was begun").columns.push(column);
    }
    keys.sort_by(|left, right| left.columns.cmp(&right.columns));
    Ok(keys)
}

fn texts(connection: &Connection, select: &str, of: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(select)?;
    statement.query_map([of], |row| row.get(0))?.collect()
}
