//! Epochs: by which map a request found its shard, and by which definitions its text was read.
//!
//! A request carries them into the log, and they are checked when it is applied: only there is it certain what the shard
//! owns and which tables it knows.

use std::fmt;

use crate::codec::{DecodeError, Reader, put_varint};
use crate::ids::identity;

identity!(
    /// Of a keyspace's scheme: which key lives where. Resharding adds the next one beside it. From 1.
    Generation, u64
);
identity!(
    /// Grows with every change of what a shard owns. From 1.
    RangeVersion, u64
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

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.generation.0);
        put_varint(out, self.range.0);
        put_varint(out, self.catalogue.0);
    }

    #[inline]
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            generation: Generation(reader.varint("generation")?),
            range: RangeVersion(reader.varint("range version")?),
            catalogue: CatalogueVersion(reader.varint("catalogue version")?),
        })
    }
}
