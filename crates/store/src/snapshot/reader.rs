//! Snapshots that are being read.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use shardine_model::ids::{ReplicaId, ShardId};
use shardine_model::log::SnapshotMeta;

use super::SnapshotId;
use super::format::{Fault, Header, Parser};
use crate::disk::{Cache, DiskFile};
use crate::error::Error;
use crate::files::Files;

/// What is read at once: more than a chunk's head, less than a chunk.
const BUFFER_BYTES: usize = 64 << 10;

/// A snapshot that is being read. Its content may be used only after the last chunk was followed by `None`: only then is the
/// file known to be whole. It stays readable when a newer one takes its place.
pub struct SnapshotReader {
    path: PathBuf,
    header: Header,
    parser: Parser<BufReader<FromFile>>,
    bytes: u64,
}

impl SnapshotReader {
    /// Opens a file and checks that it is what its name says.
    pub(super) fn open(
        files: &Files,
        path: PathBuf,
        cluster: u128,
        shard: ShardId,
        place: SnapshotId,
    ) -> Result<Self, Error> {
        let file = files.open(&path, Cache::Through)?;
        let bytes = file.size().map_err(Error::io("look at", &path))?;
        let reader = BufReader::with_capacity(BUFFER_BYTES, FromFile { file, offset: 0 });
        let (parser, header) = Parser::begin(reader).map_err(|fault| fault.at(&path))?;
        if header.cluster != cluster {
            return Err(Error::AnotherCluster { path, found: header.cluster, expected: cluster });
        }
        let found = SnapshotId { replica: header.replica, index: header.meta.index };
        if (header.shard, found) != (shard, place) {
            let says = |shard: ShardId, place: SnapshotId| {
                format!("shard {shard}, replica {}, entry {}", place.replica, place.index)
            };
            let (found, named) = (says(header.shard, found), says(shard, place));
            return Err(Fault::Damaged(format!("it holds {found}, its name says {named}")).at(&path));
        }
        Ok(Self { path, header, parser, bytes })
    }

    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    #[must_use]
    pub fn meta(&self) -> &SnapshotMeta {
        &self.header.meta
    }

    #[must_use]
    pub fn replica(&self) -> ReplicaId {
        self.header.replica
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The length of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next chunk, checked. `None` after the last one, when the whole file was found in order.
    pub fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        self.parser.next_chunk().map_err(|fault| fault.at(&self.path))
    }
}

/// Reads a whole snapshot file from memory. For fuzzing: whatever the bytes are, the answer is a snapshot or an error.
pub fn decode_all(bytes: &[u8]) -> Result<(Header, Vec<Vec<u8>>), Error> {
    let path = Path::new("(memory)");
    let (mut parser, header) = Parser::begin(bytes).map_err(|fault| fault.at(path))?;
    let mut chunks = Vec::new();
    while let Some(chunk) = parser.next_chunk().map_err(|fault| fault.at(path))? {
        chunks.push(chunk);
    }
    Ok((header, chunks))
}

/// Reads a file from its beginning to its end.
struct FromFile {
    file: Box<dyn DiskFile>,
    offset: u64,
}

impl Read for FromFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(bytes, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
