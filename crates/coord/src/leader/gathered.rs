//! Commands on their way into the log, and what is said meanwhile.

use std::collections::VecDeque;

use shardine_model::limits::{ENTRY_BYTES_MAX, PENDING_BYTES_MAX};

use super::message::{Message, NodeReply, StreamId, Ticket};
use crate::command::{Asker, Command, open_entry};
use crate::outcome::ClaimRef;

/// Where a command came from, and so what is done with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Attach {
        stream: StreamId,
        restored: Option<Asker>,
        seq_no: u64,
        timeout_ms: u64,
        asked_ms: u64,
    },
    /// Its client left before it was told of it (coordination 45), or the session stops by itself.
    Stop {
        stream: Option<StreamId>,
        by: Asker,
    },
    Expire,
    Create {
        stream: StreamId,
        req: u64,
    },
    Update {
        stream: StreamId,
        req: u64,
    },
    Delete {
        stream: StreamId,
        req: u64,
    },
    Acquire {
        stream: StreamId,
        req: u64,
        by: Asker,
    },
    Release {
        stream: StreamId,
        req: u64,
    },
    Describe(Look),
    TimeOut(ClaimRef),
    Mark {
        asked_ms: u64,
    },
    Node(Ticket),
    GiveUp,
    DescribeNode {
        ticket: Ticket,
        path: Box<str>,
    },
    /// A look at a node's resources; `recursive` if it is a list.
    Resources {
        ticket: Ticket,
        node: Box<str>,
        path: Box<str>,
        list: Option<bool>,
    },
}

/// A describe on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    pub stream: StreamId,
    pub req: u64,
    pub by: Asker,
    pub name: Box<str>,
    pub owners: bool,
    pub waiters: bool,
    pub watch_data: bool,
    pub watch_owners: bool,
}

/// An entry that is not yet proposed. Each command has its origin.
#[derive(Debug, Default)]
pub struct Gathered {
    pub bytes: Vec<u8>,
    pub origins: Vec<Origin>,
}

/// What the leader asks of its host.
#[derive(Debug, Default)]
pub struct Out {
    /// To be proposed in order; all but the last are full.
    entries: VecDeque<Gathered>,
    bytes: usize,
    /// To streams, in order.
    pub messages: Vec<(StreamId, Message)>,
    pub replies: Vec<(Ticket, NodeReply)>,
}

impl Out {
    pub(super) fn propose(&mut self, command: &Command<'_>, origin: Origin) {
        if self.entries.back().is_none_or(|entry| entry.bytes.len() >= ENTRY_BYTES_MAX) {
            let mut entry = Gathered::default();
            open_entry(&mut entry.bytes);
            self.entries.push_back(entry);
        }
        let entry = self.entries.back_mut().expect("just made if there was none");
        let before = entry.bytes.len();
        command.encode(&mut entry.bytes);
        entry.origins.push(origin);
        self.bytes += entry.bytes.len() - before;
    }

    pub(super) fn say(&mut self, stream: StreamId, message: Message) {
        self.messages.push((stream, message));
    }

    /// So much waits for the log that no more requests should be taken.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > PENDING_BYTES_MAX
    }

    #[must_use]
    pub fn wants_flush(&self) -> bool {
        !self.entries.is_empty()
    }

    /// The next entry to propose.
    pub fn take_entry(&mut self) -> Option<Gathered> {
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.bytes.len().saturating_sub(2);
        Some(entry)
    }
}
