//! What is said on a link once both sides know each other. Items borrow from the bytes that they are read from.

mod append;
mod bulk;
mod control;

use shardine_model::codec::{DecodeError, Reader};

pub(crate) use append::put_shard;
pub use append::{Answer, Body, Forward, ForwardFlags, Outcome, Raft};
pub use bulk::{Begin, End, Piece, Subject, Taken, TransferRefusal, TransferRefused};
pub use control::{Goodbye, Heirs, Lead, LeaderNews, Leads, MapDelta, MapVersion, Pulse, Suspicion};

use crate::frame::Broken;
use crate::link::LinkKind;

/// A number is never used again.
const TAG_PULSE: u8 = 1;
const TAG_LEADER: u8 = 2;
const TAG_SUSPICION: u8 = 3;
const TAG_MAP_VERSION: u8 = 4;
const TAG_MAP_DELTA: u8 = 5;
const TAG_GOODBYE: u8 = 6;
pub(crate) const TAG_RAFT: u8 = 16;
pub(crate) const TAG_FORWARD: u8 = 17;
pub(crate) const TAG_ANSWER: u8 = 18;
const TAG_BEGIN: u8 = 32;
const TAG_PIECE: u8 = 33;
const TAG_END: u8 = 34;
const TAG_TRANSFER_REFUSED: u8 = 35;
const TAG_TAKEN: u8 = 36;

/// Tag and length.
const HEAD_BYTES: usize = 5;

/// One thing that a node tells another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    Pulse(Pulse<'a>),
    Leader(LeaderNews),
    Suspicion(Suspicion),
    MapVersion(MapVersion),
    MapDelta(MapDelta<'a>),
    /// On every link: nothing follows.
    Goodbye(Goodbye),
    /// On control links too, where votes go.
    Raft(Raft<'a>),
    Forward(Forward<'a>),
    Answer(Answer<'a>),
    Begin(Begin<'a>),
    Piece(Piece<'a>),
    End(End),
    TransferRefused(TransferRefused),
    Taken(Taken),
}

impl<'a> Item<'a> {
    pub(crate) fn tag(&self) -> u8 {
        match self {
            Self::Pulse(_) => TAG_PULSE,
            Self::Leader(_) => TAG_LEADER,
            Self::Suspicion(_) => TAG_SUSPICION,
            Self::MapVersion(_) => TAG_MAP_VERSION,
            Self::MapDelta(_) => TAG_MAP_DELTA,
            Self::Goodbye(_) => TAG_GOODBYE,
            Self::Raft(_) => TAG_RAFT,
            Self::Forward(_) => TAG_FORWARD,
            Self::Answer(_) => TAG_ANSWER,
            Self::Begin(_) => TAG_BEGIN,
            Self::Piece(_) => TAG_PIECE,
            Self::End(_) => TAG_END,
            Self::TransferRefused(_) => TAG_TRANSFER_REFUSED,
            Self::Taken(_) => TAG_TAKEN,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Pulse(pulse) => pulse.encode(out),
            Self::Leader(news) => news.encode(out),
            Self::Suspicion(suspicion) => suspicion.encode(out),
            Self::MapVersion(version) => version.encode(out),
            Self::MapDelta(delta) => delta.encode(out),
            Self::Goodbye(goodbye) => goodbye.encode(out),
            Self::Raft(raft) => raft.encode(out),
            Self::Forward(forward) => forward.encode(out),
            Self::Answer(answer) => answer.encode(out),
            Self::Begin(begin) => begin.encode(out),
            Self::Piece(piece) => piece.encode(out),
            Self::End(end) => end.encode(out),
            Self::TransferRefused(refused) => refused.encode(out),
            Self::Taken(taken) => taken.encode(out),
        }
    }

    fn decode(tag: u8, content: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(content);
        let item = match tag {
            TAG_PULSE => Self::Pulse(Pulse::decode(&mut reader)?),
            TAG_LEADER => Self::Leader(LeaderNews::decode(&mut reader)?),
            TAG_SUSPICION => Self::Suspicion(Suspicion::decode(&mut reader)?),
            TAG_MAP_VERSION => Self::MapVersion(MapVersion::decode(&mut reader)?),
            TAG_MAP_DELTA => Self::MapDelta(MapDelta::decode(&mut reader)?),
            TAG_GOODBYE => Self::Goodbye(Goodbye::decode(&mut reader)?),
            TAG_RAFT => Self::Raft(Raft::decode(&mut reader)?),
            TAG_FORWARD => Self::Forward(Forward::decode(&mut reader)?),
            TAG_ANSWER => Self::Answer(Answer::decode(&mut reader)?),
            TAG_BEGIN => Self::Begin(Begin::decode(&mut reader)?),
            TAG_PIECE => Self::Piece(Piece::decode(&mut reader)?),
            TAG_END => Self::End(End::decode(&mut reader)?),
            TAG_TRANSFER_REFUSED => Self::TransferRefused(TransferRefused::decode(&mut reader)?),
            TAG_TAKEN => Self::Taken(Taken::decode(&mut reader)?),
            other => return Err(unknown("item", u64::from(other))),
        };
        reader.finish("item")?;
        Ok(item)
    }
}

/// Whether an item of this tag may come on a link of this kind.
pub(crate) fn belongs(tag: u8, kind: LinkKind) -> bool {
    match kind {
        LinkKind::Control => matches!(tag, TAG_PULSE..=TAG_GOODBYE | TAG_RAFT),
        LinkKind::Append => matches!(tag, TAG_RAFT..=TAG_ANSWER | TAG_GOODBYE),
        LinkKind::Bulk => matches!(tag, TAG_BEGIN..=TAG_TAKEN | TAG_GOODBYE),
        LinkKind::Probe => false,
    }
}

/// Appends an item whose content `write` writes.
pub(crate) fn put(out: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&[tag, 0, 0, 0, 0]);
    write(out);
    let length = u32::try_from(out.len() - begin - HEAD_BYTES).expect("items are far below 4 GiB");
    out[begin + 1..begin + HEAD_BYTES].copy_from_slice(&length.to_le_bytes());
}

/// Cuts the first item off.
pub(crate) fn cut<'a>(kind: LinkKind, rest: &mut &'a [u8]) -> Result<Item<'a>, Broken> {
    let truncated = || DecodeError::Truncated { what: "item" };
    let (head, behind) = rest.split_first_chunk::<HEAD_BYTES>().ok_or_else(truncated)?;
    let [tag, length @ ..] = *head;
    let (content, behind) = behind.split_at_checked(u32::from_le_bytes(length) as usize).ok_or_else(truncated)?;
    *rest = behind;
    let item = Item::decode(tag, content)?;
    if !belongs(tag, kind) {
        return Err(Broken::OutOfPlace { what: "an item", kind });
    }
    Ok(item)
}

fn unknown(what: &'static str, value: u64) -> DecodeError {
    DecodeError::Unknown { what, value }
}

fn flag(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, DecodeError> {
    match reader.u8(what)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(unknown(what, u64::from(other))),
    }
}

fn limited<'a>(reader: &mut Reader<'a>, what: &'static str, limit: usize) -> Result<&'a [u8], DecodeError> {
    let bytes = reader.bytes(what)?;
    if bytes.len() > limit {
        return Err(DecodeError::TooLong { what, value: bytes.len() as u64, limit: limit as u64 });
    }
    Ok(bytes)
}
