//! What commands come to on a few rows, without anything being done: the rows are copied when the first of them is changed, and
//! changed by the code that applies entries. What was seen, and what is to be written, is kept in the order in which it happened.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shardine_model::codec::Reader;
use shardine_model::command::{Batch, BatchItem, BatchMode, Body, Command, Give, Ttl};
use shardine_model::entry::open_commands;
use shardine_model::{
    Answer, Catalogue, ErrorCode, Position, Refusal, Reply, Request, RowKey, RowKeyBuf, TableId, Timestamp, Version,
    limits,
};
use shardine_records::{Lookup, Records, Sink, read_reply};
use shardine_router::{Call, LocalEngine, Read, Response, RowCall, Ticket};

use crate::limits::WRITES_BYTES_MAX;
use crate::run::Stopped;

/// The rows as their leader has them.
pub trait Rows {
    fn catalogue(&self) -> &Catalogue;

    /// A row; `None` if it is not at hand.
    fn look(&mut self, row: RowKey<'_>) -> Option<Lookup<'_>>;

    /// Where new rows of a table begin.
    fn floor(&self, table: TableId) -> Version;
}

/// Versions of the rows that were looked at, in the order of their addresses.
pub type Seen = BTreeMap<RowKeyBuf, Version>;

/// What is to be done, and what comes of it.
#[derive(Debug, Default)]
pub struct Writes {
    commands: Vec<Vec<u8>>,
    bytes: usize,
    /// The rows that change, as they are then.
    pub after: Vec<(RowKeyBuf, Reply)>,
}

impl Writes {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Everything as one request that is executed if all that was seen still holds, and else not at all.
    pub fn with_request<T>(&self, seen: &Seen, act: impl FnOnce(&Request<'_>) -> T) -> T {
        let batch = Batch {
            mode: BatchMode::EachItsOwn,
            conditions: seen.iter().map(|(row, version)| (row.as_ref(), *version)).collect(),
            commands: self.commands.iter().map(|bytes| BatchItem::Change(ungiving(bytes))).collect(),
        };
        act(&Request { origin: None, body: Body::Batch(batch) })
    }
}

/// A command as it is applied: it was answered by what came of it here, so nobody needs to be given anything.
fn ungiving(bytes: &[u8]) -> Command<'_> {
    let command = Command::decode(&mut Reader::new(bytes)).expect("encoded here");
    Command { give: Give::Nothing, ..command }
}

pub(crate) struct Rehearsal<'r> {
    rows: &'r mut dyn Rows,
    home: Position,
    now: Timestamp,
    scratch: Option<Records>,
    copied: BTreeSet<RowKeyBuf>,
    pub seen: Seen,
    pub writes: Writes,
    responses: RefCell<VecDeque<(u64, Response)>>,
    pub stopped: Option<Stopped>,
}

impl<'r> Rehearsal<'r> {
    pub fn new(rows: &'r mut dyn Rows, home: Position, now: Timestamp) -> Self {
        Self {
            rows,
            home,
            now,
            scratch: None,
            copied: BTreeSet::new(),
            seen: Seen::new(),
            writes: Writes::default(),
            responses: RefCell::default(),
            stopped: None,
        }
    }

    pub fn next_response(&mut self) -> Option<(u64, Response)> {
        self.responses.borrow_mut().pop_front()
    }

    /// The version of a row; `None` if it is not at hand, or not to be had here.
    pub fn version(&mut self, row: RowKey<'_>) -> Option<Version> {
        match self.read(row) {
            Read::Live(view) => Some(view.version),
            Read::Absent { version, .. } => Some(version),
            Read::Later => None,
        }
    }

    pub fn finish(mut self) -> (Seen, Writes) {
        if let Some(scratch) = &self.scratch {
            for row in &self.copied {
                let reply = read_reply(scratch.get(self.home, row.as_ref()));
                if self.seen.get(row) != Some(&reply.version) {
                    self.writes.after.push((row.clone(), reply));
                }
            }
        }
        (self.seen, self.writes)
    }

    /// Notes what a row was when it was first looked at. Whether it may be looked at.
    fn note(&mut self, row: RowKey<'_>) -> bool {
        if self.stopped.is_some() {
            return false;
        }
        if row.position() != self.home {
            self.stopped = Some(Stopped::Elsewhere(row.to_owned()));
            return false;
        }
        let owned = row.to_owned();
        if self.seen.contains_key(&owned) {
            return true;
        }
        let version = match self.rows.look(row) {
            Some(Lookup::Live(view)) => view.version,
            Some(Lookup::Absent { version, .. }) => version,
            Some(Lookup::NotResident | Lookup::UnknownTable) | None => {
                self.stopped = Some(Stopped::Missing(owned));
                return false;
            }
        };
        self.seen.insert(owned, version);
        true
    }

    /// Copies a row, so that it can be changed.
    fn copy(&mut self, row: RowKey<'_>) -> bool {
        if !self.note(row) {
            return false;
        }
        if !self.copied.insert(row.to_owned()) {
            return true;
        }
        let floor = self.rows.floor(row.table);
        let scratch = match &mut self.scratch {
            Some(scratch) => scratch,
            None => self.scratch.insert(Records::rehearsal(self.rows.catalogue().clone(), self.now)),
        };
        match self.rows.look(row) {
            Some(found) => scratch.copy_in(row, found, floor),
            None => self.stopped = Some(Stopped::Missing(row.to_owned())),
        }
        self.stopped.is_none()
    }

    fn execute(&mut self, request: &Request<'_>) -> Option<Answer> {
        let rows: Vec<RowKey<'_>> = request.rows().collect();
        if !rows.iter().all(|row| self.copy(*row)) {
            return None;
        }
        let request = timed(request, self.now);
        let scratch = self.scratch.as_mut()?;
        let before: Vec<_> = rows.iter().map(|row| version_in(scratch, self.home, *row)).collect();
        let mut entry = Vec::new();
        open_commands(&mut entry, self.now, scratch.epoch());
        request.encode(&mut entry);
        let mut answered = Answered(None);
        // Of a form that was made here nothing can be unreadable.
        scratch.apply(&entry, &mut answered).ok()?;
        let after = rows.iter().map(|row| version_in(scratch, self.home, *row));
        if after.zip(&before).any(|(after, before)| after != *before) {
            self.keep(&request);
        }
        if self.writes.bytes > WRITES_BYTES_MAX || self.writes.commands.len() > limits::BATCH_COMMANDS_MAX {
            self.stopped = Some(Stopped::TooMuch);
            return None;
        }
        answered.0
    }

    fn keep(&mut self, request: &Request<'_>) {
        let mut add = |command: &Command<'_>| {
            let mut bytes = Vec::new();
            command.encode(&mut bytes);
            self.writes.bytes += bytes.len();
            self.writes.commands.push(bytes);
        };
        match &request.body {
            Body::One(command) => add(command),
            Body::Read(_) => {}
            Body::Batch(batch) => {
                for item in &batch.commands {
                    if let BatchItem::Change(command) = item {
                        add(command);
                    }
                }
            }
        }
    }

    fn respond(&mut self, ticket: Ticket, response: Response) {
        let response = match response {
            // As lanes have it.
            Response::Answer(Answer::Many(replies)) if replies.is_empty() => Response::Done,
            response => response,
        };
        self.responses.borrow_mut().push_back((ticket.sequence, response));
    }
}

/// The same request with its times to live counted from now on, not from when it will be applied: what comes of it is known then.
fn timed<'a>(request: &Request<'a>, now: Timestamp) -> Request<'a> {
    let at = |command: &mut Command<'a>| {
        if let Ttl::After(ms) = command.ttl {
            command.ttl = Ttl::At(now.plus_ms(ms));
        }
    };
    let mut request = request.clone();
    match &mut request.body {
        Body::One(command) => at(command),
        Body::Read(_) => {}
        Body::Batch(batch) => {
            for item in &mut batch.commands {
                if let BatchItem::Change(command) = item {
                    at(command);
                }
            }
        }
    }
    request
}

fn version_in(records: &Records, position: Position, row: RowKey<'_>) -> Version {
    match records.get(position, row) {
        Lookup::Live(view) => view.version,
        Lookup::Absent { version, .. } => version,
        Lookup::NotResident | Lookup::UnknownTable => Version::NEVER,
    }
}

/// Who asked.
struct Answered(Option<Answer>);

impl Sink for Answered {
    fn answer(&mut self, answer: Answer) {
        self.0 = Some(answer);
    }

    fn not_resident(&mut self, _: &[u8], _: Vec<RowKeyBuf>) {}

    fn dirty(&mut self, _: RowKey<'_>) {}
}

impl LocalEngine for Rehearsal<'_> {
    fn catalogue(&self) -> &Catalogue {
        self.rows.catalogue()
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn read(&mut self, row: RowKey<'_>) -> Read<'_> {
        if !self.note(row) {
            return Read::Later;
        }
        let found = match &self.scratch {
            Some(scratch) if self.copied.contains(&row.to_owned()) => Some(scratch.get(self.home, row)),
            _ => self.rows.look(row),
        };
        match found {
            // Its time was over when it was set, by a command of this program. The next change of it makes the tombstone.
            Some(Lookup::Live(view)) if view.expires_at.is_some_and(|at| at <= self.now) && view.version.has_next() => {
                Read::Absent { version: view.version.next_tombstone(), sql_version: view.sql_version }
            }
            Some(Lookup::Live(view)) => Read::Live(view),
            Some(Lookup::Absent { version, sql_version }) => Read::Absent { version, sql_version },
            Some(Lookup::NotResident | Lookup::UnknownTable) | None => Read::Later,
        }
    }

    fn submit(&mut self, request: &Request<'_>, ticket: Ticket) {
        if let Some(answer) = self.execute(request) {
            self.respond(ticket, Response::Answer(answer));
        }
    }

    fn call(&mut self, call: Call, ticket: Ticket) {
        match call {
            Call::Row(RowCall::Submit { request, .. }) => {
                if let Ok(request) = Request::decode(&mut Reader::new(&request)) {
                    self.submit(&request, ticket);
                }
            }
            // It was looked for, and is not at hand: the run ends.
            Call::Row(RowCall::Read { .. }) if self.stopped.is_some() => {}
            _ => {
                let refusal = Refusal::new(ErrorCode::Unsupported, "this cannot be part of a script or transaction");
                self.respond(ticket, Response::Refused(refusal));
            }
        }
    }
}
