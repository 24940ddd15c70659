//! The two sides of a row, and what to make of them. Pure.

use shardine_model::{FieldRef, FieldsView, RowImage, RowKeyBuf, RowView, Table, Version};
use shardine_router::DifferenceKind;
use shardine_writeback::Found;

/// A row as memory has it; a version that is not live means deleted or absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemoryRow {
    pub version: Version,
    pub sql_version: Version,
    fields: RowImage,
}

impl MemoryRow {
    pub fn of(view: &RowView<'_>) -> Self {
        Self { version: view.version, sql_version: view.sql_version, fields: view.fields.to_image() }
    }

    pub fn absent(version: Version, sql_version: Version) -> Self {
        Self { version, sql_version, fields: RowImage::default() }
    }
}

/// A row as SQL has it.
#[derive(Clone, Debug)]
pub(super) enum Stored {
    Row {
        version: Version,
        fields: RowImage,
    },
    /// It is there and does not fit the definition.
    Unfit(String),
}

impl Stored {
    pub fn all(found: Found) -> impl Iterator<Item = (RowKeyBuf, Self)> {
        let rows = found.rows.into_iter();
        let rows = rows.map(|loaded| (loaded.row, Self::Row { version: loaded.version, fields: loaded.fields }));
        rows.chain(found.quarantined.into_iter().map(|bad| (bad.row, Self::Unfit(bad.message))))
    }

    pub fn version(&self) -> Version {
        match self {
            Self::Row { version, .. } => *version,
            Self::Unfit(_) => Version::NEVER,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    /// On its way to SQL.
    Dirty,
    /// In SQL only, which is as it should be.
    NotInMemory,
    /// On neither side.
    Nothing,
    Differs(DifferenceKind),
}

pub(super) fn judge(table: &Table, held: Option<&MemoryRow>, stored: Option<&Stored>) -> Comparison {
    if let Some(Stored::Unfit(message)) = stored {
        return Comparison::Differs(DifferenceKind::Unfit(message.clone()));
    }
    let nothing = RowImage::default();
    let (sql, fields) = match stored {
        Some(Stored::Row { version, fields }) => (*version, fields),
        Some(Stored::Unfit(_)) | None => (Version::NEVER, &nothing),
    };
    let Some(held) = held else { return if sql.is_live() { Comparison::NotInMemory } else { Comparison::Nothing } };
    if sql.magnitude() > held.version.magnitude() {
        return Comparison::Differs(DifferenceKind::Newer);
    }
    if held.version != held.sql_version {
        return Comparison::Dirty;
    }
    match (held.version.is_live(), sql.is_live()) {
        // SQL forgets tombstones after a while.
        (false, false) => Comparison::Equal,
        (true, false) if sql == Version::NEVER => Comparison::Differs(DifferenceKind::Missing),
        (true, false) | (false, true) => Comparison::Differs(DifferenceKind::Older),
        (true, true) if sql != held.version => Comparison::Differs(DifferenceKind::Older),
        (true, true) if same(table, held.fields.view(), fields.view()) => Comparison::Equal,
        (true, true) => Comparison::Differs(DifferenceKind::Content),
    }
}

/// Whether two rows have the same values, unset ones with their defaults. Compared as bytes, because a float may be NaN.
fn same(table: &Table, left: FieldsView<'_>, right: FieldsView<'_>) -> bool {
    table.fields.iter().all(|field| {
        let bytes = |side: FieldsView<'_>| {
            let mut bytes = Vec::new();
            side.get(FieldRef::Id(field.id)).unwrap_or(field.default.as_ref()).encode(&mut bytes);
            bytes
        };
        bytes(left) == bytes(right)
    })
}

#[cfg(test)]
mod tests {
    use shardine_model::{Backing, Field, FieldId, FieldValue, TableId, Value, ValueRef};

    use super::*;

    fn image(value: &[u8]) -> RowImage {
        RowImage::of(&[FieldValue { field: FieldRef::Id(FieldId(1)), value: ValueRef::Blob(value) }])
    }

    #[test]
    fn what_two_sides_mean() {
        let default = Value::Blob(Vec::new());
        let field = Field::of(FieldId(1), "value", default);
        let table = Table {
            id: TableId(2),
            name: "users".into(),
            version: 1,
            fields: vec![field],
            sort: Vec::new(),
            backing: Backing::Sql,
            sql: Default::default(),
            dynamic: false,
            dropped: false,
            next_field: FieldId(2),
        };
        let held = |version, sql, value: &[u8]| {
            Some(MemoryRow { version: Version(version), sql_version: Version(sql), fields: image(value) })
        };
        let stored = |version, value: &[u8]| Some(Stored::Row { version: Version(version), fields: image(value) });
        let differs = Comparison::Differs;
        let cases = [
            (held(3, 3, b"a"), stored(3, b"a"), Comparison::Equal),
            (held(3, 3, b"a"), stored(3, b"b"), differs(DifferenceKind::Content)),
            (held(3, 3, b"a"), stored(2, b"a"), differs(DifferenceKind::Older)),
            (held(3, 3, b"a"), stored(4, b"a"), differs(DifferenceKind::Newer)),
            (held(3, 3, b"a"), stored(-2, b""), differs(DifferenceKind::Older)),
            (held(3, 3, b"a"), None, differs(DifferenceKind::Missing)),
            (held(3, 2, b"a"), stored(2, b"b"), Comparison::Dirty),
            (held(3, 2, b"a"), None, Comparison::Dirty),
            (held(3, 2, b"a"), stored(5, b"b"), differs(DifferenceKind::Newer)),
            (held(-4, -4, b""), stored(-4, b""), Comparison::Equal),
            (held(-4, -4, b""), None, Comparison::Equal),
            (held(-4, -4, b""), stored(3, b"a"), differs(DifferenceKind::Older)),
            (held(0, 0, b""), stored(1, b"a"), differs(DifferenceKind::Newer)),
            (None, stored(1, b"a"), Comparison::NotInMemory),
            (None, stored(-1, b"a"), Comparison::Nothing),
        ];

        for (held, stored, verdict) in cases {
            assert_eq!(judge(&table, held.as_ref(), stored.as_ref()), verdict, "{held:?} {stored:?}");
        }
    }
}
