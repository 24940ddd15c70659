//! The columns of a managed table, in one order for all dialects. How a column is declared is each dialect's own.

use shardine_model::table::SortPart;
use shardine_model::{Field, Table};

/// The key as bytes, never as text: `Bob`, `bob` and `Bob ` are three records whatever the collation (record-cache 103).
pub(crate) const KEY: &str = "__key__";
/// The encoded sort key, whose byte order is the order of the rows.
pub(crate) const SORT: &str = "__sort__";
pub(crate) const VERSION: &str = "__version__";
/// Where the key lives, so that a shard's rows can be read in routing order.
pub(crate) const POSITION: &str = "__position__";

#[derive(Clone, Copy, Debug)]
pub(crate) enum Column<'a> {
    Key,
    Sort,
    Version,
    Position,
    /// A part of the sort key once more, readable: for people and their queries. Written, never read back.
    SortPart(&'a SortPart),
    Field(&'a Field),
}

impl<'a> Column<'a> {
    pub(crate) fn name(&self) -> &'a str {
        match self {
            Self::Key => KEY,
            Self::Sort => SORT,
            Self::Version => VERSION,
            Self::Position => POSITION,
            Self::SortPart(part) => &part.name,
            Self::Field(field) => &field.name,
        }
    }

    /// Whether a later version of a row may hold another value here. The rest follows from the address of the row.
    pub(crate) fn changes(&self) -> bool {
        match self {
            Self::Version | Self::Field(_) => true,
            Self::Key | Self::Sort | Self::Position | Self::SortPart(_) => false,
        }
    }
}

/// All columns, in the order in which they are declared and written.
pub(crate) fn all(table: &Table) -> Vec<Column<'_>> {
    let mut columns = address(table);
    columns.extend([Column::Version, Column::Position]);
    columns.extend(table.sort.iter().map(Column::SortPart));
    columns.extend(table.fields.iter().map(Column::Field));
    columns
}

/// The columns that name a row: its primary key.
pub(crate) fn address(table: &Table) -> Vec<Column<'_>> {
    if table.has_sort() { vec![Column::Key, Column::Sort] } else { vec![Column::Key] }
}
