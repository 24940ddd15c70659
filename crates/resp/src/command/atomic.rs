//! Commands that look at rows of one partition and change them at one moment. They are carried out where the rows are led, on rows
//! that nobody else changes meanwhile ([`Inside`](crate::Inside)); a connection sends them there whole.

mod bitfield;
mod bitop;
mod dump;
mod lcs;
mod rename;

use shardine_model::command::{Batch, BatchItem, BatchMode, Body, Command};
use shardine_model::{Answer, Request, RowImage, Timestamp};
use shardine_router::{LocalEngine, Read, Response};

use crate::address::{self, ResolvedKey};
use crate::command::change::{self, Order};
use crate::command::read::{self, Ask, Found};
use crate::command::reply_format::failure_of;
use crate::connection::{RespConnection, Step};
use crate::failure::Failure;
use crate::frame::{Line, OwnedLine};
use crate::value::with_text;
use crate::verb::Verb;
use crate::waiting::{Progress, Waiting};

/// Why a command is not carried out.
pub(crate) enum Halt {
    Failed(Failure),
    /// A row is not at hand: whoever runs the program gets it, and begins again.
    Missing,
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<shardine_model::Refusal> for Halt {
    fn from(refusal: shardine_model::Refusal) -> Self {
        Self::Failed(refusal.into())
    }
}

type Outcome = Result<(), Halt>;

/// One such command under way.
pub(crate) struct Scene<'a, H> {
    connection: &'a mut RespConnection,
    verb: Verb,
    line: Line<'a>,
    engine: &'a mut H,
    out: &'a mut Vec<u8>,
}

/// A row as it was found.
pub(crate) struct Taken {
    fields: RowImage,
    expires_at: Option<Timestamp>,
}

pub(crate) fn run<H: LocalEngine>(
    connection: &mut RespConnection,
    verb: Verb,
    line: Line<'_>,
    engine: &mut H,
    out: &mut Vec<u8>,
) -> Step {
    let mut scene = Scene { connection, verb, line, engine, out };
    let done = match verb {
        Verb::Rename | Verb::Renamenx => rename::rename(&mut scene),
        Verb::Copy => rename::copy(&mut scene),
        Verb::Bitop => bitop::bitop(&mut scene),
        Verb::Dump => dump::dump(&mut scene),
        Verb::Restore => dump::restore(&mut scene),
        Verb::Bitfield | Verb::BitfieldRo => bitfield::bitfield(&mut scene),
        _ => lcs::lcs(&mut scene),
    };
    match done {
        Ok(()) => Step::Taken,
        Err(Halt::Failed(failure)) => scene.connection.fail(&failure, scene.out),
        Err(Halt::Missing) => {
            scene.connection.queue.wait(scene.connection.protocol, Waiting::Never);
            Step::Taken
        }
    }
}

/// The words that are keys of such a command.
pub(crate) fn keys<'a>(verb: Verb, line: Line<'a>) -> Vec<&'a [u8]> {
    let keys = verb.keys();
    let last = if keys.last < 0 { line.len() as i64 + keys.last } else { keys.last };
    let count = (last - keys.first + 1).max(0) as usize;
    line.words(keys.first as usize).take(count).collect()
}

impl<'a, H: LocalEngine> Scene<'a, H> {
    fn place(&self, word: usize) -> Result<ResolvedKey<'a>, Halt> {
        Ok(address::parse(self.line.word(word), self.engine.catalogue())?)
    }

    /// The whole row; `None` if there is none.
    fn take(&mut self, place: &ResolvedKey<'_>) -> Result<Option<Taken>, Halt> {
        match self.engine.read(place.row()) {
            Read::Live(view) => Ok(Some(Taken { fields: view.fields.to_image(), expires_at: view.expires_at })),
            Read::Absent { .. } => Ok(None),
            Read::Later => Err(Halt::Missing),
        }
    }

    /// The string of a row; `None` if there is none.
    fn string(&mut self, place: &ResolvedKey<'_>) -> Result<Option<Vec<u8>>, Halt> {
        let ask = Ask { verb: self.verb, line: self.line, table: place.typed() };
        let found = match self.engine.read(place.row()) {
            Read::Live(view) => Found::Live(view),
            Read::Absent { version, sql_version } => Found::Absent { version, sql_version },
            Read::Later => return Err(Halt::Missing),
        };
        let value = read::string_of(ask, &found)?;
        Ok(value.map(|value| with_text(value, <[u8]>::to_vec)))
    }

    /// Makes the changes, and answers with this once they are made.
    fn change(&mut self, commands: Vec<Command<'_>>, reply: impl FnOnce(&mut Vec<u8>)) -> Outcome {
        let mut bytes = Vec::new();
        reply(&mut bytes);
        let commands = commands.into_iter().map(BatchItem::Change).collect();
        let batch = Batch { mode: BatchMode::AllOrNone, conditions: Vec::new(), commands };
        let id = self.connection.queue.wait(self.connection.protocol, Waiting::Changed(bytes));
        let ticket = self.connection.ticket(id, 0);
        self.engine.submit(&Request { origin: None, body: Body::Batch(batch) }, ticket);
        Ok(())
    }

    /// Makes a row hold a string, as `SET` with these options does.
    fn set(&mut self, key: &[u8], value: &[u8], options: &[&[u8]], reply: impl FnOnce(&mut Vec<u8>)) -> Outcome {
        let words = [&[b"SET", key, value], options].concat();
        let line = OwnedLine::of(&words);
        let catalogue = self.engine.catalogue().clone();
        let place = address::parse(key, &catalogue)?;
        let order = Order { verb: Verb::Set, line: line.line(), place: &place, now: self.engine.now() };
        let (command, _) = change::plan(order)?;
        self.change(vec![command], reply)
    }

    fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Outcome {
        self.connection.queue.reply(self.out, write);
        Ok(())
    }
}

/// What has become of the changes, whose reply is known.
pub(crate) fn changed(reply: &[u8], response: &Response) -> Progress {
    match response {
        Response::Answer(Answer::Many(replies)) => match replies.iter().find_map(shardine_model::Reply::refusal) {
            Some(code) => Progress::failed(&Failure::from(code)),
            None => Progress::Reply(reply.to_vec()),
        },
        other => Progress::failed(&failure_of(other)),
    }
}
