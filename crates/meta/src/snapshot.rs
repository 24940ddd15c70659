//! Snapshots of the map. It is small, so a cut writes all of it at once, and only hands it out piece by piece. The stream is
//! that of `shardine_model::stream`; what the map consists of stands in it in the words that nodes are told it in.

use std::collections::BTreeMap;

use shardine_model::checksum::{Sum, Summing};
use shardine_model::codec::{Reader, put_varint};
use shardine_model::stream::{Assembler, Chunks, Item, SnapshotError, put_end, put_item};
use shardine_model::{GroupKind, ReplicaId, ShardId};

use crate::change::{Change, Delta};
use crate::codec::fixed_u128;
use crate::limits::NUMBER_MAX;
use crate::state::{Last, Meta};

/// The items of the stream. Frozen: a section that changes gets a new version, a new one a new number.
mod tag {
    /// Cluster, version, and the last numbers given. Comes first.
    pub const HEAD: u8 = 1;
    /// Some of what the map consists of.
    pub const CHANGES: u8 = 2;
}

/// The version of every section, so far.
const VERSION: u8 = 1;

/// Bytes after which an item ends.
const ITEM_BYTES: usize = 64 << 10;

/// A cut that is being handed out.
#[derive(Debug)]
pub(crate) struct Cut {
    chunks: Chunks,
    first: Option<Vec<u8>>,
}

impl Meta {
    /// Fixes the present state as a snapshot. Its chunks come from [`Meta::next_chunk`].
    pub fn begin_cut(&mut self) {
        assert!(self.cut.is_none(), "one cut at a time");
        self.cut = Some(self.new_cut());
    }

    /// The next chunk of the cut, or nothing when it is over.
    pub fn next_chunk(&mut self) -> Option<Vec<u8>> {
        let chunk = self.cut.as_mut()?.next_chunk();
        if chunk.is_none() {
            self.cut = None;
        }
        chunk
    }

    /// Gives up a cut; the next one begins anew.
    pub fn abandon_cut(&mut self) {
        self.cut = None;
    }

    /// For the chunks of a cut.
    #[must_use]
    pub fn summing() -> Box<dyn Summing> {
        Box::new(MetaSum { stream: Assembler::new(GroupKind::Meta), sum: Sum::default() })
    }

    fn new_cut(&self) -> Cut {
        let chunks = Chunks::new(GroupKind::Meta);
        let items = self.to_items();
        let mut first = chunks.open(items.len());
        first.extend_from_slice(&items);
        Cut { chunks, first: Some(first) }
    }

    /// The state as a stream that is not yet cut.
    pub(crate) fn to_items(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_item(&mut out, tag::HEAD, VERSION, |out| self.put_head(out));
        let mut content = Vec::new();
        // The head has all numbers that were given.
        let is_content = |change: &Change| !matches!(change, Change::Given(..));
        for change in self.map.whole().changes.into_iter().filter(is_content) {
            change.encode(&mut content);
            if content.len() > ITEM_BYTES {
                put_changes(&mut out, &mut content);
            }
        }
        put_changes(&mut out, &mut content);
        put_end(&mut out);
        out
    }

    fn put_head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.map.cluster.to_le_bytes());
        for number in [self.map.version, self.last.node, self.last.operation, self.last.replicas.len() as u64] {
            put_varint(out, number);
        }
        for (shard, last) in &self.last.replicas {
            put_varint(out, u64::from(shard.0));
            put_varint(out, *last);
        }
    }

    /// Makes a state that has begun empty into what all chunks of a snapshot say.
    pub fn restored(self, chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Self, SnapshotError> {
        let mut stream = Assembler::new(GroupKind::Meta);
        let (mut head, mut changes) = (None, Vec::new());
        for chunk in chunks {
            stream.push(chunk.as_ref(), |item| take(&item, &mut head, &mut changes))?;
        }
        stream.finish()?;
        let (mut meta, Head { cluster, version, last }) =
            (self, head.ok_or(SnapshotError::Contradiction("its head is missing"))?);
        if cluster != 0 {
            let whole = Delta { cluster, from: 0, to: version, changes };
            meta.map.take(&whole).map_err(|_| SnapshotError::Contradiction("what is in it is no map"))?;
        }
        meta.map.given = last.replicas.iter().map(|(shard, last)| (*shard, ReplicaId(*last))).collect();
        meta.last = last;
        Ok(meta)
    }
}

/// The sum of a state, from the stream of a cut, whose items are the same on every replica.
#[derive(Debug)]
struct MetaSum {
    stream: Assembler,
    sum: Sum,
}

impl Summing for MetaSum {
    fn push(&mut self, chunk: &[u8]) -> Result<(), SnapshotError> {
        let Self { stream, sum } = self;
        stream.push(chunk, |item| {
            sum.add(&[&[item.tag], &*item.content].concat());
            Ok(())
        })
    }

    fn finish(self: Box<Self>) -> Result<Sum, SnapshotError> {
        self.stream.finish()?;
        Ok(self.sum)
    }
}

struct Head {
    cluster: u128,
    version: u64,
    last: Last,
}

fn put_changes(out: &mut Vec<u8>, content: &mut Vec<u8>) {
    if !content.is_empty() {
        put_item(out, tag::CHANGES, VERSION, |out| out.extend_from_slice(content));
        content.clear();
    }
}

fn take(item: &Item<'_>, head: &mut Option<Head>, changes: &mut Vec<Change>) -> Result<(), SnapshotError> {
    let mut reader = Reader::new(&item.content);
    match (item.tag, item.version) {
        (tag::HEAD, 1) if head.is_none() => *head = Some(read_head(&mut reader)?),
        (tag::CHANGES, 1) if head.is_some() => {
            while !reader.is_empty() {
                changes.push(Change::decode(&mut reader)?);
            }
        }
        (tag::HEAD | tag::CHANGES, 1) => {
            return Err(SnapshotError::Contradiction("its sections are in disorder"));
        }
        _ => return Err(item.unknown()),
    }
    Ok(reader.finish("item")?)
}

fn read_head(reader: &mut Reader<'_>) -> Result<Head, SnapshotError> {
    let (cluster, version) = (fixed_u128(reader, "cluster")?, reader.varint("version of the map")?);
    let (node, operation) = (reader.varint("last node")?, reader.varint("last operation")?);
    let count = reader.count("last replicas")?;
    let last = |_| Ok((ShardId(reader.varint_u32("shard")?), reader.varint("last replica")?));
    let replicas = (0..count).map(last).collect::<Result<BTreeMap<_, _>, SnapshotError>>()?;
    let last = Last { node, operation, replicas };
    let is_too_high = |number: u64| number > NUMBER_MAX;
    if [version, node, operation].into_iter().chain(last.replicas.values().copied()).any(is_too_high) {
        return Err(SnapshotError::Contradiction("a number that cannot have been given"));
    }
    Ok(Head { cluster, version, last })
}

impl Cut {
    fn next_chunk(&mut self) -> Option<Vec<u8>> {
        match self.first.take() {
            Some(first) => Some(self.chunks.close(first)),
            None => self.chunks.take_rest(),
        }
    }
}
