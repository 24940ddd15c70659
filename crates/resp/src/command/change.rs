//! Commands that change one row: from words to a command of the model, and the format that its answer will have.
//!
//! Nothing is executed here. A command that Redis decides by looking first (`EXPIRE … NX`) is planned with what was
//! seen, and bound to the version that was seen.

mod hash;
mod key;
mod string;

pub(crate) use string::setrange_offset;

use shardine_model::{Command, Timestamp, Version};

use crate::address::ResolvedKey;
use crate::command::read::Found;
use crate::command::record;
use crate::command::reply_format::ReplyFormat;
use crate::failure::Failure;
use crate::frame::Line;
use crate::verb::Verb;

/// A change command, checked for its number of words.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    pub(crate) verb: Verb,
    pub(crate) line: Line<'a>,
    pub(crate) place: &'a ResolvedKey<'a>,
    pub(crate) now: Timestamp,
}

/// What is to be submitted, and how its answer prints.
pub(crate) type Plan<'a> = (Command<'a>, ReplyFormat);

#[inline]
pub(crate) fn plan(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    match order.verb {
        Verb::Hset => hash::hset(order, ReplyFormat::Changed),
        Verb::Set => string::set(order),
        _ => plan_rarer(order),
    }
}

fn plan_rarer(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    match order.verb {
        Verb::Hmset => hash::hset(order, ReplyFormat::Ok),
        Verb::Hsetnx => hash::hsetnx(order),
        Verb::Hdel => hash::hdel(order),
        Verb::Hincrby => hash::hincrby(order),
        Verb::Hincrbyfloat => hash::hincrbyfloat(order),
        Verb::Setnx => string::setnx(order),
        Verb::Setex | Verb::Psetex => string::setex(order),
        Verb::Getset => string::getset(order),
        Verb::Getdel => string::getdel(order),
        Verb::Getex => string::getex(order),
        Verb::Incr | Verb::Decr | Verb::Incrby | Verb::Decrby => string::incrby(order),
        Verb::Incrbyfloat => string::incrbyfloat(order),
        Verb::Append => string::append(order),
        Verb::Setrange => string::setrange(order),
        Verb::Expire | Verb::Pexpire | Verb::Expireat | Verb::Pexpireat => key::expire(order),
        Verb::Persist => key::persist(order),
        Verb::Del | Verb::Unlink => key::delete(order),
        Verb::RecSet | Verb::RecInsert | Verb::RecReplace => record::set(order),
        Verb::RecUpdate => record::update(order),
        Verb::RecCas => record::cas(order),
        Verb::RecDel => record::delete(order),
        other => Err(Failure::unsupported(format!("{} cannot be planned without looking", other.name()))),
    }
}

/// One pair of `MSET`: the value stands behind its key.
pub(crate) fn plan_pair<'a>(order: Order<'a>, value: &'a [u8]) -> Result<Plan<'a>, Failure> {
    string::mset(order, value)
}

/// What a command that looks first decides.
#[allow(clippy::large_enum_variant)] // Lives on the stack, for a moment, one at a time.
pub(crate) enum Decision<'a> {
    /// Go on, if the record is still as it was seen.
    Change(Plan<'a>),
    /// Nothing is to be done; this is the answer.
    Integer(i64),
}

/// Whether a command must know the record before it can be planned.
#[inline]
pub(crate) fn looks_first(verb: Verb, line: Line<'_>) -> bool {
    match verb {
        Verb::Setbit => true,
        Verb::Expire | Verb::Pexpire | Verb::Expireat | Verb::Pexpireat => line.len() > 3,
        _ => false,
    }
}

/// Plans a command that looks first, given what it saw.
pub(crate) fn decide<'a>(order: Order<'a>, seen: Found<'_>) -> Result<Decision<'a>, Failure> {
    let decision = match order.verb {
        Verb::Setbit => string::setbit(order, seen),
        _ => key::decide_expire(order, seen),
    };
    Ok(match decision? {
        Decision::Change((command, format)) => {
            Decision::Change((Command { if_version: Some(version_of(seen)), ..command }, format))
        }
        Decision::Integer(value) => Decision::Integer(value),
    })
}

fn version_of(seen: Found<'_>) -> Version {
    match seen {
        Found::Live(view) => view.version,
        Found::Absent { version, .. } => version,
    }
}
