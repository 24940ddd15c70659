//! What a node remembers of the starts of every other one, so that a directory that was put back, or copied, is not let in: it
//! has forgotten votes and entries that it has confirmed.

use std::collections::BTreeMap;

use shardine_model::NodeId;
use shardine_model::codec::{DecodeError, Reader, put_varint};

use crate::hello::Who;
use crate::limits::SIGHTINGS_MAX;

const FORMAT: u8 = 1;

/// The newest start of a node that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    pub incarnation: u64,
    pub start: u64,
}

impl Sighting {
    #[must_use]
    pub fn of(who: &Who) -> Self {
        Self { incarnation: who.incarnation, start: who.start }
    }
}

/// What is to be thought of a node that shows itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recognition {
    /// The process that is known.
    Same,
    /// A newer start than any that is known. To be kept on disk before it is believed.
    Newer,
    /// A directory that was put back, or a second process with a copy of it. The start that is known is newer or another one.
    OldCopy { seen: Sighting },
}

/// The newest starts of all nodes that were ever seen. Invariant: a node's incarnation only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sightings {
    seen: BTreeMap<NodeId, Sighting>,
}

impl Sightings {
    #[must_use]
    pub fn get(&self, node: NodeId) -> Option<Sighting> {
        self.seen.get(&node).copied()
    }

    #[must_use]
    pub fn judge(&self, node: NodeId, shown: Sighting) -> Recognition {
        match self.get(node) {
            Some(seen) if shown == seen => Recognition::Same,
            Some(seen) if shown.incarnation <= seen.incarnation => Recognition::OldCopy { seen },
            Some(_) | None => Recognition::Newer,
        }
    }

    /// Remembers a start that is newer; returns whether there is something to be written.
    pub fn note(&mut self, node: NodeId, shown: Sighting) -> bool {
        let is_newer = self.judge(node, shown) == Recognition::Newer;
        if is_newer {
            self.seen.insert(node, shown);
        }
        is_newer
    }

    /// A node that was removed for good has its number for ever, but nobody asks after it any more.
    pub fn forget(&mut self, node: NodeId) {
        self.seen.remove(&node);
    }

    /// As it is stored: format, count, each node, and a sum over all of it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        put_varint(&mut out, self.seen.len() as u64);
        for (node, sighting) in &self.seen {
            put_varint(&mut out, node.0);
            put_varint(&mut out, sighting.incarnation);
            out.extend_from_slice(&sighting.start.to_le_bytes());
        }
        let sum = crc32fast::hash(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (content, sum) = bytes.split_last_chunk::<4>().ok_or(DecodeError::Truncated { what: "sightings" })?;
        let mut reader = Reader::new(content);
        match reader.u8("format of sightings")? {
            FORMAT => {}
            other => return Err(unknown("format of sightings", u64::from(other))),
        }
        if u32::from_le_bytes(*sum) != crc32fast::hash(content) {
            return Err(unknown("sum of sightings", u64::from(u32::from_le_bytes(*sum))));
        }
        let count = reader.count("sightings")?;
        if count > SIGHTINGS_MAX {
            let (value, limit) = (count as u64, SIGHTINGS_MAX as u64);
            return Err(DecodeError::TooLong { what: "sightings", value, limit });
        }
        let mut seen = BTreeMap::new();
        for _ in 0..count {
            let node = NodeId(reader.varint("node")?);
            let sighting =
                Sighting { incarnation: reader.varint("incarnation")?, start: reader.fixed_u64("start number")? };
            if seen.insert(node, sighting).is_some() {
                return Err(unknown("sighting of a node that was named already", node.0));
            }
        }
        reader.finish("sightings")?;
        Ok(Self { seen })
    }
}

fn unknown(what: &'static str, value: u64) -> DecodeError {
    DecodeError::Unknown { what, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LILI: NodeId = NodeId(7);

    fn start(incarnation: u64, start: u64) -> Sighting {
        Sighting { incarnation, start }
    }

    fn seen() -> Sightings {
        let mut sightings = Sightings::default();
        sightings.note(LILI, start(3, 0x0102));
        sightings.note(NodeId(300), start(1, 9));
        sightings
    }

    #[test]
    fn sightings_have_these_bytes_for_ever() {
        let bytes = seen().to_bytes();

        let golden = [1, 2, 7, 3, 2, 1, 0, 0, 0, 0, 0, 0, 0xac, 2, 1, 9, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(bytes[..bytes.len() - 4], golden);
        assert_eq!(bytes[bytes.len() - 4..], crc32fast::hash(&golden).to_le_bytes());
        assert_eq!(Sightings::decode(&bytes), Ok(seen()));
    }

    #[test]
    fn a_lower_incarnation_and_an_equal_one_with_another_number_are_copies() {
        let known = start(3, 0x0102);

        assert_eq!(seen().judge(LILI, start(3, 0x0102)), Recognition::Same);
        assert_eq!(seen().judge(LILI, start(4, 5)), Recognition::Newer);
        assert_eq!(seen().judge(LILI, start(2, 0x0102)), Recognition::OldCopy { seen: known });
        assert_eq!(seen().judge(LILI, start(3, 0x0103)), Recognition::OldCopy { seen: known });
        assert_eq!(seen().judge(NodeId(8), start(0, 0)), Recognition::Newer);
    }

    #[test]
    fn what_is_remembered_never_becomes_older() {
        let mut sightings = seen();

        assert!(!sightings.note(LILI, start(2, 1)));
        assert!(!sightings.note(LILI, start(3, 0x0102)));
        assert!(sightings.note(LILI, start(9, 1)));

        assert_eq!(sightings.get(LILI), Some(start(9, 1)));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let good = seen().to_bytes();

        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Sightings::decode(&bad).is_err(), "bit {bit}");
        }
        for len in 0..good.len() {
            assert!(Sightings::decode(&good[..len]).is_err(), "{len} bytes");
        }
    }
}
