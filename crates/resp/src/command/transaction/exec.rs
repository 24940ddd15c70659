//! `EXEC`: makes one batch of what was queued, and prints the replies of its parts as one array.

use std::sync::Arc;

use shardine_model::command::{Batch, BatchItem, BatchMode, Body};
use shardine_model::key::partition_key;
use shardine_model::{
    Answer, Catalogue, ErrorCode, Outcome, Position, Reply, Request, RowKey, RowKeyBuf, Table, limits,
};
use shardine_router::{LocalEngine, Program, Response};
use smallvec::SmallVec;

use super::Queued;
use crate::address::ResolvedKey;
use crate::command::change::Order;
use crate::command::many;
use crate::command::own;
use crate::command::program;
use crate::command::read::{self, Ask, Context, Found};
use crate::command::reply_format::{RenderContext, ReplyFormat, failure_of};
use crate::connection::{RespConnection, Step, Watched};
use crate::failure::{ABORTED, CROSS_PARTITION, Failure};
use crate::frame::Line;
use crate::verb::{Kind, Verb};
use crate::waiting::{Progress, Waiting, found_in_reply};
use crate::wire;

/// How the reply of one queued command is made.
enum Part {
    /// Known already: an error, or the answer of the connection itself.
    Bytes(Vec<u8>),
    /// The next reply of the batch.
    Change(ReplyFormat),
    Read(Option<Arc<Table>>),
    /// The next so many replies.
    Many(SmallVec<[Option<Arc<Table>>; 2]>),
}

/// A part of this size is told whatever the others took: that a change was made must not be lost behind a large value.
const ALWAYS_BYTES: usize = 256;

/// A submitted transaction. Keeps the queued words, because some replies are printed by them.
pub(crate) struct Exec {
    queued: Vec<Queued>,
    parts: Vec<Part>,
    /// Where its rows are, if there are any.
    position: Option<Position>,
}

pub(super) fn exec<H: LocalEngine>(connection: &mut RespConnection, engine: &mut H, out: &mut Vec<u8>) -> Step {
    if connection.transaction.is_none() {
        return connection.fail(&Failure::line("ERR EXEC without MULTI"), out);
    }
    if connection.has_late_reads() {
        return Step::NotYet;
    }
    let Some(transaction) = connection.transaction.take() else { return Step::Taken };
    let watched = std::mem::take(&mut connection.watched);
    if transaction.is_spoilt {
        return connection.fail(&ABORTED, out);
    }
    let queued = transaction.queued;
    if queued.iter().any(Queued::looks) {
        return match as_program(connection, &queued, watched, engine) {
            Err(failure) => {
                connection.has_crossed |= failure == CROSS_PARTITION;
                connection.fail(&failure, out)
            }
            Ok(program) => {
                program::send(connection, program, engine);
                Step::Taken
            }
        };
    }
    match submit(connection, &queued, &watched, engine) {
        Err(failure) => {
            connection.has_crossed |= failure == CROSS_PARTITION;
            connection.fail(&failure, out)
        }
        Ok(Submitted { parts, position: position @ Some(_) }) => {
            connection.queue.wait(connection.protocol, Waiting::Exec(Box::new(Exec { queued, parts, position })));
            Step::Taken
        }
        Ok(Submitted { parts, position: None }) => {
            let context = connection.context(engine);
            let exec = Exec { queued, parts, position: None };
            connection.queue.reply(out, |out| exec.write(&[], context, engine.catalogue(), out));
            Step::Taken
        }
    }
}

/// A transaction with commands in it that look before they change: whoever leads the rows executes it, step by step, at one moment.
fn as_program<H: LocalEngine>(
    connection: &mut RespConnection,
    queued: &[Queued],
    watched: Vec<Watched>,
    engine: &H,
) -> Result<Program, Failure> {
    let (mut steps, mut rows) = (Vec::with_capacity(queued.len()), Vec::new());
    for item in queued {
        let line = item.line.line();
        let planned = match item.kind() {
            Kind::Own => Ok((own::bytes(connection, item.verb, line, engine), Vec::new()))
                .map(|(reply, rows)| (program::said(reply), rows)),
            _ => program::step(connection, item.verb, line, engine),
        };
        let (step, named) = planned.unwrap_or_else(|failure| (program::said(failure.to_bytes()), Vec::new()));
        steps.push(step);
        rows.extend(named);
    }
    let watched: Vec<_> = watched.into_iter().map(|watched| (watched.row, watched.version)).collect();
    let all = rows.iter().chain(watched.iter().map(|(row, _)| row)).map(RowKeyBuf::as_ref);
    let home = program::one_partition(all, &CROSS_PARTITION)?;
    Ok(Program {
        wanders: home.is_none(),
        home: home.unwrap_or_else(program::anywhere),
        resp3: connection.protocol == wire::Protocol::Resp3,
        is_transaction: true,
        reads_only: false,
        watched,
        steps,
    })
}

struct Submitted {
    parts: Vec<Part>,
    /// Where the rows are. Without one there was nothing to submit: no row was named.
    position: Option<Position>,
}

/// Makes the batch and submits it under the next slot, which the caller then takes.
fn submit<H: LocalEngine>(
    connection: &mut RespConnection,
    queued: &[Queued],
    watched: &[Watched],
    engine: &mut H,
) -> Result<Submitted, Failure> {
    let places: Vec<_> = queued.iter().map(|item| places_of(item, engine)).collect();
    let mut commands = Vec::new();
    let mut parts = Vec::with_capacity(queued.len());
    for (item, places) in queued.iter().zip(&places) {
        let part = match places {
            Ok(places) if item.kind() != Kind::Own => compile(item, places, engine, &mut commands),
            Ok(_) => Ok(Part::Bytes(own::bytes(connection, item.verb, item.line.line(), engine))),
            Err(failure) => Err(failure.clone()),
        };
        parts.push(part.unwrap_or_else(|failure| Part::Bytes(failure.to_bytes())));
    }
    let conditions: Vec<_> = watched.iter().map(|watched| (watched.row.as_ref(), watched.version)).collect();
    check(commands.iter().map(BatchItem::row).chain(conditions.iter().map(|(row, _)| *row)), commands.len())?;
    let first = commands.first().map(BatchItem::row).or_else(|| conditions.first().map(|(row, _)| *row));
    let position = first.map(|row| row.position());
    if position.is_some() {
        let batch = Batch { mode: BatchMode::EachItsOwn, conditions, commands };
        let ticket = connection.ticket(connection.queue.next_id(), 0);
        engine.submit(&Request { origin: None, body: Body::Batch(batch) }, ticket);
    }
    Ok(Submitted { parts, position })
}

fn places_of<'a, H: LocalEngine>(item: &'a Queued, engine: &H) -> Result<SmallVec<[ResolvedKey<'a>; 2]>, Failure> {
    match item.kind() {
        Kind::ReadMany | Kind::ChangeMany => many::places(item.verb, item.line.line(), engine),
        Kind::Read | Kind::Change => {
            let place = crate::address::parse(item.line.line().word(item.verb.key_place()), engine.catalogue())?;
            Ok(SmallVec::from_iter([place]))
        }
        // Whoever has one of these is sent as a program.
        Kind::Call | Kind::Own | Kind::Control | Kind::Atomic | Kind::Program => Ok(SmallVec::new()),
    }
}

/// Appends the batch items of one queued command. A faulty one adds nothing and answers with its error, as in Redis.
fn compile<'a, H: LocalEngine>(
    item: &'a Queued,
    places: &'a [ResolvedKey<'a>],
    engine: &H,
    commands: &mut Vec<BatchItem<'a>>,
) -> Result<Part, Failure> {
    let (verb, line, before) = (item.verb, item.line.line(), commands.len());
    let tables = || places.iter().map(|place| place.table.clone()).collect();
    let mut format = ReplyFormat::Ok;
    for (index, place) in places.iter().enumerate() {
        let planned = match item.kind() {
            Kind::Read => rehearse(verb, line, place, engine).map(|()| BatchItem::Read(place.row())),
            // Of several, each row has its own answer, or its own error.
            Kind::ReadMany => Ok(BatchItem::Read(place.row())),
            _ => many::plan_one(Order { verb, line, place, now: engine.now() }, index).map(|(command, planned)| {
                format = planned;
                BatchItem::Change(command)
            }),
        };
        match planned {
            Ok(item) => commands.push(item),
            Err(failure) => {
                commands.truncate(before);
                return Err(failure);
            }
        }
    }
    Ok(match item.kind() {
        Kind::Read => Part::Read(places.first().and_then(|place| place.table.clone())),
        Kind::Change => Part::Change(format),
        _ => Part::Many(tables()),
    })
}

fn rehearse<H: LocalEngine>(verb: Verb, line: Line<'_>, place: &ResolvedKey<'_>, engine: &H) -> Result<(), Failure> {
    let context = Context {
        protocol: wire::Protocol::Resp2,
        now: engine.now(),
        chance: 1,
        applied: None,
        reply_bytes_max: usize::MAX,
        reply_bytes_used: 0,
    };
    read::answer(Ask { verb, line, table: place.typed() }, Found::NEVER, context, &mut Vec::new())
}

/// All rows of a batch must live in one partition, and there is a limit to them.
pub(crate) fn check<'a>(mut rows: impl Iterator<Item = RowKey<'a>>, commands: usize) -> Result<(), Failure> {
    if commands > limits::BATCH_COMMANDS_MAX {
        let limit = limits::BATCH_COMMANDS_MAX;
        let sentence = format!("the transaction touches {commands} rows, the limit is {limit}");
        return Err(Failure::new(ErrorCode::TooLarge, sentence));
    }
    let Some(first) = rows.next() else { return Ok(()) };
    let first = partition_key(first.key);
    if rows.all(|row| partition_key(row.key) == first) { Ok(()) } else { Err(CROSS_PARTITION) }
}

impl Exec {
    /// Where the rows are, if it tells how long one of them has to live.
    pub(crate) fn tells_time_at(&self) -> Option<Position> {
        self.position.filter(|_| self.queued.iter().any(|queued| queued.verb.tells_time_left()))
    }

    pub(crate) fn finish(&self, response: Response, context: Context, catalogue: &Catalogue) -> Progress {
        match response {
            Response::Answer(Answer::Many(replies)) => {
                Progress::written(|out| self.write(&replies, context, catalogue, out))
            }
            // Nothing but what was watched had to be looked at.
            Response::Done => Progress::written(|out| self.write(&[], context, catalogue, out)),
            Response::Answer(Answer::ConditionFailed) => {
                Progress::written(|out| wire::null_array(out, context.protocol))
            }
            other => Progress::failed(&failure_of(&other)),
        }
    }

    /// What was done is done: where the reply would become too long, an error stands in the place of a part, for it alone.
    fn write(&self, replies: &[Reply], context: Context, catalogue: &Catalogue, out: &mut Vec<u8>) {
        let begin = out.len();
        wire::array(out, self.parts.len());
        let mut replies = replies.iter();
        for (part, queued) in self.parts.iter().zip(&self.queued) {
            let start = out.len();
            let context = Context { reply_bytes_used: start - begin, ..context };
            self.write_part(part, queued, &mut replies, context, catalogue, out);
            if out.len() - start > ALWAYS_BYTES
                && let Err(failure) = context.check_size(out.len() - start)
            {
                out.truncate(start);
                failure.write(out);
            }
        }
    }

    fn write_part<'r>(
        &self,
        part: &Part,
        queued: &Queued,
        replies: &mut impl Iterator<Item = &'r Reply>,
        context: Context,
        catalogue: &Catalogue,
        out: &mut Vec<u8>,
    ) {
        let render = RenderContext { protocol: context.protocol, catalogue };
        match part {
            Part::Bytes(bytes) => out.extend_from_slice(bytes),
            Part::Change(format) => match replies.next() {
                Some(reply) => format.write_reply(reply, render, out),
                None => missing().write(out),
            },
            Part::Read(table) => write_read(queued, table.as_ref(), replies.next(), context, out),
            Part::Many(tables) => {
                let taken: Vec<&Reply> = replies.by_ref().take(tables.len()).collect();
                write_many(queued, tables, &taken, context, out);
            }
        }
    }
}

fn missing() -> Failure {
    Failure::new(ErrorCode::Internal, "the batch has fewer replies than commands")
}

fn write_read(queued: &Queued, table: Option<&Arc<Table>>, reply: Option<&Reply>, context: Context, out: &mut Vec<u8>) {
    let table = table.map(|table| &**table).filter(|table| !table.dynamic);
    let ask = Ask { verb: queued.verb, line: queued.line.line(), table };
    let start = out.len();
    let found = reply.ok_or_else(missing).and_then(found_in_reply);
    if let Err(failure) = found.and_then(|found| read::answer(ask, found, context, out)) {
        out.truncate(start);
        failure.write(out);
    }
}

fn write_many(queued: &Queued, tables: &[Option<Arc<Table>>], replies: &[&Reply], context: Context, out: &mut Vec<u8>) {
    match queued.verb {
        Verb::Mget => {
            wire::array(out, tables.len());
            let start = out.len();
            for (index, table) in tables.iter().enumerate() {
                if context.check_size(out.len() - start).is_err() {
                    return;
                }
                write_read(queued, table.as_ref(), replies.get(index).copied(), context, out);
            }
        }
        verb => {
            let refusal = replies.iter().find_map(|reply| found_in_reply(reply).err());
            let counted = replies.iter().map(|reply| match &reply.outcome {
                Outcome::Done { changed, .. } if verb.kind() == Kind::ChangeMany => i64::from(*changed),
                Outcome::Done { .. } => 1,
                Outcome::Refused { .. } => 0,
            });
            match refusal {
                Some(failure) => failure.write(out),
                None if verb == Verb::Mset => wire::ok(out),
                None => wire::integer(out, counted.sum()),
            }
        }
    }
}
