//! The bytes of a snapshot file. Reads from anything that can be read; trusts no length it finds.
//!
//! ```text
//! header   magic "shardsnp" | version u32 | length of the rest u32
//!          cluster u128 | shard u32 | kind u8 | origin u8 | replica u64 | index u64 | term u64 | conf index u64
//!          membership, as in docs/encoding.md | crc u32 of the header so far
//! chunk    length u32 | crc u32 of the bytes | bytes                                        any number of them
//! footer   0xffffffff | chunks u64 | bytes in them u64 | crc u32 of the header, the chunks' crcs, and the two counts
//! ```
//!
//! Numbers are little-endian. Nothing follows the footer. Kinds: 1 records, 2 coordination, 3 meta. Origins: 1 cut here, 2 from
//! a peer.

use std::io::{self, Read};
use std::path::Path;

use bytes::Buf;
use crc32fast::Hasher;
use shardine_model::codec::Reader;
use shardine_model::ids::{GroupKind, ReplicaId, ShardId};
use shardine_model::limits::MEMBERS_MAX;
use shardine_model::log::{Membership, SnapshotMeta};

use crate::error::Error;

/// One chunk. What is read is held in memory before it is checked, so there is an end to it.
pub const CHUNK_BYTES_MAX: usize = 64 << 20;

const MAGIC: [u8; 8] = *b"shardsnp";
/// 1 did not know clusters and replicas.
const VERSION: u32 = 2;
const END: u32 = u32::MAX;

const CRC_BYTES: usize = 4;
/// What stands before the membership.
const FIXED_BYTES: usize = 16 + 4 + 1 + 1 + 4 * 8;
/// A membership has four lists, whose members take at most ten bytes each.
const REST_BYTES_MAX: usize = FIXED_BYTES + 4 * (2 + MEMBERS_MAX * 10) + 1 + CRC_BYTES;

/// How a snapshot came to be here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Cut by this replica, from what its log had brought it to: the log reaches at least as far.
    Cut,
    /// Sent by a peer: the log may be far behind.
    Peer,
}

/// What a snapshot says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub cluster: u128,
    pub shard: ShardId,
    /// The replica that holds it, which is not the one that sent it.
    pub replica: ReplicaId,
    pub origin: Origin,
    pub meta: SnapshotMeta,
}

/// Why a snapshot cannot be read.
pub(super) enum Fault {
    Io(io::Error),
    Damaged(String),
    Older(u32),
    Newer(u32),
}

impl Fault {
    /// Says in which file.
    pub(super) fn at(self, path: &Path) -> Error {
        let file = path.to_path_buf();
        match self {
            Self::Io(cause) => Error::io("read", path)(cause),
            Self::Damaged(reason) => Error::SnapshotDamaged { file, reason },
            Self::Older(found) => Error::OlderFormat { file, found, known: VERSION },
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

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut rest = Vec::with_capacity(FIXED_BYTES + 64);
        rest.extend_from_slice(&self.cluster.to_le_bytes());
        rest.extend_from_slice(&self.shard.0.to_le_bytes());
        rest.push(kind_byte(self.shard));
        rest.push(match self.origin {
            Origin::Cut => 1,
            Origin::Peer => 2,
        });
        for number in [self.replica.0, self.meta.index, self.meta.term, self.meta.conf_index] {
            rest.extend_from_slice(&number.to_le_bytes());
        }
        self.meta.membership.encode(&mut rest);
        let rest_bytes = rest.len() + CRC_BYTES;
        assert!(rest_bytes <= REST_BYTES_MAX, "a group has few members");
        let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes(), &(rest_bytes as u32).to_le_bytes(), &rest].concat();
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// What stands between the head and the checksum.
    fn decode(mut fixed: &[u8]) -> Option<Self> {
        let cluster = fixed.try_get_u128_le().ok()?;
        let shard = ShardId(fixed.try_get_u32_le().ok()?);
        if fixed.try_get_u8().ok()? != kind_byte(shard) {
            return None;
        }
        let origin = match fixed.try_get_u8().ok()? {
            1 => Origin::Cut,
            2 => Origin::Peer,
            _ => return None,
        };
        let replica = ReplicaId(fixed.try_get_u64_le().ok()?);
        let (index, term) = (fixed.try_get_u64_le().ok()?, fixed.try_get_u64_le().ok()?);
        let conf_index = fixed.try_get_u64_le().ok()?;
        let mut reader = Reader::new(fixed);
        let membership = Membership::decode(&mut reader).ok()?;
        reader.finish("membership").ok()?;
        Some(Self { cluster, shard, replica, origin, meta: SnapshotMeta { index, term, membership, conf_index } })
    }
}

/// What kind of machine the snapshot is of. Its shard's number tells, too; both must.
fn kind_byte(shard: ShardId) -> u8 {
    match shard.kind() {
        GroupKind::Records => 1,
        GroupKind::Coordination => 2,
        GroupKind::Meta => 3,
    }
}

/// What the end of the file must say about the rest of it. Kept by writer and reader alike.
#[derive(Debug)]
pub(super) struct Footer {
    hasher: Hasher,
    chunks: u64,
    bytes: u64,
}

impl Footer {
    /// The header goes in without its checksum: with it, every header would leave the same trace.
    pub(super) fn after(header: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&header[..header.len() - CRC_BYTES]);
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
    pub(super) fn begin(mut reader: R) -> Result<(Self, Header), Fault> {
        let head = take::<16>(&mut reader)?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if head[..8] != MAGIC {
            return Err(Fault::damaged("it does not begin like a snapshot"));
        }
        // The version comes before the checksum: another form may have its checksum elsewhere.
        match number(8) {
            0 => return Err(Fault::damaged("it has no version")),
            version if version < VERSION => return Err(Fault::Older(version)),
            version if version > VERSION => return Err(Fault::Newer(version)),
            _ => {}
        }
        let rest_bytes = number(12) as usize;
        if !(FIXED_BYTES + CRC_BYTES..=REST_BYTES_MAX).contains(&rest_bytes) {
            return Err(Fault::Damaged(format!("its header claims {rest_bytes} bytes")));
        }
        let mut bytes = head.to_vec();
        bytes.resize(head.len() + rest_bytes, 0);
        reader.read_exact(&mut bytes[head.len()..])?;
        let (covered, crc) = bytes.split_at(bytes.len() - CRC_BYTES);
        if crc != crc32fast::hash(covered).to_le_bytes() {
            return Err(Fault::damaged("its header does not match its checksum"));
        }
        let header = Header::decode(&covered[head.len()..]);
        let header = header.ok_or_else(|| Fault::damaged("its header has an unknown form"))?;
        Ok((Self { footer: Footer::after(&bytes), reader, done: false }, header))
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

fn take<const N: usize>(reader: &mut impl Read) -> Result<[u8; N], Fault> {
    let mut array = [0; N];
    reader.read_exact(&mut array)?;
    Ok(array)
}
