//! The bytes of a snapshot file. Reads from anything that can be read; trusts no length it finds.
//!
//! ```text
//! header   magic "shardsnp" | version u32 | shard u32 | index u64 | term u64
//!          voters u32, each u64 | learners u32, each u64 | crc u32 of the header so far
//! chunk    length u32 | crc u32 of the bytes | bytes                                        any number of them
//! footer   0xffffffff | chunks u64 | bytes in them u64 | crc u32 of the header, the chunks' crcs, and the two counts
//! ```
//!
//! Numbers are little-endian. Nothing follows the footer.

use std::io::{self, Read};
use std::path::Path;

use crc32fast::Hasher;
use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::{Membership, SnapshotMeta};

use crate::error::Error;

/// One chunk. What is read is held in memory before it is checked, so there is an end to it.
pub const CHUNK_BYTES_MAX: usize = 64 << 20;

const MAGIC: [u8; 8] = *b"shardsnp";
const VERSION: u32 = 1;
const END: u32 = u32::MAX;

/// Members of one group. Raft groups have three to seven; this only keeps a damaged count from costing memory.
const MEMBERS_MAX: u32 = 1_000;

/// Why a snapshot cannot be read.
pub(super) enum Fault {
    Io(io::Error),
    Damaged(String),
    Newer(u32),
}

impl Fault {
    /// Says in which file.
    pub(super) fn at(self, path: &Path) -> Error {
        let file = path.to_path_buf();
        match self {
            Self::Io(cause) => Error::io("read", path)(cause),
            Self::Damaged(reason) => Error::SnapshotDamaged { file, reason },
            Self::Newer(found) => Error::NewerFormat { file, found, known: VERSION },
        }
    }

    fn damaged(reason: &str) -> Self {
        Self::Damaged(reason.to_owned())
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::damaged("it ends too early"),
            _ => Self::Io(error),
        }
    }
}

pub(super) fn encode_header(shard: ShardId, meta: &SnapshotMeta) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&shard.0.to_le_bytes());
    bytes.extend_from_slice(&meta.index.to_le_bytes());
    bytes.extend_from_slice(&meta.term.to_le_bytes());
    for members in [&meta.membership.voters, &meta.membership.learners] {
        let count = u32::try_from(members.len()).unwrap_or(u32::MAX);
        assert!(count <= MEMBERS_MAX, "a group has few members");
        bytes.extend_from_slice(&count.to_le_bytes());
        for member in members {
            bytes.extend_from_slice(&member.0.to_le_bytes());
        }
    }
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// What the end of the file must say about the rest of it. Kept by writer and reader alike.
pub(super) struct Footer {
    hasher: Hasher,
    chunks: u64,
    bytes: u64,
}

impl Footer {
    pub(super) fn after(header: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(header);
        Self { hasher, chunks: 0, bytes: 0 }
    }

    /// Counts a chunk and returns what stands before its bytes.
    pub(super) fn note(&mut self, chunk: &[u8]) -> [u8; 8] {
        let len = u32::try_from(chunk.len()).expect("bounded by CHUNK_BYTES_MAX");
        let crc = crc32fast::hash(chunk).to_le_bytes();
        self.hasher.update(&crc);
        self.chunks += 1;
        self.bytes += u64::from(len);
        let mut head = [0; 8];
        head[..4].copy_from_slice(&len.to_le_bytes());
        head[4..].copy_from_slice(&crc);
        head
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&END.to_le_bytes());
        bytes.extend_from_slice(&self.chunks.to_le_bytes());
        bytes.extend_from_slice(&self.bytes.to_le_bytes());
        let mut hasher = self.hasher.clone();
        hasher.update(&bytes[4..]);
        bytes.extend_from_slice(&hasher.finalize().to_le_bytes());
        bytes
    }
}

/// Walks through a snapshot. After a fault it must not be asked again.
pub(super) struct Parser<R> {
    reader: R,
    footer: Footer,
    done: bool,
}

impl<R: Read> Parser<R> {
    /// Reads the header.
    pub(super) fn begin(reader: R) -> Result<(Self, ShardId, SnapshotMeta), Fault> {
        let mut header = HeaderReader { reader, seen: Vec::new() };
        if header.take::<8>()? != MAGIC {
            return Err(Fault::damaged("it does not begin like a snapshot"));
        }
        let version = header.u32()?;
        if version > VERSION {
            return Err(Fault::Newer(version));
        }
        let shard = ShardId(header.u32()?);
        let meta = SnapshotMeta {
            index: header.u64()?,
            term: header.u64()?,
            membership: Membership { voters: header.members()?, learners: header.members()?, ..Membership::default() },
            conf_index: 0,
        };
        let expected = crc32fast::hash(&header.seen);
        if version == 0 || header.u32()? != expected {
            return Err(Fault::damaged("its header does not match its checksum"));
        }
        let parser = Self { footer: Footer::after(&header.seen), reader: header.reader, done: false };
        Ok((parser, shard, meta))
    }

    pub(super) fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        if self.done {
            return Ok(None);
        }
        let len = take::<4>(&mut self.reader).map(u32::from_le_bytes)?;
        if len == END {
            self.finish()?;
            return Ok(None);
        }
        let number = self.footer.chunks + 1;
        let len = len as usize;
        if len > CHUNK_BYTES_MAX {
            return Err(Fault::Damaged(format!("chunk {number} claims {len} bytes")));
        }
        let crc = take::<4>(&mut self.reader)?;
        // Grows with what is really there, not with what is claimed.
        let mut chunk = Vec::new();
        (&mut self.reader).take(len as u64).read_to_end(&mut chunk)?;
        if chunk.len() < len {
            return Err(Fault::damaged("it ends too early"));
        }
        if self.footer.note(&chunk)[4..] != crc {
            return Err(Fault::Damaged(format!("chunk {number} does not match its checksum")));
        }
        Ok(Some(chunk))
    }

    fn finish(&mut self) -> Result<(), Fault> {
        let footer = take::<20>(&mut self.reader)?;
        if footer != self.footer.encode()[4..] {
            return Err(Fault::damaged("its end does not match its content"));
        }
        if self.reader.read(&mut [0])? != 0 {
            return Err(Fault::damaged("something follows its end"));
        }
        self.done = true;
        Ok(())
    }
}

/// Reads a header and remembers it for the checksum.
struct HeaderReader<R> {
    reader: R,
    seen: Vec<u8>,
}

impl<R: Read> HeaderReader<R> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let array = take::<N>(&mut self.reader)?;
        self.seen.extend_from_slice(&array);
        Ok(array)
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Fault> {
        self.take().map(u64::from_le_bytes)
    }

    fn members(&mut self) -> Result<Vec<ReplicaId>, Fault> {
        let count = self.u32()?;
        if count > MEMBERS_MAX {
            return Err(Fault::Damaged(format!("its header claims {count} members")));
        }
        (0..count).map(|_| self.u64().map(ReplicaId)).collect()
    }
}

fn take<const N: usize>(reader: &mut impl Read) -> Result<[u8; N], Fault> {
    let mut array = [0; N];
    reader.read_exact(&mut array)?;
    Ok(array)
}
