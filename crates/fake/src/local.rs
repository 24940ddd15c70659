//! The engine as a door on a lane has it. Reads can be made late, changes refused, and responses held back.

use shardine_model::{Answer, Catalogue, ErrorCode, Position, Request, RowKey, Timestamp};
use shardine_records::Lookup;
use shardine_router::{Call, LocalEngine, Names, Read, Response, RowCall, Ticket};

use crate::shard::FakeShard;

pub struct LocalFake {
    pub shard: FakeShard,
    /// Whether it is known what keys name.
    pub names: Names,
    /// Every read on the spot answers `Later`.
    pub is_late: bool,
    /// The next changes and reads fail with this.
    pub failure: Option<ErrorCode>,
    /// By the sequence of their tickets; whoever holds the connection hands them on.
    pub responses: Vec<(u64, Response)>,
    /// What was asked, beside reads on the spot and changes.
    pub calls: Vec<String>,
}

impl LocalFake {
    #[must_use]
    pub fn new(shard: FakeShard) -> Self {
        Self { shard, names: Names::Known, is_late: false, failure: None, responses: Vec::new(), calls: Vec::new() }
    }
}

impl LocalFake {
    fn respond(&mut self, ticket: Ticket, response: Response) {
        let response = match response {
            // As lanes have it.
            Response::Answer(Answer::Many(replies)) if replies.is_empty() => Response::Done,
            response => response,
        };
        self.responses.push((ticket.sequence, response));
    }
}

impl LocalEngine for LocalFake {
    fn catalogue(&self) -> &Catalogue {
        self.shard.catalogue()
    }

    fn names(&self) -> Names {
        self.names
    }

    fn now(&self) -> Timestamp {
        self.shard.now
    }

    fn now_at(&mut self, _: Position) -> Timestamp {
        self.shard.now.max(self.shard.records.clock())
    }

    fn read(&mut self, row: RowKey<'_>) -> Read<'_> {
        if self.is_late || self.failure.is_some() {
            return Read::Later;
        }
        match self.shard.get(row) {
            Lookup::Live(view) => Read::Live(view),
            Lookup::Absent { version, sql_version } => Read::Absent { version, sql_version },
            Lookup::NotResident | Lookup::UnknownTable => Read::Later,
        }
    }

    fn submit(&mut self, request: &Request<'_>, ticket: Ticket) {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let answer = self.failure.map_or_else(|| self.shard.execute(&bytes), Answer::Failed);
        self.respond(ticket, Response::Answer(answer));
    }

    fn call(&mut self, call: Call, ticket: Ticket) {
        self.calls.push(format!("{call:?}"));
        let response = match (self.failure, call) {
            (Some(code), Call::Row(RowCall::Read { .. })) => Response::Answer(Answer::Failed(code)),
            (_, call) => self.shard.answer(call),
        };
        self.respond(ticket, response);
    }
}
