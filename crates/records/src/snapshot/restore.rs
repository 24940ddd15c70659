//! Makes a shard out of a snapshot. Segments are built as they come and filed when all are there; nothing is looked up and
//! nothing is parted on the way.

use shardine_model::codec::{DecodeError, Reader};
use shardine_model::stream::{Assembler, Item, SnapshotError};
use shardine_model::{Bound, FieldsView, GroupKind, Position, RowKey, RowKeyBuf, RowView, TableId, Timestamp};

use super::tag;
use crate::command::{content_of, may_be_tree};
use crate::dead_letters::DeadLetter;
use crate::derived::{Change, Totals};
use crate::index::Index;
use crate::record::{Big, Partition, Slot, Versions, read};
use crate::segment::{Hasher, Segment};
use crate::slot::Content;
use crate::state::Records;

/// A snapshot that is being taken in. What comes of it is used only when it is whole.
#[derive(Debug)]
pub struct Restore {
    records: Records,
    stream: Assembler,
    rest: Parts,
}

/// What has come so far beside the head.
#[derive(Debug, Default)]
struct Parts {
    has_range: bool,
    segments: Vec<Built>,
    /// Rows that did not come with their segments.
    large: Vec<(RowKeyBuf, Content)>,
    letters: Vec<(RowKeyBuf, DeadLetter)>,
    /// A tree record whose fields are coming.
    wide: Option<OpenWide>,
}

/// A segment, the place that it says it begins at, and its last row.
#[derive(Debug)]
struct Built {
    start: Bound,
    last: Option<(Position, RowKeyBuf)>,
    segment: Segment,
}

#[derive(Debug)]
struct OpenWide {
    row: RowKeyBuf,
    versions: Versions,
    packed: Vec<u8>,
}

const ROW_OUTSIDE: SnapshotError = SnapshotError::Contradiction("a row lies outside of its segment");
const ROW_TWICE: SnapshotError = SnapshotError::Contradiction("a row comes twice");
const OUT_OF_ORDER: SnapshotError = SnapshotError::Contradiction("its sections are in disorder");

impl Restore {
    /// Takes a snapshot in over a state that has begun empty ([`Records::new`]), so that a key absent from the snapshot is
    /// absent after it (records 70).
    #[must_use]
    pub fn new(empty: Records) -> Self {
        Self { records: empty, stream: Assembler::new(GroupKind::Records), rest: Parts::default() }
    }

    /// Takes the next chunk in. After an error there is nothing to go on with.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), SnapshotError> {
        let Self { records, stream, rest } = self;
        stream.push(chunk, |item| rest.take(records, item))
    }

    /// The state, if the snapshot was whole.
    pub fn finish(self) -> Result<Records, SnapshotError> {
        let Self { mut records, stream, rest } = self;
        stream.finish()?;
        rest.file(&mut records)?;
        Ok(records)
    }
}

impl Parts {
    fn take(&mut self, records: &mut Records, item: Item<'_>) -> Result<(), SnapshotError> {
        let is_first = !std::mem::replace(&mut self.has_range, true);
        let has_rows = !self.segments.is_empty() || !self.large.is_empty();
        let goes_on = matches!(item.tag, tag::WIDE_FIELDS | tag::WIDE_END);
        if is_first != (item.tag == tag::RANGE)
            || (has_rows && item.tag < tag::CLIENT)
            || goes_on != self.wide.is_some()
        {
            return Err(OUT_OF_ORDER);
        }
        if records.take_section(&item)? {
            return Ok(());
        }
        let mut reader = Reader::new(&item.content);
        match (item.tag, item.version) {
            (tag::CLIENT, 1) => records.remembered.take_client(&mut reader)?,
            (tag::SEGMENT, 1) => self.take_segment(records, &mut reader)?,
            (tag::LARGE_ROW, 1) => self.take_large(records, &mut reader)?,
            (tag::WIDE, 1) => self.open_wide(&mut reader)?,
            (tag::WIDE_FIELDS, 1) => self.take_fields(&mut reader)?,
            (tag::WIDE_END, 1) => self.close_wide(records)?,
            _ => return Err(item.unknown()),
        }
        Ok(reader.finish("item")?)
    }

    fn take_segment(&mut self, records: &Records, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let start = Bound::decode(reader)?;
        let rows = fixed_u32(reader, "row count")?;
        // A row takes more than one byte, so a lie costs no more memory than was sent.
        let segment = Segment::with_capacity((rows as usize).min(reader.rest().len()));
        let mut building = Building {
            hasher: records.index.hasher(),
            facts: Facts { records, last: None },
            now: records.clock,
            built: Built { start, last: None, segment },
        };
        for _ in 0..rows {
            building.add_row(reader.bytes("row")?)?;
        }
        for _ in 0..reader.count("partition count")? {
            building.add_partition(reader)?;
        }
        for _ in 0..reader.count("dead letter count")? {
            self.letters.push(DeadLetter::decode(reader)?);
        }
        self.segments.push(building.built);
        Ok(())
    }

    fn take_large(&mut self, records: &Records, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let table = TableId(reader.varint_u32("table id")?);
        let row = RowKey { table, key: reader.bytes("key")?, sort: reader.bytes("sort key")? };
        let bytes = reader.take(reader.rest().len(), "row")?;
        let (address, view) = read(bytes)?;
        if address != row.sort.is_empty().then_some((row.table, row.key)) {
            return Err(SnapshotError::Contradiction("a row has two addresses"));
        }
        let content = Facts { records, last: None }.of(table).content(row, &view, bytes)?;
        self.large.push((row.to_owned(), content));
        Ok(())
    }

    fn open_wide(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let (address, view) = read(reader.take(reader.rest().len(), "row")?)?;
        let Some((table, key)) = address else {
            return Err(SnapshotError::Contradiction("a tree record without an address"));
        };
        let row = RowKeyBuf { table, key: key.into(), sort: Box::default() };
        self.wide = Some(OpenWide { row, versions: Versions::of(&view), packed: Vec::new() });
        Ok(())
    }

    fn take_fields(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let fields = reader.take(reader.rest().len(), "fields")?;
        shardine_model::row::check_packed(fields)?;
        self.wide.as_mut().expect("the order was checked").packed.extend_from_slice(fields);
        Ok(())
    }

    fn close_wide(&mut self, records: &Records) -> Result<(), SnapshotError> {
        let OpenWide { row, versions, packed } = self.wide.take().expect("the order was checked");
        let facts = Facts { records, last: None }.of(row.table);
        facts.check(row.as_ref())?;
        let content = content_of(row.as_ref(), versions, &packed, facts.is_dynamic);
        self.large.push((row, content));
        Ok(())
    }

    /// Files everything. A place that belongs to two segments, and a row that comes twice, are no state that ever was.
    fn file(mut self, records: &mut Records) -> Result<(), SnapshotError> {
        if self.wide.is_some() || !self.has_range {
            return Err(OUT_OF_ORDER);
        }
        self.segments.retain(|built| built.last.is_some());
        self.segments.sort_by(|one, other| one.start.cmp(&other.start));
        for pair in self.segments.windows(2) {
            let (position, last) = pair[0].last.as_ref().expect("empty ones are gone");
            if pair[1].start.is_before(*position, last.as_ref()) {
                return Err(ROW_OUTSIDE);
            }
        }
        let segments: Vec<(Bound, Segment)> = self.segments.into_iter().map(|one| (one.start, one.segment)).collect();
        records.file_segments(segments);
        for (row, content) in self.large {
            let position = row.as_ref().position();
            if records.versions(position, row.as_ref()).is_some() {
                return Err(ROW_TWICE);
            }
            records.put_row(position, row.as_ref(), Some(content));
        }
        self.letters.into_iter().try_for_each(|(row, letter)| {
            records.put_letter(row, letter).ok_or(SnapshotError::Contradiction("a dead letter without a dirty row"))
        })
    }
}

impl Records {
    /// Makes a state that has begun empty into what all chunks of a snapshot say.
    pub fn restored(self, chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Self, SnapshotError> {
        let mut restore = Restore::new(self);
        chunks.into_iter().try_for_each(|chunk| restore.push(chunk.as_ref()))?;
        restore.finish()
    }

    fn file_segments(&mut self, segments: Vec<(Bound, Segment)>) {
        #[cfg(feature = "mutants")]
        if self.mutant == Some(crate::Mutant::SnapshotDoesNotClear) {
            return self.lay_over(&segments);
        }
        self.totals = Totals::default();
        segments.iter().for_each(|(_, segment)| self.totals.add(segment.bytes, &segment.derived));
        self.index = Index::of_segments(self.index.hasher(), segments);
    }
}

/// A segment while its rows come.
struct Building<'a> {
    hasher: Hasher,
    facts: Facts<'a>,
    now: Timestamp,
    built: Built,
}

impl Building<'_> {
    fn add_row(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let (address, view) = read(bytes)?;
        let Some((table, key)) = address else {
            return Err(SnapshotError::Contradiction("a row outside of partitions without an address"));
        };
        let row = RowKey { table, key, sort: b"" };
        let content = self.facts.of(table).content(row, &view, bytes)?;
        if self.built.segment.find(self.hasher, row).is_some() {
            return Err(ROW_TWICE);
        }
        self.count(Position::of_key(key), row, &content)?;
        self.built.segment.insert(self.hasher, content.into_slot());
        Ok(())
    }

    fn add_partition(&mut self, reader: &mut Reader<'_>) -> Result<(), SnapshotError> {
        let (table, key) = (TableId(reader.varint_u32("table id")?), reader.bytes("key")?);
        let mut partition = Partition { table, key: key.into(), rows: Default::default() };
        for _ in 0..reader.count("row count")? {
            let row = RowKey { table, key, sort: reader.bytes("sort key")? };
            let bytes = reader.bytes("row")?;
            let (address, view) = read(bytes)?;
            if address.is_some() {
                return Err(SnapshotError::Contradiction("a row of a partition with an address of its own"));
            }
            let content = self.facts.of(table).content(row, &view, bytes)?;
            self.count(Position::of_key(key), row, &content)?;
            let Content::Packed(bytes) = content else { unreachable!("a table with a sort key is not dynamic") };
            if partition.rows.insert(row.sort.into(), bytes).is_some() {
                return Err(ROW_TWICE);
            }
        }
        let slot = Slot::Big(Box::new(Big::Partition(partition)));
        if self.built.segment.find(self.hasher, slot.filed_under()).is_some() {
            return Err(ROW_TWICE);
        }
        if slot.partition().is_some_and(|partition| !partition.rows.is_empty()) {
            self.built.segment.insert(self.hasher, slot);
        }
        Ok(())
    }

    fn count(&mut self, position: Position, row: RowKey<'_>, content: &Content) -> Result<(), SnapshotError> {
        let built = &mut self.built;
        if !built.start.is_before(position, row) {
            return Err(ROW_OUTSIDE);
        }
        let place = (position, row.key, row.table, row.sort);
        let is_last =
            built.last.as_ref().is_none_or(|(position, last)| place > (*position, &*last.key, last.table, &*last.sort));
        if is_last {
            built.last = Some((position, row.to_owned()));
        }
        let after = Some(content.measure(row.sort.len()));
        let is_sql = self.facts.of(row.table).is_sql;
        let change = Change { row, before: None, after, is_sql, now: self.now };
        built.segment.count(&change);
        if change.is_marked() {
            built.segment.derived.follow(&change);
        }
        Ok(())
    }
}

/// What must be known of a row's table. Neighbours are of the same table, as a rule.
struct Facts<'a> {
    records: &'a Records,
    last: Option<(TableId, TableFacts)>,
}

#[derive(Clone, Copy)]
struct TableFacts {
    has_sort: Option<bool>,
    is_dynamic: bool,
    is_sql: bool,
}

impl Facts<'_> {
    #[inline]
    fn of(&mut self, table: TableId) -> TableFacts {
        if let Some((known, facts)) = self.last
            && known == table
        {
            return facts;
        }
        let definition = self.records.catalogue.get(table);
        let facts = TableFacts {
            has_sort: definition.map(|definition| definition.has_sort()),
            is_dynamic: definition.is_some_and(|definition| definition.dynamic),
            is_sql: self.records.is_sql(table),
        };
        self.last = Some((table, facts));
        facts
    }
}

impl TableFacts {
    fn check(self, row: RowKey<'_>) -> Result<(), DecodeError> {
        match self.has_sort {
            Some(has_sort) if has_sort == row.sort.is_empty() => {
                Err(DecodeError::Unknown { what: "sort key of a row", value: row.sort.len() as u64 })
            }
            _ => Ok(()),
        }
    }

    /// The row as it lies in memory: as it came, or as a tree.
    #[inline]
    fn content(self, row: RowKey<'_>, view: &RowView<'_>, bytes: &[u8]) -> Result<Content, DecodeError> {
        self.check(row)?;
        match view.fields {
            FieldsView::Packed(packed) if self.is_dynamic && may_be_tree(packed) => {
                Ok(content_of(row, Versions::of(view), packed, true))
            }
            FieldsView::Packed(_) | FieldsView::Wide(_) => Ok(Content::Packed(bytes.into())),
        }
    }
}

fn fixed_u32(reader: &mut Reader<'_>, what: &'static str) -> Result<u32, DecodeError> {
    let bytes = reader.take(4, what)?;
    Ok(u32::from_le_bytes(bytes.try_into().expect("take returned four bytes")))
}
