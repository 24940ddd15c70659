//! Changes of a record as a string. In `kv` a `SET` makes the record anew, as in Redis; elsewhere it sets the field `value`.

use shardine_model::command::{Action, Command, Existence, Give, Operation, Operator, Ttl};
use shardine_model::row::FieldValue;
use shardine_model::{ErrorCode, FieldRef, Timestamp, limits, table};
use smallvec::smallvec;

use super::hash::{add_float, add_integer, count};
use super::key::{Unit, expiry};
use super::{Decision, Order, Plan};
use crate::command::read::Found;
use crate::command::reply_format::{Counter, ReplyFormat};
use crate::failure::{Failure, NOT_A_FLOAT, NOT_AN_INTEGER, SYNTAX, WRONG_KIND};
use crate::frame::Line;
use crate::value::{Slot, float, integer, is, with_text};
use crate::verb::Verb;

/// The record with this string.
#[inline]
fn assign<'a>(order: Order<'a>, text: &'a [u8]) -> Result<Command<'a>, Failure> {
    let slot = Slot::of_string(order.place.typed())?;
    let fields = smallvec![FieldValue { field: slot.reference, value: slot.parse(text)? }];
    let action = if order.place.typed().is_none() { Action::Replace(fields) } else { Action::Set(fields) };
    Ok(Command { ttl: Ttl::Clear, ..Command::plain(order.place.row(), action) })
}

#[inline]
pub(super) fn set(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let command = assign(order, order.line.word(2))?;
    if order.line.len() == 3 {
        return Ok((command, ReplyFormat::Ok));
    }
    set_with_options(order, command)
}

fn set_with_options<'a>(order: Order<'a>, mut command: Command<'a>) -> Result<Plan<'a>, Failure> {
    let (mut words, mut gives, mut ttl) = (order.line.words(3), false, None);
    while let Some(word) = words.next() {
        let existence = if is(word, "NX") {
            Existence::Absent
        } else if is(word, "XX") {
            Existence::Live
        } else if is(word, "GET") {
            gives = true;
            continue;
        } else {
            let chosen = if is(word, "KEEPTTL") { Ttl::Keep } else { ttl_option(order, word, &mut words)? };
            if ttl.replace(chosen).is_some() {
                return Err(SYNTAX);
            }
            continue;
        };
        if command.existence != Existence::Any && command.existence != existence {
            return Err(SYNTAX);
        }
        command.existence = existence;
    }
    command.ttl = ttl.unwrap_or(Ttl::Clear);
    if gives {
        command.give = Give::Old;
        return Ok((command, ReplyFormat::OldString(order.place.table_id())));
    }
    Ok((command, ReplyFormat::Set))
}

/// `EX s`, `PX ms`, `EXAT s` or `PXAT ms`.
fn ttl_option<'a>(order: Order<'a>, word: &[u8], words: &mut impl Iterator<Item = &'a [u8]>) -> Result<Ttl, Failure> {
    let unit = Unit::option(word).ok_or(SYNTAX)?;
    let number = integer(words.next().ok_or(SYNTAX)?).ok_or(NOT_AN_INTEGER)?;
    positive_expiry(order, number, unit).map(Ttl::At)
}

fn positive_expiry(order: Order<'_>, number: i64, unit: Unit) -> Result<Timestamp, Failure> {
    let invalid = || {
        let name = order.verb.name().to_ascii_lowercase();
        Failure::line(format!("ERR invalid expire time in '{name}' command (bad_request)"))
    };
    if number <= 0 {
        return Err(invalid());
    }
    expiry(number, unit, order.now).filter(|at| i64::try_from(at.0).is_ok()).ok_or_else(invalid)
}

/// Whether a `SET` asks for the old value.
pub(super) fn gives_old(line: Line<'_>) -> bool {
    line.len() > 3 && line.words(3).any(|word| is(word, "GET"))
}

pub(super) fn setnx(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let command = Command { existence: Existence::Absent, ..assign(order, order.line.word(2))? };
    Ok((command, ReplyFormat::Whether))
}

pub(super) fn setex(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let unit = if order.verb == Verb::Setex { Unit::SecondsFromNow } else { Unit::MillisecondsFromNow };
    let number = integer(order.line.word(2)).ok_or(NOT_AN_INTEGER)?;
    let ttl = Ttl::At(positive_expiry(order, number, unit)?);
    Ok((Command { ttl, ..assign(order, order.line.word(3))? }, ReplyFormat::Ok))
}

pub(super) fn mset<'a>(order: Order<'a>, value: &'a [u8]) -> Result<Plan<'a>, Failure> {
    Ok((assign(order, value)?, ReplyFormat::Ok))
}

pub(super) fn getset(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let command = Command { give: Give::Old, ..assign(order, order.line.word(2))? };
    Ok((command, ReplyFormat::OldString(order.place.table_id())))
}

pub(super) fn getdel(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    Slot::of_string(order.place.typed())?;
    let command = Command { give: Give::Old, ..Command::plain(order.place.row(), Action::Delete) };
    Ok((command, ReplyFormat::OldString(order.place.table_id())))
}

pub(super) fn getex(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    Slot::of_string(order.place.typed())?;
    let mut words = order.line.words(2);
    let ttl = match words.next() {
        None => Ttl::Keep,
        Some(word) if is(word, "PERSIST") => Ttl::Clear,
        Some(word) => ttl_option(order, word, &mut words)?,
    };
    if words.next().is_some() {
        return Err(SYNTAX);
    }
    let touch = Command::plain(order.place.row(), Action::Touch);
    // The fields stay as they are, so what was is what is.
    let command = Command { ttl, existence: Existence::Live, give: Give::Old, ..touch };
    Ok((command, ReplyFormat::OldString(order.place.table_id())))
}

pub(super) fn incrby(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let step = match order.verb {
        Verb::Incr => 1,
        Verb::Decr => -1,
        _ => integer(order.line.word(2)).ok_or(NOT_AN_INTEGER)?,
    };
    let step = if order.verb == Verb::Decrby {
        step.checked_neg().ok_or(Failure::line("ERR decrement would overflow (overflow)"))?
    } else {
        step
    };
    let slot = Slot::of_string(order.place.typed())?;
    let operator = add_integer(slot, step).ok_or(NOT_AN_INTEGER)?;
    Ok(count(order, slot, operator, ReplyFormat::Counter(Counter::Integer)))
}

pub(super) fn incrbyfloat(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let step = float(order.line.word(2)).ok_or(NOT_A_FLOAT)?;
    let slot = Slot::of_string(order.place.typed())?;
    let operator = add_float(slot, step).ok_or(NOT_A_FLOAT)?;
    Ok(count(order, slot, operator, ReplyFormat::Counter(Counter::Float)))
}

pub(super) fn append(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let slot = Slot::of_string(order.place.typed())?;
    Ok(count(order, slot, Operator::Append(order.line.word(2)), ReplyFormat::Length))
}

/// A string, or nothing, may be taken for a string; a hash may not.
pub(crate) fn check_kind(seen: Found<'_>) -> Result<(), Failure> {
    let value = FieldRef::Name(table::VALUE_FIELD.as_bytes());
    match seen {
        Found::Live(view) if view.fields.get(value).is_none() && view.fields.count() > 0 => Err(WRONG_KIND),
        Found::Live(_) | Found::Absent { .. } => Ok(()),
    }
}

/// Writes over part of a string. What lies between its end and the offset becomes zero bytes, which only a look can count.
pub(super) fn setrange<'a>(
    order: Order<'a>,
    seen: Found<'_>,
    scratch: &'a mut Vec<u8>,
) -> Result<Decision<'a>, Failure> {
    let offset = integer(order.line.word(2)).ok_or(NOT_AN_INTEGER)?;
    let offset = usize::try_from(offset).map_err(|_| Failure::line("ERR offset is out of range (bad_request)"))?;
    let paste = order.line.word(3);
    if offset.saturating_add(paste.len()) > limits::VALUE_BYTES_MAX {
        let limit = limits::VALUE_BYTES_MAX;
        return Err(Failure::new(ErrorCode::TooLarge, format!("the string would exceed {limit} bytes")));
    }
    let slot = Slot::of_string(order.place.typed())?;
    if order.place.typed().is_none() {
        check_kind(seen)?;
    }
    let length = match seen {
        Found::Live(view) => slot.read(&view.fields).map_or(0, |value| with_text(value, <[u8]>::len)),
        Found::Absent { .. } => 0,
    };
    if paste.is_empty() {
        return Ok(Decision::Integer(length as i64));
    }
    scratch.clear();
    scratch.resize(offset.saturating_sub(length), 0);
    scratch.extend_from_slice(paste);
    let (at, cut) = (offset.min(length) as i64, paste.len() as u64);
    let operator = Operator::Splice { at, cut, paste: scratch };
    let action = Action::Update { create: true, operations: smallvec![Operation { field: slot.reference, operator }] };
    let command = Command { give: Give::Touched, ..Command::plain(order.place.row(), action) };
    Ok(Decision::Change((command, ReplyFormat::Length)))
}
