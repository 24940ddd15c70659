//! What lanes tell each other: messages of Raft, requests that somebody else must execute, and their answers.

use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use shardine_model::{ErrorCode, NodeId, RequestEpoch, ShardId};

use super::{limited, unknown};
use crate::limits::REASON_BYTES_MAX;

/// A message of one replica of a group to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raft<'a> {
    pub shard: ShardId,
    /// As `consensus` writes it; up to the end of the item.
    pub message: &'a [u8],
}

pub(crate) fn put_shard(out: &mut Vec<u8>, shard: ShardId) {
    put_varint(out, u64::from(shard.0));
}

impl<'a> Raft<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_shard(out, self.shard);
        out.extend_from_slice(self.message);
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let shard = ShardId(reader.varint_u32("shard")?);
        Ok(Self { shard, message: the_rest(reader) })
    }
}

fn the_rest<'a>(reader: &mut Reader<'a>) -> &'a [u8] {
    let rest = reader.rest();
    *reader = Reader::new(&[]);
    rest
}

/// What is certain about a request without looking into it. Bits that have no meaning are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardFlags {
    /// It changes nothing, so that it may be asked again when the link breaks.
    pub is_read: bool,
    /// It has a number of its client's, so that it is executed once however often it is asked.
    pub is_numbered: bool,
}

impl ForwardFlags {
    fn bits(self) -> u8 {
        u8::from(self.is_read) | u8::from(self.is_numbered) << 1
    }

    fn of_bits(bits: u8) -> Result<Self, DecodeError> {
        let flags = Self { is_read: bits & 1 != 0, is_numbered: bits & 2 != 0 };
        if flags.bits() == bits { Ok(flags) } else { Err(unknown("flags of a forward", u64::from(bits))) }
    }
}

/// A request that the receiver is to execute, and not to pass on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward<'a> {
    /// The sender's number for it, under which the answer comes.
    pub id: u64,
    /// Requests of one stream are executed in their order: those of one connection and partition.
    pub stream: u64,
    /// Grows when the sender takes up a stream again after a refusal. Once one request is refused, the rest of its generation is.
    pub generation: u64,
    pub shard: ShardId,
    /// What it was routed and read by.
    pub epoch: RequestEpoch,
    pub flags: ForwardFlags,
    /// For how long an answer is of use to anybody; 0 if nobody has said.
    pub within_ms: u64,
    pub body: Body<'a>,
}

/// What is to be done. The numbers are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// A [`shardine_model::Request`].
    Request(&'a [u8]),
    /// A call of a door, as `router` writes it.
    Call(&'a [u8]),
}

impl<'a> Forward<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.id, self.stream, self.generation, u64::from(self.shard.0)] {
            put_varint(out, number);
        }
        self.epoch.encode(out);
        out.push(self.flags.bits());
        put_varint(out, self.within_ms);
        let (tag, bytes) = match self.body {
            Body::Request(bytes) => (1, bytes),
            Body::Call(bytes) => (2, bytes),
        };
        out.push(tag);
        out.extend_from_slice(bytes);
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            id: reader.varint("number of a forward")?,
            stream: reader.varint("stream of a forward")?,
            generation: reader.varint("generation of a stream")?,
            shard: ShardId(reader.varint_u32("shard")?),
            epoch: RequestEpoch::decode(reader)?,
            flags: ForwardFlags::of_bits(reader.u8("flags of a forward")?)?,
            within_ms: reader.varint("patience of a forward")?,
            body: match reader.u8("body of a forward")? {
                1 => Body::Request(the_rest(reader)),
                2 => Body::Call(the_rest(reader)),
                other => return Err(unknown("body of a forward", u64::from(other))),
            },
        })
    }
}

/// What has become of a forwarded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    pub id: u64,
    pub outcome: Outcome<'a>,
}

/// All but the first mean: certainly not executed. The numbers are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Executed, or decided upon: the response, as `router` writes it.
    Done(&'a [u8]),
    /// It belongs elsewhere.
    Moved {
        /// Who leads, as far as the sender knows; 0 if it does not.
        leader: NodeId,
        /// In which term, so that an old hint does not replace a newer one.
        term: u64,
        /// The shards that cover the key, one [`shardine_model::Descriptor`] behind the other; empty if the epoch was right.
        descriptors: &'a [u8],
    },
    Refused {
        code: ErrorCode,
        message: &'a str,
    },
    /// An earlier request of the same generation of its stream was refused.
    OldGeneration,
}

impl<'a> Answer<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.id);
        match self.outcome {
            Outcome::Done(response) => {
                out.push(1);
                out.extend_from_slice(response);
            }
            Outcome::Moved { leader, term, descriptors } => {
                out.push(2);
                put_varint(out, leader.0);
                put_varint(out, term);
                out.extend_from_slice(descriptors);
            }
            Outcome::Refused { code, message } => {
                out.extend([3, code as u8]);
                put_bytes(out, &message.as_bytes()[..message.floor_char_boundary(REASON_BYTES_MAX)]);
            }
            Outcome::OldGeneration => out.push(4),
        }
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let id = reader.varint("number of a forward")?;
        let outcome = match reader.u8("outcome of a forward")? {
            1 => Outcome::Done(the_rest(reader)),
            2 => Outcome::Moved {
                leader: NodeId(reader.varint("node")?),
                term: reader.varint("term")?,
                descriptors: the_rest(reader),
            },
            3 => {
                let number = reader.u8("error code")?;
                let code = ErrorCode::from_number(number).ok_or(unknown("error code", u64::from(number)))?;
                let message = limited(reader, "message of a refusal", REASON_BYTES_MAX)?;
                let what = "message of a refusal";
                Outcome::Refused { code, message: str::from_utf8(message).map_err(|_| DecodeError::NotText { what })? }
            }
            4 => Outcome::OldGeneration,
            other => return Err(unknown("outcome of a forward", u64::from(other))),
        };
        Ok(Self { id, outcome })
    }
}
