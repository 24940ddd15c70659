//! Reads about a record as a whole: whether it is there, what it is, how long it has to live.

use shardine_model::Timestamp;

use super::{Ask, Context, Found};
use crate::command::describe::no_subcommand;
use crate::failure::{Failure, NOT_AN_INTEGER, SYNTAX};
use crate::value::{integer, is, with_text};
use crate::verb::Verb;
use crate::wire;

pub(super) fn exists(found: Found<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    wire::integer(out, i64::from(found.fields().is_some()));
    Ok(())
}

/// A record of the dynamic table is a string or a hash; every other is a hash.
pub(super) fn kind(ask: Ask<'_>, found: Found<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let name = match found.fields() {
        None => "none",
        Some(fields) => kind_of(ask.table.is_some(), fields),
    };
    wire::simple(out, name);
    Ok(())
}

pub(crate) fn kind_of(is_typed: bool, fields: &shardine_model::FieldsView<'_>) -> &'static str {
    if !is_typed && fields.is_string() { "string" } else { "hash" }
}

/// `OBJECT ENCODING | REFCOUNT key`: what Redis would say of the same record with its defaults. Nobody counts accesses here.
pub(super) fn object(ask: Ask<'_>, found: Found<'_>, context: Context, out: &mut Vec<u8>) -> Result<(), Failure> {
    let what = ask.line.word(1);
    let is_known = ["ENCODING", "REFCOUNT", "FREQ", "IDLETIME"].iter().any(|known| is(what, known));
    if !is_known || ask.line.len() > 3 {
        return Err(no_subcommand(ask.verb, ask.line));
    }
    let Some(fields) = found.fields() else {
        wire::null(out, context.protocol);
        return Ok(());
    };
    if is(what, "REFCOUNT") {
        wire::integer(out, 1);
    } else if is(what, "ENCODING") {
        wire::bulk(out, encoding(ask.table.is_some(), fields).as_bytes());
    } else {
        return Err(Failure::unsupported("nobody counts accesses to records, or how long ago they were"));
    }
    Ok(())
}

/// Lengths at which Redis chooses another form: of an embedded string, and of fields and values in a short hash.
const EMBEDDED_BYTES_MAX: usize = 44;
const LISTPACK_FIELDS_MAX: usize = 512;
const LISTPACK_BYTES_MAX: usize = 64;

fn encoding(is_typed: bool, fields: &shardine_model::FieldsView<'_>) -> &'static str {
    let size = |value: shardine_model::ValueRef<'_>| with_text(value, <[u8]>::len);
    if is_typed || !fields.is_string() {
        let is_short = |field: shardine_model::FieldValue<'_>| {
            let name = if let shardine_model::FieldRef::Name(name) = field.field { name.len() } else { 0 };
            name.max(size(field.value)) <= LISTPACK_BYTES_MAX
        };
        let is_small = fields.count() <= LISTPACK_FIELDS_MAX && fields.iter().all(is_short);
        return if is_small { "listpack" } else { "hashtable" };
    }
    match fields.iter().next().map(|field| field.value) {
        Some(value) if with_text(value, integer).is_some() => "int",
        Some(value) if size(value) > EMBEDDED_BYTES_MAX => "raw",
        _ => "embstr",
    }
}

/// `MEMORY USAGE key [SAMPLES count]`: the bytes of its key and fields, and what a record takes beside them.
pub(super) fn memory(ask: Ask<'_>, found: Found<'_>, context: Context, out: &mut Vec<u8>) -> Result<(), Failure> {
    if !is(ask.line.word(1), "USAGE") {
        return Err(no_subcommand(ask.verb, ask.line));
    }
    match ask.line.len() {
        3 => {}
        5 if is(ask.line.word(3), "SAMPLES") => {
            integer(ask.line.word(4)).ok_or(NOT_AN_INTEGER)?;
        }
        _ => return Err(SYNTAX),
    }
    match found.fields() {
        None => wire::null(out, context.protocol),
        Some(fields) => {
            let name = |field| if let shardine_model::FieldRef::Name(name) = field { name.len() } else { 0 };
            let bytes: usize = fields.iter().map(|field| name(field.field) + field.value.size() + FIELD_BYTES).sum();
            wire::integer(out, (bytes + ask.line.word(2).len() + RECORD_BYTES) as i64);
        }
    }
    Ok(())
}

/// Around a field: its tags and lengths. Around a record: its place in the index, its allocation and its versions.
const FIELD_BYTES: usize = 4;
const RECORD_BYTES: usize = 48;

/// How a command wants a time to live: left or when, in seconds or milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeToLive {
    SecondsLeft,
    MillisecondsLeft,
    AtSecond,
    AtMillisecond,
}

impl TimeToLive {
    pub(crate) fn of(verb: Verb) -> Option<Self> {
        match verb {
            Verb::Ttl => Some(Self::SecondsLeft),
            Verb::Pttl => Some(Self::MillisecondsLeft),
            Verb::Expiretime => Some(Self::AtSecond),
            Verb::Pexpiretime => Some(Self::AtMillisecond),
            _ => None,
        }
    }

    /// Redis's numbers: -2 without a record, -1 without an end.
    pub(crate) fn number(self, is_live: bool, expires_at: Option<Timestamp>, now: Timestamp) -> i64 {
        let Some(at) = expires_at.filter(|_| is_live) else { return if is_live { -1 } else { -2 } };
        let left = at.0.saturating_sub(now.0);
        let number = match self {
            Self::SecondsLeft => left.saturating_add(500) / 1_000,
            Self::MillisecondsLeft => left,
            Self::AtSecond => at.0 / 1_000,
            Self::AtMillisecond => at.0,
        };
        i64::try_from(number).unwrap_or(i64::MAX)
    }
}

pub(super) fn ttl(ask: Ask<'_>, found: Found<'_>, context: Context, out: &mut Vec<u8>) -> Result<(), Failure> {
    let Some(form) = TimeToLive::of(ask.verb) else { return Err(Failure::unsupported(ask.verb.name())) };
    let (is_live, expires_at) = match found {
        Found::Live(view) => (true, view.expires_at),
        Found::Absent { .. } => (false, None),
    };
    wire::integer(out, form.number(is_live, expires_at, context.now));
    Ok(())
}
