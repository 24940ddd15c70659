//! How the answer of a change prints. Small and copied: a waiting command costs no allocation.

use shardine_model::row::{FieldsView, RowImage};
use shardine_model::{AckAfter, Answer, Catalogue, ErrorCode, Outcome, Reply, TableId, ValueRef};
use shardine_router::Response;

use crate::command::record;
use crate::failure::{
    Failure, HASH_NOT_A_FLOAT, HASH_NOT_AN_INTEGER, NOT_A_FLOAT, NOT_AN_INTEGER, NOT_FINITE, OVERFLOW, STRING_TOO_LONG,
    WRONG_KIND,
};
use crate::value::{Slot, integer, with_text, write_bulk};
use crate::verb::Verb;
use crate::wire::{self, Protocol};

/// What a counting command counts, which decides the words of its errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    Integer,
    Float,
    HashInteger,
    HashFloat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyFormat {
    /// `OK`.
    Ok,
    /// `OK`, or null if the record did not exist, or did, against the condition.
    Set,
    /// How many fields or records were made or removed.
    Changed,
    /// 1 if it was done, 0 if the record did not exist, or did.
    Whether,
    /// The string before the change, or null.
    OldString(TableId),
    /// The new value of the one field that was touched.
    Counter(Counter),
    /// The length of the one field that was touched.
    Length,
    /// What a bit was before.
    Bit(bool),
    /// The record was only looked at; what is wrong with the command itself.
    Faulty(Fault),
    /// Versions and values (`REC.…`).
    Record { table: TableId, ack: AckAfter, gives: Gives },
}

/// What is wrong with a command that Redis only tells once it has looked whether there is a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    TimeIsNoInteger,
    TimeIsNone,
    TooLong,
    StepIsNoFloat,
}

impl Fault {
    pub(crate) fn failure(self, verb: Verb) -> Failure {
        match self {
            Self::TimeIsNoInteger => NOT_AN_INTEGER,
            Self::TimeIsNone => Failure::bad_expiry(verb),
            Self::TooLong => STRING_TOO_LONG,
            Self::StepIsNoFloat => NOT_A_FLOAT,
        }
    }
}

/// What a write of `REC.…` answers beside the versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gives {
    Versions,
    /// Whether the record was there.
    Existed,
    /// Fields and values, or null.
    Values,
}

/// The definitions and the protocol that an answer is printed by.
#[derive(Clone, Copy)]
pub(crate) struct RenderContext<'a> {
    pub(crate) protocol: Protocol,
    pub(crate) catalogue: &'a Catalogue,
}

impl ReplyFormat {
    /// Prints what came back for one change.
    #[inline]
    pub(crate) fn write(self, response: &Response, render: RenderContext<'_>, out: &mut Vec<u8>) {
        match one_reply(response) {
            Ok(reply) => self.write_reply(reply, render, out),
            Err(failure) => failure.write(out),
        }
    }

    #[inline]
    pub(crate) fn write_reply(self, reply: &Reply, render: RenderContext<'_>, out: &mut Vec<u8>) {
        if let ReplyFormat::Record { table, ack, gives } = self {
            return record::write_reply(reply, table, gives, ack, render, out);
        }
        match &reply.outcome {
            Outcome::Done { changed, row } => self.write_done(*changed, row.as_ref(), render, out),
            Outcome::Refused { code, row } => self.write_refused(*code, row.as_ref(), render, out),
        }
    }

    #[inline]
    fn write_done(self, changed: u32, row: Option<&RowImage>, render: RenderContext<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Ok | Self::Set => wire::ok(out),
            Self::Changed => wire::integer(out, i64::from(changed)),
            Self::Whether => wire::integer(out, 1),
            Self::OldString(table) => write_string(row, table, render, out),
            Self::Counter(counter) => write_counter(counter, row, out),
            Self::Length => {
                let length = touched(row, |value| with_text(value, <[u8]>::len));
                wire::integer(out, length.unwrap_or(0) as i64);
            }
            Self::Bit(old) => wire::integer(out, i64::from(old)),
            Self::Faulty(fault) => fault.failure(Verb::Getex).write(out),
            Self::Record { .. } => {}
        }
    }

    fn write_refused(self, code: ErrorCode, row: Option<&RowImage>, render: RenderContext<'_>, out: &mut Vec<u8>) {
        let by_existence = matches!(code, ErrorCode::NotFound | ErrorCode::Exists);
        if code == ErrorCode::WrongType && row.is_some_and(|row| row.packed.is_empty()) {
            return WRONG_KIND.write(out);
        }
        match self {
            // `GETEX` finds nothing; the others would have made something.
            Self::Faulty(Fault::TimeIsNoInteger | Fault::TimeIsNone) if by_existence => {
                wire::null(out, render.protocol)
            }
            Self::Faulty(fault) if by_existence => fault.failure(Verb::Getex).write(out),
            Self::Length if code == ErrorCode::TooLarge => STRING_TOO_LONG.write(out),
            Self::Set if by_existence => wire::null(out, render.protocol),
            Self::Changed | Self::Whether if by_existence => wire::integer(out, 0),
            Self::OldString(table) if by_existence => write_string(row, table, render, out),
            Self::Counter(counter) => refused_count(counter, code).write(out),
            _ if code == ErrorCode::WrongType => WRONG_KIND.write(out),
            _ => Failure::from(code).write(out),
        }
    }
}

/// The one reply in an answer, or the error that came instead.
#[inline]
pub(crate) fn one_reply(response: &Response) -> Result<&Reply, Failure> {
    match response {
        Response::Answer(Answer::One(reply)) | Response::Stale { reply, .. } => Ok(reply),
        other => Err(failure_of(other)),
    }
}

/// The error in a response that should have been something else.
pub(crate) fn failure_of(response: &Response) -> Failure {
    match response {
        Response::Refused(refusal) => Failure::from(refusal.clone()),
        Response::Answer(Answer::Failed(code)) => Failure::from(*code),
        Response::Answer(Answer::ConditionFailed) => Failure::from(ErrorCode::VersionMismatch),
        Response::Answer(Answer::One(reply)) | Response::Stale { reply, .. } => {
            Failure::from(reply.refusal().unwrap_or(ErrorCode::Internal))
        }
        Response::Answer(Answer::Many(_))
        | Response::Page(_)
        | Response::Count(_)
        | Response::Table(_)
        | Response::Status(_)
        | Response::Writeback(_)
        | Response::Coord(_)
        | Response::Routes(_)
        | Response::Moved(_)
        | Response::Drain(_)
        | Response::Balance(_)
        | Response::Place { .. }
        | Response::Verified(_)
        | Response::DeadLetters(_)
        | Response::Explanation(_)
        | Response::Written(_)
        | Response::Elsewhere(_)
        | Response::Done => Failure::new(ErrorCode::Internal, "the answer is of another kind than the question"),
    }
}

fn write_string(row: Option<&RowImage>, table: TableId, render: RenderContext<'_>, out: &mut Vec<u8>) {
    let table = render.catalogue.get(table).map(|table| &**table).filter(|table| !table.dynamic);
    let value = row.and_then(|row| Slot::of_string(table).ok()?.read(&row.view()));
    match value {
        Some(value) => write_bulk(out, value),
        None => wire::null(out, render.protocol),
    }
}

fn touched<T>(row: Option<&RowImage>, look: impl FnOnce(ValueRef<'_>) -> T) -> Option<T> {
    let view: FieldsView<'_> = row?.view();
    let entry = view.iter().next()?;
    Some(look(entry.value))
}

fn write_counter(counter: Counter, row: Option<&RowImage>, out: &mut Vec<u8>) {
    let written = touched(row, |value| match (counter, value) {
        (Counter::Float | Counter::HashFloat, value) => write_bulk(out, value),
        // A decimal that was counted with whole numbers may have a part behind its point all the same.
        (Counter::Integer | Counter::HashInteger, value @ ValueRef::Sql(_)) => write_bulk(out, value),
        (Counter::Integer | Counter::HashInteger, ValueRef::Uint(number)) => {
            // Above the signed range, the digits still stand; clients with big integers read them.
            out.extend_from_slice(format!(":{number}\r\n").as_bytes());
        }
        (Counter::Integer | Counter::HashInteger, value) => {
            wire::integer(out, with_text(value, integer).unwrap_or_default());
        }
    });
    if written.is_none() {
        Failure::new(ErrorCode::Internal, "the new value did not come back").write(out);
    }
}

fn refused_count(counter: Counter, code: ErrorCode) -> Failure {
    match (code, counter) {
        (ErrorCode::WrongType, Counter::Integer) => NOT_AN_INTEGER,
        (ErrorCode::WrongType, Counter::Float) => NOT_A_FLOAT,
        (ErrorCode::WrongType, Counter::HashInteger) => HASH_NOT_AN_INTEGER,
        (ErrorCode::WrongType, Counter::HashFloat) => HASH_NOT_A_FLOAT,
        (ErrorCode::Overflow, Counter::Float | Counter::HashFloat) => NOT_FINITE,
        (ErrorCode::Overflow, Counter::Integer | Counter::HashInteger) => OVERFLOW,
        (code, _) => Failure::from(code),
    }
}

/// Redis's words for a command with too many or too few of them.
pub(crate) fn wrong_arity(name: &str) -> Failure {
    let name = name.to_ascii_lowercase();
    Failure::line(format!("ERR wrong number of arguments for '{name}' command"))
}
