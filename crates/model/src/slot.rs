//! Slots of Redis Cluster: the first fourteen bits of a position, so that its clients find a record's shard by themselves.

use crc::{CRC_16_XMODEM, Crc, Table};

use crate::key::{Position, partition_key};

/// One of 16,384 parts of the space of positions (redis-cluster A-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u16);

impl Slot {
    pub const COUNT: u32 = 1 << Self::BITS;
    pub(crate) const BITS: u32 = 14;
    pub(crate) const SHIFT: u32 = u64::BITS - Self::BITS;

    /// The slot of a key of any table: its tag decides, or all of it.
    #[must_use]
    pub fn of_key(key: &[u8]) -> Self {
        Self::of_partition(partition_key(key))
    }

    #[inline]
    pub(crate) fn of_partition(partition_key: &[u8]) -> Self {
        Self(crc16(partition_key) & (Self::COUNT as u16 - 1))
    }

    /// Where the slot begins.
    #[must_use]
    pub fn start(self) -> Position {
        Position(u64::from(self.0) << Self::SHIFT)
    }
}

static XMODEM: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_16_XMODEM);

/// CRC16/XMODEM. It begins with 0 and is linear, so the bytes before the first whole block each count for themselves, by
/// their distance from its end: one lookup does not wait for the last, as it would byte by byte.
#[inline]
fn crc16(bytes: &[u8]) -> u16 {
    let (head, blocks) = bytes.split_at(bytes.len() % 16);
    let crc = head.iter().rev().zip(XMODEM.table()).fold(0, |crc, (&byte, table)| crc ^ table[usize::from(byte)]);
    if blocks.is_empty() {
        return crc;
    }
    let mut digest = XMODEM.digest_with_initial(crc);
    digest.update(blocks);
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// redis-cluster: what `CLUSTER KEYSLOT` of Redis 7 answers.
    #[test]
    fn redis_cluster_a_4_slots_are_those_of_redis() {
        let vectors: [(&[u8], u16); 21] = [
            (b"", 0),
            (b"foo", 12182),
            (b"{user1000}.following", 3443),
            (b"user1000", 3443),
            (b"a", 15495),
            (b"bar", 5061),
            (b"foo{}{bar}", 8363),
            (b"hello", 866),
            (b"123456789", 12739),
            (b"foo{{bar}}zap", 4015),
            (b"{}x", 10595),
            (b"{}", 15257),
            (b"foo{bar}{zap}", 5061),
            (b"a{b", 13340),
            (b"a}b{c}", 7365),
            (b"{a}}", 15495),
            (b"users:42", 9664),
            (b"users:{42}", 8000),
            (b"carts:42", 4199),
            (b"messages:{chat}@5", 14028),
            (b"\xff\xfe{\x00}z", 0),
        ];
        for (key, slot) in vectors {
            assert_eq!(Slot::of_key(key), Slot(slot), "{:?}", String::from_utf8_lossy(key));
        }
        assert_eq!(Slot::of_key(b"key:{06S}:1"), Slot(0));
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    proptest! {
        #[test]
        fn a_block_at_a_time_is_bit_by_bit(bytes in prop::collection::vec(any::<u8>(), 0..70)) {
            let slow = bytes.iter().fold(0u16, |crc, byte| {
                (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| crc << 1 ^ if crc >> 15 == 1 { 0x1021 } else { 0 })
            });

            prop_assert_eq!(crc16(&bytes), slow);
        }
    }
}
