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
    /// True or false.
    Bool,
    /// So many digits, of which so many behind the point; exact.
    Decimal(u8, u8),
    /// A moment in UTC, with so many digits of a second, 6 at most.
    Timestamp(u8),
    /// A day.
    Date,
    /// A time of day, with so many digits of a second, 6 at most.
    Time(u8),
    /// A UUID.
    Uuid,
    /// A JSON text, kept as it was written.
    Json,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TableField {
    name: String,
    holds: FieldType,
    nullable: bool,
}

/// A table as a program defines it. Fields have their types' zeros as defaults, and rows go to SQL behind the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub(super) name: String,
    fields: Vec<TableField>,
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
        self.fields.push(TableField { name: name.into(), holds, nullable: false });
        self
    }

    /// With a field more that may be NULL, and is until it is set.
    #[must_use]
    pub fn nullable(mut self, name: impl Into<String>, holds: FieldType) -> Self {
        self.fields.push(TableField { name: name.into(), holds, nullable: true });
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
        let field = |field: &TableField| v1::FieldDefinition {
            name: field.name.clone(),
            r#type: field.holds.to_message().into(),
            default: None,
            nullable: field.nullable,
            parameters: field.holds.parameters(),
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
        let fields = table.fields.into_iter().filter_map(|field| {
            let holds = FieldType::read(field.r#type, &field.parameters)?;
            Some(TableField { name: field.name, holds, nullable: field.nullable })
        });
        let sort = table.sort.into_iter().filter_map(|part| Some((part.name, FieldType::read(part.r#type, &[])?)));
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
            Self::Bool => v1::FieldType::Bool,
            Self::Decimal(..) => v1::FieldType::Decimal,
            Self::Timestamp(_) => v1::FieldType::Timestamp,
            Self::Date => v1::FieldType::Date,
            Self::Time(_) => v1::FieldType::Time,
            Self::Uuid => v1::FieldType::Uuid,
            Self::Json => v1::FieldType::Json,
        }
    }

    fn parameters(self) -> Vec<u32> {
        match self {
            Self::Decimal(digits, scale) => vec![u32::from(digits), u32::from(scale)],
            Self::Timestamp(digits) | Self::Time(digits) => vec![u32::from(digits)],
            Self::Int64 | Self::Uint64 | Self::Float64 | Self::String | Self::Blob => Vec::new(),
            Self::Bool | Self::Date | Self::Uuid | Self::Json => Vec::new(),
        }
    }

    fn read(number: i32, parameters: &[u32]) -> Option<Self> {
        let parameter = |at: usize| parameters.get(at).and_then(|number| u8::try_from(*number).ok());
        Some(match v1::FieldType::try_from(number).ok()? {
            v1::FieldType::Int64 => Self::Int64,
            v1::FieldType::Uint64 => Self::Uint64,
            v1::FieldType::Float64 => Self::Float64,
            v1::FieldType::String => Self::String,
            v1::FieldType::Blob => Self::Blob,
            v1::FieldType::Bool => Self::Bool,
            v1::FieldType::Decimal => Self::Decimal(parameter(0)?, parameter(1).unwrap_or(0)),
            v1::FieldType::Timestamp => Self::Timestamp(parameter(0).unwrap_or(6)),
            v1::FieldType::Date => Self::Date,
            v1::FieldType::Time => Self::Time(parameter(0).unwrap_or(6)),
            v1::FieldType::Uuid => Self::Uuid,
            v1::FieldType::Json => Self::Json,
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
