//! Records as doors show them: names and values, with defaults filled in.

use std::collections::BTreeSet;

use shardine_model::table::{STRING_FIELD, VALUE_FIELD};
use shardine_model::{FieldRef, FieldsView, RowImage, RowKeyBuf, Table, Timestamp, Value, ValueRef, Version};

use crate::order::{NamedValues, RowAddress};

#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub row: RowAddress,
    pub version: Version,
    pub sql_version: Version,
    /// Where the engine told; plain reads do not.
    pub expires_at: Option<Timestamp>,
    /// In the order of the definition.
    pub fields: NamedValues,
}

/// Which fields a record shows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Show<'a> {
    /// All of the definition, unset ones with their defaults (records 9, 13).
    Whole,
    /// These, in this order.
    Named(&'a [Vec<u8>]),
    /// What the image holds and nothing more.
    Stored,
}

pub(crate) struct Versions {
    pub version: Version,
    pub sql_version: Version,
    pub expires_at: Option<Timestamp>,
}

impl Record {
    pub(crate) fn bare(table: &Table, row: &RowKeyBuf, versions: Versions) -> Self {
        let Versions { version, sql_version, expires_at } = versions;
        Self { row: RowAddress::of(table, row), version, sql_version, expires_at, fields: Vec::new() }
    }

    pub(crate) fn shown(table: &Table, row: &RowKeyBuf, versions: Versions, image: &RowImage, show: Show<'_>) -> Self {
        let mut record = Self::bare(table, row, versions);
        record.fields = pick(table, image.view(), show);
        record
    }

    #[must_use]
    pub fn value(&self, name: &[u8]) -> Option<&Value> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

fn pick(table: &Table, stored: FieldsView<'_>, show: Show<'_>) -> NamedValues {
    match show {
        Show::Whole if !table.dynamic => table
            .fields
            .iter()
            .map(|field| {
                let value = stored.get(FieldRef::Id(field.id)).unwrap_or(field.default.as_ref());
                (field.name.clone().into_bytes(), value.to_owned())
            })
            .collect(),
        Show::Whole | Show::Stored => {
            stored.iter().filter_map(|entry| Some((name_of(table, entry.field)?, entry.value.to_owned()))).collect()
        }
        Show::Named(names) => {
            // Once, however often it is named: a value may have megabytes.
            let mut shown = BTreeSet::new();
            let names = names.iter().filter(|name| shown.insert(*name));
            names.filter_map(|name| Some((name.clone(), named(table, stored, name)?.to_owned()))).collect()
        }
    }
}

fn named<'a>(table: &'a Table, stored: FieldsView<'a>, name: &[u8]) -> Option<ValueRef<'a>> {
    if table.dynamic {
        return stored.named(name);
    }
    let field = table.field(name)?;
    Some(stored.get(FieldRef::Id(field.id)).unwrap_or(field.default.as_ref()))
}

/// A field that the definition no longer has keeps its bytes until the record changes; nobody sees them.
fn name_of(table: &Table, field: FieldRef<'_>) -> Option<Vec<u8>> {
    match field {
        FieldRef::Name(name) => Some(name.to_vec()),
        STRING_FIELD if table.dynamic => Some(VALUE_FIELD.as_bytes().to_vec()),
        FieldRef::Id(id) => table.field_by_id(id).map(|field| field.name.clone().into_bytes()),
    }
}
