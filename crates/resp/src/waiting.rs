//! What a command waits for, and how it goes on when a response comes. Holds no more than printing the answer needs.

use std::sync::Arc;

use shardine_model::{ChangedFields, ErrorCode, FieldsView, Outcome, Position, Reply, RowView, Table};
use shardine_router::{LocalEngine, Response, Ticket};

use crate::address::ResolvedKey;
use crate::command::atomic;
use crate::command::call::Asked;
use crate::command::look::Look;
use crate::command::many::{self, Elements, Sum};
use crate::command::program::Running;
use crate::command::read::{self, Ask, Context, Found};
use crate::command::reply_format::{RenderContext, ReplyFormat, failure_of, one_reply};
use crate::command::transaction::{Exec, Watching};
use crate::connection::Watched;
use crate::failure::Failure;
use crate::frame::OwnedLine;
use crate::verb::Verb;

/// One command's wait. The hot one is small and owns nothing.
pub(crate) enum Waiting {
    Change(ReplyFormat),
    Read(Box<LateRead>),
    Look(Box<Look>),
    Sum(Box<Sum>),
    AllOrNone,
    Elements(Box<Elements>),
    Watch(Box<Watching>),
    Exec(Box<Exec>),
    Call(Box<Asked>),
    Program(Box<Running>),
    /// Changes whose reply is known once they are made.
    Changed(Vec<u8>),
    /// For what is not at hand; nobody answers.
    Never,
}

/// Where a wait stands after a response.
pub(crate) enum Progress {
    /// Something else was asked for, or parts are still missing.
    Wait,
    Reply(Vec<u8>),
    /// Versions to bind the next transaction to; the reply is `OK`.
    Watch(Vec<Watched>),
}

impl Progress {
    pub(crate) fn failed(failure: &Failure) -> Self {
        Self::written(|out| failure.write(out))
    }

    pub(crate) fn written(write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut out = Vec::new();
        write(&mut out);
        Self::Reply(out)
    }
}

impl Waiting {
    /// Where the record is, if the answer tells how long one has to live.
    pub(crate) fn tells_time_at(&self) -> Option<Position> {
        match self {
            Self::Read(late) => late.tells_time_at,
            Self::Exec(exec) => exec.tells_time_at(),
            _ => None,
        }
    }

    /// Whether each response is the record that a read asked for.
    pub(crate) fn reads_rows(&self) -> bool {
        match self {
            Self::Read(_) | Self::Elements(_) => true,
            Self::Sum(sum) => sum.counts_rows(),
            Self::Change(_)
            | Self::Look(_)
            | Self::AllOrNone
            | Self::Watch(_)
            | Self::Exec(_)
            | Self::Call(_)
            | Self::Program(_)
            | Self::Changed(_)
            | Self::Never => false,
        }
    }

    pub(crate) fn advance<H: LocalEngine>(
        &mut self,
        part: usize,
        response: Response,
        context: Context,
        ticket: Ticket,
        engine: &mut H,
    ) -> Progress {
        match self {
            Self::Change(format) => {
                let render = RenderContext { protocol: context.protocol, catalogue: engine.catalogue() };
                Progress::written(|out| format.write(&response, render, out))
            }
            Self::Read(read) => read.advance(&response, context),
            Self::Look(look) => look.advance(response, context, ticket, engine),
            Self::Sum(sum) => sum.advance(part, response),
            Self::AllOrNone => many::all_or_none(&response),
            Self::Elements(elements) => elements.advance(part, &response, context),
            Self::Watch(watching) => watching.advance(part, &response),
            Self::Exec(exec) => exec.finish(response, context, engine.catalogue()),
            Self::Call(asked) => asked.advance(response, context, ticket, engine),
            Self::Program(running) => running.advance(response, ticket, engine),
            Self::Changed(reply) => atomic::changed(reply, &response),
            Self::Never => Progress::Wait,
        }
    }
}

/// What a read by `Call::Read` found.
pub(crate) fn found_in(response: &Response) -> Result<Found<'_>, Failure> {
    found_in_reply(one_reply(response)?)
}

/// A reply as a found row.
pub(crate) fn found_in_reply(reply: &Reply) -> Result<Found<'_>, Failure> {
    let (version, sql_version) = (reply.version, reply.sql_version);
    match &reply.outcome {
        Outcome::Done { row, .. } => {
            let fields = row.as_ref().map_or(FieldsView::EMPTY, |row| row.view());
            let (expires_at, changed) = (reply.expires_at, ChangedFields::ALL);
            Ok(Found::Live(RowView { version, sql_version, expires_at, changed, fields }))
        }
        Outcome::Refused { code: ErrorCode::NotFound, .. } => Ok(Found::Absent { version, sql_version }),
        Outcome::Refused { code, .. } => Err(Failure::from(*code)),
    }
}

/// A read whose row was not at hand.
pub(crate) struct LateRead {
    verb: Verb,
    line: OwnedLine,
    table: Option<Arc<Table>>,
    tells_time_at: Option<Position>,
}

impl LateRead {
    pub(crate) fn new(ask: Ask<'_>, place: &ResolvedKey<'_>) -> Self {
        let tells_time_at = ask.verb.tells_time_left().then(|| place.row().position());
        Self { verb: ask.verb, line: ask.line.to_owned(), table: place.table.clone(), tells_time_at }
    }

    fn advance(&self, response: &Response, context: Context) -> Progress {
        let context = match response {
            Response::Stale { applied, .. } => Context { applied: Some(*applied), ..context },
            _ => context,
        };
        let found = match found_in(response) {
            Ok(found) => found,
            Err(failure) => return Progress::failed(&failure),
        };
        let table = self.table.as_deref().filter(|table| !table.dynamic);
        let ask = Ask { verb: self.verb, line: self.line.line(), table };
        let mut out = Vec::new();
        match read::answer(ask, found, context, &mut out) {
            Ok(()) => Progress::Reply(out),
            Err(failure) => Progress::failed(&failure),
        }
    }
}

/// The count in an answer to one change of many: how many records it made or removed.
pub(crate) fn changed_in(response: &Response) -> Result<u32, Failure> {
    match &one_reply(response)?.outcome {
        Outcome::Done { changed, .. } => Ok(*changed),
        Outcome::Refused { code: ErrorCode::NotFound, .. } => Ok(0),
        Outcome::Refused { .. } => Err(failure_of(response)),
    }
}
