//! Rows, values and records as applications hold them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shardine_proto::v1;
use shardine_proto::v1::value::Kind;

/// One value. Its kind must be the field's type: the server converts nothing silently.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of an `int64` field.
    Int(i64),
    /// Of a `uint64` field.
    Uint(u64),
    /// Of a `float64` field.
    Float(f64),
    /// Of a `string` field.
    Text(String),
    /// Of a `blob` field, and of every field of a table without a definition, as `kv` is.
    Blob(Vec<u8>),
    /// In a field that may be NULL.
    Null,
    /// Of a `bool` field.
    Bool(bool),
    /// Of a `decimal` field: `12.50`.
    Decimal(String),
    /// Of a `timestamp` field, in UTC: `2026-11-19T19:47:45.5Z`.
    Timestamp(String),
    /// Of a `date` field: `2026-11-19`.
    Date(String),
    /// Of a `time` field: `19:47:45.5`.
    Time(String),
    /// Of a `uuid` field.
    Uuid(String),
    /// Of a `json` field, as it was written.
    Json(String),
}

macro_rules! value_of {
    ($($native:ty => $variant:ident),*) => {
        $(impl From<$native> for Value {
            fn from(value: $native) -> Self {
                Self::$variant(value.into())
            }
        })*
    };
}

value_of!(i32 => Int, i64 => Int, u64 => Uint, f64 => Float, &str => Text, String => Text, Vec<u8> => Blob, &[u8] => Blob, bool => Bool);

/// What a field can be read as.
pub trait FromValue<'a>: Sized {
    /// `None` if the value is of another kind.
    fn from_value(value: &'a Value) -> Option<Self>;
}

macro_rules! read_as {
    ($($variant:ident($found:ident) => $native:ty, $read:expr;)*) => {
        $(impl<'a> FromValue<'a> for $native {
            fn from_value(value: &'a Value) -> Option<Self> {
                match value {
                    Value::$variant($found) => Some($read),
                    _ => None,
                }
            }
        })*
    };
}

read_as! {
    Int(found) => i64, *found;
    Uint(found) => u64, *found;
    Float(found) => f64, *found;
    Text(found) => &'a str, found;
    Blob(found) => &'a [u8], found;
    Bool(found) => bool, *found;
}

impl Value {
    pub(super) fn to_message(&self) -> v1::Value {
        let kind = match self {
            Self::Int(number) => Kind::Int64(*number),
            Self::Uint(number) => Kind::Uint64(*number),
            Self::Float(number) => Kind::Float64(*number),
            Self::Text(text) => Kind::String(text.clone()),
            Self::Blob(bytes) => Kind::Blob(bytes.clone()),
            Self::Null => Kind::Null(v1::Null {}),
            Self::Bool(truth) => Kind::Bool(*truth),
            Self::Decimal(text) => Kind::Decimal(text.clone()),
            Self::Timestamp(text) => Kind::Timestamp(text.clone()),
            Self::Date(text) => Kind::Date(text.clone()),
            Self::Time(text) => Kind::Time(text.clone()),
            Self::Uuid(text) => Kind::Uuid(text.clone()),
            Self::Json(text) => Kind::Json(text.clone()),
        };
        v1::Value { kind: Some(kind) }
    }

    /// A kind that this version does not know is no value.
    pub(super) fn from_message(value: v1::Value) -> Option<Self> {
        Some(match value.kind? {
            Kind::Int64(number) => Self::Int(number),
            Kind::Uint64(number) => Self::Uint(number),
            Kind::Float64(number) => Self::Float(number),
            Kind::String(text) => Self::Text(text),
            Kind::Blob(bytes) => Self::Blob(bytes),
            Kind::Null(v1::Null {}) => Self::Null,
            Kind::Bool(truth) => Self::Bool(truth),
            Kind::Decimal(text) => Self::Decimal(text),
            Kind::Timestamp(text) => Self::Timestamp(text),
            Kind::Date(text) => Self::Date(text),
            Kind::Time(text) => Self::Time(text),
            Kind::Uuid(text) => Self::Uuid(text),
            Kind::Json(text) => Self::Json(text),
        })
    }
}

/// The address of one row: a table, a key, and a value for each part of the table's sort key.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub(super) table: String,
    pub(super) key: Vec<u8>,
    pub(super) sort: Vec<Value>,
}

impl Row {
    /// A row of a table without a sort key.
    #[must_use]
    pub fn new(table: impl Into<String>, key: impl Into<Vec<u8>>) -> Self {
        Self { table: table.into(), key: key.into(), sort: Vec::new() }
    }

    /// With the next part of its sort key.
    #[must_use]
    pub fn at(mut self, part: impl Into<Value>) -> Self {
        self.sort.push(part.into());
        self
    }

    /// What partitions it.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Values of its sort key.
    #[must_use]
    pub fn sort(&self) -> &[Value] {
        &self.sort
    }

    pub(super) fn to_message(&self) -> v1::Row {
        let sort = self.sort.iter().map(Value::to_message).collect();
        v1::Row { table: self.table.clone(), key: self.key.clone(), sort }
    }

    fn from_message(row: v1::Row) -> Self {
        Self { table: row.table, key: row.key, sort: row.sort.into_iter().filter_map(Value::from_message).collect() }
    }
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Where it is.
    pub row: Row,
    /// Grows by one with every change. A change that is made only at this version lets nobody come between.
    pub version: i64,
    /// The newest version that SQL is known to hold.
    pub sql_version: i64,
    /// When it ends by itself, if it does.
    pub expires_at: Option<SystemTime>,
    fields: Vec<(Vec<u8>, Value)>,
}

impl Record {
    /// A field, if it is there and of this kind: `record.get::<i64>("age")`.
    #[must_use]
    pub fn get<'a, T: FromValue<'a>>(&'a self, field: &str) -> Option<T> {
        self.value(field).and_then(T::from_value)
    }

    /// A field of whatever kind.
    #[must_use]
    pub fn value(&self, field: &str) -> Option<&Value> {
        self.fields.iter().find(|(name, _)| name == field.as_bytes()).map(|(_, value)| value)
    }

    /// All fields that came along, in the server's order. Names need not be text in tables without a definition.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &Value)> {
        self.fields.iter().map(|(name, value)| (name.as_slice(), value))
    }

    /// `None` for a record that does not exist.
    pub(super) fn from_message(record: v1::Record) -> Option<Self> {
        let field = |field: v1::Field| {
            let name = if field.raw_name.is_empty() { field.name.into_bytes() } else { field.raw_name };
            Some((name, Value::from_message(field.value?)?))
        };
        let expires_at = record.expires_at_ms.map(|at| UNIX_EPOCH + Duration::from_millis(at));
        (record.version > 0).then(|| Self {
            row: Row::from_message(record.row.unwrap_or_default()),
            version: record.version,
            sql_version: record.sql_version,
            expires_at,
            fields: record.fields.into_iter().filter_map(field).collect(),
        })
    }
}
