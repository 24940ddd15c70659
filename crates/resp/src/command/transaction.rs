//! `MULTI`, `EXEC`, `DISCARD`, `WATCH`: commands on one partition that become one batch, bound to the watched versions.

mod exec;

use shardine_model::{ErrorCode, Version, limits};
use shardine_router::{LocalEngine, Read, Response};

use crate::command::many;
use crate::command::read::Found;
use crate::failure::Failure;
use crate::frame::{Line, OwnedLine};
use crate::options::WATCH_MAX;
use crate::session::{Session, Step, Watched};
use crate::value::is;
use crate::verb::{Kind, Verb};
use crate::waiting::{Progress, Waiting, found_in};
use crate::wire::{self, Protocol};

pub(crate) use exec::Exec;

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
}

struct Queued {
    verb: Verb,
    line: OwnedLine,
}

/// Puts a command aside until `EXEC`.
pub(crate) fn enqueue(session: &mut Session, verb: Verb, line: Line<'_>, out: &mut Vec<u8>) -> Step {
    if let Some(failure) = unfit(verb, line) {
        return session.fail(&failure, out);
    }
    let bytes_max = session.options.queue_bytes_max;
    let Some(transaction) = &mut session.transaction else { return Step::Taken };
    let line = line.to_owned();
    transaction.bytes += line.size();
    if transaction.queued.len() == limits::BATCH_COMMANDS_MAX || transaction.bytes > bytes_max {
        // What is queued will never run; keeping it would only hold memory.
        transaction.queued = Vec::new();
        let limit = limits::BATCH_COMMANDS_MAX;
        let sentence = format!("a transaction holds at most {limit} commands and {bytes_max} bytes");
        return session.fail(&Failure::new(ErrorCode::TooLarge, sentence), out);
    }
    if !transaction.is_spoilt {
        transaction.queued.push(Queued { verb, line });
    }
    session.queue.reply(out, |out| wire::simple(out, "QUEUED"));
    Step::Taken
}

/// Why a command cannot be part of a batch, if it cannot.
fn unfit(verb: Verb, line: Line<'_>) -> Option<Failure> {
    let looks = matches!(verb, Verb::Expire | Verb::Pexpire | Verb::Expireat | Verb::Pexpireat) && line.len() > 3;
    let waits_for_sql = verb.name().starts_with("REC.") && line.words(2).any(|word| is(word, "ACK"));
    let needs_more = verb.kind() == Kind::Call
        || matches!(verb, Verb::Setrange | Verb::Hello | Verb::Auth)
        || looks
        || waits_for_sql;
    let sentence = || format!("{} cannot be part of a transaction: send it before MULTI or after EXEC", verb.name());
    needs_more.then(|| Failure::unsupported(sentence()))
}

pub(crate) fn control<H: LocalEngine>(
    session: &mut Session,
    verb: Verb,
    line: Line<'_>,
    engine: &mut H,
    out: &mut Vec<u8>,
) -> Step {
    match verb {
        Verb::Multi => multi(session, out),
        Verb::Exec => exec::exec(session, engine, out),
        Verb::Discard => discard(session, out),
        Verb::Watch => watch(session, verb, line, engine, out),
        Verb::Reset => reset(session, out),
        _ => quit(session, out),
    }
}

fn multi(session: &mut Session, out: &mut Vec<u8>) -> Step {
    if session.transaction.is_some() {
        session.queue.reply(out, |out| wire::error(out, "ERR MULTI calls can not be nested (bad_request)"));
        return Step::Taken;
    }
    session.transaction = Some(Box::default());
    session.queue.reply(out, wire::ok);
    Step::Taken
}

fn discard(session: &mut Session, out: &mut Vec<u8>) -> Step {
    if session.transaction.take().is_none() {
        return session.fail(&Failure::line("ERR DISCARD without MULTI (bad_request)"), out);
    }
    session.watched.clear();
    session.queue.reply(out, wire::ok);
    Step::Taken
}

fn quit(session: &mut Session, out: &mut Vec<u8>) -> Step {
    session.queue.reply(out, wire::ok);
    session.is_closing = true;
    Step::Taken
}

fn reset(session: &mut Session, out: &mut Vec<u8>) -> Step {
    session.transaction = None;
    session.watched.clear();
    session.name.clear();
    session.protocol = Protocol::Resp2;
    session.is_authenticated = session.options.password.is_none();
    session.queue.reply(out, |out| wire::simple(out, "RESET"));
    Step::Taken
}

fn watch<H: LocalEngine>(session: &mut Session, verb: Verb, line: Line<'_>, engine: &mut H, out: &mut Vec<u8>) -> Step {
    if session.transaction.is_some() {
        session.queue.reply(out, |out| wire::error(out, "ERR WATCH inside MULTI is not allowed (bad_request)"));
        return Step::Taken;
    }
    let places = match many::places(verb, line, engine) {
        Ok(places) => places,
        Err(failure) => return session.fail(&failure, out),
    };
    if session.watched.len() + places.len() > WATCH_MAX {
        let failure = Failure::new(ErrorCode::TooLarge, format!("a connection watches at most {WATCH_MAX} keys"));
        return session.fail(&failure, out);
    }
    let mut watching = Watching { rows: Vec::new(), missing: 0 };
    let id = session.queue.next_id();
    for (part, place) in places.iter().enumerate() {
        let row = place.row().to_owned();
        let version = match engine.read(place.row()) {
            Read::Live(view) => view.version,
            Read::Absent { version, .. } => version,
            Read::Later => {
                session.ask_late(id, part, place, engine);
                watching.missing += 1;
                Version::NEVER
            }
        };
        watching.rows.push(Watched { row, version });
    }
    if watching.missing == 0 {
        session.watched.append(&mut watching.rows);
        session.queue.reply(out, wire::ok);
    } else {
        session.queue.wait(session.protocol, Waiting::Watch(Box::new(watching)));
        session.blocked = Some(id);
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
