//! Changes of one record, with their conditions, and what comes of them.

use std::time::Duration;

use shardine_proto::v1;
use shardine_proto::v1::batch_item::Item;
use shardine_proto::v1::operation::Operator;

use super::value::{Record, Row, Value};

/// A change of one record. Several of one partition can be made at one moment ([`super::Records::batch`]).
#[derive(Clone, Debug)]
pub struct Change {
    pub(super) row: Row,
    deed: Deed,
    terms: v1::Terms,
}

#[derive(Clone, Debug)]
enum Deed {
    Set(Vec<v1::Field>),
    Insert(Vec<v1::Field>),
    Replace(Vec<v1::Field>),
    Update { operations: Vec<v1::Operation>, create: bool },
    Cas { field: String, old: v1::Value, new: v1::Value },
    Incr { field: String, by: v1::Value },
    Delete,
}

/// What a change shows of its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Show {
    /// Nothing but its versions.
    #[default]
    Nothing,
    /// The record as it was before.
    Old,
    /// The record as it is now.
    New,
}

/// What has come of a change.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// The record's version now: above 0 it lives, below 0 it is deleted.
    pub version: i64,
    /// The newest version that SQL is known to hold.
    pub sql_version: i64,
    /// Fields that were created or removed; for a delete, whether there was a record.
    pub count: u32,
    /// What [`Change::showing`] asked for.
    pub record: Option<Record>,
    /// The number that an increment has come to.
    pub value: Option<Value>,
}

impl Change {
    fn new(row: Row, deed: Deed) -> Self {
        Self { row, deed, terms: v1::Terms::default() }
    }

    /// Changes the named fields; makes the record from defaults if it is absent.
    pub fn set<N: Into<String>, V: Into<Value>>(row: Row, values: impl IntoIterator<Item = (N, V)>) -> Self {
        Self::new(row, Deed::Set(fields(values)))
    }

    /// Makes the record; `exists` if it is there.
    pub fn insert<N: Into<String>, V: Into<Value>>(row: Row, values: impl IntoIterator<Item = (N, V)>) -> Self {
        Self::new(row, Deed::Insert(fields(values)))
    }

    /// Replaces the whole record; fields that are not named return to their defaults.
    pub fn replace<N: Into<String>, V: Into<Value>>(row: Row, values: impl IntoIterator<Item = (N, V)>) -> Self {
        Self::new(row, Deed::Replace(fields(values)))
    }

    /// Operations in the order in which they are added, all or none; `not_found` if the record is absent.
    #[must_use]
    pub fn update(row: Row) -> Self {
        Self::new(row, Deed::Update { operations: Vec::new(), create: false })
    }

    /// Sets a field if it holds the expected value, else `cas_mismatch`.
    pub fn cas(row: Row, field: impl Into<String>, old: impl Into<Value>, new: impl Into<Value>) -> Self {
        let (old, new) = (old.into().to_message(), new.into().to_message());
        Self::new(row, Deed::Cas { field: field.into(), old, new })
    }

    /// Adds to a number; makes the record from defaults if it is absent.
    pub fn incr(row: Row, field: impl Into<String>, by: impl Into<Value>) -> Self {
        Self::new(row, Deed::Incr { field: field.into(), by: by.into().to_message() })
    }

    /// Deletes the record.
    #[must_use]
    pub fn delete(row: Row) -> Self {
        Self::new(row, Deed::Delete)
    }

    /// An update makes the record from defaults first if it is absent.
    #[must_use]
    pub fn or_create(mut self) -> Self {
        if let Deed::Update { create, .. } = &mut self.deed {
            *create = true;
        }
        self
    }

    /// With an operation more: the field becomes the value. Of updates only, as the others of its kind.
    #[must_use]
    pub fn assign(self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.operation(field, Operator::Assign(value.into().to_message()))
    }

    /// The field grows by the value.
    #[must_use]
    pub fn add(self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.operation(field, Operator::Add(value.into().to_message()))
    }

    /// The field becomes the smaller of itself and the value.
    #[must_use]
    pub fn min(self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.operation(field, Operator::Min(value.into().to_message()))
    }

    /// The field becomes the larger of itself and the value.
    #[must_use]
    pub fn max(self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.operation(field, Operator::Max(value.into().to_message()))
    }

    /// Bytes are put behind those of the field.
    #[must_use]
    pub fn append(self, field: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.operation(field, Operator::Append(bytes.into()))
    }

    /// The field returns to its default.
    #[must_use]
    pub fn unset(self, field: impl Into<String>) -> Self {
        self.operation(field, Operator::Unset(true))
    }

    fn operation(mut self, field: impl Into<String>, operator: Operator) -> Self {
        if let Deed::Update { operations, .. } = &mut self.deed {
            operations.push(v1::Operation { field: field.into(), operator: Some(operator) });
        }
        self
    }

    /// Only at exactly this version, else `version_mismatch`. 0 and below mean an absent record.
    #[must_use]
    pub fn if_version(mut self, version: i64) -> Self {
        self.terms.if_version = Some(version);
        self
    }

    /// Only if the record exists, else `not_found`.
    #[must_use]
    pub fn if_exists(mut self) -> Self {
        self.terms.existence = v1::Existence::Live.into();
        self
    }

    /// The record ends by itself after this time.
    #[must_use]
    pub fn expiring_in(mut self, time: Duration) -> Self {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.terms.expiry = Some(v1::terms::Expiry::TtlMs(millis));
        self
    }

    /// The answer shows the record.
    #[must_use]
    pub fn showing(mut self, show: Show) -> Self {
        let give = match show {
            Show::Nothing => v1::Return::Nothing,
            Show::Old => v1::Return::Old,
            Show::New => v1::Return::New,
        };
        self.terms.r#return = give.into();
        self
    }

    /// As an item of a batch, which is also the form of which single changes are made.
    pub(super) fn to_item(&self, delivery: Option<v1::Delivery>) -> Item {
        let (row, terms) = (Some(self.row.to_message()), Some(self.terms));
        match self.deed.clone() {
            Deed::Set(fields) => Item::Set(v1::SetRequest { row, fields, terms, delivery }),
            Deed::Insert(fields) => Item::Insert(v1::InsertRequest { row, fields, terms, delivery }),
            Deed::Replace(fields) => Item::Replace(v1::ReplaceRequest { row, fields, terms, delivery }),
            Deed::Update { operations, create } => {
                Item::Update(v1::UpdateRequest { row, operations, create, terms, delivery })
            }
            Deed::Cas { field, old, new } => {
                let (old, new) = (Some(old), Some(new));
                Item::Cas(v1::CasRequest { row, field, old, new, create: false, terms, delivery })
            }
            Deed::Incr { field, by } => Item::Incr(v1::IncrRequest { row, field, by: Some(by), terms, delivery }),
            Deed::Delete => {
                let return_record = self.terms.r#return() == v1::Return::Old;
                let terms = Some(v1::Terms { r#return: v1::Return::Nothing.into(), ..self.terms });
                Item::Delete(v1::DeleteRequest { row, return_record, terms, delivery })
            }
        }
    }
}

fn fields<N: Into<String>, V: Into<Value>>(values: impl IntoIterator<Item = (N, V)>) -> Vec<v1::Field> {
    let field = |(name, value): (N, V)| v1::Field {
        name: name.into(),
        value: Some(value.into().to_message()),
        raw_name: Vec::new(),
    };
    values.into_iter().map(field).collect()
}

impl From<v1::ChangeReply> for Changed {
    fn from(reply: v1::ChangeReply) -> Self {
        let v1::ChangeReply { version, sql_version, changed, record } = reply;
        Self { version, sql_version, count: changed, record: record.and_then(Record::from_message), value: None }
    }
}

impl From<v1::IncrReply> for Changed {
    fn from(reply: v1::IncrReply) -> Self {
        let value = reply.value.and_then(Value::from_message);
        Self { version: reply.version, sql_version: reply.sql_version, count: 0, record: None, value }
    }
}

impl From<v1::DeleteReply> for Changed {
    fn from(reply: v1::DeleteReply) -> Self {
        let v1::DeleteReply { version, sql_version, existed, record } = reply;
        let record = record.and_then(Record::from_message);
        Self { version, sql_version, count: u32::from(existed), record, value: None }
    }
}
