//! Why a node does not let another one in, or does not stay on the line with it.

use shardine_model::NodeId;
use shardine_model::codec::{DecodeError, Reader, put_bytes, put_varint};
use thiserror::Error;

use crate::limits::REASON_BYTES_MAX;

/// The numbers are frozen. What a number means is never changed; a reader that does not know one still learns that it was
/// refused, and the sentence for people.
const CODE_OTHER_CLUSTER: u8 = 1;
const CODE_OTHER_VERSION: u8 = 2;
const CODE_WRONG_NODE: u8 = 3;
const CODE_OLD_COPY: u8 = 4;
const CODE_ONESELF: u8 = 5;
const CODE_REMOVED: u8 = 6;
const CODE_NO_CLUSTER: u8 = 7;
const CODE_BUSY: u8 = 8;
const CODE_STOPPING: u8 = 9;

/// A named reason, from the side that refuses.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error(
        "this is a node of another cluster, {cluster:032x}: check the addresses, or which data directory is mounted"
    )]
    OtherCluster { cluster: u128 },
    #[error("versions {least} to {newest} of the peer protocol are spoken here: upgrade the older node")]
    OtherVersion { newest: u16, least: u16 },
    #[error("this is node {node}, another one was meant: its address has changed")]
    WrongNode { node: NodeId },
    #[error(
        "old or second copy of this directory: node {node} has been seen at start {incarnation}; \
         only one process may run with its data, and data put back from a copy must join as a new node"
    )]
    OldCopy { node: NodeId, incarnation: u64 },
    #[error("the node has dialled itself: its address stands where a peer's belongs")]
    Oneself,
    #[error("node {node} has been removed from the cluster: start it with an empty directory to join again")]
    Removed { node: NodeId },
    #[error("this node belongs to no cluster yet")]
    NoCluster,
    #[error("too many links")]
    Busy,
    #[error("the node is stopping")]
    Stopping,
    /// From a newer node.
    #[error("{reason} (reason {code})")]
    Other { code: u8, reason: String },
}

impl Refusal {
    fn code(&self) -> u8 {
        match self {
            Self::OtherCluster { .. } => CODE_OTHER_CLUSTER,
            Self::OtherVersion { .. } => CODE_OTHER_VERSION,
            Self::WrongNode { .. } => CODE_WRONG_NODE,
            Self::OldCopy { .. } => CODE_OLD_COPY,
            Self::Oneself => CODE_ONESELF,
            Self::Removed { .. } => CODE_REMOVED,
            Self::NoCluster => CODE_NO_CLUSTER,
            Self::Busy => CODE_BUSY,
            Self::Stopping => CODE_STOPPING,
            Self::Other { code, .. } => *code,
        }
    }

    /// Whether trying again, without anybody doing anything, can end otherwise.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            // The map, which has the addresses, may be on its way.
            Self::WrongNode { .. } | Self::NoCluster | Self::Busy | Self::Stopping => true,
            Self::OtherCluster { .. }
            | Self::OtherVersion { .. }
            | Self::OldCopy { .. }
            | Self::Oneself
            | Self::Removed { .. }
            | Self::Other { .. } => false,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.code());
        let mut facts = Vec::new();
        match self {
            Self::OtherCluster { cluster } => facts.extend_from_slice(&cluster.to_le_bytes()),
            Self::OtherVersion { newest, least } => {
                put_varint(&mut facts, u64::from(*newest));
                put_varint(&mut facts, u64::from(*least));
            }
            Self::WrongNode { node } | Self::Removed { node } => put_varint(&mut facts, node.0),
            Self::OldCopy { node, incarnation } => {
                put_varint(&mut facts, node.0);
                put_varint(&mut facts, *incarnation);
            }
            Self::Oneself | Self::NoCluster | Self::Busy | Self::Stopping | Self::Other { .. } => {}
        }
        put_bytes(out, &facts);
        let sentence = match self {
            Self::Other { reason, .. } => reason.clone(),
            known => known.to_string(),
        };
        let end = sentence.floor_char_boundary(REASON_BYTES_MAX);
        put_bytes(out, &sentence.as_bytes()[..end]);
    }

    /// What stands behind the sentence belongs to newer versions.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let code = reader.u8("reason of a refusal")?;
        let mut facts = Reader::new(reader.bytes("facts of a refusal")?);
        let reason = reader.text("reason of a refusal")?;
        Ok(match code {
            CODE_OTHER_CLUSTER => {
                let cluster = facts.take(16, "cluster")?.try_into().expect("take returned sixteen bytes");
                Self::OtherCluster { cluster: u128::from_le_bytes(cluster) }
            }
            CODE_OTHER_VERSION => Self::OtherVersion { newest: version(&mut facts)?, least: version(&mut facts)? },
            CODE_WRONG_NODE => Self::WrongNode { node: node(&mut facts)? },
            CODE_OLD_COPY => Self::OldCopy { node: node(&mut facts)?, incarnation: facts.varint("incarnation")? },
            CODE_ONESELF => Self::Oneself,
            CODE_REMOVED => Self::Removed { node: node(&mut facts)? },
            CODE_NO_CLUSTER => Self::NoCluster,
            CODE_BUSY => Self::Busy,
            CODE_STOPPING => Self::Stopping,
            code => Self::Other { code, reason: printable(reason) },
        })
    }
}

fn node(facts: &mut Reader<'_>) -> Result<NodeId, DecodeError> {
    facts.varint("node").map(NodeId)
}

fn version(facts: &mut Reader<'_>) -> Result<u16, DecodeError> {
    let value = facts.varint("version of the protocol")?;
    u16::try_from(value).map_err(|_| DecodeError::Unknown { what: "version of the protocol", value })
}

/// It goes to logs and terminals, so it is short and keeps to its line.
fn printable(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(REASON_BYTES_MAX)];
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
