//! Messages between replicas of a group: those of Raft, with what the leader adds to them, and a few of our own. Their bytes
//! are in [`crate::codec`].

use bytes::Bytes;
use raft::eraftpb::{self, MessageType};
use shardine_model::ReplicaId;
use shardine_model::log::SnapshotMeta;

use crate::membership::membership;

/// A message of one replica to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Message(pub(crate) Body);

#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are the large one; a box would cost each of them an allocation"
)]
pub(crate) enum Body {
    Raft(RaftMessage),
    /// Somebody without a vote has not heard of a leader for long, and wants to know whether it still belongs to the group.
    Inquiry {
        from: ReplicaId,
        to: ReplicaId,
        /// The entry that made the configuration that it knows.
        conf_index: u64,
    },
    /// The one that is written to belongs to the group no longer: this entry made a configuration without it.
    Excluded {
        from: ReplicaId,
        to: ReplicaId,
        conf_index: u64,
    },
    /// What the sender has found at a mark ([`Told`]).
    Sum {
        from: ReplicaId,
        to: ReplicaId,
        index: u64,
        /// Lowest byte first. As a number it would make every message larger.
        sum: [u8; 16],
    },
}

/// The sum of a replica's state as it was after the entry at this index (`shardine_model::checksum`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    pub by: ReplicaId,
    pub index: u64,
    pub sum: u128,
}

/// A message of raft-rs, of a kind that is spoken here, and what raft-rs has no place for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RaftMessage {
    pub kind: Kind,
    pub inner: eraftpb::Message,
    /// The newest entry that the sender, a leader, knew to be committed; 0 if it did not know. raft-rs tells a follower no more
    /// than it has.
    pub committed: u64,
    /// With a snapshot: the entry that made its membership.
    pub conf_index: u64,
    pub stamps: Stamps,
}

/// When a message was sent, and what its sender had heard by then: enough for the receiver to say, by its own clock alone and
/// however long the message took, how old what it is told can be. Put there by whoever has a clock ([`Message::stamp`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The sender's time, which means something to the sender only.
    pub sent: u64,
    /// The newest time of the receiver's that the sender had heard of; 0 if it had not.
    pub echo: u64,
    /// Of a leader: how long before the message a majority certainly followed it, if it knows.
    pub age_ms: Option<u64>,
}

/// The kinds of Raft messages that travel. Proposals and reads are not forwarded by Raft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Append,
    AppendResponse,
    Vote,
    VoteResponse,
    PreVote,
    PreVoteResponse,
    Heartbeat,
    HeartbeatResponse,
    Snapshot,
    TimeoutNow,
}

impl Kind {
    pub fn of(raft: MessageType) -> Option<Self> {
        Some(match raft {
            MessageType::MsgAppend => Self::Append,
            MessageType::MsgAppendResponse => Self::AppendResponse,
            MessageType::MsgRequestVote => Self::Vote,
            MessageType::MsgRequestVoteResponse => Self::VoteResponse,
            MessageType::MsgRequestPreVote => Self::PreVote,
            MessageType::MsgRequestPreVoteResponse => Self::PreVoteResponse,
            MessageType::MsgHeartbeat => Self::Heartbeat,
            MessageType::MsgHeartbeatResponse => Self::HeartbeatResponse,
            MessageType::MsgSnapshot => Self::Snapshot,
            MessageType::MsgTimeoutNow => Self::TimeoutNow,
            _ => return None,
        })
    }

    pub fn to_raft(self) -> MessageType {
        match self {
            Self::Append => MessageType::MsgAppend,
            Self::AppendResponse => MessageType::MsgAppendResponse,
            Self::Vote => MessageType::MsgRequestVote,
            Self::VoteResponse => MessageType::MsgRequestVoteResponse,
            Self::PreVote => MessageType::MsgRequestPreVote,
            Self::PreVoteResponse => MessageType::MsgRequestPreVoteResponse,
            Self::Heartbeat => MessageType::MsgHeartbeat,
            Self::HeartbeatResponse => MessageType::MsgHeartbeatResponse,
            Self::Snapshot => MessageType::MsgSnapshot,
            Self::TimeoutNow => MessageType::MsgTimeoutNow,
        }
    }

    /// Whether only a leader says it.
    pub fn is_of_leader(self) -> bool {
        matches!(self, Self::Append | Self::Heartbeat | Self::Snapshot)
    }

    pub fn is_call_for_votes(self) -> bool {
        matches!(self, Self::Vote | Self::PreVote)
    }
}

impl Message {
    /// Whether its receiver is to stand for election at once: the leader hands over to it.
    #[must_use]
    pub fn is_call_to_lead(&self) -> bool {
        matches!(&self.0, Body::Raft(raft) if raft.kind == Kind::TimeoutNow)
    }

    #[must_use]
    pub fn from(&self) -> ReplicaId {
        match &self.0 {
            Body::Raft(raft) => ReplicaId(raft.inner.from),
            Body::Inquiry { from, .. } | Body::Excluded { from, .. } | Body::Sum { from, .. } => *from,
        }
    }

    #[must_use]
    pub fn to(&self) -> ReplicaId {
        match &self.0 {
            Body::Raft(raft) => ReplicaId(raft.inner.to),
            Body::Inquiry { to, .. } | Body::Excluded { to, .. } | Body::Sum { to, .. } => *to,
        }
    }

    /// The sender's term; 0 where that does not matter.
    #[must_use]
    pub fn term(&self) -> u64 {
        match &self.0 {
            Body::Raft(raft) => raft.inner.term,
            Body::Inquiry { .. } | Body::Excluded { .. } | Body::Sum { .. } => 0,
        }
    }

    /// The newest entry that the sender, as leader, knew to be committed, whether or not the receiver has it.
    #[must_use]
    pub fn committed(&self) -> Option<u64> {
        match &self.0 {
            Body::Raft(raft) => Some(raft.committed).filter(|committed| *committed > 0),
            Body::Inquiry { .. } | Body::Excluded { .. } | Body::Sum { .. } => None,
        }
    }

    /// What it says of time; nothing where it is not of Raft.
    #[must_use]
    pub fn stamps(&self) -> Stamps {
        match &self.0 {
            Body::Raft(raft) => raft.stamps,
            Body::Inquiry { .. } | Body::Excluded { .. } | Body::Sum { .. } => Stamps::default(),
        }
    }

    pub fn stamp(&mut self, stamps: Stamps) {
        if let Body::Raft(raft) = &mut self.0 {
            raft.stamps = stamps;
        }
    }

    /// Whether it carries a whole snapshot; then its sender wants to hear how that went.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        matches!(&self.0, Body::Raft(RaftMessage { kind: Kind::Snapshot, .. }))
    }

    /// Where the snapshot stands of which it tells, if it does. Its content takes a way of its own.
    #[must_use]
    pub fn snapshot(&self) -> Option<SnapshotMeta> {
        let Body::Raft(raft) = &self.0 else { return None };
        if raft.kind != Kind::Snapshot {
            return None;
        }
        let meta = raft.inner.get_snapshot().get_metadata();
        let membership = membership(meta.get_conf_state());
        Some(SnapshotMeta { index: meta.index, term: meta.term, membership, conf_index: raft.conf_index })
    }

    /// Whether the content is in it.
    #[must_use]
    pub fn has_snapshot_data(&self) -> bool {
        matches!(&self.0, Body::Raft(raft) if !raft.inner.get_snapshot().data.is_empty())
    }

    /// Puts the content of a small snapshot into the message itself, each chunk with its length before it.
    pub fn set_snapshot_data(&mut self, data: Bytes) {
        if let Body::Raft(raft) = &mut self.0 {
            raft.inner.mut_snapshot().data = data;
        }
    }

    /// A short line for traces: kind, term and indexes, never data.
    #[must_use]
    pub fn summary(&self) -> String {
        match &self.0 {
            Body::Raft(RaftMessage { inner: m, committed, .. }) => format!(
                "{:?} t{} {}->{} i{} c{} n{} l{committed}",
                m.get_msg_type(),
                m.term,
                m.from,
                m.to,
                m.index,
                m.commit,
                m.entries.len()
            ),
            Body::Inquiry { from, to, conf_index } => format!("Inquiry {}->{} i{conf_index}", from.0, to.0),
            Body::Excluded { from, to, conf_index } => format!("Excluded {}->{} i{conf_index}", from.0, to.0),
            Body::Sum { from, to, index, .. } => format!("Sum {}->{} i{index}", from.0, to.0),
        }
    }
}
