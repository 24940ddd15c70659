//! Tables: what a program needs of them to make its own, and to see that they are what it takes them for.

use shardine_proto::v1;

use super::error::Error;

/// What a field, or a part of a sort key, holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// A whole number with a sign.
    Int64,
    /// A whole number without one.
    Uint64,
    /// A number with a fraction.
    Float64,
    /// UTF-8.
    String,
    /// Bytes.
    Blob,
}

/// A table as a program defines it. Fields have their types' zeros as defaults, and rows go to SQL behind the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub(super) name: String,
    fields: Vec<(String, FieldType)>,
    sort: Vec<(String, FieldType)>,
    is_in_sql: bool,
}

impl Table {
    /// A table without fields, whose rows are kept in SQL.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), fields: Vec::new(), sort: Vec::new(), is_in_sql: true }
    }

    /// With a field more.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, holds: FieldType) -> Self {
        self.fields.push((name.into(), holds));
        self
    }

    /// With the next part of the sort key, of which there are two at most: `Int64` or `String`.
    #[must_use]
    pub fn sort(mut self, name: impl Into<String>, holds: FieldType) -> Self {
        self.sort.push((name.into(), holds));
        self
    }

    /// With rows in memory and in the log alone.
    #[must_use]
    pub fn without_sql(mut self) -> Self {
        self.is_in_sql = false;
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether whoever takes the other one for this finds all fields and the sort key that it expects. More fields do no harm,
    /// and where rows are kept is the operator's business.
    #[must_use]
    pub fn is_met_by(&self, other: &Table) -> bool {
        self.sort == other.sort && self.fields.iter().all(|field| other.fields.contains(field))
    }

    pub(super) fn to_message(&self) -> v1::CreateTableRequest {
        let field = |(name, holds): &(String, FieldType)| v1::FieldDefinition {
            name: name.clone(),
            r#type: holds.to_message().into(),
            default: None,
        };
        let part = |(name, holds): &(String, FieldType)| v1::SortPart {
            name: name.clone(),
            r#type: holds.to_message().into(),
        };
        let backing = if self.is_in_sql { v1::Backing::Sql } else { v1::Backing::None };
        v1::CreateTableRequest {
            name: self.name.clone(),
            fields: self.fields.iter().map(field).collect(),
            sort: self.sort.iter().map(part).collect(),
            backing: backing.into(),
            sql: None,
        }
    }

    /// What this version knows of it: a field of a type that is not known here is left out.
    pub(super) fn from_message(table: v1::Table) -> Self {
        let is_in_sql = table.backing() == v1::Backing::Sql;
        let fields = table.fields.into_iter().filter_map(|field| Some((field.name, FieldType::read(field.r#type)?)));
        let sort = table.sort.into_iter().filter_map(|part| Some((part.name, FieldType::read(part.r#type)?)));
        Self { name: table.name, fields: fields.collect(), sort: sort.collect(), is_in_sql }
    }
}

impl FieldType {
    fn to_message(self) -> v1::FieldType {
        match self {
            Self::Int64 => v1::FieldType::Int64,
            Self::Uint64 => v1::FieldType::Uint64,
            Self::Float64 => v1::FieldType::Float64,
            Self::String => v1::FieldType::String,
            Self::Blob => v1::FieldType::Blob,
        }
    }

    fn read(number: i32) -> Option<Self> {
        Some(match v1::FieldType::try_from(number).ok()? {
            v1::FieldType::Int64 => Self::Int64,
            v1::FieldType::Uint64 => Self::Uint64,
            v1::FieldType::Float64 => Self::Float64,
            v1::FieldType::String => Self::String,
            v1::FieldType::Blob => Self::Blob,
            v1::FieldType::Unspecified => return None,
        })
    }
}

/// A table that is not there is no error here.
pub(super) fn unknown_is_none(found: Result<v1::Table, Error>) -> Result<Option<Table>, Error> {
    match found {
        Ok(table) => Ok(Some(Table::from_message(table))),
        Err(error) if error.code() == Some(shardine_model::ErrorCode::UnknownTable) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_met_by_one_with_more_fields_and_the_same_sort_key() {
        let wanted = Table::new("messages").field("txt", FieldType::String).sort("ts", FieldType::Int64);

        assert!(wanted.is_met_by(&wanted.clone().field("more", FieldType::Blob).without_sql()));
        assert!(!wanted.is_met_by(&Table::new("messages").sort("ts", FieldType::Int64)));
        assert!(!wanted.is_met_by(&wanted.clone().sort("id", FieldType::String)));
        let other = Table::new("messages").field("txt", FieldType::Blob).sort("ts", FieldType::Int64);
        assert!(!wanted.is_met_by(&other));
    }
}
