//! One record in memory: a single allocation that holds its address, versions, expiry and packed fields.
//!
//! Layout of a packed record: `flags, table, key, version, sql_version, [expiry], [changed], fields`, integers as varints. Rows of
//! a table with a sort key leave out table and key, which their partition holds once for all. Records with very many
//! fields are trees instead, because packed fields are searched from the front.

use std::collections::BTreeMap;

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_signed, put_varint};
use shardine_model::row::{WideFields, check_packed};
use shardine_model::{ChangedFields, FieldsView, Outcome, Reply, RowKey, RowView, TableId, Timestamp, Version};

const FLAG_EXPIRES: u8 = 1 << 0;
const FLAG_ADDRESSED: u8 = 1 << 1;
/// Which fields changed since `sql_version` follows (`docs/encoding.md`); without it, all have.
const FLAG_CHANGED: u8 = 1 << 2;

/// What a `(table, key)` leads to. As small as a boxed slice: most records are packed.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    Packed(Box<[u8]>),
    Big(Box<Big>),
}

#[derive(Clone, Debug)]
pub(crate) enum Big {
    /// A record of a dynamic table with many fields.
    Wide(Wide),
    /// All rows of one key in a table with a sort key, by their encoded sort key.
    Partition(Partition),
}

#[derive(Clone, Debug)]
pub(crate) struct Wide {
    pub table: TableId,
    pub key: Box<[u8]>,
    pub versions: Versions,
    pub fields: WideFields,
    pub bytes: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Partition {
    pub table: TableId,
    pub key: Box<[u8]>,
    pub rows: BTreeMap<Box<[u8]>, Box<[u8]>>,
}

/// The numbers of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Versions {
    pub version: Version,
    pub sql_version: Version,
    pub expires_at: Option<Timestamp>,
    /// Since `sql_version`. All, unless the table is one that SQL shares with others, and where there is nothing to write.
    pub changed: ChangedFields,
}

impl Slot {
    /// The address that the slot is filed under.
    #[inline]
    pub fn address(&self) -> (TableId, &[u8]) {
        match self {
            Self::Packed(bytes) => packed_address(bytes),
            Self::Big(big) => match &**big {
                Big::Wide(wide) => (wide.table, &wide.key),
                Big::Partition(partition) => (partition.table, &partition.key),
            },
        }
    }

    /// A byte of what it owns, for whoever wants it brought near.
    #[inline]
    pub fn first_byte(&self) -> u8 {
        match self {
            Self::Packed(bytes) => bytes[0],
            Self::Big(big) => u8::from(matches!(&**big, Big::Partition(_))),
        }
    }

    /// Versions of a row, and its bytes as the shard counts them.
    #[inline]
    pub fn measure(&self, sort: &[u8]) -> Option<(Versions, usize)> {
        match self {
            Self::Packed(bytes) => sort.is_empty().then(|| (Versions::of(&view(bytes)), bytes.len())),
            Self::Big(big) => match &**big {
                Big::Wide(wide) => sort.is_empty().then_some((wide.versions, wide.bytes)),
                Big::Partition(partition) => {
                    let bytes = partition.rows.get(sort)?;
                    Some((Versions::of(&view(bytes)), sort.len() + bytes.len()))
                }
            },
        }
    }

    /// A tree without fields: a dynamic record that is no more.
    pub fn is_bare(&self) -> bool {
        matches!(self, Self::Big(big) if matches!(&**big, Big::Wide(wide) if wide.fields.is_empty()))
    }

    /// The row under this sort key. A record outside of partitions has none, and is nobody's row under another.
    #[inline]
    pub fn row(&self, sort: &[u8]) -> Option<RowView<'_>> {
        match self {
            Self::Packed(bytes) => sort.is_empty().then(|| view(bytes)),
            Self::Big(big) => match &**big {
                Big::Wide(wide) => sort.is_empty().then(|| wide.view()),
                Big::Partition(partition) => partition.rows.get(sort).map(|bytes| view(bytes)),
            },
        }
    }
}

impl Wide {
    pub fn new(row: RowKey<'_>, versions: Versions, fields: WideFields) -> Self {
        let bytes: usize = fields.iter().map(|(name, value)| Self::field_bytes(name.len(), value.len())).sum();
        Self { table: row.table, key: row.key.into(), versions, bytes: bytes + row.key.len(), fields }
    }

    /// What a field counts for: its bytes, and two pointers with lengths.
    pub fn field_bytes(name: usize, value: usize) -> usize {
        name + value + 2 * size_of::<Box<[u8]>>()
    }

    pub fn view(&self) -> RowView<'_> {
        self.versions.with(FieldsView::Wide(&self.fields))
    }
}

impl Versions {
    /// Known not to exist, and SQL knows it too.
    #[inline]
    pub fn is_clean_absence(&self) -> bool {
        !self.version.is_live() && self.version == self.sql_version
    }

    pub fn of(view: &RowView<'_>) -> Self {
        let RowView { version, sql_version, expires_at, changed, .. } = *view;
        Self { version, sql_version, expires_at, changed }
    }

    pub fn with<'a>(&self, fields: FieldsView<'a>) -> RowView<'a> {
        let Self { version, sql_version, expires_at, changed } = *self;
        RowView { version, sql_version, expires_at, changed, fields }
    }

    /// The reply of a command after which the record has these numbers.
    #[inline]
    pub fn reply(self, outcome: Outcome) -> Reply {
        let Self { version, sql_version, expires_at, .. } = self;
        Reply { version, sql_version, expires_at, outcome }
    }

    /// The numbers of the record once it is deleted: a tombstone has no end of its own.
    #[inline]
    pub fn buried(self, version: Version) -> Self {
        Self { version, expires_at: None, changed: ChangedFields::ALL, ..self }
    }
}

/// Begins a packed record in `out`; its fields are appended behind. `row.sort` decides whether it stands in a partition.
#[inline]
pub(crate) fn open_packed(out: &mut Vec<u8>, row: RowKey<'_>, versions: &Versions) {
    let addressed = row.sort.is_empty();
    let expires = if versions.expires_at.is_some() { FLAG_EXPIRES } else { 0 };
    let changed = if versions.changed.is_all() { 0 } else { FLAG_CHANGED };
    out.push(expires | changed | if addressed { FLAG_ADDRESSED } else { 0 });
    if addressed {
        put_varint(out, u64::from(row.table.0));
        put_bytes(out, row.key);
    }
    put_signed(out, versions.version.0);
    put_signed(out, versions.sql_version.0);
    if let Some(at) = versions.expires_at {
        put_varint(out, at.0);
    }
    if !versions.changed.is_all() {
        versions.changed.encode(out);
    }
}

const WRITTEN_HERE: &str = "packed records are written here only";

#[inline]
fn packed_address(bytes: &[u8]) -> (TableId, &[u8]) {
    let mut reader = Reader::new(&bytes[1..]);
    let table = reader.varint("table").expect(WRITTEN_HERE);
    (TableId(table as u32), reader.bytes("key").expect(WRITTEN_HERE))
}

#[inline]
pub(crate) fn view(bytes: &[u8]) -> RowView<'_> {
    let mut reader = Reader::new(bytes);
    let flags = reader.u8("flags").expect(WRITTEN_HERE);
    if flags & FLAG_ADDRESSED != 0 {
        reader.varint("table").expect(WRITTEN_HERE);
        reader.bytes("key").expect(WRITTEN_HERE);
    }
    let version = Version(reader.signed("version").expect(WRITTEN_HERE));
    let sql_version = Version(reader.signed("sql version").expect(WRITTEN_HERE));
    let expires_at = match flags & FLAG_EXPIRES {
        0 => None,
        _ => Some(Timestamp(reader.varint("expiry").expect(WRITTEN_HERE))),
    };
    let changed = match flags & FLAG_CHANGED {
        0 => ChangedFields::ALL,
        _ => ChangedFields::decode(&mut reader).expect(WRITTEN_HERE),
    };
    RowView { version, sql_version, expires_at, changed, fields: FieldsView::Packed(reader.rest()) }
}

/// Reads a packed record from outside, from a snapshot, and checks all of it, so that `view` may trust it later. With its
/// address, unless it stands in a partition.
#[allow(clippy::type_complexity, reason = "one caller takes it apart at once")]
pub(crate) fn read(bytes: &[u8]) -> Result<(Option<(TableId, &[u8])>, RowView<'_>), DecodeError> {
    let mut reader = Reader::new(bytes);
    let flags = reader.u8("flags of a row")?;
    if flags & !(FLAG_EXPIRES | FLAG_ADDRESSED | FLAG_CHANGED) != 0 {
        return Err(DecodeError::Unknown { what: "flags of a row", value: u64::from(flags) });
    }
    let address = match flags & FLAG_ADDRESSED {
        0 => None,
        _ => Some((TableId(reader.varint_u32("table id")?), reader.bytes("key")?)),
    };
    let version = Version(reader.signed("version")?);
    let sql_version = Version(reader.signed("sql version")?);
    let expires_at = match flags & FLAG_EXPIRES {
        0 => None,
        _ => Some(Timestamp(reader.varint("expiry")?)),
    };
    let changed = match flags & FLAG_CHANGED {
        0 => ChangedFields::ALL,
        _ => ChangedFields::decode(&mut reader)?,
    };
    check_packed(reader.rest())?;
    Ok((address, RowView { version, sql_version, expires_at, changed, fields: FieldsView::Packed(reader.rest()) }))
}

#[cfg(test)]
mod tests {
    use shardine_model::FieldId;

    use super::*;

    #[test]
    fn a_slot_is_no_larger_than_a_boxed_slice() {
        assert_eq!(size_of::<Slot>(), size_of::<Box<[u8]>>());
    }

    #[test]
    fn golden_bytes_of_a_packed_record() {
        let row = RowKey { table: TableId(2), key: b"lili", sort: b"" };
        let expires_at = Some(Timestamp(300));
        let versions =
            Versions { version: Version(3), sql_version: Version(-1), expires_at, changed: ChangedFields::ALL };
        let mut bytes = Vec::new();

        open_packed(&mut bytes, row, &versions);
        bytes.extend_from_slice(&[1, 1, 20]);

        assert_eq!(bytes, [0b11, 2, 4, b'l', b'i', b'l', b'i', 6, 1, 0xac, 2, 1, 1, 20]);
        assert_eq!(packed_address(&bytes), (TableId(2), &b"lili"[..]));
        assert_eq!(Versions::of(&view(&bytes)), versions);
    }

    #[test]
    fn golden_bytes_of_a_record_with_a_mask_of_changed_fields() {
        let row = RowKey { table: TableId(2), key: b"lili", sort: b"" };
        let changed = ChangedFields::NONE.with(FieldId(1)).with(FieldId(10));
        let expires_at = Some(Timestamp(300));
        let versions = Versions { version: Version(3), sql_version: Version(1), expires_at, changed };
        let mut bytes = Vec::new();

        open_packed(&mut bytes, row, &versions);
        bytes.extend_from_slice(&[1, 1, 20]);

        assert_eq!(bytes, [0b111, 2, 4, b'l', b'i', b'l', b'i', 6, 2, 0xac, 2, 2, 0b1, 0b10, 1, 1, 20]);
        assert_eq!(Versions::of(&view(&bytes)), versions);
        let (address, seen) = read(&bytes).unwrap();
        assert_eq!((address, Versions::of(&seen)), (Some((TableId(2), &b"lili"[..])), versions));
    }

    #[test]
    fn a_mask_has_one_form_and_room_for_128_fields() {
        let row = |mask: &[u8]| [&[0b111, 2, 4, b'l', b'i', b'l', b'i', 6, 2, 0xac, 2][..], mask].concat();

        for wrong in
            [&[1, 0][..], &[17, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], &[&[16][..], &[255; 16]].concat()]
        {
            assert!(matches!(read(&row(wrong)), Err(DecodeError::Unknown { what: "changed fields", .. })), "{wrong:?}");
        }
        assert_eq!(read(&row(&[0])).unwrap().1.changed, ChangedFields::NONE);
        assert_eq!(ChangedFields::NONE.with(FieldId(129)), ChangedFields::ALL);
        assert!(!ChangedFields::NONE.with(FieldId(128)).is_all());
    }

    #[test]
    fn a_row_with_an_array_is_refused_until_it_is_known() {
        let array_in_field_1 = [0b11, 2, 4, b'l', b'i', b'l', b'i', 6, 1, 0xac, 2, 1, 14, 0];

        assert_eq!(read(&array_in_field_1).unwrap_err(), DecodeError::Unknown { what: "value type", value: 14 });
    }
}
