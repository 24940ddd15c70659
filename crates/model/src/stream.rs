//! The stream that a snapshot of a state machine is: tagged items one behind the other, cut into chunks at any byte.
//!
//! ```text
//! chunk   format u8 | machine u8 | number varint, from 0 | bytes of the stream
//! item    tag u8 | length u32 | version u8 | content                              the length counts version and content
//! ```
//!
//! Numbers are little-endian. The last item has the tag 0 and no content. So whoever reads a stream knows when it is whole, in
//! which order its chunks belong, and needs no more memory than its largest item takes. What the items mean is each
//! machine's own business.

use std::borrow::Cow;

use thiserror::Error;

use crate::codec::{DecodeError, Reader, put_varint};
use crate::ids::GroupKind;
use crate::limits::{SNAPSHOT_CHUNK_BYTES_MAX, SNAPSHOT_ITEM_BYTES_MAX};

/// 1 was a chunk of records without a number, 2 the same of coordination.
const STREAM_FORMAT: u8 = 3;

/// The tag of the last item.
const TAG_END: u8 = 0;

/// Tag and length.
pub const ITEM_HEAD_BYTES: usize = 5;

/// Why a snapshot is not taken in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SnapshotError {
    #[error("the snapshot cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
    #[error(
        "the snapshot has form {found}, this version reads form {STREAM_FORMAT}: it was written by another version"
    )]
    OtherFormat { found: u8 },
    #[error("the snapshot is of machine {found}, machine {expected} belongs here")]
    OtherMachine { found: u8, expected: u8 },
    #[error("chunk {found} of the snapshot came where chunk {expected} belongs")]
    OutOfOrder { found: u64, expected: u64 },
    #[error("an item of the snapshot claims {bytes} bytes, the limit is {SNAPSHOT_ITEM_BYTES_MAX}")]
    ItemTooLarge { bytes: u64 },
    #[error("the snapshot has section {tag} in version {version}, which is not known here: upgrade this node")]
    UnknownSection { tag: u8, version: u8 },
    #[error("the snapshot ends inside an item")]
    EndsInside,
    #[error("the snapshot ends too early: its last item is missing")]
    WithoutEnd,
    #[error("the snapshot goes on behind its last item")]
    BehindEnd,
    #[error("the snapshot contradicts itself: {0}")]
    Contradiction(&'static str),
}

fn machine_tag(machine: GroupKind) -> u8 {
    match machine {
        GroupKind::Records => 1,
        GroupKind::Coordination => 2,
        GroupKind::Meta => 3,
    }
}

/// Appends an item whose content `write` writes.
pub fn put_item(out: &mut Vec<u8>, tag: u8, version: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.push(tag);
    out.extend_from_slice(&[0; ITEM_HEAD_BYTES - 1]);
    out.push(version);
    write(out);
    let length = item_length(out.len() - begin - ITEM_HEAD_BYTES);
    out[begin + 1..begin + ITEM_HEAD_BYTES].copy_from_slice(&length);
}

/// Begins an item whose content of so many bytes is given piece by piece.
pub fn open_item(out: &mut Vec<u8>, tag: u8, version: u8, content_bytes: usize) {
    out.push(tag);
    out.extend_from_slice(&item_length(1 + content_bytes));
    out.push(version);
}

fn item_length(bytes: usize) -> [u8; 4] {
    assert!(bytes <= SNAPSHOT_ITEM_BYTES_MAX, "an item of {bytes} bytes cannot have come through the log");
    (bytes as u32).to_le_bytes()
}

/// Ends a stream.
pub fn put_end(out: &mut Vec<u8>) {
    out.push(TAG_END);
    out.extend_from_slice(&[0; ITEM_HEAD_BYTES - 1]);
}

/// Numbers the chunks of one stream, and cuts what is too long for one.
#[derive(Debug)]
pub struct Chunks {
    machine: u8,
    next: u64,
    /// What did not fit the last chunk, of which so much has been given.
    rest: Vec<u8>,
    given: usize,
}

impl Chunks {
    #[must_use]
    pub fn new(machine: GroupKind) -> Self {
        Self { machine: machine_tag(machine), next: 0, rest: Vec::new(), given: 0 }
    }

    /// Opens the next chunk, with room for about so many bytes of the stream.
    #[must_use]
    pub fn open(&self, room: usize) -> Vec<u8> {
        // A format, a machine and a varint.
        let mut chunk = Vec::with_capacity(12 + room);
        chunk.extend_from_slice(&[STREAM_FORMAT, self.machine]);
        put_varint(&mut chunk, self.next);
        chunk
    }

    /// Ends the chunk that was opened last. What is too much for it comes with the next ones.
    #[must_use]
    pub fn close(&mut self, mut chunk: Vec<u8>) -> Vec<u8> {
        self.next += 1;
        if chunk.len() > SNAPSHOT_CHUNK_BYTES_MAX {
            assert!(self.rest.is_empty(), "what is left over goes before anything new");
            self.rest = chunk.split_off(SNAPSHOT_CHUNK_BYTES_MAX);
        }
        chunk
    }

    /// The next chunk of what is left over.
    pub fn take_rest(&mut self) -> Option<Vec<u8>> {
        if self.rest.is_empty() {
            return None;
        }
        let mut chunk = self.open(SNAPSHOT_CHUNK_BYTES_MAX.min(self.rest.len() - self.given));
        let end = self.rest.len().min(self.given + SNAPSHOT_CHUNK_BYTES_MAX - chunk.len());
        chunk.extend_from_slice(&self.rest[self.given..end]);
        self.given = end;
        if end == self.rest.len() {
            (self.rest, self.given) = (Vec::new(), 0);
        }
        Some(self.close(chunk))
    }
}

/// Puts items together again from the chunks of one stream.
#[derive(Debug)]
pub struct Assembler {
    machine: u8,
    next: u64,
    has_ended: bool,
    /// The head of the item that goes on in the next chunk, as far as it has come, and what has come of the item.
    head: Vec<u8>,
    partial: Vec<u8>,
}

/// One item as it was put.
#[derive(Debug)]
pub struct Item<'a> {
    pub tag: u8,
    pub version: u8,
    /// Owned where it came in several chunks.
    pub content: Cow<'a, [u8]>,
}

impl Item<'_> {
    #[must_use]
    pub fn unknown(&self) -> SnapshotError {
        SnapshotError::UnknownSection { tag: self.tag, version: self.version }
    }
}

impl Assembler {
    #[must_use]
    pub fn new(machine: GroupKind) -> Self {
        Self { machine: machine_tag(machine), next: 0, has_ended: false, head: Vec::new(), partial: Vec::new() }
    }

    /// Takes the next chunk in; `take` gets every item that it completes. After an error there is nothing to go on with.
    pub fn push(
        &mut self,
        chunk: &[u8],
        mut take: impl FnMut(Item<'_>) -> Result<(), SnapshotError>,
    ) -> Result<(), SnapshotError> {
        let mut bytes = self.open(chunk)?;
        while !bytes.is_empty() {
            if self.has_ended {
                return Err(SnapshotError::BehindEnd);
            }
            let Some((tag, length)) = self.take_head(&mut bytes)? else { return Ok(()) };
            if tag == TAG_END {
                self.end(length)?;
                continue;
            }
            if self.partial.is_empty() && bytes.len() >= length {
                let (whole, behind) = bytes.split_at(length);
                bytes = behind;
                self.head.clear();
                take(item(tag, Cow::Borrowed(whole))?)?;
                continue;
            }
            let (part, behind) = bytes.split_at(bytes.len().min(length - self.partial.len()));
            self.partial.extend_from_slice(part);
            bytes = behind;
            if self.partial.len() == length {
                self.head.clear();
                take(item(tag, Cow::Owned(std::mem::take(&mut self.partial)))?)?;
            }
        }
        Ok(())
    }

    /// Whether the last item has come.
    pub fn finish(self) -> Result<(), SnapshotError> {
        match (self.head.is_empty(), self.has_ended) {
            (false, _) => Err(SnapshotError::EndsInside),
            (true, false) => Err(SnapshotError::WithoutEnd),
            (true, true) => Ok(()),
        }
    }

    /// Checks that it is this chunk's turn.
    fn open<'a>(&mut self, chunk: &'a [u8]) -> Result<&'a [u8], SnapshotError> {
        let mut reader = Reader::new(chunk);
        let format = reader.u8("chunk format")?;
        if format != STREAM_FORMAT {
            return Err(SnapshotError::OtherFormat { found: format });
        }
        let machine = reader.u8("machine of a chunk")?;
        if machine != self.machine {
            return Err(SnapshotError::OtherMachine { found: machine, expected: self.machine });
        }
        let number = reader.varint("number of a chunk")?;
        if number != self.next {
            return Err(SnapshotError::OutOfOrder { found: number, expected: self.next });
        }
        self.next += 1;
        Ok(reader.rest())
    }

    /// Tag and length of the item that goes on, once they have come. The head is kept until the item is whole.
    fn take_head(&mut self, bytes: &mut &[u8]) -> Result<Option<(u8, usize)>, SnapshotError> {
        let missing = bytes.len().min(ITEM_HEAD_BYTES - self.head.len());
        let (part, behind) = bytes.split_at(missing);
        self.head.extend_from_slice(part);
        *bytes = behind;
        let Ok(head) = <[u8; ITEM_HEAD_BYTES]>::try_from(self.head.as_slice()) else { return Ok(None) };
        let [tag, length @ ..] = head;
        let length = u32::from_le_bytes(length);
        if length as usize > SNAPSHOT_ITEM_BYTES_MAX {
            return Err(SnapshotError::ItemTooLarge { bytes: u64::from(length) });
        }
        Ok(Some((tag, length as usize)))
    }

    fn end(&mut self, length: usize) -> Result<(), SnapshotError> {
        if length != 0 {
            return Err(SnapshotError::Contradiction("its last item has a content"));
        }
        self.head.clear();
        self.has_ended = true;
        Ok(())
    }
}

fn item(tag: u8, mut bytes: Cow<'_, [u8]>) -> Result<Item<'_>, SnapshotError> {
    let Some(&version) = bytes.first() else { return Err(SnapshotError::Contradiction("an item without a version")) };
    match &mut bytes {
        Cow::Borrowed(bytes) => *bytes = &bytes[1..],
        Cow::Owned(bytes) => drop(bytes.drain(..1)),
    }
    Ok(Item { tag, version, content: bytes })
}

#[cfg(test)]
mod tests;
