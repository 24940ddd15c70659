//! Which state of the map a request or a descriptor speaks of, and by which definitions a request's text was read.
//!
//! A request carries its epoch into the log, and it is checked when it is applied: only there is it certain what the shard
//! owns and which tables it knows.

use std::fmt;

use crate::codec::{DecodeError, Reader, put_varint};
use crate::ids::identity;

identity!(
    /// Of a keyspace's scheme: which key lives where. Resharding makes the next one. From 1.
    Generation, u64
);
identity!(
    /// Grows with every split, merge and fence of a shard. From 1.
    RangeVersion, u64
);
identity!(
    /// Grows with every change of a shard's members. From 1.
    ConfVersion, u64
);
identity!(
    /// Grows with every change of any table's definition. From 1.
    CatalogueVersion, u64
);

impl Generation {
    pub const FIRST: Self = Self(1);
}

impl RangeVersion {
    pub const FIRST: Self = Self(1);
}

impl CatalogueVersion {
    pub const FIRST: Self = Self(1);
}

/// What has become of a shard. Each number only grows; descriptors that overlap are ordered by them, the first first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch {
    pub generation: Generation,
    pub range: RangeVersion,
    pub conf: ConfVersion,
}

impl Epoch {
    /// What a request must agree on with the shard that executes it. Members may change under it.
    #[must_use]
    pub fn owner(self) -> (Generation, RangeVersion) {
        (self.generation, self.range)
    }

    pub fn encode(self, out: &mut Vec<u8>) {
        for number in [self.generation.0, self.range.0, self.conf.0] {
            put_varint(out, number);
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            generation: Generation(reader.varint("generation")?),
            range: RangeVersion(reader.varint("range version")?),
            conf: ConfVersion(reader.varint("conf version")?),
        })
    }
}

/// What a request was routed and read by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestEpoch {
    pub generation: Generation,
    pub range: RangeVersion,
    pub catalogue: CatalogueVersion,
}

impl RequestEpoch {
    pub const FIRST: Self =
        Self { generation: Generation::FIRST, range: RangeVersion::FIRST, catalogue: CatalogueVersion::FIRST };

    /// What it must agree on with the shard that executes it, besides the definitions.
    #[must_use]
    pub fn owner(self) -> (Generation, RangeVersion) {
        (self.generation, self.range)
    }

    pub fn encode(self, out: &mut Vec<u8>) {
        for number in [self.generation.0, self.range.0, self.catalogue.0] {
            put_varint(out, number);
        }
    }

    #[inline]
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            generation: Generation(reader.varint("generation")?),
            range: RangeVersion(reader.varint("range version")?),
            catalogue: CatalogueVersion(reader.varint("catalogue version")?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(generation: u64, range: u64, conf: u64) -> Epoch {
        Epoch { generation: Generation(generation), range: RangeVersion(range), conf: ConfVersion(conf) }
    }

    #[test]
    fn an_epoch_has_these_bytes_for_ever() {
        let mut bytes = Vec::new();
        epoch(1, 300, 2).encode(&mut bytes);

        assert_eq!(bytes, [1, 0xac, 2, 2]);
        assert_eq!(Epoch::decode(&mut Reader::new(&bytes)), Ok(epoch(1, 300, 2)));
    }

    #[test]
    fn a_later_generation_wins_whatever_has_been_split() {
        let (old, new) = (epoch(1, 9, 9), epoch(2, 1, 1));

        assert!(old < new);
        assert_ne!(old.owner(), new.owner());
    }
}
