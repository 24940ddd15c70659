//! Messages as bytes: ours, frozen, and without anything of protobuf.
//!
//! A message opens with its form, its kind, and the numbers of sender and receiver. Those of Raft go on with the sender's term,
//! what they say of time, and what their kind needs; fields of raft-rs that a kind does not use are not written, and come back as zero. Entries are
//! numbered by their place behind the message's index, and their terms are told by how much they grow.
//!
//! Reading refuses what no peer can mean, before raft-rs sees it: it ends the process over a log that contradicts itself.

use raft::eraftpb::{self, Entry, EntryType, Snapshot};
use shardine_model::ReplicaId;
use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use shardine_model::log::Membership;

use crate::membership::{conf_state, is_possible, membership};
use crate::message::{Body, Kind, Message, RaftMessage, Stamps};

const FORM: u8 = 1;
/// A kind's number is never used again.
const TAG_APPEND: u8 = 1;
const TAG_APPEND_RESPONSE: u8 = 2;
const TAG_VOTE: u8 = 3;
const TAG_VOTE_RESPONSE: u8 = 4;
const TAG_PRE_VOTE: u8 = 5;
const TAG_PRE_VOTE_RESPONSE: u8 = 6;
const TAG_HEARTBEAT: u8 = 7;
const TAG_HEARTBEAT_RESPONSE: u8 = 8;
const TAG_SNAPSHOT: u8 = 9;
const TAG_TIMEOUT_NOW: u8 = 10;
const TAG_INQUIRY: u8 = 11;
const TAG_EXCLUDED: u8 = 12;
const TAG_SUM: u8 = 13;

/// What an answer to entries says.
const TAKEN: u8 = 0;
const REJECTED: u8 = 1;
/// The sender wants a snapshot that reaches at least as far as it says, though it needs no entries.
const WANTS_SNAPSHOT: u8 = 2;

/// What raft-rs writes into a call for votes that a leader has asked for.
const CAMPAIGN_TRANSFER: &[u8] = b"CampaignTransfer";

/// Terms and indexes grow by one; with this many there is room for adding to them.
const NUMBER_MAX: u64 = 1 << 62;

/// Bytes of a read's context.
const CONTEXT_BYTES_MAX: usize = 64;

impl Kind {
    fn tag(self) -> u8 {
        match self {
            Self::Append => TAG_APPEND,
            Self::AppendResponse => TAG_APPEND_RESPONSE,
            Self::Vote => TAG_VOTE,
            Self::VoteResponse => TAG_VOTE_RESPONSE,
            Self::PreVote => TAG_PRE_VOTE,
            Self::PreVoteResponse => TAG_PRE_VOTE_RESPONSE,
            Self::Heartbeat => TAG_HEARTBEAT,
            Self::HeartbeatResponse => TAG_HEARTBEAT_RESPONSE,
            Self::Snapshot => TAG_SNAPSHOT,
            Self::TimeoutNow => TAG_TIMEOUT_NOW,
        }
    }

    fn of_tag(tag: u8) -> Option<Self> {
        Some(match tag {
            TAG_APPEND => Self::Append,
            TAG_APPEND_RESPONSE => Self::AppendResponse,
            TAG_VOTE => Self::Vote,
            TAG_VOTE_RESPONSE => Self::VoteResponse,
            TAG_PRE_VOTE => Self::PreVote,
            TAG_PRE_VOTE_RESPONSE => Self::PreVoteResponse,
            TAG_HEARTBEAT => Self::Heartbeat,
            TAG_HEARTBEAT_RESPONSE => Self::HeartbeatResponse,
            TAG_SNAPSHOT => Self::Snapshot,
            TAG_TIMEOUT_NOW => Self::TimeoutNow,
            _ => return None,
        })
    }
}

impl Message {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let tag = match &self.0 {
            Body::Raft(raft) => raft.kind.tag(),
            Body::Inquiry { .. } => TAG_INQUIRY,
            Body::Excluded { .. } => TAG_EXCLUDED,
            Body::Sum { .. } => TAG_SUM,
        };
        out.extend([FORM, tag]);
        put_varint(out, self.from().0);
        put_varint(out, self.to().0);
        match &self.0 {
            Body::Raft(raft) => raft.encode(out),
            Body::Inquiry { conf_index, .. } | Body::Excluded { conf_index, .. } => put_varint(out, *conf_index),
            Body::Sum { index, sum, .. } => {
                put_varint(out, *index);
                out.extend_from_slice(sum);
            }
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let form = reader.u8("form of a message")?;
        if form != FORM {
            return Err(unknown("form of a message", u64::from(form)));
        }
        let tag = reader.u8("message")?;
        let (from, to) = (replica(&mut reader)?, replica(&mut reader)?);
        let body = match tag {
            TAG_INQUIRY => Body::Inquiry { from, to, conf_index: number(&mut reader, "conf index")? },
            TAG_EXCLUDED => Body::Excluded { from, to, conf_index: number(&mut reader, "conf index")? },
            TAG_SUM => {
                let index = number(&mut reader, "index of a mark")?;
                let sum = reader.take(16, "sum")?.try_into().expect("take returned sixteen bytes");
                Body::Sum { from, to, index, sum }
            }
            _ => {
                let kind = Kind::of_tag(tag).ok_or(unknown("message", u64::from(tag)))?;
                Body::Raft(RaftMessage::decode(kind, (from, to), &mut reader)?)
            }
        };
        reader.finish("message")?;
        Ok(Self(body))
    }
}

impl RaftMessage {
    fn encode(&self, out: &mut Vec<u8>) {
        let inner = &self.inner;
        put_varint(out, inner.term);
        self.stamps.encode(out);
        match self.kind {
            Kind::Append => {
                put_varint(out, inner.index);
                put_varint(out, inner.log_term);
                put_varint(out, inner.commit);
                put_varint(out, self.committed);
                put_entries(out, inner.log_term, &inner.entries);
            }
            Kind::AppendResponse => {
                put_varint(out, inner.index);
                put_varint(out, inner.commit);
                out.push(match (inner.reject, inner.request_snapshot) {
                    (false, _) => TAKEN,
                    (true, 0) => REJECTED,
                    (true, _) => WANTS_SNAPSHOT,
                });
                if inner.reject {
                    put_varint(out, inner.reject_hint);
                    put_varint(out, inner.log_term);
                    if inner.request_snapshot > 0 {
                        put_varint(out, inner.request_snapshot);
                    }
                }
            }
            Kind::Vote | Kind::PreVote => {
                put_varint(out, inner.index);
                put_varint(out, inner.log_term);
                put_varint(out, inner.commit);
                put_varint(out, inner.commit_term);
                out.push(u8::from(inner.context == CAMPAIGN_TRANSFER));
            }
            Kind::VoteResponse | Kind::PreVoteResponse => {
                put_varint(out, inner.commit);
                put_varint(out, inner.commit_term);
                out.push(u8::from(inner.reject));
            }
            Kind::Heartbeat => {
                put_varint(out, inner.commit);
                put_varint(out, self.committed);
                put_bytes(out, &inner.context);
            }
            Kind::HeartbeatResponse => {
                put_varint(out, inner.commit);
                put_bytes(out, &inner.context);
            }
            Kind::Snapshot => self.encode_snapshot(out),
            Kind::TimeoutNow => {}
        }
    }

    fn encode_snapshot(&self, out: &mut Vec<u8>) {
        let snapshot = self.inner.get_snapshot();
        let meta = snapshot.get_metadata();
        put_varint(out, meta.index);
        put_varint(out, meta.term);
        put_varint(out, self.conf_index);
        put_varint(out, self.committed);
        membership(meta.get_conf_state()).encode(out);
        put_bytes(out, &snapshot.data);
    }

    fn decode(kind: Kind, (from, to): (ReplicaId, ReplicaId), reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut inner = eraftpb::Message { from: from.0, to: to.0, term: term(reader)?, ..Default::default() };
        inner.set_msg_type(kind.to_raft());
        let stamps = Stamps::decode(reader)?;
        let mut message = Self { kind, inner, committed: 0, conf_index: 0, stamps };
        let inner = &mut message.inner;
        match kind {
            Kind::Append => {
                (inner.index, inner.log_term) = place(reader)?;
                inner.commit = number(reader, "commit")?;
                message.committed = number(reader, "committed")?;
                inner.set_entries(entries(reader, inner)?.into());
            }
            Kind::AppendResponse => {
                inner.index = number(reader, "index")?;
                inner.commit = number(reader, "commit")?;
                let says = reader.u8("reject")?;
                if says > WANTS_SNAPSHOT {
                    return Err(unknown("reject", u64::from(says)));
                }
                inner.reject = says != TAKEN;
                if inner.reject {
                    inner.reject_hint = number(reader, "reject hint")?;
                    inner.log_term = number(reader, "log term")?;
                }
                if says == WANTS_SNAPSHOT {
                    inner.request_snapshot = match number(reader, "index of a wished snapshot")? {
                        0 => return Err(unknown("index of a wished snapshot", 0)),
                        index => index,
                    };
                }
            }
            Kind::Vote | Kind::PreVote => {
                (inner.index, inner.log_term) = place(reader)?;
                inner.commit = number(reader, "commit")?;
                inner.commit_term = number(reader, "commit term")?;
                if flag(reader, "transfer")? {
                    inner.context = CAMPAIGN_TRANSFER.into();
                }
            }
            Kind::VoteResponse | Kind::PreVoteResponse => {
                inner.commit = number(reader, "commit")?;
                inner.commit_term = number(reader, "commit term")?;
                inner.reject = flag(reader, "reject")?;
            }
            Kind::Heartbeat => {
                inner.commit = number(reader, "commit")?;
                message.committed = number(reader, "committed")?;
                inner.context = context(reader)?;
            }
            Kind::HeartbeatResponse => {
                inner.commit = number(reader, "commit")?;
                inner.context = context(reader)?;
            }
            Kind::Snapshot => message.decode_snapshot(reader)?,
            Kind::TimeoutNow => {}
        }
        Ok(message)
    }

    fn decode_snapshot(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let (index, index_term) = place(reader)?;
        if index == 0 {
            return Err(unknown("index of a snapshot", 0));
        }
        self.conf_index = number(reader, "conf index")?;
        self.committed = number(reader, "committed")?;
        let membership = Membership::decode(reader)?;
        if !is_possible(&membership) || index_term > self.inner.term || self.conf_index > index {
            return Err(unknown("membership of a snapshot", index));
        }
        let mut snapshot = Snapshot::default();
        snapshot.mut_metadata().index = index;
        snapshot.mut_metadata().term = index_term;
        snapshot.mut_metadata().set_conf_state(conf_state(&membership));
        snapshot.data = reader.bytes("snapshot")?.to_vec().into();
        self.inner.set_snapshot(snapshot);
        Ok(())
    }
}

impl Stamps {
    fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.sent);
        put_varint(out, self.echo);
        put_varint(out, self.age_ms.map_or(0, |age_ms| age_ms.saturating_add(1)));
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (sent, echo) = (reader.varint("sent")?, reader.varint("echo")?);
        Ok(Self { sent, echo, age_ms: reader.varint("age")?.checked_sub(1) })
    }
}

fn unknown(what: &'static str, value: u64) -> DecodeError {
    DecodeError::Unknown { what, value }
}

fn replica(reader: &mut Reader<'_>) -> Result<ReplicaId, DecodeError> {
    match reader.varint("replica")? {
        0 => Err(unknown("replica", 0)),
        number => Ok(ReplicaId(number)),
    }
}

fn number(reader: &mut Reader<'_>, what: &'static str) -> Result<u64, DecodeError> {
    let value = reader.varint(what)?;
    if value < NUMBER_MAX { Ok(value) } else { Err(unknown(what, value)) }
}

/// raft-rs takes what has no term for a word of its own.
fn term(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    match number(reader, "term")? {
        0 => Err(unknown("term", 0)),
        term => Ok(term),
    }
}

/// An index and the term of the entry there. Only the place before the first entry has no term: raft-rs would believe that
/// of any place that it does not know.
fn place(reader: &mut Reader<'_>) -> Result<(u64, u64), DecodeError> {
    let (index, term) = (number(reader, "index")?, number(reader, "log term")?);
    if (index == 0) == (term == 0) { Ok((index, term)) } else { Err(unknown("log term", term)) }
}

fn flag(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, DecodeError> {
    match reader.u8(what)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(unknown(what, u64::from(other))),
    }
}

fn context(reader: &mut Reader<'_>) -> Result<bytes::Bytes, DecodeError> {
    let context = reader.bytes("context")?;
    if context.len() > CONTEXT_BYTES_MAX {
        let limit = CONTEXT_BYTES_MAX as u64;
        return Err(DecodeError::TooLong { what: "context", value: context.len() as u64, limit });
    }
    Ok(context.to_vec().into())
}

fn put_entries(out: &mut Vec<u8>, mut term: u64, entries: &[Entry]) {
    put_varint(out, entries.len() as u64);
    for entry in entries {
        let changes_members = entry.get_entry_type() != EntryType::EntryNormal;
        put_varint(out, (entry.term - term) << 1 | u64::from(changes_members));
        put_bytes(out, &entry.data);
        term = entry.term;
    }
}

fn entries(reader: &mut Reader<'_>, message: &eraftpb::Message) -> Result<Vec<Entry>, DecodeError> {
    let count = reader.count("entries")?;
    let mut entries = Vec::new();
    let mut term = message.log_term;
    for index in (message.index + 1..).take(count) {
        let told = reader.varint("term of an entry")?;
        term = term.saturating_add(told >> 1);
        if term == 0 || term > message.term {
            return Err(unknown("term of an entry", term));
        }
        let data = reader.bytes("data of an entry")?.to_vec().into();
        let mut entry = Entry { index, term, data, ..Entry::default() };
        if told & 1 == 1 {
            entry.set_entry_type(EntryType::EntryConfChangeV2);
        }
        entries.push(entry);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests;
