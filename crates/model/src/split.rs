//! A shard that is parted in two: what the map has given for it, as it stands in the map's operation and in the entry that does it.

use crate::bound::{Bound, Bounds};
use crate::codec::{DecodeError, Reader, put_varint};
use crate::epoch::{ConfVersion, Epoch, RangeVersion};
use crate::ids::{NodeId, ReplicaId, ShardId};
use crate::limits;

/// Where the log of a shard begins that was parted off: this entry is taken for applied, and everything before it is in the state
/// that the replica was born with. Not 0, or a replica that has nothing could be given the log from its beginning.
pub const BIRTH_INDEX: u64 = 1;
pub const BIRTH_TERM: u64 = 1;

/// A split that was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The number of what is parted off: everything at and behind the bound.
    pub child: ShardId,
    pub at: Bound,
    /// Of the parent, when it was decided: where it is another one by now, nothing happens.
    pub epoch: Epoch,
    /// Every member of the parent.
    pub members: Vec<SplitMember>,
}

/// A replica of the parent, and the one of the child that is born beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitMember {
    pub node: NodeId,
    pub parent: ReplicaId,
    pub child: ReplicaId,
}

impl Split {
    /// The child's number for a replica of the parent.
    #[must_use]
    pub fn child_of(&self, parent: ReplicaId) -> Option<ReplicaId> {
        self.members.iter().find(|member| member.parent == parent).map(|member| member.child)
    }

    /// Where a replica of the child lives.
    #[must_use]
    pub fn node_of(&self, child: ReplicaId) -> Option<NodeId> {
        self.members.iter().find(|member| member.child == child).map(|member| member.node)
    }

    /// The epoch of both halves; the child's members are in their first version.
    #[must_use]
    pub fn epochs(&self) -> (Epoch, Epoch) {
        let range = RangeVersion(self.epoch.range.0 + 1);
        (Epoch { range, ..self.epoch }, Epoch { range, conf: ConfVersion(1), ..self.epoch })
    }

    /// The bounds of both halves.
    #[must_use]
    pub fn halves(&self, whole: &Bounds) -> (Bounds, Bounds) {
        let left = Bounds { lo: whole.lo.clone(), hi: Some(self.at.clone()) };
        (left, Bounds { lo: self.at.clone(), hi: whole.hi.clone() })
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.child.0));
        self.at.encode(out);
        self.epoch.encode(out);
        put_varint(out, self.members.len() as u64);
        for SplitMember { node, parent, child } in &self.members {
            [node.0, parent.0, child.0].into_iter().for_each(|number| put_varint(out, number));
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let child = ShardId(reader.varint_u32("shard")?);
        let (at, epoch) = (Bound::decode(reader)?, Epoch::decode(reader)?);
        let count = reader.count("members of a split")?;
        if count > limits::MEMBERS_MAX {
            let limit = limits::MEMBERS_MAX as u64;
            return Err(DecodeError::TooLong { what: "members of a split", value: count as u64, limit });
        }
        let member = |_| {
            Ok(SplitMember {
                node: NodeId(reader.varint("node")?),
                parent: ReplicaId(reader.varint("replica")?),
                child: ReplicaId(reader.varint("replica")?),
            })
        };
        Ok(Self { child, at, epoch, members: (0..count).map(member).collect::<Result<_, DecodeError>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::Generation;
    use crate::key::Position;

    fn split() -> Split {
        Split {
            child: ShardId(300),
            at: Bound::at(Position(1 << 63)),
            epoch: Epoch { generation: Generation(1), range: RangeVersion(2), conf: ConfVersion(3) },
            members: vec![SplitMember { node: NodeId(4), parent: ReplicaId(5), child: ReplicaId(1) }],
        }
    }

    #[test]
    fn a_split_has_these_bytes_for_ever() {
        let mut bytes = Vec::new();
        split().encode(&mut bytes);

        let golden = [0xac, 2, 8, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 1, 4, 5, 1];
        assert_eq!(bytes, golden);
        assert_eq!(Split::decode(&mut Reader::new(&bytes)), Ok(split()));
        for len in 0..bytes.len() {
            assert!(Split::decode(&mut Reader::new(&bytes[..len])).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn both_halves_are_newer_than_the_whole_and_cover_it() {
        let (parent, child) = split().epochs();
        let (left, right) = split().halves(&Bounds::default());

        assert!(parent > split().epoch && child.owner() == parent.owner());
        assert_eq!((left.hi.as_ref(), right.hi), (Some(&right.lo), None));
        assert_eq!(split().child_of(ReplicaId(5)), Some(ReplicaId(1)));
        assert_eq!(split().node_of(ReplicaId(1)), Some(NodeId(4)));
    }
}
