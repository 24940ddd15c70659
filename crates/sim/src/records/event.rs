//! What happens to records only.

use shardine_model::sql::{FlushResult, FlushRow};
use shardine_model::{Answer, RowKeyBuf, Version};
use shardine_shard::{LoadedRow, Question, SqlPurge};

use crate::event;
use crate::records::Records;
use crate::tenant::EventOf;

/// What reaches a node besides what reaches any.
#[derive(Debug)]
pub enum Input {
    Request {
        attempt: u64,
    },
    /// Something has come on a client's connection, or it is gone.
    Pipe {
        connection: u64,
    },
    PipeGone {
        connection: u64,
    },
    /// Another node says who leads a group.
    Leader {
        group: usize,
        term: u64,
        leader: u64,
    },
    Loaded {
        shard: usize,
        question: Question,
        rows: Vec<LoadedRow>,
    },
    LoadFailed {
        shard: usize,
        question: Question,
        rows: Vec<RowKeyBuf>,
    },
    Flushed {
        shard: usize,
        term: u64,
        results: Vec<(RowKeyBuf, FlushResult)>,
    },
    Purged {
        shard: usize,
        term: u64,
        rows: Vec<(RowKeyBuf, Version)>,
    },
    PurgeFailed {
        shard: usize,
        term: u64,
    },
    FlushFailed {
        shard: usize,
        term: u64,
        rows: Vec<RowKeyBuf>,
    },
}

#[derive(Debug)]
pub enum Event {
    SqlLoad {
        node: usize,
        life: u64,
        shard: usize,
        question: Question,
        rows: Vec<RowKeyBuf>,
        told: u64,
    },
    /// `told` of `None`: the node has heard already.
    SqlPurge {
        node: usize,
        life: u64,
        shard: usize,
        purge: SqlPurge,
        told: Option<u64>,
    },
    SqlWrite {
        node: usize,
        life: u64,
        shard: usize,
        term: u64,
        rows: Vec<FlushRow>,
        told: Option<u64>,
    },
    Answer {
        attempt: u64,
        answer: Answer,
    },
    ClientActs {
        client: usize,
    },
    ClientGivesUp {
        attempt: u64,
    },
    /// Sends again what this attempt was about.
    ClientActsAgain {
        client: usize,
        attempt: u64,
    },
    /// A client learns that its connection is gone.
    PipeBroken {
        connection: u64,
    },
    ResumeShard {
        shard: usize,
    },
}

impl From<Event> for EventOf<Records> {
    fn from(event: Event) -> Self {
        Self::Tenant(event)
    }
}

/// For whatever life of the node it finds.
pub fn arrive(node: usize, input: Input) -> EventOf<Records> {
    EventOf::<Records>::Arrive { node, input: event::Input::Own(input) }
}

/// For one life of the node only.
pub fn own(node: usize, life: u64, input: Input) -> EventOf<Records> {
    EventOf::<Records>::Own { node, life, input: event::Input::Own(input) }
}
