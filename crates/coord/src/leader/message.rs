//! What goes between the leader and the door. No protobuf here: the door translates.

use crate::command::Start;
use crate::config::Config;
use crate::ids::SessionId;
use crate::outcome::{Description, NodeLine};
use crate::resources::Pace;
use crate::status::{Refusal, Status};

/// A client's stream, by the number that the door gave it. Never given twice while the process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// Who waits for a call about nodes. Means something to the host only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// The first message of a stream: asks for a session, a new one or one that it had before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    pub path: String,
    /// 0 asks for a new one.
    pub session: SessionId,
    pub timeout_ms: u64,
    pub description: String,
    /// Counts the client's connections, so that an older one does not take the session from a newer.
    pub seq_no: u64,
    pub protection_key: Vec<u8>,
}

impl Opening {
    pub(super) fn as_start(&self) -> Start<'_> {
        Start {
            path: &self.path,
            session: self.session,
            timeout_ms: self.timeout_ms,
            description: &self.description,
            protection_key: &self.protection_key,
        }
    }
}

/// A request on a stream. `req` is only echoed, and may repeat (coordination 79).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    Stop,
    Create { req: u64, name: String, limit: u64, data: Vec<u8> },
    Update { req: u64, name: String, data: Vec<u8> },
    Delete { req: u64, name: String, force: bool },
    Acquire { req: u64, name: String, timeout_ms: u64, count: u64, data: Vec<u8>, ephemeral: bool },
    Release { req: u64, name: String },
    Describe { req: u64, name: String, owners: bool, waiters: bool, watch_data: bool, watch_owners: bool },
}

impl Ask {
    /// The answer to a request that is not taken.
    #[must_use]
    pub fn refused(&self, refusal: Refusal) -> Message {
        match *self {
            Self::Stop => Message::Failure(refusal),
            Self::Create { req, .. } => Message::Created { req, result: Err(refusal) },
            Self::Update { req, .. } => Message::Updated { req, result: Err(refusal) },
            Self::Delete { req, .. } => Message::Deleted { req, result: Err(refusal) },
            Self::Acquire { req, .. } => Message::Acquired { req, result: Err(refusal) },
            Self::Release { req, .. } => Message::Released { req, result: Err(refusal) },
            Self::Describe { req, .. } => Message::Described { req, result: Err(refusal), watch_added: false },
        }
    }
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeCall {
    Create {
        path: String,
        config: Config,
    },
    Alter {
        path: String,
        config: Config,
    },
    Drop {
        path: String,
    },
    Describe {
        path: String,
    },
    /// All of them, as this leader has them.
    List,
    /// A call about the node's rate limiter.
    Resource {
        node: String,
        path: String,
        call: ResourceCall,
    },
}

/// What is asked of a resource of a node's rate limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceCall {
    Create(Pace),
    Alter(Pace),
    Drop,
    List { recursive: bool },
    Describe,
    Acquire { units: Units, patience: Option<Patience> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// Answered when so many are there.
    Required(u64),
    /// So many were used already; answered at once.
    Used(u64),
}

/// How long a request for units waits, and what it is told then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    pub ms: u64,
    pub status: Status,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeReply {
    Done,
    Described { name: String, config: Config },
    List(Vec<NodeLine>),
    Resources(Vec<String>),
    Resource { path: String, pace: Pace },
    Refused(Refusal),
}
