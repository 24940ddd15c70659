//! Snapshots of a shard, cut without stopping it.
//!
//! A cut fixes the state at one index. Segments are then written one by one over many turns; a segment that is about to
//! change before its turn is written first, and waits in memory until it is taken. So the pause of a cut is one segment at
//! the most; of a shard that is not written to meanwhile, memory holds no copy.

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_signed, put_varint};
use shardine_model::key::Interval;
use shardine_model::row::check_packed;
use shardine_model::{
    CatalogueVersion, Generation, Position, RangeVersion, ReplicaId, RowKey, Table, TableId, Timestamp, Version,
};

use crate::command::content_of;
use crate::index::Index;
use crate::record::Versions;
use crate::remembered::Remembered;
use crate::state::{Lease, Records};

const SNAPSHOT_FORMAT: u8 = 2;
const CHUNK_HEAD: u8 = 1;
const CHUNK_ROWS: u8 = 2;

/// Marks that may end a head.
const HEAD_SUSPENDED: u8 = 1;
const HEAD_LETTERS: u8 = 2;

/// A cut in progress.
#[derive(Debug)]
pub(crate) struct Cut {
    /// Until it is taken. It comes first, because rows are read by it.
    head: Option<Vec<u8>>,
    next_segment: usize,
    /// The size of the last segment written: the next one takes about as much.
    chunk_len: usize,
}

impl Cut {
    /// A little more than the last one, so that memory is asked for only once.
    fn expected_len(&self) -> usize {
        self.chunk_len + self.chunk_len / 8
    }
}

/// What the next step of a cut gave.
#[derive(Debug, PartialEq, Eq)]
pub enum CutStep {
    Chunk(Vec<u8>),
    /// Everything has been given; the cut is over.
    Done,
}

impl Records {
    /// Fixes the present state as a snapshot. Its chunks come from [`Records::cut_step`].
    pub fn begin_cut(&mut self) {
        assert!(self.cut.is_none(), "one cut at a time");
        let mut head = vec![SNAPSHOT_FORMAT, CHUNK_HEAD];
        self.encode_head(&mut head);
        self.cuts += 1;
        self.cut = Some(Cut { head: Some(head), next_segment: 0, chunk_len: 0 });
    }

    #[must_use]
    pub fn is_cutting(&self) -> bool {
        self.cut.is_some()
    }

    /// Gives up a cut; the next one begins anew.
    pub fn abandon_cut(&mut self) {
        self.cut = None;
        self.ahead.clear();
    }

    /// Lets go a little of what the last cut needed. To be called now and then: all at once would take long.
    pub fn let_memory_go(&mut self) {
        if self.cut.is_none() {
            self.ahead.shrink();
        }
    }

    /// The next chunk of the cut. Takes about as long as one segment takes to write.
    pub fn cut_step(&mut self) -> CutStep {
        let cut = self.cut.as_mut().expect("only called during a cut");
        if let Some(chunk) = cut.head.take().or_else(|| self.ahead.pop()) {
            return CutStep::Chunk(chunk);
        }
        let mut segment = cut.next_segment;
        while segment < self.index.segment_count() && self.index.saved_for(segment) == self.cuts {
            segment += 1;
        }
        if segment == self.index.segment_count() {
            self.cut = None;
            return CutStep::Done;
        }
        // Splits may move later segments up, never an unsaved one below this place.
        cut.next_segment = segment;
        let mut chunk = Vec::with_capacity(cut.expected_len());
        encode_segment(&self.index, segment, &mut chunk);
        cut.chunk_len = chunk.len();
        self.index.mark_saved(segment, self.cuts);
        CutStep::Chunk(chunk)
    }

    /// Called before any change: a segment that the running cut has not written yet is written as it was.
    #[inline]
    pub(crate) fn save_before_change(&mut self, segment: usize) {
        if self.cut.is_some() && self.index.saved_for(segment) != self.cuts {
            self.save_ahead(segment);
        }
    }

    fn save_ahead(&mut self, segment: usize) {
        let cut = self.cut.as_mut().expect("only called during a cut");
        cut.chunk_len = self.ahead.push(cut.expected_len(), |out| encode_segment(&self.index, segment, out));
        self.index.mark_saved(segment, self.cuts);
    }

    pub(crate) fn encode_head(&self, out: &mut Vec<u8>) {
        put_varint(out, self.clock.0);
        match self.lease {
            None => out.push(0),
            Some(lease) => {
                out.push(1);
                put_varint(out, lease.holder.0);
                put_varint(out, lease.term);
                put_varint(out, lease.length_ms);
            }
        }
        put_bytes(out, &self.interval.lo.to_bytes());
        put_bytes(out, self.interval.hi.map(Position::to_bytes).as_ref().map_or(&[], |hi| hi.as_slice()));
        put_varint(out, self.generation.0);
        put_varint(out, self.range_version.0);
        put_varint(out, self.floors.len() as u64);
        for (table, floor) in &self.floors {
            put_varint(out, u64::from(table.0));
            put_varint(out, *floor);
        }
        put_varint(out, self.catalogue.definitions().count() as u64);
        self.catalogue.definitions().for_each(|table| table.encode(out));
        put_varint(out, self.catalogue.version().0);
        put_varint(out, self.catalogue.named_in().0);
        self.remembered.encode(out);
        // Said only where it holds: every other head is what it was before there was such a thing.
        if self.suspended {
            out.push(HEAD_SUSPENDED);
        }
        if !self.letters.is_empty() {
            out.push(HEAD_LETTERS);
            self.encode_letters(out);
        }
    }

    fn decode_head(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.clock = Timestamp(reader.varint("clock")?);
        self.lease = match reader.u8("lease mark")? {
            0 => None,
            _ => Some(Lease {
                holder: ReplicaId(reader.varint("lease holder")?),
                term: reader.varint("lease term")?,
                length_ms: reader.varint("lease length")?,
            }),
        };
        let lo = read_position(reader)?.unwrap_or_default();
        self.interval = Interval { lo, hi: read_position(reader)? };
        self.generation = Generation(reader.varint("generation")?);
        self.range_version = RangeVersion(reader.varint("range version")?);
        for _ in 0..reader.count("floor count")? {
            let table = table_id(reader)?;
            self.floors.insert(table, reader.varint("floor")?);
        }
        for _ in 0..reader.count("table count")? {
            self.put_table(CatalogueVersion::FIRST, Table::decode(reader)?);
        }
        let version = CatalogueVersion(reader.varint("catalogue version")?);
        let named_in = CatalogueVersion(reader.varint("catalogue version")?);
        self.catalogue = std::mem::take(&mut self.catalogue).versioned(version, named_in);
        self.remembered = Remembered::decode(reader)?;
        while !reader.is_empty() {
            match reader.u8("head mark")? {
                HEAD_SUSPENDED => self.suspended = true,
                HEAD_LETTERS => self.decode_letters(reader)?,
                mark => return Err(DecodeError::Unknown { what: "head mark", value: u64::from(mark) }),
            }
        }
        Ok(())
    }

    /// Takes in one chunk of a snapshot; the state must have begun empty ([`Records::new`]), so that a key absent from
    /// the snapshot is absent after it (records 70). The head comes first.
    pub fn restore_chunk(&mut self, chunk: &[u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(chunk);
        let format = reader.u8("chunk format")?;
        if format != SNAPSHOT_FORMAT {
            return Err(DecodeError::Unknown { what: "chunk format", value: u64::from(format) });
        }
        match reader.u8("chunk kind")? {
            CHUNK_HEAD => {
                self.decode_head(&mut reader)?;
                reader.finish("head chunk")
            }
            CHUNK_ROWS => {
                while !reader.is_empty() {
                    self.restore_row(&mut reader)?;
                }
                Ok(())
            }
            kind => Err(DecodeError::Unknown { what: "chunk kind", value: u64::from(kind) }),
        }
    }

    fn restore_row(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let table = table_id(reader)?;
        let key = reader.bytes("key")?;
        let sort = reader.bytes("sort key")?;
        let version = Version(reader.signed("version")?);
        let sql_version = Version(reader.signed("sql version")?);
        let expires_at = Some(Timestamp(reader.varint("expiry")?)).filter(|at| at.0 != 0);
        let packed = reader.bytes("fields")?;
        check_packed(packed)?;
        let row = RowKey { table, key, sort };
        let definition = self.catalogue.get(table);
        if definition.is_some_and(|definition| definition.has_sort() == sort.is_empty()) {
            return Err(DecodeError::Unknown { what: "sort key of a row", value: sort.len() as u64 });
        }
        let dynamic = definition.is_some_and(|definition| definition.dynamic);
        let versions = Versions { version, sql_version, expires_at };
        self.put_row(row.position(), row, Some(content_of(row, versions, packed, dynamic)));
        Ok(())
    }
}

fn table_id(reader: &mut Reader<'_>) -> Result<TableId, DecodeError> {
    let table = reader.varint("table id")?;
    u32::try_from(table).map(TableId).map_err(|_| DecodeError::Unknown { what: "table id", value: table })
}

fn encode_segment(index: &Index, segment: usize, out: &mut Vec<u8>) {
    out.extend([SNAPSHOT_FORMAT, CHUNK_ROWS]);
    let mut packed = Vec::new();
    for slot in index.slots(segment) {
        let (table, key) = slot.address();
        crate::state::walk_slot(table, key, slot, |row, view| {
            put_varint(out, u64::from(row.table.0));
            put_bytes(out, row.key);
            put_bytes(out, row.sort);
            put_signed(out, view.version.0);
            put_signed(out, view.sql_version.0);
            put_varint(out, view.expires_at.map_or(0, |at| at.0));
            packed.clear();
            view.fields.pack(&mut packed);
            put_bytes(out, &packed);
        });
    }
}

/// A bound of the shard's interval; no bytes mean that there is none.
fn read_position(reader: &mut Reader<'_>) -> Result<Option<Position>, DecodeError> {
    match reader.bytes("interval bound")? {
        [] => Ok(None),
        bytes => match <[u8; 8]>::try_from(bytes) {
            Ok(bytes) => Ok(Some(Position(u64::from_be_bytes(bytes)))),
            Err(_) => Err(DecodeError::Unknown { what: "interval bound", value: bytes.len() as u64 }),
        },
    }
}
