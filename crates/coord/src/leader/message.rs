//! What goes between the leader and the door. No protobuf here: the door translates.

use crate::config::Config;
use crate::ids::SessionId;
use crate::outcome::{Description, NodeLine};
use crate::status::Refusal;

/// A client's stream, by the number that the door gave it. Never given twice while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// Who waits for a call about nodes. Means something to the host only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A request on a stream. `req` is only echoed, and may repeat (coordination-semantics 79).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask<'a> {
    Stop,
    Create { req: u64, name: &'a str, limit: u64, data: &'a [u8] },
    Update { req: u64, name: &'a str, data: &'a [u8] },
    Delete { req: u64, name: &'a str, force: bool },
    Acquire { req: u64, name: &'a str, timeout_ms: u64, count: u64, data: &'a [u8], ephemeral: bool },
    Release { req: u64, name: &'a str },
    Describe { req: u64, name: &'a str, owners: bool, waiters: bool, watch_data: bool, watch_owners: bool },
}

/// What a client hears. After `Failure` and `Stopped` its stream is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Started { session: SessionId, timeout_ms: u64 },
    Stopped { session: SessionId },
    Failure(Refusal),
    Created { req: u64, result: Result<(), Refusal> },
    Updated { req: u64, result: Result<(), Refusal> },
    Deleted { req: u64, result: Result<(), Refusal> },
    Pending { req: u64 },
    Acquired { req: u64, result: Result<bool, Refusal> },
    Released { req: u64, result: Result<bool, Refusal> },
    Described { req: u64, result: Result<Box<Description>, Refusal>, watch_added: bool },
    Changed { req: u64, data: bool, owners: bool },
}

impl Message {
    /// Whether the stream ends behind it.
    #[must_use]
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Failure(_) | Self::Stopped { .. })
    }
}

/// A call about nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCall<'a> {
    Create {
        path: &'a str,
        config: Config,
    },
    Alter {
        path: &'a str,
        config: Config,
    },
    Drop {
        path: &'a str,
    },
    Describe {
        path: &'a str,
    },
    /// All of them, as this leader has them.
    List,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeReply {
    Done,
    Described { name: String, config: Config },
    List(Vec<NodeLine>),
    Refused(Refusal),
}
