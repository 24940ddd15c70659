//! The sum of a shard's state, from the stream of a cut. Replicas whose states agree give the same sum, in whichever segments and
//! forms their rows lie: a row counts with its address and numbers, and each of its fields for itself.

use shardine_model::checksum::{Sum, Summing};
use shardine_model::codec::{DecodeError, Reader, put_bytes, put_signed, put_varint};
use shardine_model::stream::{Assembler, Item, SnapshotError};
use shardine_model::{Bound, FieldValue, FieldsView, GroupKind, RowKey, RowView, TableId};

use super::tag;
use crate::record::read;
use crate::state::Records;

/// Reads its stream item by item, so it holds the largest row once more for as long as that one comes.
#[derive(Debug)]
struct RecordsSum {
    stream: Assembler,
    parts: Parts,
}

#[derive(Debug, Default)]
struct Parts {
    sum: Sum,
    /// The tree record whose fields are coming.
    wide: Option<u64>,
    scratch: Vec<u8>,
}

impl Records {
    /// For the chunks of a cut.
    #[must_use]
    pub fn summing() -> Box<dyn Summing> {
        Box::new(RecordsSum { stream: Assembler::new(GroupKind::Records), parts: Parts::default() })
    }
}

impl Summing for RecordsSum {
    fn push(&mut self, chunk: &[u8]) -> Result<(), SnapshotError> {
        let Self { stream, parts } = self;
        stream.push(chunk, |item| parts.take(&item))
    }

    fn finish(self: Box<Self>) -> Result<Sum, SnapshotError> {
        self.stream.finish()?;
        Ok(self.parts.sum)
    }
}

impl Parts {
    fn take(&mut self, item: &Item<'_>) -> Result<(), SnapshotError> {
        let mut reader = Reader::new(&item.content);
        match (item.tag, item.version) {
            // Whatever is not rows has one form.
            (tag::RANGE..=tag::CLIENT | tag::FORGOTTEN_CLIENTS, 1) => self.add_whole(item),
            (tag::SEGMENT, 1) => self.take_segment(&mut reader)?,
            (tag::LARGE_ROW, 1) => {
                let table = TableId(reader.varint_u32("table id")?);
                let row = RowKey { table, key: reader.bytes("key")?, sort: reader.bytes("sort key")? };
                let (_, view) = read(reader.rest())?;
                self.add_row(row, &view)?;
            }
            (tag::WIDE, 1) => {
                let (address, view) = read(reader.rest())?;
                let (table, key) = address.ok_or(SnapshotError::Contradiction("a tree record without an address"))?;
                self.wide = Some(self.add_row(RowKey { table, key, sort: b"" }, &view)?);
            }
            (tag::WIDE_FIELDS, 1) => {
                let row = self.wide.ok_or(SnapshotError::Contradiction("fields of nothing"))?;
                self.add_fields(row, reader.rest())?;
            }
            (tag::WIDE_END, 1) => self.wide = None,
            _ => return Err(item.unknown()),
        }
        Ok(())
    }

    fn add_whole(&mut self, item: &Item<'_>) {
        self.scratch.clear();
        self.scratch.push(item.tag);
        self.scratch.extend_from_slice(&item.content);
        self.sum.add(&self.scratch);
    }

    fn take_segment(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        Bound::decode(reader)?;
        let rows = u32::from_le_bytes(reader.take(4, "row count")?.try_into().expect("take returned four bytes"));
        for _ in 0..rows {
            let (address, view) = read(reader.bytes("row")?)?;
            let (table, key) = address.ok_or(SnapshotError::Contradiction("a row without an address"))?;
            self.add_row(RowKey { table, key, sort: b"" }, &view)?;
        }
        for _ in 0..reader.count("partition count")? {
            let (table, key) = (TableId(reader.varint_u32("table id")?), reader.bytes("key")?);
            for _ in 0..reader.count("row count")? {
                let sort = reader.bytes("sort key")?;
                let (_, view) = read(reader.bytes("row")?)?;
                self.add_row(RowKey { table, key, sort }, &view)?;
            }
        }
        let letters = reader.count("dead letter count")?;
        for _ in 0..letters {
            let before = reader.rest();
            crate::dead_letters::DeadLetter::decode(reader)?;
            self.scratch.clear();
            self.scratch.push(tag::SEGMENT);
            self.scratch.extend_from_slice(&before[..before.len() - reader.rest().len()]);
            self.sum.add(&self.scratch);
        }
        Ok(())
    }

    /// Gives what its further fields are told apart by.
    fn add_row(&mut self, row: RowKey<'_>, view: &RowView<'_>) -> Result<u64, DecodeError> {
        self.scratch.clear();
        let out = &mut self.scratch;
        out.push(tag::LARGE_ROW);
        put_varint(out, u64::from(row.table.0));
        put_bytes(out, row.key);
        put_bytes(out, row.sort);
        put_signed(out, view.version.0);
        put_signed(out, view.sql_version.0);
        put_varint(out, view.expires_at.map_or(0, |at| at.0));
        if !view.changed.is_all() {
            view.changed.encode(out);
        }
        let whole = self.sum.add(&self.scratch);
        match view.fields {
            FieldsView::Packed(packed) => self.add_fields(whole, packed)?,
            FieldsView::Wide(_) => unreachable!("what was read is packed"),
        }
        Ok(whole)
    }

    fn add_fields(&mut self, row: u64, packed: &[u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(packed);
        while !reader.is_empty() {
            let before = reader.rest();
            FieldValue::decode(&mut reader)?;
            self.sum.add_within(row, &before[..before.len() - reader.rest().len()]);
        }
        Ok(())
    }
}
