//! What is sent whole to whoever leads the rows, and executed there at one moment: scripts, transactions that have one, and commands
//! that look at several rows before they change them.

use shardine_model::key::partition_key;
use shardine_model::table::KV;
use shardine_model::{RowKey, RowKeyBuf};
use shardine_router::{LocalEngine, Program, Response, RowCall, Step as ProgramStep, Ticket};

use crate::address;
use crate::book::{Header, digest};
use crate::command::reply_format::failure_of;
use crate::command::scripts::{check_size, sum_of};
use crate::command::{atomic, many};
use crate::connection::{RespConnection, Step};
use crate::failure::{CROSS_SCRIPT, Failure, NOT_AN_INTEGER};
use crate::frame::Line;
use crate::value::integer;
use crate::verb::{Kind, Verb};
use crate::waiting::{Progress, Waiting};
use crate::wire::Protocol;

/// How often a script that names no keys is sent on to where it looked.
const JOURNEYS_MAX: u32 = 4;

/// A program under way.
pub(crate) struct Running {
    /// Kept of one that may have to go elsewhere.
    wanderer: Option<Box<Program>>,
    journeys: u32,
}

pub(crate) fn start<H: LocalEngine>(
    connection: &mut RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &mut H,
    out: &mut Vec<u8>,
) -> Step {
    if connection.is_inside && verb.kind() == Kind::Atomic {
        return atomic::run(connection, verb, line, engine, out);
    }
    // It sees what the commands before it did, and they do not see what it does.
    if connection.has_late_reads() {
        return Step::NotYet;
    }
    match plan(connection, verb, line, engine) {
        Err(failure) => connection.fail(&failure, out),
        Ok(program) => {
            send(connection, program, engine);
            Step::Taken
        }
    }
}

/// Sends a program off. Nothing else of the connection is executed before its reply is there.
pub(crate) fn send<H: LocalEngine>(connection: &mut RespConnection, program: Program, engine: &mut H) {
    let program = Box::new(program);
    let wanderer = program.wanders.then(|| program.clone());
    let running = Running { wanderer, journeys: 0 };
    let id = connection.queue.wait(connection.protocol, Waiting::Program(Box::new(running)));
    engine.call(RowCall::Run(program).into(), connection.ticket(id, 0));
    connection.blocked = Some(id);
}

impl Running {
    pub(crate) fn advance<H: LocalEngine>(&mut self, response: Response, ticket: Ticket, engine: &mut H) -> Progress {
        match response {
            Response::Written(bytes) => Progress::Reply(bytes),
            Response::Elsewhere(row) => {
                self.journeys += 1;
                match &self.wanderer {
                    Some(program) if self.journeys <= JOURNEYS_MAX => {
                        let program = Box::new(Program { home: row, ..Program::clone(program) });
                        engine.call(RowCall::Run(program).into(), ticket);
                        Progress::Wait
                    }
                    _ => Progress::failed(&CROSS_SCRIPT),
                }
            }
            other => Progress::failed(&failure_of(&other)),
        }
    }
}

fn plan<H: LocalEngine>(
    connection: &RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &H,
) -> Result<Program, Failure> {
    let (step, rows) = step(connection, verb, line, engine)?;
    let reads_only = match &step {
        ProgramStep::Script { reads_only, .. } | ProgramStep::Function { reads_only, .. } => *reads_only,
        ProgramStep::Command { .. } | ProgramStep::Said { .. } => verb.only_looks(),
    };
    let home = one_partition(rows.iter().map(RowKeyBuf::as_ref), &CROSS_SCRIPT)?;
    Ok(Program {
        wanders: home.is_none(),
        home: home.unwrap_or_else(anywhere),
        resp3: connection.protocol == Protocol::Resp3,
        is_transaction: false,
        reads_only,
        watched: Vec::new(),
        steps: vec![step],
    })
}

/// What is answered in the place of a command, whatever the others come to.
pub(crate) fn said(reply: Vec<u8>) -> ProgramStep {
    ProgramStep::Said { reply: reply.into() }
}

/// Where a program begins that does not say which rows it is about.
pub(crate) fn anywhere() -> RowKeyBuf {
    RowKey { table: KV, key: b"", sort: b"" }.to_owned()
}

/// The first row, if all share its partition.
pub(crate) fn one_partition<'a>(
    mut rows: impl Iterator<Item = RowKey<'a>>,
    otherwise: &Failure,
) -> Result<Option<RowKeyBuf>, Failure> {
    let Some(first) = rows.next() else { return Ok(None) };
    let partition = partition_key(first.key);
    let fits = rows.all(|row| partition_key(row.key) == partition);
    if fits { Ok(Some(first.to_owned())) } else { Err(otherwise.clone()) }
}

/// One command as a step, and the rows that it names.
pub(crate) fn step<H: LocalEngine>(
    connection: &RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &H,
) -> Result<(ProgramStep, Vec<RowKeyBuf>), Failure> {
    if matches!(verb, Verb::Fcall | Verb::FcallRo) {
        return function(connection, verb, line, engine);
    }
    if verb.kind() == Kind::Program {
        return script(connection, verb, line, engine);
    }
    let places = match verb.kind_of(line) {
        Kind::Read | Kind::Change => {
            smallvec::smallvec![address::parse(line.word(verb.key_place()), engine.catalogue())?]
        }
        Kind::ReadMany | Kind::ChangeMany => many::places(verb, line, engine)?,
        Kind::Atomic => {
            let places = atomic::keys(verb, line).into_iter().map(|key| address::parse(key, engine.catalogue()));
            places.collect::<Result<_, _>>()?
        }
        Kind::Call | Kind::Own | Kind::Control | Kind::Program => Default::default(),
    };
    let rows = places.iter().map(|place| place.row().to_owned()).collect();
    Ok((ProgramStep::Command { words: line.words(0).map(Into::into).collect() }, rows))
}

fn script<H: LocalEngine>(
    connection: &RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &H,
) -> Result<(ProgramStep, Vec<RowKeyBuf>), Failure> {
    let book = &connection.options.scripts;
    let text = match verb {
        Verb::Eval | Verb::EvalRo => {
            check_size(line.word(1))?;
            line.word(1).into()
        }
        _ => sum_of(line.word(1)).and_then(|sum| book.get(sum)).ok_or(NO_SCRIPT)?,
    };
    let count = integer(line.word(2)).ok_or(NOT_AN_INTEGER)?;
    if count > line.len() as i64 - 3 {
        return Err(Failure::line("ERR Number of keys can't be greater than number of args"));
    }
    let count = usize::try_from(count).map_err(|_| Failure::line("ERR Number of keys can't be negative"))?;
    let header = Header::of(&text).map_err(|why| Failure::line(format!("ERR {why}")))?;
    let wants_reads_only = matches!(verb, Verb::EvalRo | Verb::EvalshaRo);
    if wants_reads_only && header.is_there && !header.no_writes {
        return Err(Failure::line("ERR Can not execute a script with write flag using *_ro command."));
    }
    if matches!(verb, Verb::Eval | Verb::EvalRo) {
        book.put(digest(&text), &text);
    }
    let (keys, args, rows) = split(line, count, engine)?;
    let reads_only = wants_reads_only || header.no_writes;
    Ok((ProgramStep::Script { text: text.as_ref().into(), keys, args, reads_only }, rows))
}

/// A call of a function by its name: its library's text goes along, so that it is executed as this node has it.
fn function<H: LocalEngine>(
    connection: &RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &H,
) -> Result<(ProgramStep, Vec<RowKeyBuf>), Failure> {
    let held = connection.options.shelf.held();
    let name = std::str::from_utf8(line.word(1)).ok();
    let (library, function) =
        name.and_then(|name| held.function(name)).ok_or(Failure::of_redis("ERR Function not found"))?;
    let count = integer(line.word(2)).ok_or(Failure::of_redis("ERR Bad number of keys provided"))?;
    if count > line.len() as i64 - 3 {
        return Err(Failure::of_redis("ERR Number of keys can't be greater than number of args"));
    }
    let count = usize::try_from(count).map_err(|_| Failure::of_redis("ERR Number of keys can't be negative"))?;
    if verb == Verb::FcallRo && !function.reads_only() {
        return Err(Failure::of_redis("ERR Can not execute a script with write flag using *_ro command."));
    }
    let (keys, args, rows) = split(line, count, engine)?;
    let (library, name, reads_only) = (library.text.as_ref().into(), line.word(1).into(), function.reads_only());
    Ok((ProgramStep::Function { library, name, keys, args, reads_only }, rows))
}

type Words = Vec<Box<[u8]>>;

/// The words behind the number of keys: keys, the others, and the rows that the keys name.
fn split<H: LocalEngine>(line: Line<'_>, keys: usize, engine: &H) -> Result<(Words, Words, Vec<RowKeyBuf>), Failure> {
    let words = |from: usize, to: usize| line.words(from).take(to - from).map(Into::into).collect::<Words>();
    let (keys, args) = (words(3, 3 + keys), words(3 + keys, line.len()));
    let rows = keys.iter().map(|key| Ok(address::parse(key, engine.catalogue())?.row().to_owned()));
    let rows = rows.collect::<Result<Vec<_>, Failure>>()?;
    Ok((keys, args, rows))
}

const NO_SCRIPT: Failure = Failure::of_redis("NOSCRIPT No matching script. Please use EVAL.");
