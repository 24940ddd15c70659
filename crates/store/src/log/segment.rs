//! The head of a segment: whose turn it is, and where every group stood when it began. Bytes to values and back.
//!
//! ```text
//! magic "shardlog" | version u32 | groups u32 | sequence u64 | nonce u64 | first frame number u64
//! then per group: shard u32 | term u64 | vote u64 | commit u64 | first u64 | next u64
//! then: crc u32 of everything before
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Buf;
use shardine_model::ids::ShardId;

use super::group::Group;
use super::record;

pub(super) const ENDING: &str = ".seg";
pub(super) const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"shardlog";
const FIXED_BYTES: usize = 8 + 4 + 4 + 3 * 8;
const GROUP_BYTES: usize = 4 + 5 * 8;
const CRC_BYTES: usize = 4;

/// The head of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) sequence: u64,
    pub(super) nonce: u64,
    pub(super) first_number: u64,
    pub(super) groups: BTreeMap<ShardId, Group>,
}

/// Why a head cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Damaged,
    Newer { version: u32 },
}

impl Head {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes());
        let groups = u32::try_from(self.groups.len()).expect("shards are numbered by a u32");
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&groups.to_le_bytes());
        for number in [self.sequence, self.nonce, self.first_number] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for (shard, group) in &self.groups {
            let hard_state = group.hard_state;
            bytes.extend_from_slice(&shard.0.to_le_bytes());
            for number in [hard_state.term, hard_state.vote.0, hard_state.commit, group.first, group.next] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The length of the encoded head.
    pub(super) fn bytes(&self) -> usize {
        FIXED_BYTES + self.groups.len() * GROUP_BYTES + CRC_BYTES
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let mut fixed = bytes.get(..FIXED_BYTES).ok_or(Fault::Damaged)?;
        if !fixed.starts_with(&MAGIC) {
            return Err(Fault::Damaged);
        }
        fixed.advance(MAGIC.len());
        let version = fixed.get_u32_le();
        // The version comes before the checksum: a newer form may have its checksum elsewhere.
        if version > VERSION {
            return Err(Fault::Newer { version });
        }
        let count = fixed.get_u32_le() as usize;
        let crc_at = FIXED_BYTES + count * GROUP_BYTES;
        let crc = bytes.get(crc_at..crc_at + CRC_BYTES).ok_or(Fault::Damaged)?;
        if version == 0 || crc != crc32fast::hash(&bytes[..crc_at]).to_le_bytes() {
            return Err(Fault::Damaged);
        }
        Ok(Self {
            sequence: fixed.get_u64_le(),
            nonce: fixed.get_u64_le(),
            first_number: fixed.get_u64_le(),
            groups: decode_groups(&bytes[FIXED_BYTES..crc_at]).ok_or(Fault::Damaged)?,
        })
    }
}

fn decode_groups(mut bytes: &[u8]) -> Option<BTreeMap<ShardId, Group>> {
    let mut groups = BTreeMap::new();
    while bytes.has_remaining() {
        let shard = ShardId(bytes.try_get_u32_le().ok()?);
        let group = Group {
            hard_state: record::decode_hard_state(&mut bytes)?,
            first: bytes.try_get_u64_le().ok()?,
            next: bytes.try_get_u64_le().ok()?,
        };
        groups.insert(shard, group);
    }
    Some(groups)
}

pub(super) fn path(dir: &Path, sequence: u64) -> PathBuf {
    dir.join(format!("{sequence:016}{ENDING}"))
}

#[cfg(test)]
mod tests {
    use shardine_model::log::HardState;

    use super::*;

    fn sample() -> Head {
        let hard_state = HardState { term: 3, vote: shardine_model::ReplicaId(1), commit: 9 };
        let group = Group { hard_state, first: 5, next: 11 };
        Head {
            sequence: 2,
            nonce: 0x1122_3344_5566_7788,
            first_number: 40,
            groups: BTreeMap::from([(ShardId(7), group)]),
        }
    }

    #[test]
    fn a_head_has_these_bytes_for_ever() {
        let hex: String = sample().encode().iter().map(|byte| format!("{byte:02x}")).collect();

        assert_eq!(
            hex,
            concat!(
                "73686172646c6f67",                                 // magic
                "0100000001000000",                                 // version, one group
                "0200000000000000",                                 // sequence
                "8877665544332211",                                 // nonce
                "2800000000000000",                                 // first frame number
                "07000000",                                         // shard 7
                "030000000000000001000000000000000900000000000000", // hard state
                "05000000000000000b00000000000000",                 // first 5, next 11
                "cef2a55a",                                         // crc
            )
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        let head = sample();

        assert_eq!(head.encode().len(), head.bytes());
        assert_eq!(Head::decode(&head.encode()), Ok(head));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let good = sample().encode();

        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);

            assert!(Head::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let mut bytes = sample().encode();
        bytes[8] = 2;

        assert_eq!(Head::decode(&bytes), Err(Fault::Newer { version: 2 }));
    }

    #[test]
    fn a_claimed_number_of_groups_is_not_believed() {
        let mut bytes = sample().encode();
        bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());

        assert_eq!(Head::decode(&bytes), Err(Fault::Damaged));
    }
}
