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

/// Which fields of a row changed since the version that SQL holds, where somebody keeps count of it: tables that SQL shares
/// with others, of which only what changed is written. Has room for the ids up to 128; a row in which one beyond that
/// changed counts as changed in all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ChangedFields([u64; 2]);

impl ChangedFields {
    /// Nobody has kept count, or all have changed.
    pub const ALL: Self = Self([u64::MAX; 2]);
    pub const NONE: Self = Self([0; 2]);
    const BITS: u16 = 128;

    #[must_use]
    pub fn is_all(self) -> bool {
        self == Self::ALL
    }

    #[must_use]
    pub fn holds(self, field: FieldId) -> bool {
        match Self::place(field) {
            Some((word, bit)) => self.0[word] & bit != 0,
            None => self.is_all(),
        }
    }

    /// The same, and this field.
    #[must_use]
    pub fn with(self, field: FieldId) -> Self {
        let Some((word, bit)) = Self::place(field) else { return Self::ALL };
        let mut changed = self;
        changed.0[word] |= bit;
        changed
    }

    fn place(field: FieldId) -> Option<(usize, u64)> {
        let bit = field.0.checked_sub(1).filter(|bit| *bit < Self::BITS)?;
        Some((usize::from(bit / 64), 1 << (bit % 64)))
    }

    /// The lowest ids first, without the bytes behind the last one that is not 0 (`docs/encoding.md`).
    pub fn encode(self, out: &mut Vec<u8>) {
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        put_bytes(out, &bytes[..end]);
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = reader.bytes("changed fields")?;
        let mut words = [0; 16];
        let unknown = DecodeError::Unknown { what: "changed fields", value: bytes.len() as u64 };
        if bytes.len() > words.len() || bytes.last() == Some(&0) {
            return Err(unknown);
        }
        words[..bytes.len()].copy_from_slice(bytes);
        let (low, high) = words.split_at(8);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("half of sixteen bytes"));
        let changed = Self([word(low), word(high)]);
        // A row in which all have changed is told without.
        if changed.is_all() { Err(unknown) } else { Ok(changed) }
    }
}

impl Default for ChangedFields {
    fn default() -> Self {
        Self::ALL
    }
}

impl std::fmt::Debug for ChangedFields {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_all() {
            return formatter.write_str("all fields");
        }
        formatter.debug_set().entries((1..=Self::BITS).map(FieldId).filter(|field| self.holds(*field))).finish()
    }
}

/// A resident, live record as a read sees it.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    pub version: Version,
    pub sql_version: Version,
    pub expires_at: Option<Timestamp>,
    /// Since `sql_version`, where somebody keeps count.
    pub changed: ChangedFields,
    pub fields: FieldsView<'a>,
}
