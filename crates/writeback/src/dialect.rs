//! Pieces of statements that all databases share, and the few words that each spells its own way. Values never pass
//! through here except as defaults of columns, which SQL allows only as text.

use std::borrow::Cow;

use shardine_model::{FieldType, Table, Value};

use crate::columns::{self, Column, Part};
use crate::error::Error;

pub(crate) trait Dialect {
    /// A name as SQL takes it whatever it holds. Names are checked long before; this is the second lock on the door.
    fn quoted(&self, name: &str) -> String;

    /// The place of a bound value, counted from 1.
    fn mark(&self, number: usize) -> String;

    /// The type of a column, spelled as the database itself spells it when asked.
    fn type_of(&self, column: &Column<'_>) -> Cow<'static, str>;

    /// Whether a column that was there before, of the type that the database tells, can hold every value of a field of
    /// this type exactly.
    fn holds(&self, kind: FieldType, declared: &str) -> bool;

    /// What goes behind `DEFAULT`, or why nothing can. The types of SQL are read from their texts everywhere.
    fn default(&self, value: &Value) -> Result<String, &'static str>;

    /// Whether a row lies behind another in the order of these columns. `first` is the number of the first mark. Gives
    /// the condition, and for each of its marks which column's value is bound there.
    fn after(&self, columns: &[String], first: usize) -> (String, Vec<usize>) {
        let marks = self.marks(first, columns.len());
        (format!("({}) > ({marks})", columns.join(", ")), (0..columns.len()).collect())
    }

    fn names(&self, columns: &[Column<'_>]) -> String {
        let names: Vec<String> = columns.iter().map(|column| self.quoted(column.name)).collect();
        names.join(", ")
    }

    fn marks(&self, first: usize, count: usize) -> String {
        let marks: Vec<String> = (first..first + count).map(|number| self.mark(number)).collect();
        marks.join(", ")
    }

    /// What an upsert sets a column to: the new value, or, under a tombstone that keeps what the row held, the one that
    /// is there. `fresh` and `held` stand for the row that comes and the row that is there.
    fn assigned(&self, table: &Table, column: &Column<'_>, fresh: impl Fn(&str) -> String, held: &str) -> String
    where
        Self: Sized,
    {
        let name = self.quoted(column.name);
        let version = columns::version(table).map(|version| self.quoted(version.name)).unwrap_or_default();
        match column.part {
            Part::Field(_) if columns::tombstones_keep_fields(table) => {
                format!("CASE WHEN {} < 0 THEN {held}.{name} ELSE {} END", fresh(&version), fresh(&name))
            }
            _ => fresh(&name),
        }
    }

    /// A column as `CREATE TABLE` and `ADD COLUMN` declare it.
    fn declaration(&self, column: &Column<'_>) -> Result<String, Error> {
        let (name, kind) = (self.quoted(column.name), self.type_of(column));
        Ok(match column.part {
            Part::Version => format!("{name} {kind} NOT NULL CHECK ({name} <> 0)"),
            Part::Field(field) => {
                let default = self
                    .default(&field.default)
                    .map_err(|fault| Error::definition(format!("the default of {} {fault}", field.name)))?;
                let nullable = if field.nullable { "" } else { " NOT NULL" };
                format!("{name} {kind}{nullable} DEFAULT {default}")
            }
            Part::Key | Part::Sort | Part::Position | Part::Sorted(_) => format!("{name} {kind} NOT NULL"),
        })
    }
}

/// What a column of somebody else's holds, as far as texts tell: the digits in `decimal(10,2)`.
pub(crate) fn parameters(declared: &str) -> Vec<u32> {
    let inside = declared.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    inside.map_or_else(Vec::new, |(inside, _)| inside.split(',').filter_map(|one| one.trim().parse().ok()).collect())
}

/// Whether every decimal of so many digits fits a column of these parameters, digit by digit.
pub(crate) fn holds_decimal(parameters: &[u32], precision: u8, scale: u8) -> bool {
    let (digits, behind) = match *parameters {
        [digits] => (digits, 0),
        [digits, behind] => (digits, behind),
        _ => return false,
    };
    behind >= u32::from(scale) && digits.saturating_sub(behind) >= u32::from(precision - scale)
}

/// A text in single quotes, with those inside doubled.
pub(crate) fn quoted_text(text: &str) -> Result<String, &'static str> {
    if text.contains('\0') {
        return Err("holds a NUL, which no SQL text can");
    }
    Ok(format!("'{}'", text.replace('\'', "''")))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
