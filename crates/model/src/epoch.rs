//! Which state of the map a request or a descriptor speaks of.

use crate::codec::{DecodeError, Reader, put_varint};

/// What has become of a shard. Each number only grows; descriptors that overlap are ordered by them, the first first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch {
    /// Of the keyspace's scheme; resharding makes the next one.
    pub generation: u64,
    /// Grows with every split, merge and fence.
    pub range: u64,
    /// Grows with every change of members.
    pub conf: u64,
}

impl Epoch {
    /// What a request must agree on with the shard that executes it. Members may change under it.
    #[must_use]
    pub fn owner(self) -> (u64, u64) {
        (self.generation, self.range)
    }

    pub fn encode(self, out: &mut Vec<u8>) {
        for number in [self.generation, self.range, self.conf] {
            put_varint(out, number);
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            generation: reader.varint("generation")?,
            range: reader.varint("range version")?,
            conf: reader.varint("conf version")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_has_these_bytes_for_ever() {
        let epoch = Epoch { generation: 1, range: 300, conf: 2 };
        let mut bytes = Vec::new();
        epoch.encode(&mut bytes);

        assert_eq!(bytes, [1, 0xac, 2, 2]);
        assert_eq!(Epoch::decode(&mut Reader::new(&bytes)), Ok(epoch));
    }

    #[test]
    fn a_later_generation_wins_whatever_has_been_split() {
        let (old, new) = (Epoch { generation: 1, range: 9, conf: 9 }, Epoch { generation: 2, range: 1, conf: 1 });

        assert!(old < new);
        assert_ne!(old.owner(), new.owner());
    }
}
