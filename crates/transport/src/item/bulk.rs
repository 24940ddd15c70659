//! What is too large to be said in one go: snapshots of groups, and the map as a whole. A transfer begins, comes in pieces in
//! order, and ends with a sum over all of it; the receiver says how far it has come, so that the sender sends no faster than the
//! other side writes, and at last that it has it.

use shardine_model::codec::{DecodeError, Reader, put_varint};
use shardine_model::{ReplicaId, ShardId};

use super::{flag, unknown};
use crate::limits::{MAP_BYTES_MAX, PIECE_BYTES_MAX};

/// Something large comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin<'a> {
    /// The sender's number for it, on this link.
    pub transfer: u64,
    /// No more than this comes in all pieces together.
    pub bytes: u64,
    pub subject: Subject<'a>,
}

/// What comes. The numbers are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    Snapshot {
        shard: ShardId,
        from: ReplicaId,
        to: ReplicaId,
        /// The message of `consensus` that the snapshot belongs to, without its data.
        message: &'a [u8],
    },
    Map {
        version: u64,
    },
}

impl<'a> Begin<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.transfer);
        put_varint(out, self.bytes);
        match self.subject {
            Subject::Snapshot { shard, from, to, message } => {
                out.push(1);
                for number in [u64::from(shard.0), from.0, to.0] {
                    put_varint(out, number);
                }
                out.extend_from_slice(message);
            }
            Subject::Map { version } => {
                out.push(2);
                put_varint(out, version);
            }
        }
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (transfer, bytes) = (reader.varint("transfer")?, reader.varint("bytes of a transfer")?);
        let subject = match reader.u8("subject of a transfer")? {
            1 => {
                let shard = ShardId(reader.varint_u32("shard")?);
                let (from, to) = (ReplicaId(reader.varint("replica")?), ReplicaId(reader.varint("replica")?));
                let message = reader.rest();
                *reader = Reader::new(&[]);
                Subject::Snapshot { shard, from, to, message }
            }
            2 if bytes > MAP_BYTES_MAX => {
                return Err(DecodeError::TooLong { what: "map", value: bytes, limit: MAP_BYTES_MAX });
            }
            2 => Subject::Map { version: reader.varint("version of the map")? },
            other => return Err(unknown("subject of a transfer", u64::from(other))),
        };
        Ok(Self { transfer, bytes, subject })
    }
}

/// The next bytes of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    pub transfer: u64,
    /// Where they belong, so that none is lost or comes twice unnoticed.
    pub offset: u64,
    /// At most [`PIECE_BYTES_MAX`].
    pub bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.transfer);
        put_varint(out, self.offset);
        out.extend_from_slice(self.bytes);
    }

    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (transfer, offset) = (reader.varint("transfer")?, reader.varint("offset of a piece")?);
        let bytes = reader.rest();
        *reader = Reader::new(&[]);
        if bytes.len() > PIECE_BYTES_MAX {
            let (value, limit) = (bytes.len() as u64, PIECE_BYTES_MAX as u64);
            return Err(DecodeError::TooLong { what: "piece", value, limit });
        }
        Ok(Self { transfer, offset, bytes })
    }
}

/// All pieces have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub transfer: u64,
    /// CRC-32 of all bytes.
    pub sum: u32,
}

impl End {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.transfer);
        out.extend_from_slice(&self.sum.to_le_bytes());
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let transfer = reader.varint("transfer")?;
        let sum = reader.take(4, "sum of a transfer")?.try_into().expect("take returned four bytes");
        Ok(Self { transfer, sum: u32::from_le_bytes(sum) })
    }
}

/// How far the receiver has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub transfer: u64,
    /// Bytes that it has written.
    pub bytes: u64,
    /// Whether all of it is on disk and in its place.
    pub is_whole: bool,
}

impl Taken {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.transfer);
        put_varint(out, self.bytes);
        out.push(u8::from(self.is_whole));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            transfer: reader.varint("transfer")?,
            bytes: reader.varint("bytes of a transfer")?,
            is_whole: flag(reader, "end of a transfer")?,
        })
    }
}

/// A transfer is over before its end. Either side may say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferRefused {
    pub transfer: u64,
    pub reason: TransferRefusal,
}

/// Why. The numbers are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferRefusal {
    /// Too many transfers at once; later.
    Busy,
    /// The disk has no room for it.
    NoRoom,
    /// Nobody waits for it any more: something newer has come.
    Stale,
    /// Pieces that do not fit together, or do not match their sum.
    Damaged,
    /// The replica is not here, or not the one that is meant.
    NotHere,
    /// The sender cannot go on.
    Aborted,
}

impl TransferRefusal {
    const ALL: [Self; 6] = [Self::Busy, Self::NoRoom, Self::Stale, Self::Damaged, Self::NotHere, Self::Aborted];

    fn tag(self) -> u8 {
        match self {
            Self::Busy => 1,
            Self::NoRoom => 2,
            Self::Stale => 3,
            Self::Damaged => 4,
            Self::NotHere => 5,
            Self::Aborted => 6,
        }
    }
}

impl TransferRefused {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.transfer);
        out.push(self.reason.tag());
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (transfer, tag) = (reader.varint("transfer")?, reader.u8("refusal of a transfer")?);
        let reason = TransferRefusal::ALL.into_iter().find(|reason| reason.tag() == tag);
        Ok(Self { transfer, reason: reason.ok_or(unknown("refusal of a transfer", u64::from(tag)))? })
    }
}
