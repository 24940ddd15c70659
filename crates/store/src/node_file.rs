//! What a node keeps besides its groups, in small files that are replaced as a whole: what it remembers of its peers, and its
//! map. Does not know what they say.
//!
//! ```text
//! magic, 8 bytes | version u32 | cluster u128 | length u32 | content | crc u32 of everything before it
//! ```
//!
//! Numbers are little-endian. After a crash there is the file before the change or the one after it, whole.

use std::path::Path;

use bytes::Buf;

use crate::error::Error;

const VERSION: u32 = 1;
/// What stands before the content.
const HEAD_BYTES: usize = 8 + 4 + 16 + 4;
/// A map of a million shards is some hundred megabytes; what is longer was not written by a node.
const CONTENT_BYTES_MAX: usize = 1 << 30;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFile {
    /// The newest life that the node has seen of each of its peers. It is on disk before a peer hears that it was let in, so
    /// that an old or a second copy of a peer's directory is told from the peer also after a restart.
    Peers,
    /// The node's map of the cluster: with it a node starts without asking anybody.
    Map,
    /// The map as it was when the node came: who founded the groups that it founded with others. Written once.
    First,
    /// Why the directory is of no use any more: it was turned away as an old or a second copy. Each start counts, so that a copy
    /// which went on trying would pass for the newest one day.
    Refused,
    /// The libraries of functions of a node that is alone.
    Libraries,
}

impl NodeFile {
    pub const ALL: [Self; 5] = [Self::Peers, Self::Map, Self::First, Self::Refused, Self::Libraries];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Peers => "PEERS",
            Self::Map => "MAP",
            Self::First => "FIRST",
            Self::Refused => "REFUSED",
            Self::Libraries => "LIBRARIES",
        }
    }

    fn magic(self) -> [u8; 8] {
        match self {
            Self::Peers => *b"shardprs",
            Self::Map => *b"shardmap",
            Self::First => *b"shardfst",
            Self::Refused => *b"shardref",
            Self::Libraries => *b"shardlib",
        }
    }

    /// What is lost with the file, for whoever has to decide about a damaged one.
    fn loss(self) -> &'static str {
        match self {
            Self::Peers => "without it the node lets every peer in once, also an old copy of one",
            Self::Map => "without it the node waits until another one has sent it the map",
            Self::Refused => "without it an old copy of a directory may be let in again",
            Self::Libraries => "without it the node has no functions until they are loaded again",
            Self::First => "without it the node does not know who founded its groups, and cannot read their logs",
        }
    }

    pub(crate) fn encode(self, cluster: u128, content: &[u8]) -> Result<Vec<u8>, Error> {
        if content.len() > CONTENT_BYTES_MAX {
            return Err(Error::FileTooLarge { name: self.name(), bytes: content.len(), bytes_max: CONTENT_BYTES_MAX });
        }
        let mut bytes = self.magic().to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(cluster.to_le_bytes());
        bytes.extend((content.len() as u32).to_le_bytes());
        bytes.extend(content);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        Ok(bytes)
    }

    pub(crate) fn decode(self, cluster: u128, bytes: &[u8], path: &Path) -> Result<Vec<u8>, Error> {
        let file = || path.to_path_buf();
        let damaged = |reason| Error::FileDamaged { file: file(), reason, loss: self.loss() };
        let Some((mut head, rest)) = bytes.split_at_checked(HEAD_BYTES) else {
            return Err(damaged("it ends too early"));
        };
        if !head.starts_with(&self.magic()) {
            return Err(damaged("it does not begin as it should"));
        }
        head.advance(self.magic().len());
        let (found, owner, length) = (head.get_u32_le(), head.get_u128_le(), head.get_u32_le() as usize);
        if found > VERSION {
            return Err(Error::NewerFormat { file: file(), found, known: VERSION });
        }
        let Some((content, crc)) = rest.split_last_chunk().filter(|(content, _)| content.len() == length) else {
            return Err(damaged("it has not the length that it tells"));
        };
        if found != VERSION || crc32fast::hash(&bytes[..HEAD_BYTES + length]) != u32::from_le_bytes(*crc) {
            return Err(damaged("it does not match its checksum"));
        }
        if owner != cluster {
            return Err(Error::AnotherCluster { path: file(), found: owner, expected: cluster });
        }
        Ok(content.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: u128 = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;

    fn decode(file: NodeFile, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        file.decode(CLUSTER, bytes, Path::new(file.name()))
    }

    #[test]
    fn files_of_a_node_have_these_bytes_for_ever() {
        let hex = |file: NodeFile| -> String {
            file.encode(CLUSTER, b"lili").unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
        };

        let rest = "0100000077665544332211 00efcdab8967452301 04000000 6c696c69".replace(' ', "");
        assert_eq!(hex(NodeFile::Peers), format!("7368617264707273{rest}1615f0ed"));
        assert_eq!(hex(NodeFile::Map), format!("73686172646d6170{rest}6de78cd0"));
        assert!(hex(NodeFile::Libraries).starts_with(&format!("73686172646c6962{rest}")));
        assert!(hex(NodeFile::Refused).starts_with(&format!("7368617264726566{rest}")));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for file in NodeFile::ALL {
            for content in [&b""[..], b"lili", &[7; 100_000]] {
                assert_eq!(decode(file, &file.encode(CLUSTER, content).unwrap()).unwrap(), content);
            }
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        let whole = NodeFile::Peers.encode(CLUSTER, b"lili").unwrap();

        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(NodeFile::Peers, &bytes).is_err(), "bit {bit}");
        }
        for length in 0..whole.len() {
            assert!(decode(NodeFile::Peers, &whole[..length]).is_err(), "{length} bytes");
        }
        assert!(decode(NodeFile::Map, &whole).is_err(), "one is not taken for the other");
    }

    #[test]
    fn another_clusters_file_is_refused_by_name() {
        let foreign = NodeFile::Map.encode(1, b"lili").unwrap();

        let error = decode(NodeFile::Map, &foreign).unwrap_err();

        assert!(matches!(error, Error::AnotherCluster { found: 1, .. }), "{error}");
    }
}
