//! A schema as a database tells it: what there is, without an opinion. Nothing in SQL is changed by looking. Each database's
//! `survey.rs` reads one, and [`crate::plan`] says what can be made of it.

use crate::database::Role;
use crate::error::Error;
use crate::service::{Options, connector};
use crate::url::Url;

/// Whose words a schema is told in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    Sqlite,
    Postgres,
    Mysql,
}

/// The tables and views that a URL leads to, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    pub words: Words,
    pub tables: Vec<TableFacts>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFacts {
    pub name: String,
    pub kind: TableKind,
    pub columns: Vec<ColumnFacts>,
    /// The columns of the primary key, in its order.
    pub key: Vec<String>,
    /// Columns that are unique together, besides the key.
    pub uniques: Vec<Vec<String>>,
    pub foreign_keys: Vec<ForeignKeyFacts>,
    /// Names of check constraints.
    pub checks: Vec<String>,
    pub triggers: Vec<String>,
    /// Whether rows are hidden from some users.
    pub has_row_security: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TableKind {
    #[default]
    Table,
    /// Made of parts, which are tables too.
    Partitioned,
    PartOf(String),
    View,
    /// Another server's.
    Foreign,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnFacts {
    pub name: String,
    /// The type as the database spells it; of a domain the one beneath.
    pub declared: String,
    pub domain: Option<String>,
    /// Whether it is one of a list of words.
    pub is_enum: bool,
    pub not_null: bool,
    /// The default as the database spells it.
    pub default: Option<String>,
    pub made: Made,
    /// By which texts are compared, if not by their bytes.
    pub collation: Option<String>,
}

/// What the database itself puts into a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Made {
    #[default]
    Nothing,
    /// The next number, where nobody gives one.
    Number,
    /// The next number, whoever gives one.
    AlwaysNumber,
    /// What follows from other columns.
    Computed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignKeyFacts {
    pub columns: Vec<String>,
    pub parent: String,
    /// What SQL does to rows here when those there go or change, if it does not just refuse: `ON DELETE CASCADE`.
    pub actions: Vec<String>,
}

impl Survey {
    /// Looks at what a URL leads to.
    pub fn of(url: &Url) -> Result<Survey, Error> {
        let words = match url {
            Url::None => return Err(Error::fatal("there is no SQL database to look at")),
            Url::Sqlite(path) => return Ok(Survey { words: Words::Sqlite, tables: crate::sqlite::survey(path)? }),
            Url::Postgres(_) => Words::Postgres,
            Url::Mysql(_) => Words::Mysql,
        };
        let mut database = connector(&Options::new(url.clone())).connect(Role::Scanner)?;
        Ok(Survey { words, tables: database.survey()? })
    }
}

/// What rows here suffer when those there go or change, of the words that a database has for it.
pub(crate) fn actions(on_delete: &str, on_update: &str) -> Vec<String> {
    let only_refuses = |action: &str| ["NO ACTION", "RESTRICT"].contains(&action);
    let told = [("ON DELETE", on_delete), ("ON UPDATE", on_update)];
    let acts = told.into_iter().filter(|(_, action)| !only_refuses(action));
    acts.map(|(when, action)| format!("{when} {action}")).collect()
}
