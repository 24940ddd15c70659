//! An SQL table against its definition. The same comparison for all databases; what they say of a table is theirs.

use shardine_model::{FieldType, Table};

use crate::columns::{self, Column, Part};
use crate::dialect::Dialect;
use crate::error::Error;
use crate::job::Drift;
use crate::row::UNVERSIONED;

/// A column as the database has it.
pub(crate) struct Existing {
    pub(crate) name: String,
    pub(crate) declared_type: String,
    pub(crate) not_null: bool,
    pub(crate) has_default: bool,
    /// Its place in the primary key, from 1; 0 outside.
    pub(crate) key_place: u32,
}

/// In the order of the definition. Columns that Shardine does not know are welcome as long as a row can be inserted
/// without them.
pub(crate) fn compare(dialect: &dyn Dialect, table: &Table, existing: &[Existing]) -> Result<Vec<Drift>, Error> {
    let mut drift = Vec::new();
    let wanted = columns::all(table);
    for column in &wanted {
        match existing.iter().find(|found| found.name.eq_ignore_ascii_case(column.name)) {
            None => drift.push(missing(dialect, table, column)?),
            Some(found) => {
                drift.extend(compare_type(dialect, table, column, found));
                drift.extend(compare_null(table, column, found));
            }
        }
    }
    drift.extend(compare_key(table, existing));
    let is_known = |found: &Existing| wanted.iter().any(|column| found.name.eq_ignore_ascii_case(column.name));
    // Where no row is ever made, nobody has to fill it.
    let must_fill = |found: &&Existing| found.not_null && !found.has_default && !table.sql.is_read_only();
    for found in existing.iter().filter(must_fill).filter(|found| !is_known(found)) {
        drift.push(Drift::Unfilled { table: table.name.clone(), column: found.name.clone() });
    }
    Ok(drift)
}

/// A foreign key as the database has it.
pub(crate) struct ForeignKey {
    pub(crate) name: String,
    /// The SQL table it leads to.
    pub(crate) parent: String,
    /// Whether SQL only refuses, and never changes a row on this side when one on the other goes or changes.
    pub(crate) only_refuses: bool,
}

/// What SQL calls other tables of this cluster.
#[derive(Clone, Copy)]
pub(crate) struct Family<'a> {
    /// Those that the table comes after.
    pub(crate) parents: &'a [String],
    /// All that are mapped.
    pub(crate) mapped: &'a [String],
}

impl Family<'_> {
    pub(crate) const NONE: Self = Self { parents: &[], mapped: &[] };
}

impl ForeignKey {
    fn unordered(self, table: &str, family: Family<'_>) -> Option<Drift> {
        let Self { name, parent, .. } = self;
        let is_ours = family.mapped.contains(&parent) && parent != table;
        let table = table.to_owned();
        (is_ours && !family.parents.contains(&parent)).then_some(Drift::ForeignKey { table, name, parent })
    }

    fn drift(self, table: &str, parents: &[String]) -> Option<Drift> {
        let Self { name, parent, only_refuses } = self;
        match () {
            () if !only_refuses => Some(Drift::Cascade { table: table.to_owned(), name }),
            () if !parents.contains(&parent) => Some(Drift::ForeignKey { table: table.to_owned(), name, parent }),
            () => None,
        }
    }
}

/// What makes a table of others unfit to be written, besides its columns (write-back 103, 107).
pub(crate) fn unfit(
    table: &Table,
    family: Family<'_>,
    foreign_keys: Vec<ForeignKey>,
    collation: Option<String>,
) -> Vec<Drift> {
    let name = columns::table_name(table);
    let mut drift: Vec<Drift> = match () {
        () if table.sql.is_read_only() => Vec::new(),
        // What SQL does to rows by itself is what others do to them; and of parents that nobody has mapped, nobody here has
        // rows to write.
        () if table.sql.is_guest() => foreign_keys.into_iter().filter_map(|key| key.unordered(name, family)).collect(),
        () => foreign_keys.into_iter().filter_map(|key| key.drift(name, family.parents)).collect(),
    };
    let is_exact = |collation: &str| collation.ends_with("_bin") || ["BINARY", "C", "binary"].contains(&collation);
    if let Some(collation) = collation.filter(|found| columns::key_type(table) == FieldType::String && !is_exact(found))
    {
        let column = columns::address(table)[0].name.to_owned();
        drift.push(Drift::Collation { table: name.to_owned(), column, collation });
    }
    drift
}

pub(crate) fn no_table(table: &Table) -> Drift {
    let (name, found) = (&table.name, columns::table_name(table));
    let remedy = match columns::is_mapped(table) {
        true => format!("restore it, or give the mapping up with `shardine table drop {name}`"),
        false => format!(
            "restore it, or have it made again, empty, with `shardine table create {name}`: rows in memory go there when they \
             change, what only SQL had is lost"
        ),
    };
    Drift::NoTable { table: found.to_owned(), remedy }
}

fn missing(dialect: &dyn Dialect, table: &Table, column: &Column<'_>) -> Result<Drift, Error> {
    let remedy = match column.part {
        Part::Field(_) | Part::Version => format!("add it with {}", add_column(dialect, table, column)?),
        // Its values follow from the rows that it has lost.
        Part::Key | Part::Sort | Part::Position | Part::Sorted(_) => "restore the table from a copy".to_owned(),
    };
    Ok(Drift::NoColumn { table: table.name.clone(), column: column.name.to_owned(), remedy })
}

/// With a default, because the table has rows.
pub(crate) fn add_column(dialect: &dyn Dialect, table: &Table, column: &Column<'_>) -> Result<String, Error> {
    let (name, mut declared) = (dialect.quoted(columns::table_name(table)), dialect.declaration(column)?);
    if matches!(column.part, Part::Version) {
        // What a row of which nobody has kept the version is taken for.
        declared = declared.replacen("NOT NULL", &format!("NOT NULL DEFAULT {}", UNVERSIONED.0), 1);
    }
    Ok(format!("ALTER TABLE {name} ADD COLUMN {declared}"))
}

pub(crate) fn compare_type(
    dialect: &dyn Dialect,
    table: &Table,
    column: &Column<'_>,
    found: &Existing,
) -> Option<Drift> {
    if columns::is_mapped(table) {
        return compare_mapped(dialect, table, column, found);
    }
    let expected = dialect.type_of(column);
    (!found.declared_type.eq_ignore_ascii_case(&expected)).then(|| Drift::OtherType {
        table: table.name.clone(),
        column: found.name.clone(),
        expected: expected.into_owned(),
        found: found.declared_type.clone(),
    })
}

/// A field may be NULL only where SQL takes it.
fn compare_null(table: &Table, column: &Column<'_>, found: &Existing) -> Option<Drift> {
    let may_be_null = matches!(column.part, Part::Field(field) if field.nullable);
    (may_be_null && found.not_null)
        .then(|| Drift::NotNull { table: columns::table_name(table).to_owned(), column: found.name.clone() })
}

/// A column of somebody else's may have another name for its type, as long as every value comes back as it was.
fn compare_mapped(dialect: &dyn Dialect, table: &Table, column: &Column<'_>, found: &Existing) -> Option<Drift> {
    let kind = match column.part {
        Part::Key => columns::key_type(table),
        Part::Version => FieldType::Int64,
        _ => column.readable_type()?,
    };
    // Half of the numbers of an unsigned key is more than anybody counts.
    let is_counted = matches!(column.part, Part::Key)
        && kind == FieldType::Int64
        && dialect.holds(FieldType::Uint64, &found.declared_type);
    (!dialect.holds(kind, &found.declared_type) && !is_counted).then(|| Drift::OtherType {
        table: columns::table_name(table).to_owned(),
        column: found.name.clone(),
        expected: format!("a type for {}", kind.name()),
        found: found.declared_type.clone(),
    })
}

fn compare_key(table: &Table, existing: &[Existing]) -> Option<Drift> {
    let mut found: Vec<&Existing> = existing.iter().filter(|column| column.key_place > 0).collect();
    found.sort_by_key(|column| column.key_place);
    let found: Vec<String> = found.iter().map(|column| column.name.clone()).collect();
    let expected: Vec<&str> = columns::address(table).iter().map(|column| column.name).collect();
    if found.is_empty() && table.sql.is_read_only() {
        // A view has none: whoever maps one says what names its rows.
        return None;
    }
    (found != expected).then(|| Drift::OtherPrimaryKey {
        table: table.name.clone(),
        expected: expected.join(", "),
        found: found.join(", "),
    })
}

/// Whoever drops a table means one of ours.
pub(crate) fn check_ours(table: &Table, existing: &[Existing]) -> Result<(), Error> {
    let key = columns::address(table)[0].name;
    if !columns::is_mapped(table) && existing.iter().any(|column| column.name == key) {
        return Ok(());
    }
    Err(Error::definition(format!("table {} was not made by Shardine and is left alone", table.name)))
}

pub(crate) fn agree(drift: Vec<Drift>) -> Result<(), Error> {
    if drift.is_empty() {
        return Ok(());
    }
    let faults: Vec<String> = drift.iter().map(Drift::to_string).collect();
    Err(Error::definition(faults.join("; ")))
}

/// The table's columns with their types, its primary key, and nothing else.
pub(crate) fn create_table(dialect: &dyn Dialect, table: &Table) -> Result<String, Error> {
    let columns: Result<Vec<String>, Error> =
        columns::all(table).iter().map(|column| dialect.declaration(column)).collect();
    let (name, columns) = (dialect.quoted(columns::table_name(table)), columns?.join(", "));
    let address = dialect.names(&columns::address(table));
    Ok(format!("CREATE TABLE IF NOT EXISTS {name} ({columns}, PRIMARY KEY ({address}))"))
}
