//! Rows: the fields of one record in their packed form, and the views that doors read them by.
//!
//! Packed fields are a run of (field, value). A field is a varint id, or 0 and a name in dynamic tables. A field that
//! is not there has its default. The same bytes stand in memory, in entries, in snapshots and in replies.

use std::collections::BTreeMap;

use crate::codec::{DecodeError, Reader, put_bytes, put_varint};
use crate::ids::{FieldId, Timestamp};
use crate::table::{STRING_FIELD, VALUE_FIELD};
use crate::value::{Value, ValueRef};
use crate::version::Version;

/// Which field is meant: by id in typed tables, by name in dynamic ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldRef<'a> {
    Id(FieldId),
    Name(&'a [u8]),
}

/// What stands in the place of an id before a name.
const NAMED: u8 = 0;

/// A field and the value it has or shall have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldValue<'a> {
    pub field: FieldRef<'a>,
    pub value: ValueRef<'a>,
}

impl<'a> FieldRef<'a> {
    #[inline]
    pub fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::Id(id) => put_varint(out, u64::from(id.0)),
            Self::Name(name) => {
                out.push(NAMED);
                put_bytes(out, name);
            }
        }
    }

    #[inline]
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.varint("field")? {
            0 => Ok(Self::Name(reader.bytes("field name")?)),
            id => match u16::try_from(id) {
                Ok(id) => Ok(Self::Id(FieldId(id))),
                Err(_) => Err(DecodeError::Unknown { what: "field id", value: id }),
            },
        }
    }
}

impl<'a> FieldValue<'a> {
    #[inline]
    pub fn encode(self, out: &mut Vec<u8>) {
        self.field.encode(out);
        self.value.encode(out);
    }

    #[inline]
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { field: FieldRef::decode(reader)?, value: ValueRef::decode(reader)? })
    }
}

/// A record of a dynamic table with many fields: a tree by name, because packed fields are searched from the front.
pub type WideFields = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// The fields of a row, wherever they lie.
#[derive(Clone, Copy, Debug)]
pub enum FieldsView<'a> {
    Packed(&'a [u8]),
    Wide(&'a WideFields),
}

impl<'a> FieldsView<'a> {
    pub const EMPTY: FieldsView<'static> = FieldsView::Packed(&[]);

    /// The stored value of a field; `None` if it was never set (its default holds then).
    #[inline]
    #[must_use]
    pub fn get(&self, wanted: FieldRef<'_>) -> Option<ValueRef<'a>> {
        match self {
            Self::Packed(bytes) => packed(bytes).find(|entry| entry.field == wanted).map(|entry| entry.value),
            Self::Wide(fields) => match wanted {
                FieldRef::Name(name) => fields.get(name).map(|value| ValueRef::Blob(value)),
                FieldRef::Id(_) => None,
            },
        }
    }

    #[must_use]
    pub fn iter(&self) -> Box<dyn Iterator<Item = FieldValue<'a>> + 'a> {
        match self {
            Self::Packed(bytes) => Box::new(packed(bytes)),
            Self::Wide(fields) => Box::new(
                fields
                    .iter()
                    .map(|(name, value)| FieldValue { field: FieldRef::Name(name), value: ValueRef::Blob(value) }),
            ),
        }
    }

    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Packed(bytes) => packed(bytes).count(),
            Self::Wide(fields) => fields.len(),
        }
    }

    /// Whether these are the fields of a string in a dynamic table: its one field has an id, those of a hash have names.
    #[inline]
    #[must_use]
    pub fn is_string(&self) -> bool {
        matches!(self, Self::Packed([first, ..]) if *first != NAMED)
    }

    /// The value of a field of a dynamic table by its name; a string shows its own as `value`.
    #[must_use]
    pub fn named(&self, name: &[u8]) -> Option<ValueRef<'a>> {
        match self.is_string() {
            true if name == VALUE_FIELD.as_bytes() => self.get(STRING_FIELD),
            true => None,
            false => self.get(FieldRef::Name(name)),
        }
    }

    /// Appends the packed form.
    pub fn pack(&self, out: &mut Vec<u8>) {
        match self {
            Self::Packed(bytes) => out.extend_from_slice(bytes),
            Self::Wide(_) => self.iter().for_each(|entry| entry.encode(out)),
        }
    }

    #[must_use]
    pub fn to_image(&self) -> RowImage {
        let mut packed = Vec::new();
        self.pack(&mut packed);
        RowImage { packed: packed.into_boxed_slice() }
    }
}

/// Walks packed fields that were checked when they came in.
#[inline]
pub fn packed(bytes: &[u8]) -> impl Iterator<Item = FieldValue<'_>> {
    let mut reader = Reader::new(bytes);
    std::iter::from_fn(move || {
        if reader.is_empty() {
            return None;
        }
        Some(FieldValue::decode(&mut reader).expect("packed fields were checked when they came in"))
    })
}

/// Checks packed fields from outside (a snapshot, a log, a peer) once, so that later walks may trust them.
pub fn check_packed(bytes: &[u8]) -> Result<(), DecodeError> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        FieldValue::decode(&mut reader)?;
    }
    Ok(())
}

/// Fields that own their packed bytes: what travels in replies, loads and flushes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowImage {
    pub packed: Box<[u8]>,
}

impl RowImage {
    #[must_use]
    pub fn of(fields: &[FieldValue<'_>]) -> Self {
        let mut packed = Vec::new();
        fields.iter().for_each(|entry| entry.encode(&mut packed));
        Self { packed: packed.into_boxed_slice() }
    }

    #[must_use]
    pub fn view(&self) -> FieldsView<'_> {
        FieldsView::Packed(&self.packed)
    }

    #[must_use]
    pub fn value(&self, field: FieldRef<'_>) -> Option<Value> {
        self.view().get(field).map(ValueRef::to_owned)
    }
}

/// A resident, live record as a read sees it.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    pub version: Version,
    pub sql_version: Version,
    pub expires_at: Option<Timestamp>,
    pub fields: FieldsView<'a>,
}
