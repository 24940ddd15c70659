//! The kinds of link between two nodes.

use std::fmt;

use shardine_model::codec::DecodeError;

use crate::limits;

/// What a link is for. The numbers are frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkKind {
    /// Pulses, votes, news of leaders and of the map. Belongs to a thread that never waits for a disk.
    Control,
    /// Entries, read rounds, forwarded requests and their answers. Belongs to a lane.
    Append,
    /// Snapshots, and the map as a whole. Belongs to the snapshot thread.
    Bulk,
    /// Only asks who is there, and ends with the answer: a node that wants to join is dialled back by it before it is recorded.
    Probe,
}

impl LinkKind {
    pub const ALL: [Self; 4] = [Self::Control, Self::Append, Self::Bulk, Self::Probe];

    #[must_use]
    pub fn tag(self) -> u8 {
        match self {
            Self::Control => 1,
            Self::Append => 2,
            Self::Bulk => 3,
            Self::Probe => 4,
        }
    }

    pub fn from_tag(tag: u8) -> Result<Self, DecodeError> {
        let kind = Self::ALL.into_iter().find(|kind| kind.tag() == tag);
        kind.ok_or(DecodeError::Unknown { what: "kind of link", value: u64::from(tag) })
    }

    /// Bytes of one frame.
    #[must_use]
    pub fn frame_bytes_max(self) -> usize {
        match self {
            Self::Control => limits::CONTROL_FRAME_BYTES_MAX,
            Self::Append => limits::APPEND_FRAME_BYTES_MAX,
            Self::Bulk => limits::BULK_FRAME_BYTES_MAX,
            Self::Probe => limits::GREETING_BYTES_MAX,
        }
    }

    /// Bytes that may wait to be sent.
    #[must_use]
    pub fn outbox_bytes_max(self) -> usize {
        match self {
            Self::Control => limits::CONTROL_OUTBOX_BYTES_MAX,
            Self::Append => limits::APPEND_OUTBOX_BYTES_MAX,
            Self::Bulk => limits::BULK_OUTBOX_BYTES_MAX,
            Self::Probe => limits::GREETING_BYTES_MAX,
        }
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Control => "control",
            Self::Append => "append",
            Self::Bulk => "bulk",
            Self::Probe => "probe",
        })
    }
}
