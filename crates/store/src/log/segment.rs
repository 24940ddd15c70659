//! The head of a segment: whose it is, which turn it has, and where every group stood when it began. Bytes to values and back.
//!
//! ```text
//! magic "shardlog" | version u32 | groups u32 | tombstones u32 | cluster u128 | node u64
//! sequence u64 | nonce u64 | first frame number u64
//! then per group: shard u32 | replica u64 | term u64 | vote u64 | commit u64 | first u64 | next u64
//! then per tombstone: shard u32 | replica u64
//! then: crc u32 of everything before
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Buf;
use shardine_model::ids::{NodeId, ReplicaId, ShardId};

use super::group::Group;
use super::groups::Groups;
use super::record;
use crate::identity::Owner;

pub(super) const ENDING: &str = ".seg";
/// 1 did not know replicas.
pub(super) const VERSION: u32 = 2;

const MAGIC: [u8; 8] = *b"shardlog";
const VERSION_END: usize = MAGIC.len() + 4;
const FIXED_BYTES: usize = VERSION_END + 4 + 4 + 16 + 8 + 3 * 8;
const GROUP_BYTES: usize = 4 + 6 * 8;
const TOMBSTONE_BYTES: usize = 4 + 8;
const CRC_BYTES: usize = 4;

/// The head of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) owner: Owner,
    pub(super) sequence: u64,
    pub(super) nonce: u64,
    pub(super) first_number: u64,
    pub(super) groups: Groups,
}

/// Why a head cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Damaged,
    Older { version: u32 },
    Newer { version: u32 },
}

impl Head {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes());
        bytes.extend_from_slice(&MAGIC);
        for number in [VERSION, count(self.groups.live.len()), count(self.groups.removed.len())] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.owner.cluster.to_le_bytes());
        put(&mut bytes, [self.owner.node.0, self.sequence, self.nonce, self.first_number]);
        for (shard, group) in &self.groups.live {
            let hard_state = group.hard_state;
            bytes.extend_from_slice(&shard.0.to_le_bytes());
            put(&mut bytes, [group.replica.0, hard_state.term, hard_state.vote.0, hard_state.commit]);
            put(&mut bytes, [group.first, group.next]);
        }
        for (shard, replica) in &self.groups.removed {
            bytes.extend_from_slice(&shard.0.to_le_bytes());
            put(&mut bytes, [replica.0]);
        }
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The length of the encoded head.
    pub(super) fn bytes(&self) -> usize {
        crc_at(self.groups.live.len(), self.groups.removed.len()) + CRC_BYTES
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let mut fixed = bytes.get(..VERSION_END).ok_or(Fault::Damaged)?;
        if !fixed.starts_with(&MAGIC) {
            return Err(Fault::Damaged);
        }
        fixed.advance(MAGIC.len());
        // The version comes before the checksum: another form may have its checksum elsewhere.
        match fixed.get_u32_le() {
            0 => return Err(Fault::Damaged),
            version if version < VERSION => return Err(Fault::Older { version }),
            version if version > VERSION => return Err(Fault::Newer { version }),
            _ => {}
        }
        let mut fixed = bytes.get(VERSION_END..FIXED_BYTES).ok_or(Fault::Damaged)?;
        let (live, removed) = (fixed.get_u32_le() as usize, fixed.get_u32_le() as usize);
        let crc_at = crc_at(live, removed);
        let crc = bytes.get(crc_at..crc_at + CRC_BYTES).ok_or(Fault::Damaged)?;
        if crc != crc32fast::hash(&bytes[..crc_at]).to_le_bytes() {
            return Err(Fault::Damaged);
        }
        Ok(Self {
            owner: Owner { cluster: fixed.get_u128_le(), node: NodeId(fixed.get_u64_le()) },
            sequence: fixed.get_u64_le(),
            nonce: fixed.get_u64_le(),
            first_number: fixed.get_u64_le(),
            groups: decode_groups(&bytes[FIXED_BYTES..crc_at], live).ok_or(Fault::Damaged)?,
        })
    }
}

fn decode_groups(bytes: &[u8], live: usize) -> Option<Groups> {
    let (mut groups, mut tombstones) = bytes.split_at_checked(live * GROUP_BYTES)?;
    let mut live = BTreeMap::new();
    while groups.has_remaining() {
        let shard = ShardId(groups.try_get_u32_le().ok()?);
        let group = Group {
            replica: ReplicaId(groups.try_get_u64_le().ok()?),
            hard_state: record::decode_hard_state(&mut groups)?,
            first: groups.try_get_u64_le().ok()?,
            next: groups.try_get_u64_le().ok()?,
        };
        live.insert(shard, group);
    }
    let mut removed = BTreeMap::new();
    while tombstones.has_remaining() {
        let shard = ShardId(tombstones.try_get_u32_le().ok()?);
        removed.insert(shard, ReplicaId(tombstones.try_get_u64_le().ok()?));
    }
    Some(Groups { live, removed })
}

fn crc_at(live: usize, removed: usize) -> usize {
    FIXED_BYTES + live * GROUP_BYTES + removed * TOMBSTONE_BYTES
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("shards are numbered by a u32")
}

fn put<const N: usize>(bytes: &mut Vec<u8>, numbers: [u64; N]) {
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
}

pub(super) fn path(dir: &Path, sequence: u64) -> PathBuf {
    dir.join(format!("{sequence:016}{ENDING}"))
}

#[cfg(test)]
mod tests {
    use shardine_model::log::HardState;

    use super::*;

    fn sample() -> Head {
        let hard_state = HardState { term: 3, vote: ReplicaId(12), commit: 9 };
        let group = Group { replica: ReplicaId(12), hard_state, first: 5, next: 11 };
        Head {
            owner: Owner { cluster: 0x0123_4567_89ab_cdef_0011_2233_4455_6677, node: NodeId(4) },
            sequence: 2,
            nonce: 0x1122_3344_5566_7788,
            first_number: 40,
            groups: Groups {
                live: BTreeMap::from([(ShardId(7), group)]),
                removed: BTreeMap::from([(ShardId(8), ReplicaId(13))]),
            },
        }
    }

    #[test]
    fn a_head_has_these_bytes_for_ever() {
        let hex: String = sample().encode().iter().map(|byte| format!("{byte:02x}")).collect();

        assert_eq!(
            hex,
            concat!(
                "73686172646c6f67",                                 // magic
                "020000000100000001000000",                         // version, one group, one tombstone
                "7766554433221100efcdab8967452301",                 // cluster
                "0400000000000000",                                 // node
                "0200000000000000",                                 // sequence
                "8877665544332211",                                 // nonce
                "2800000000000000",                                 // first frame number
                "070000000c00000000000000",                         // shard 7, replica 12
                "03000000000000000c000000000000000900000000000000", // hard state
                "05000000000000000b00000000000000",                 // first 5, next 11
                "080000000d00000000000000",                         // shard 8: replica 13 was removed
                "d064f71e",                                         // crc
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
    fn another_version_is_told_from_damage() {
        let mut bytes = sample().encode();

        bytes[8] = 3;
        assert_eq!(Head::decode(&bytes), Err(Fault::Newer { version: 3 }));
        bytes[8] = 1;
        assert_eq!(Head::decode(&bytes), Err(Fault::Older { version: 1 }));
        bytes[8] = 0;
        assert_eq!(Head::decode(&bytes), Err(Fault::Damaged));
    }

    #[test]
    fn a_claimed_number_of_groups_or_tombstones_is_not_believed() {
        for at in [12, 16] {
            let mut bytes = sample().encode();
            bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());

            assert_eq!(Head::decode(&bytes), Err(Fault::Damaged));
        }
    }
}
