//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`: commands on one partition that become one batch, bound to the watched versions.

mod exec;

use shardine_model::{ErrorCode, Version, limits};
use shardine_router::{LocalEngine, Read, Response};

use crate::command::read::Found;
use crate::command::{change, many};
use crate::connection::{RespConnection, Step, Watched};
use crate::failure::Failure;
use crate::frame::{Line, OwnedLine};
use crate::options::WATCH_MAX;
use crate::value::is;
use crate::verb::{Kind, Verb};
use crate::waiting::{Progress, Waiting, found_in};
use crate::wire::{self, Protocol};

pub(crate) use exec::{Exec, check};

/// What stands between `MULTI` and `EXEC`.
#[derive(Default)]
pub(crate) struct Transaction {
    queued: Vec<Queued>,
    bytes: usize,
    /// A command was refused when it was to be queued; `EXEC` will refuse them all.
    pub(crate) is_spoilt: bool,
}

impl Transaction {
    pub(crate) fn len(&self) -> usize {
        self.queued.len()
    }

    /// Whether something in it may change a record.
    pub(crate) fn changes(&self) -> bool {
        self.queued.iter().any(|queued| match queued.kind() {
            Kind::Change | Kind::ChangeMany => true,
            Kind::Atomic => !queued.verb.only_looks(),
            Kind::Program => !queued.verb.runs_to_look(),
            Kind::Read | Kind::ReadMany | Kind::Call | Kind::Own | Kind::Control => false,
        })
    }
}

struct Queued {
    verb: Verb,
    line: OwnedLine,
}

impl Queued {
    fn kind(&self) -> Kind {
        self.verb.kind_of(self.line.line())
    }

    /// Whether it looks at what is there before it changes something: a batch of changes cannot do that.
    fn looks(&self) -> bool {
        match self.kind() {
            Kind::Program | Kind::Atomic => true,
            Kind::Change => change::looks_first(self.verb, self.line.line()),
            Kind::ChangeMany => self.verb == Verb::Msetnx,
            Kind::Read | Kind::ReadMany | Kind::Call | Kind::Own | Kind::Control => false,
        }
    }
}

/// Puts a command aside until `EXEC`.
pub(crate) fn enqueue(connection: &mut RespConnection, verb: Verb, line: Line<'_>, out: &mut Vec<u8>) -> Step {
    if let Some(failure) = unfit(verb, line) {
        return connection.fail(&failure, out);
    }
    let bytes_max = connection.options.queue_bytes_max;
    let Some(transaction) = &mut connection.transaction else { return Step::Taken };
    let line = line.to_owned();
    transaction.bytes += line.size();
    if transaction.queued.len() == limits::BATCH_COMMANDS_MAX || transaction.bytes > bytes_max {
        // What is queued will never run; keeping it would only hold memory.
        transaction.queued = Vec::new();
        let limit = limits::BATCH_COMMANDS_MAX;
        let sentence = format!("a transaction holds at most {limit} commands and {bytes_max} bytes");
        return connection.fail(&Failure::new(ErrorCode::TooLarge, sentence), out);
    }
    if !transaction.is_spoilt {
        transaction.queued.push(Queued { verb, line });
    }
    connection.queue.reply(out, |out| wire::simple(out, "QUEUED"));
    Step::Taken
}

/// Why a command cannot be part of a batch, if it cannot.
fn unfit(verb: Verb, line: Line<'_>) -> Option<Failure> {
    let waits_for_sql = verb.name().starts_with("REC.") && line.words(2).any(|word| is(word, "ACK"));
    let needs_more = verb.kind() == Kind::Call || matches!(verb, Verb::Hello | Verb::Auth) || waits_for_sql;
    let sentence = || format!("{} cannot be part of a transaction: send it before MULTI or after EXEC", verb.name());
    needs_more.then(|| Failure::unsupported(sentence()))
}

pub(crate) fn control<H: LocalEngine>(
    connection: &mut RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &mut H,
    out: &mut Vec<u8>,
) -> Step {
    match verb {
        Verb::Multi => multi(connection, out),
        Verb::Exec => exec::exec(connection, engine, out),
        Verb::Discard => discard(connection, out),
        Verb::Watch => watch(connection, verb, line, engine, out),
        Verb::Reset => reset(connection, out),
        _ => quit(connection, out),
    }
}

fn multi(connection: &mut RespConnection, out: &mut Vec<u8>) -> Step {
    if connection.transaction.is_some() {
        connection.queue.reply(out, |out| wire::error(out, b"ERR MULTI calls can not be nested"));
        return Step::Taken;
    }
    connection.transaction = Some(Box::default());
    connection.queue.reply(out, wire::ok);
    Step::Taken
}

fn discard(connection: &mut RespConnection, out: &mut Vec<u8>) -> Step {
    if connection.transaction.take().is_none() {
        return connection.fail(&Failure::line("ERR DISCARD without MULTI"), out);
    }
    connection.watched.clear();
    connection.queue.reply(out, wire::ok);
    Step::Taken
}

fn quit(connection: &mut RespConnection, out: &mut Vec<u8>) -> Step {
    connection.queue.reply(out, wire::ok);
    connection.is_closing = true;
    Step::Taken
}

fn reset(connection: &mut RespConnection, out: &mut Vec<u8>) -> Step {
    connection.transaction = None;
    connection.watched.clear();
    connection.name.clear();
    connection.show_names();
    connection.protocol = Protocol::Resp2;
    connection.is_authenticated = connection.options.password.is_none();
    connection.queue.reply(out, |out| wire::simple(out, "RESET"));
    Step::Taken
}

fn watch<H: LocalEngine>(
    connection: &mut RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &mut H,
    out: &mut Vec<u8>,
) -> Step {
    if connection.transaction.is_some() {
        connection.queue.reply(out, |out| wire::error(out, b"ERR WATCH inside MULTI is not allowed"));
        return Step::Taken;
    }
    let places = match many::places(verb, line, engine) {
        Ok(places) => places,
        Err(failure) => return connection.fail(&failure, out),
    };
    if connection.watched.len() + places.len() > WATCH_MAX {
        let failure = Failure::new(ErrorCode::TooLarge, format!("a connection watches at most {WATCH_MAX} keys"));
        return connection.fail(&failure, out);
    }
    let mut watching = Watching { rows: Vec::new(), missing: 0 };
    let id = connection.queue.next_id();
    for (part, place) in places.iter().enumerate() {
        let row = place.row().to_owned();
        let version = match engine.read(place.row()) {
            Read::Live(view) => view.version,
            Read::Absent { version, .. } => version,
            Read::Later => {
                connection.ask_late(id, part, place, engine);
                watching.missing += 1;
                Version::NEVER
            }
        };
        watching.rows.push(Watched { row, version });
    }
    if watching.missing == 0 {
        connection.watched.append(&mut watching.rows);
        connection.queue.reply(out, wire::ok);
    } else {
        connection.queue.wait(connection.protocol, Waiting::Watch(Box::new(watching)));
        connection.blocked = Some(id);
    }
    Step::Taken
}

/// A `WATCH` some of whose versions are still being read. The connection goes on when all are known.
pub(crate) struct Watching {
    rows: Vec<Watched>,
    missing: usize,
}

impl Watching {
    pub(crate) fn advance(&mut self, part: usize, response: &Response) -> Progress {
        let version = match found_in(response) {
            Ok(Found::Live(view)) => view.version,
            Ok(Found::Absent { version, .. }) => version,
            Err(failure) => return Progress::failed(&failure),
        };
        if let Some(watched) = self.rows.get_mut(part) {
            watched.version = version;
        }
        self.missing -= 1;
        if self.missing > 0 { Progress::Wait } else { Progress::Watch(std::mem::take(&mut self.rows)) }
    }
}
