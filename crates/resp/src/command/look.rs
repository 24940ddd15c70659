//! Commands that Redis decides by looking at the record first: they read, decide, and change only what they saw.
//!
//! Between the look and the change another client may come; then the version differs and the command looks again.
//! Nothing else of the connection is executed meanwhile.

use std::sync::Arc;

use shardine_model::{Answer, ErrorCode, Request, RowKeyBuf, Table};
use shardine_router::{LocalEngine, Read, Response, RowCall, Ticket};
use smallvec::SmallVec;

use crate::address::ResolvedKey;
use crate::command::change::{self, Decision, Order};
use crate::command::read::{Context, Found};
use crate::command::reply_format::{RenderContext, ReplyFormat};
use crate::connection::{RespConnection, Step};
use crate::failure::Failure;
use crate::frame::{Line, OwnedLine};
use crate::verb::Verb;
use crate::waiting::{Progress, Waiting, found_in};
use crate::wire;

/// Looks before giving up: a record that changes faster than this is too hot for such a command.
const LOOKS_MAX: u32 = 64;

/// A command between its look and its answer.
pub(crate) struct Look {
    verb: Verb,
    line: OwnedLine,
    table: Option<Arc<Table>>,
    row: RowKeyBuf,
    stage: Stage,
    looks: u32,
}

#[derive(Clone, Copy)]
enum Stage {
    Looking,
    Changing(ReplyFormat),
}

pub(crate) fn start<H: LocalEngine>(
    connection: &mut RespConnection,
    verb: Verb,
    line: Line<'_>,
    place: &ResolvedKey<'_>,
    engine: &mut H,
    out: &mut Vec<u8>,
) -> Step {
    let order = Order { verb, line, place, now: engine.now() };
    // A rehearsal on nothing finds the faults of the command before anything is read for it.
    if let Err(failure) = change::decide(order, Found::NEVER) {
        return connection.fail(&failure, out);
    }
    let (line, table, row) = (line.to_owned(), place.table.clone(), place.row().to_owned());
    let mut look = Look { verb, line, table, row, stage: Stage::Looking, looks: 0 };
    let id = connection.queue.next_id();
    let context = connection.context(engine);
    match look.look(context, connection.ticket(id, 0), engine) {
        Progress::Reply(bytes) => connection.queue.reply(out, |out| out.extend_from_slice(&bytes)),
        Progress::Wait | Progress::Watch(_) => {
            connection.queue.wait(connection.protocol, Waiting::Look(Box::new(look)));
            connection.blocked = Some(id);
        }
    }
    Step::Taken
}

impl Look {
    pub(crate) fn advance<H: LocalEngine>(
        &mut self,
        response: Response,
        context: Context,
        ticket: Ticket,
        engine: &mut H,
    ) -> Progress {
        match (self.stage, &response) {
            (Stage::Changing(_), Response::Answer(Answer::One(reply)))
                if reply.refusal() == Some(ErrorCode::VersionMismatch) =>
            {
                self.look(context, ticket, engine)
            }
            (Stage::Changing(format), _) => {
                let render = RenderContext { protocol: context.protocol, catalogue: engine.catalogue() };
                Progress::written(|out| format.write(&response, render, out))
            }
            (Stage::Looking, _) => match found_in(&response) {
                Ok(found) => self.decide(found, context, ticket, engine),
                Err(failure) => Progress::failed(&failure),
            },
        }
    }

    /// Looks on the spot, or asks for the record.
    fn look<H: LocalEngine>(&mut self, context: Context, ticket: Ticket, engine: &mut H) -> Progress {
        self.looks += 1;
        if self.looks > LOOKS_MAX {
            return Progress::failed(&Failure::from(ErrorCode::Busy));
        }
        self.stage = Stage::Looking;
        let place = place_of(&self.row, &self.table);
        let order = Order { verb: self.verb, line: self.line.line(), place: &place, now: context.now };
        let decided = match engine.read(self.row.as_ref()) {
            Read::Live(view) => change::decide(order, Found::Live(view)),
            Read::Absent { version, sql_version } => change::decide(order, Found::Absent { version, sql_version }),
            Read::Later => {
                engine.call(RowCall::Read { row: self.row.clone() }.into(), ticket);
                return Progress::Wait;
            }
        };
        perform(decided, &mut self.stage, ticket, engine)
    }

    fn decide<H: LocalEngine>(
        &mut self,
        seen: Found<'_>,
        context: Context,
        ticket: Ticket,
        engine: &mut H,
    ) -> Progress {
        let place = place_of(&self.row, &self.table);
        let order = Order { verb: self.verb, line: self.line.line(), place: &place, now: context.now };
        perform(change::decide(order, seen), &mut self.stage, ticket, engine)
    }
}

fn perform<H: LocalEngine>(
    decided: Result<Decision<'_>, Failure>,
    stage: &mut Stage,
    ticket: Ticket,
    engine: &mut H,
) -> Progress {
    match decided {
        Err(failure) => Progress::failed(&failure),
        Ok(Decision::Integer(value)) => Progress::written(|out| wire::integer(out, value)),
        Ok(Decision::Change((command, format))) => {
            *stage = Stage::Changing(format);
            engine.submit(&Request::one(command), ticket);
            Progress::Wait
        }
    }
}

fn place_of<'a>(row: &'a RowKeyBuf, table: &Option<Arc<Table>>) -> ResolvedKey<'a> {
    ResolvedKey { table: table.clone(), key: &row.key, sort: SmallVec::from_slice(&row.sort) }
}
