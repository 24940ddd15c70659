//! The Redis door under bytes that no client library would send: its parser alone, and a whole connection with the state
//! machine behind it. Bytes arrive in pieces that nobody chose, so where they are cut must not show.

use std::collections::VecDeque;
use std::sync::Arc;

use shardine_model::{
    Answer, Catalogue, Entry, ErrorCode, Position, Refusal, Request, RequestEpoch, RowKey, RowKeyBuf, TableId,
    Timestamp,
};
use shardine_records::{Lookup, Records, Scan, ScanFrom, Sink, read_reply};
use shardine_resp::frame::{Args, Limits, Parsed, parse};
use shardine_resp::{Flow, Options, Peer, RespConnection};
use shardine_router::{
    Call, LocalEngine, NodeCall, Read, Response, RowCall, ScanCall, ScanPage, ScannedRow, ShardsCall, Ticket,
};

use crate::replica;

/// The time on the wall of the engine.
const NOW: Timestamp = Timestamp(1_000_000);

/// Inputs are cut at every byte, which costs the square of their length.
const CUT_BYTES_MAX: usize = 512;

/// Frames, read from the whole input and from an input that grows byte by byte: the same words, and the same end.
pub fn resp_request(data: &[u8]) {
    let whole = frames(data, data.len());
    if data.len() <= CUT_BYTES_MAX {
        assert_eq!(frames(data, 1), whole, "where the input is cut must not show");
    }
}

/// The frames of an input that arrives in pieces, and the error that ended it.
fn frames(data: &[u8], piece: usize) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let (mut frames, mut args, mut start, mut end) = (Vec::new(), Args::default(), 0, 0);
    loop {
        match parse(&data[start..end], &Limits::BEFORE_AUTH, &mut args) {
            Ok(Parsed::Incomplete) if end == data.len() => return (frames, None),
            Ok(Parsed::Incomplete) => end = (end + piece).min(data.len()),
            Ok(Parsed::Empty { consumed }) => {
                assert!(consumed > 0, "a frame takes bytes");
                start += consumed;
            }
            Ok(Parsed::Command { consumed }) => {
                assert!(consumed > 0, "a frame takes bytes");
                frames.push(args.line(&data[start..end]).words(0).map(<[u8]>::to_vec).collect());
                start += consumed;
            }
            Err(error) => return (frames, Some(error.to_string())),
        }
    }
}

/// A whole connection: everything that a client sends is answered, in the same words however it arrives.
pub fn resp_session(data: &[u8]) {
    let whole = conversation(data, data.len().max(1));
    assert_eq!(conversation(data, 7), whole, "where the input is cut must not show");
}

fn conversation(data: &[u8], piece: usize) -> Vec<u8> {
    let mut room = OneShardEngine { state: replica(1), responses: VecDeque::new() };
    let mut connection = RespConnection::new(1, Peer::default(), Arc::new(Options::default()));
    let (mut said, mut out, mut start, mut end) = (Vec::new(), Vec::new(), 0, piece.min(data.len()));
    loop {
        let received = connection.receive(&data[start..end], &mut room, &mut out);
        start += received.consumed;
        let mut flow = received.flow;
        let mut is_answered = false;
        while let Some((sequence, response)) = room.responses.pop_front() {
            flow = connection.complete(sequence, response, &mut room, &mut out);
            is_answered = true;
        }
        let is_written = !out.is_empty();
        said.append(&mut out);
        match flow {
            Flow::Close => return said,
            Flow::Continue if received.flow == Flow::Continue && end == data.len() => {
                assert_eq!(connection.waiting(), 0, "everything that was asked is answered");
                return said;
            }
            Flow::Continue if received.flow == Flow::Continue => end = (end + piece).min(data.len()),
            // A pause ends by an answer or by a write; without either the connection would hang for ever.
            Flow::Continue | Flow::Pause => {
                assert!(is_answered || is_written, "a connection must not pause for nothing")
            }
        }
    }
}

/// The engine of one lane with one shard, which does at once what it is asked.
struct OneShardEngine {
    state: Records,
    responses: VecDeque<(u64, Response)>,
}

impl OneShardEngine {
    fn execute(&mut self, request: &[u8], ticket: Ticket) {
        let entry = Entry::Commands { proposed_at: NOW, epoch: RequestEpoch::FIRST, requests: request }.to_bytes();
        let mut caller = Caller { answer: None };
        self.state.apply(&entry, &mut caller).expect("what the door encodes can be applied");
        let answer = caller.answer.expect("every table is in memory, so every request is answered");
        self.responses.push_back((ticket.sequence, Response::Answer(answer)));
    }

    fn page(&self, scan: &ScanCall) -> ScanPage {
        let mut page = ScanPage::default();
        let from = ScanFrom::Position(Position(0));
        let scan = Scan { table: scan.table, from, limit: scan.limit, whole_positions: scan.whole_positions };
        self.state.scan(&scan, |_, row, view| {
            page.rows.push(ScannedRow {
                row: row.to_owned(),
                version: view.version,
                sql_version: view.sql_version,
                expires_at: view.expires_at,
                fields: view.fields.to_image(),
                in_memory: true,
            });
        });
        page
    }

    fn clear(&mut self, table: TableId) -> Response {
        let entry = Entry::Clear { table }.to_bytes();
        self.state.apply(&entry, &mut Caller { answer: None }).expect("a table can be emptied");
        Response::Done
    }
}

impl LocalEngine for OneShardEngine {
    fn catalogue(&self) -> &Catalogue {
        self.state.catalogue()
    }

    fn now(&self) -> Timestamp {
        NOW
    }

    fn read(&mut self, row: RowKey<'_>) -> Read<'_> {
        match self.state.get(row.position(), row) {
            Lookup::Live(view) => Read::Live(view),
            Lookup::Absent { version, sql_version } => Read::Absent { version, sql_version },
            Lookup::NotResident | Lookup::UnknownTable => Read::Later,
        }
    }

    fn submit(&mut self, request: &Request<'_>, ticket: Ticket) {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        self.execute(&bytes, ticket);
    }

    fn call(&mut self, call: Call, ticket: Ticket) {
        let response = match call {
            Call::Row(RowCall::Submit { request, .. }) => return self.execute(&request, ticket),
            Call::Row(RowCall::Read { row }) => {
                let row = row.as_ref();
                Response::Answer(Answer::One(read_reply(self.state.get(row.position(), row))))
            }
            Call::Row(RowCall::ReadStale { row, .. }) => {
                let row = row.as_ref();
                Response::Stale { reply: read_reply(self.state.get(row.position(), row)), applied: 1 }
            }
            Call::Row(RowCall::Scan(scan)) => Response::Page(self.page(&scan)),
            Call::Shards(ShardsCall::Count { table }) => Response::Count(self.state.live_count(table)),
            Call::Shards(ShardsCall::Clear { table }) => self.clear(table),
            Call::Row(RowCall::Kick { .. } | RowCall::Flush { .. }) | Call::Shards(ShardsCall::Flush { .. }) => {
                Response::Done
            }
            Call::Node(NodeCall::Status) => Response::Status(Box::default()),
            // What concerns tables, nodes and SQL does not reach the records.
            _ => Response::Refused(Refusal::new(ErrorCode::Unsupported, "not in this room")),
        };
        self.responses.push_back((ticket.sequence, response));
    }
}

/// Who asked: keeps the answer.
struct Caller {
    answer: Option<Answer>,
}

impl Sink for Caller {
    fn answer(&mut self, answer: Answer) {
        self.answer = Some(answer);
    }

    fn not_resident(&mut self, _: &[u8], _: Vec<RowKeyBuf>) {}

    fn dirty(&mut self, _: RowKey<'_>) {}
}
