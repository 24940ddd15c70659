//! The columns of a table, in one order for all dialects. How a column is declared is each dialect's own.
//!
//! A managed table has columns that Shardine named; a mapped one was there before and has names, and a key, of its own.

use shardine_model::table::SortPart;
use shardine_model::{ChangedFields, Field, FieldType, Mapping, Table};

/// The key as bytes, never as text: `Bob`, `bob` and `Bob ` are three records whatever the collation (write-back 103).
const KEY: &str = "__key__";
/// The encoded sort key, whose byte order is the order of the rows.
const SORT: &str = "__sort__";
const VERSION: &str = "__version__";
/// Where the key lives, so that a shard's rows can be read in routing order.
pub(crate) const POSITION: &str = "__position__";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column<'a> {
    pub(crate) part: Part<'a>,
    pub(crate) name: &'a str,
}

/// What a column holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    Key,
    Sort,
    Version,
    Position,
    /// A part of the sort key once more, readable: for people and their queries. Written, never read back.
    Sorted(&'a SortPart),
    Field(&'a Field),
}

impl Column<'_> {
    /// Whether a later version of a row may hold another value here. The rest follows from the address of the row.
    pub(crate) fn changes(&self) -> bool {
        match self.part {
            Part::Version | Part::Field(_) => true,
            Part::Key | Part::Sort | Part::Position | Part::Sorted(_) => false,
        }
    }

    /// The type of the value, if it is one that people see.
    pub(crate) fn readable_type(&self) -> Option<FieldType> {
        match self.part {
            Part::Key | Part::Sort | Part::Version | Part::Position => None,
            Part::Sorted(part) => Some(part.kind),
            Part::Field(field) => Some(field.kind),
        }
    }
}

fn mapping(table: &Table) -> Option<&Mapping> {
    table.sql.mapping.as_ref()
}

pub(crate) fn is_mapped(table: &Table) -> bool {
    mapping(table).is_some()
}

/// What SQL calls the table.
pub(crate) fn table_name(table: &Table) -> &str {
    mapping(table).map_or(&table.name, |mapping| &mapping.table)
}

/// What the key column holds.
pub(crate) fn key_type(table: &Table) -> FieldType {
    mapping(table).map_or(FieldType::Blob, |mapping| mapping.key_type)
}

/// All columns, in the order in which they are declared and written.
pub(crate) fn all(table: &Table) -> Vec<Column<'_>> {
    let mut columns = address(table);
    columns.extend(version(table));
    if !is_mapped(table) {
        columns.push(Column { part: Part::Position, name: POSITION });
    }
    columns.extend(table.sort.iter().map(|part| Column { part: Part::Sorted(part), name: &part.name }));
    columns.extend(fields(table));
    columns
}

/// The columns that name a row: its primary key.
pub(crate) fn address(table: &Table) -> Vec<Column<'_>> {
    let key = Column { part: Part::Key, name: mapping(table).map_or(KEY, |mapping| &mapping.key) };
    let sort = Column { part: Part::Sort, name: SORT };
    if table.has_sort() { vec![key, sort] } else { vec![key] }
}

/// Absent where no version is kept: such a table is never written.
pub(crate) fn version(table: &Table) -> Option<Column<'_>> {
    let name = match mapping(table) {
        None => VERSION,
        Some(mapping) => mapping.version.as_deref()?,
    };
    Some(Column { part: Part::Version, name })
}

pub(crate) fn fields(table: &Table) -> Vec<Column<'_>> {
    table
        .fields
        .iter()
        .enumerate()
        .map(|(index, field)| {
            let mapped = mapping(table).and_then(|mapping| mapping.columns.get(index));
            Column { part: Part::Field(field), name: mapped.unwrap_or(&field.name) }
        })
        .collect()
}

/// The columns of these fields, each with its field's place in the definition.
pub(crate) fn changed(table: &Table, changed: ChangedFields) -> Vec<(usize, Column<'_>)> {
    let is_changed = |column: &Column<'_>| matches!(column.part, Part::Field(field) if changed.holds(field.id));
    fields(table).into_iter().enumerate().filter(|(_, column)| is_changed(column)).collect()
}

/// What every reading statement selects, in this order: the address, the version if there is one, the fields.
pub(crate) fn selected(table: &Table) -> Vec<Column<'_>> {
    let mut columns = address(table);
    columns.extend(version(table));
    columns.extend(fields(table));
    columns
}

/// Whether tombstones keep what the row held last: a default might refer to a row that no other table has
/// (write-back 107).
pub(crate) fn tombstones_keep_fields(table: &Table) -> bool {
    !table.sql.after.is_empty()
}

/// Where the version stands among the selected, if there is one.
pub(crate) fn version_at(table: &Table) -> Option<usize> {
    version(table).map(|_| address(table).len())
}

/// Where the fields begin among the selected.
pub(crate) fn fields_at(table: &Table) -> usize {
    address(table).len() + usize::from(version(table).is_some())
}
