//! Messages between replicas of a group. Opaque here; their bytes are the transport's business.

use raft::eraftpb;
use shardine_model::ReplicaId;

/// A message of one replica to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Message(pub(crate) eraftpb::Message);

impl Message {
    #[must_use]
    pub fn from(&self) -> ReplicaId {
        ReplicaId(self.0.from)
    }

    #[must_use]
    pub fn to(&self) -> ReplicaId {
        ReplicaId(self.0.to)
    }

    #[must_use]
    pub fn term(&self) -> u64 {
        self.0.term
    }

    /// The newest entry that the sender calls committed; 0 where it says nothing of it.
    #[must_use]
    pub fn commit(&self) -> u64 {
        self.0.commit
    }

    /// Whether it carries a whole snapshot; then its sender wants to hear how that went.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.0.get_msg_type() == eraftpb::MessageType::MsgSnapshot
    }

    /// A short line for traces: kind, term and indexes, never data.
    #[must_use]
    pub fn summary(&self) -> String {
        let m = &self.0;
        format!(
            "{:?} t{} {}->{} i{} c{} n{}",
            m.get_msg_type(),
            m.term,
            m.from,
            m.to,
            m.index,
            m.commit,
            m.entries.len()
        )
    }
}
