//! Rows that are too large to be copied while a write waits. They are written from where they lie, slice by slice; one that
//! changes meanwhile is kept as it was.

use std::collections::BTreeMap;
use std::ops::Bound;

use itertools::{EitherOrBoth, Itertools};
use shardine_model::codec::{put_bytes, put_varint};
use shardine_model::limits::SNAPSHOT_CHUNK_BYTES_MAX;
use shardine_model::row::WideFields;
use shardine_model::stream::{open_item, put_item};
use shardine_model::{FieldRef, FieldValue, RowKey, RowKeyBuf, ValueRef};

use super::{VERSION, tag};
use crate::index::Index;
use crate::record::{Big, Slot, Versions, Wide, open_packed};
use crate::slot::Content;

/// Larger rows are not written with their segment.
pub(super) const LARGE_ROW_BYTES: usize = 64 << 10;

/// Large rows of segments that count as written.
#[derive(Debug, Default)]
pub(super) struct LargeRows {
    waiting: BTreeMap<RowKeyBuf, FrozenRow>,
    current: Option<(RowKeyBuf, FrozenRow)>,
}

/// A row as it was when the cut began.
#[derive(Debug)]
enum FrozenRow {
    Packed(HeldPacked),
    Wide(HeldWide),
}

#[derive(Debug, Default)]
struct HeldPacked {
    /// Here once the index has it no longer.
    gone: Option<Box<[u8]>>,
    /// Bytes of its item that are written.
    written: usize,
}

#[derive(Debug)]
struct HeldWide {
    versions: Versions,
    /// Here once the index has it no longer.
    gone: Option<Wide>,
    /// What fields had that have changed since and are not written yet.
    before: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    progress: Progress,
}

/// How far a tree record is written.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Nothing,
    /// The last field, if there was one.
    Fields(Option<Box<[u8]>>),
    Everything,
}

impl LargeRows {
    pub fn wait_packed(&mut self, row: RowKeyBuf) {
        self.waiting.insert(row, FrozenRow::Packed(HeldPacked::default()));
    }

    pub fn wait_wide(&mut self, row: RowKeyBuf, versions: Versions) {
        let wide = HeldWide { versions, gone: None, before: BTreeMap::new(), progress: Progress::Nothing };
        self.waiting.insert(row, FrozenRow::Wide(wide));
    }

    fn held(&mut self, row: RowKey<'_>) -> Option<&mut FrozenRow> {
        if self.waiting.is_empty() && self.current.is_none() {
            return None;
        }
        match &mut self.current {
            Some((current, held)) if current.as_ref() == row => Some(held),
            _ => self.waiting.get_mut(&row.to_owned()),
        }
    }

    /// The index has this row no longer.
    pub fn keep(&mut self, row: RowKey<'_>, old: Content) {
        match (self.held(row), old) {
            (Some(FrozenRow::Packed(held)), Content::Packed(bytes)) => _ = held.gone.get_or_insert(bytes),
            (Some(FrozenRow::Wide(held)), Content::Wide(wide)) => _ = held.gone.get_or_insert(wide),
            // A row that has been replaced before takes any form.
            (Some(FrozenRow::Packed(_) | FrozenRow::Wide(_)) | None, _) => {}
        }
    }

    /// These fields of a tree record are about to change.
    pub fn keep_fields<'a>(&mut self, row: RowKey<'_>, slot: &Slot, names: impl Iterator<Item = &'a [u8]>) {
        let (Some(FrozenRow::Wide(held)), Slot::Big(big)) = (self.held(row), slot) else { return };
        let Big::Wide(wide) = &**big else { return };
        if held.gone.is_none() {
            names.for_each(|name| held.keep_field(name, &wide.fields));
        }
    }

    /// Writes more of the row that was begun, if there is one.
    pub fn go_on(&mut self, index: &Index, bytes: usize, out: &mut Vec<u8>) -> bool {
        let Some((row, held)) = &mut self.current else { return false };
        let row = row.as_ref();
        let slot = || index.find(row.position(), row).expect("a row that left the index would be kept");
        let is_written = match held {
            FrozenRow::Packed(held) => held.write_some(row, slot, out),
            FrozenRow::Wide(held) => held.write_some(row, slot, bytes, out),
        };
        if is_written {
            self.current = None;
        }
        true
    }

    pub fn begin_next(&mut self, index: &Index, bytes: usize, out: &mut Vec<u8>) -> bool {
        assert!(self.current.is_none(), "one large row at a time");
        self.current = self.waiting.pop_first();
        self.go_on(index, bytes, out)
    }
}

impl HeldPacked {
    /// Fills the chunk. Says whether all of it is written.
    fn write_some<'a>(&mut self, row: RowKey<'_>, slot: impl FnOnce() -> &'a Slot, out: &mut Vec<u8>) -> bool {
        let bytes = match &self.gone {
            Some(bytes) => bytes,
            None => slot().packed(row.sort).expect("a row that has changed its form would be kept"),
        };
        if self.written == 0 {
            let mut address = Vec::new();
            put_varint(&mut address, u64::from(row.table.0));
            put_bytes(&mut address, row.key);
            put_bytes(&mut address, row.sort);
            open_item(out, tag::LARGE_ROW, VERSION, address.len() + bytes.len());
            out.extend_from_slice(&address);
        }
        let room = SNAPSHOT_CHUNK_BYTES_MAX.saturating_sub(out.len());
        let end = bytes.len().min(self.written + room);
        out.extend_from_slice(&bytes[self.written..end]);
        self.written = end;
        end == bytes.len()
    }
}

impl HeldWide {
    fn keep_field(&mut self, name: &[u8], fields: &WideFields) {
        let is_written = match &self.progress {
            Progress::Nothing | Progress::Fields(None) => false,
            Progress::Fields(Some(last)) => name <= &**last,
            Progress::Everything => true,
        };
        if !is_written && !self.before.contains_key(name) {
            self.before.insert(name.into(), fields.get(name).cloned());
        }
    }

    /// Writes about so many bytes of fields. Says whether all of it is written.
    fn write_some<'a>(
        &mut self,
        row: RowKey<'_>,
        slot: impl FnOnce() -> &'a Slot,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.progress == Progress::Nothing {
            put_item(out, tag::WIDE, VERSION, |out| open_packed(out, row, &self.versions));
            self.progress = Progress::Fields(None);
        }
        let fields = match &self.gone {
            Some(wide) => &wide.fields,
            None => slot().wide().map(|wide| &wide.fields).expect("a row that has changed its form would be kept"),
        };
        let Progress::Fields(last) = &self.progress else { unreachable!("a row that is written is let go") };
        let after = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut written = None;
        put_item(out, tag::WIDE_FIELDS, VERSION, |out| {
            let end = out.len() + bytes;
            for (name, value) in as_before(fields, &self.before, after) {
                FieldValue { field: FieldRef::Name(name), value: ValueRef::Blob(value) }.encode(out);
                written = Some(name.into());
                if out.len() >= end {
                    return;
                }
            }
        });
        if let Some(written) = written {
            self.before = self.before.split_off(&written);
            self.progress = Progress::Fields(Some(written));
            return false;
        }
        put_item(out, tag::WIDE_END, VERSION, |_| {});
        self.progress = Progress::Everything;
        true
    }
}

/// Fields behind a name, as they were before some of them changed.
fn as_before<'a>(
    fields: &'a WideFields,
    before: &'a BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    after: Bound<&[u8]>,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let now = fields.range::<[u8], _>((after, Bound::Unbounded));
    let before = before.range::<[u8], _>((after, Bound::Unbounded));
    now.merge_join_by(before, |(name, _), (other, _)| name.cmp(other)).filter_map(|field| match field {
        EitherOrBoth::Left((name, value)) => Some((&**name, &**value)),
        EitherOrBoth::Right((name, value)) | EitherOrBoth::Both(_, (name, value)) => {
            value.as_ref().map(|value| (&**name, &**value))
        }
    })
}
