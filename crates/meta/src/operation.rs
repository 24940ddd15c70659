//! What is under way for longer than one entry. An operation goes on where it stood, whoever leads meta or the group that it is
//! about: each of its steps is decided by an entry, and taken by whoever finds it in the map.

mod replace;

use std::fmt;

use shardine_model::codec::{DecodeError, Reader, put_varint};
use shardine_model::{ReplicaId, ShardId, Split};

pub use replace::{Replace, Stage, Todo};

use crate::codec::unknown;

/// Given once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId(pub u64);

impl fmt::Display for OperationId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The kinds of operations. The numbers are frozen; those of merges and drains come when they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Replace(Replace),
    /// The shard is parted. Its leader proposes that, and reports what came of it ([`crate::Command::SplitOver`]); there is no way
    /// back, for nobody else can know whether it has happened.
    Split(ShardId, Split),
}

const TAG_REPLACE: u8 = 1;
const TAG_SPLIT: u8 = 2;

impl Operation {
    /// The group that it is about; it has no other operation.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        match self {
            Self::Replace(replace) => replace.shard,
            Self::Split(shard, _) => *shard,
        }
    }

    /// As a change of members, if it is one.
    #[must_use]
    pub fn replace(&self) -> Option<&Replace> {
        match self {
            Self::Replace(replace) => Some(replace),
            Self::Split(..) => None,
        }
    }

    /// The numbers that were given for it, and of which group they are.
    pub(crate) fn given(&self) -> (ShardId, Vec<ReplicaId>) {
        match self {
            Self::Replace(replace) => (replace.shard, replace.new.iter().map(|new| new.replica).collect()),
            Self::Split(_, split) => (split.child, split.members.iter().map(|member| member.child).collect()),
        }
    }

    pub(crate) fn encode(&self, id: OperationId, out: &mut Vec<u8>) {
        put_varint(out, id.0);
        match self {
            Self::Replace(replace) => {
                out.push(TAG_REPLACE);
                replace.encode(out);
            }
            Self::Split(shard, split) => {
                out.push(TAG_SPLIT);
                put_varint(out, u64::from(shard.0));
                split.encode(out);
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<(OperationId, Self), DecodeError> {
        let id = OperationId(reader.varint("operation")?);
        match reader.u8("kind of operation")? {
            TAG_REPLACE => Ok((id, Self::Replace(Replace::decode(reader)?))),
            TAG_SPLIT => {
                let shard = ShardId(reader.varint_u32("shard")?);
                Ok((id, Self::Split(shard, Split::decode(reader)?)))
            }
            other => Err(unknown("kind of operation", u64::from(other))),
        }
    }
}
