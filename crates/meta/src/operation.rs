//! What is under way for longer than one entry. An operation goes on where it stood, whoever leads meta or the group that it is
//! about: each of its steps is decided by an entry, and taken by whoever finds it in the map.

mod replace;

use std::fmt;

use shardine_model::ShardId;
use shardine_model::codec::{DecodeError, Reader, put_varint};

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

/// The kinds of operations. The numbers are frozen; those of splits, merges and drains come when they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Replace(Replace),
}

const TAG_REPLACE: u8 = 1;

impl Operation {
    /// The group that it is about; it has no other operation.
    #[must_use]
    pub fn shard(&self) -> ShardId {
        match self {
            Self::Replace(replace) => replace.shard,
        }
    }

    pub(crate) fn encode(&self, id: OperationId, out: &mut Vec<u8>) {
        put_varint(out, id.0);
        match self {
            Self::Replace(replace) => {
                out.push(TAG_REPLACE);
                replace.encode(out);
            }
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<(OperationId, Self), DecodeError> {
        let id = OperationId(reader.varint("operation")?);
        match reader.u8("kind of operation")? {
            TAG_REPLACE => Ok((id, Self::Replace(Replace::decode(reader)?))),
            other => Err(unknown("kind of operation", u64::from(other))),
        }
    }
}
