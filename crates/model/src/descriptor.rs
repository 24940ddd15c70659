//! What everybody is told of a shard: which interval of routing order it holds, in which epoch, and who its replicas are.

use crate::bound::Bounds;
use crate::codec::{DecodeError, Reader, put_varint};
use crate::epoch::Epoch;
use crate::ids::{NodeId, ReplicaId, ShardId};
use crate::limits;

const DESCRIPTOR_FORMAT: u8 = 1;

/// Whether a shard executes requests. The numbers are frozen; those of fences and merges come when they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShardState {
    #[default]
    Serving,
    /// By an operator: no request is executed until it is taken back (records 67).
    Suspended,
}

impl ShardState {
    #[must_use]
    pub fn tag(self) -> u8 {
        match self {
            Self::Serving => 0,
            Self::Suspended => 1,
        }
    }

    pub fn from_tag(tag: u8) -> Result<Self, DecodeError> {
        match tag {
            0 => Ok(Self::Serving),
            1 => Ok(Self::Suspended),
            _ => Err(DecodeError::Unknown { what: "state of a shard", value: u64::from(tag) }),
        }
    }
}

/// A replica and the node that it lives on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub node: NodeId,
    pub replica: ReplicaId,
}

/// A shard as the map has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub shard: ShardId,
    pub epoch: Epoch,
    pub state: ShardState,
    pub bounds: Bounds,
    pub voters: Vec<Placement>,
    pub learners: Vec<Placement>,
}

impl Descriptor {
    /// Voters, then learners.
    pub fn members(&self) -> impl Iterator<Item = &Placement> {
        self.voters.iter().chain(&self.learners)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(DESCRIPTOR_FORMAT);
        put_varint(out, u64::from(self.shard.0));
        self.epoch.encode(out);
        out.push(self.state.tag());
        self.bounds.encode(out);
        for list in [&self.voters, &self.learners] {
            put_varint(out, list.len() as u64);
            for placement in list {
                put_varint(out, placement.node.0);
                put_varint(out, placement.replica.0);
            }
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let format = reader.u8("descriptor format")?;
        if format != DESCRIPTOR_FORMAT {
            return Err(DecodeError::Unknown { what: "descriptor format", value: u64::from(format) });
        }
        Ok(Self {
            shard: ShardId(reader.varint_u32("shard")?),
            epoch: Epoch::decode(reader)?,
            state: ShardState::from_tag(reader.u8("state of a shard")?)?,
            bounds: Bounds::decode(reader)?,
            voters: placements(reader)?,
            learners: placements(reader)?,
        })
    }
}

fn placements(reader: &mut Reader<'_>) -> Result<Vec<Placement>, DecodeError> {
    let count = reader.count("placements")?;
    if count > limits::MEMBERS_MAX {
        let limit = limits::MEMBERS_MAX as u64;
        return Err(DecodeError::TooLong { what: "placements", value: count as u64, limit });
    }
    let placement =
        |_| Ok(Placement { node: NodeId(reader.varint("node")?), replica: ReplicaId(reader.varint("replica")?) });
    (0..count).map(placement).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::Bound;
    use crate::epoch::{ConfVersion, Generation, RangeVersion};
    use crate::key::Position;

    fn upper_half() -> Descriptor {
        let at = |node, replica| Placement { node: NodeId(node), replica: ReplicaId(replica) };
        Descriptor {
            shard: ShardId(7),
            epoch: Epoch { generation: Generation(1), range: RangeVersion(2), conf: ConfVersion(3) },
            state: ShardState::Suspended,
            bounds: Bounds { lo: Bound::at(Position(1 << 63)), hi: None },
            voters: vec![at(1, 300), at(2, 8)],
            learners: vec![at(3, 9)],
        }
    }

    #[test]
    fn a_descriptor_has_these_bytes_for_ever() {
        let mut bytes = Vec::new();
        upper_half().encode(&mut bytes);

        let golden = [1, 7, 1, 2, 3, 1, 8, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0xac, 2, 2, 8, 1, 3, 9];
        assert_eq!(bytes, golden);
        assert_eq!(Descriptor::decode(&mut Reader::new(&bytes)), Ok(upper_half()));
    }

    #[test]
    fn a_descriptor_cut_anywhere_is_refused() {
        let mut bytes = Vec::new();
        upper_half().encode(&mut bytes);

        for len in 0..bytes.len() {
            assert!(Descriptor::decode(&mut Reader::new(&bytes[..len])).is_err(), "{len} bytes");
        }
    }
}
