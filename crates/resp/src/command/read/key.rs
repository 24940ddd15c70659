//! Reads about a record as a whole: whether it is there, what it is, how long it has to live.

use shardine_model::Timestamp;

use super::{Ask, Context, Found};
use crate::failure::Failure;
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
