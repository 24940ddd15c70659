//! Changes of a record as a string. In `kv` a `SET` makes the record anew, as in Redis; elsewhere it sets the field `value`.

use shardine_model::command::{Action, Command, Existence, Give, Kind, Operator, Ttl};
use shardine_model::limits;
use shardine_model::number::float;
use shardine_model::row::FieldValue;
use smallvec::smallvec;

use super::hash::{add_float, add_integer, count};
use super::key::{Unit, expiry, time_to_live};
use super::{Decision, Order, Plan};
use crate::command::read::{self, Found};
use crate::command::reply_format::{Counter, Fault, ReplyFormat};
use crate::failure::{Failure, NOT_A_FLOAT, NOT_AN_INTEGER, SYNTAX, WRONG_KIND};
use crate::frame::Line;
use crate::value::{Slot, integer, is, with_text};
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
    let options = Options::parse(order.line.words(3))?;
    if options.persists {
        return Err(SYNTAX);
    }
    command.existence = options.existence;
    command.ttl = match options.time {
        Some(time) => positive_expiry(order, time).map_err(|fault| fault.failure(order.verb))?,
        None if options.keeps => Ttl::Keep,
        None => Ttl::Clear,
    };
    if options.gives {
        return Ok(give_old(order, command));
    }
    Ok((command, ReplyFormat::Set))
}

/// What may stand behind the value of `SET` and the key of `GETEX`. The same may be said twice, the last one counts; two
/// that contradict each other may not.
#[derive(Default)]
struct Options<'a> {
    existence: Existence,
    gives: bool,
    keeps: bool,
    persists: bool,
    time: Option<(Unit, &'a [u8])>,
}

impl<'a> Options<'a> {
    fn parse(mut words: impl Iterator<Item = &'a [u8]>) -> Result<Self, Failure> {
        let mut options = Self::default();
        while let Some(word) = words.next() {
            let known = options.existence;
            match () {
                () if is(word, "NX") && known != Existence::Live => options.existence = Existence::Absent,
                () if is(word, "XX") && known != Existence::Absent => options.existence = Existence::Live,
                () if is(word, "GET") => options.gives = true,
                () if is(word, "KEEPTTL") && !options.persists && options.time.is_none() => options.keeps = true,
                () if is(word, "PERSIST") && !options.keeps && options.time.is_none() => options.persists = true,
                () => {
                    let unit = Unit::option(word).ok_or(SYNTAX)?;
                    let is_other = options.time.is_some_and(|(known, _)| known != unit);
                    if is_other || options.keeps || options.persists {
                        return Err(SYNTAX);
                    }
                    options.time = Some((unit, words.next().ok_or(SYNTAX)?));
                }
            }
        }
        Ok(options)
    }
}

fn positive_expiry(order: Order<'_>, (unit, text): (Unit, &[u8])) -> Result<Ttl, Fault> {
    let number = integer(text).ok_or(Fault::TimeIsNoInteger)?;
    let at = if number > 0 { expiry(number, unit, order.now) } else { None };
    let at = at.filter(|at| i64::try_from(at.0).is_ok()).ok_or(Fault::TimeIsNone)?;
    Ok(time_to_live(number, unit, at))
}

/// The command answers with the string that was there before; with a hash, it is not executed.
fn give_old<'a>(order: Order<'a>, command: Command<'a>) -> Plan<'a> {
    let command = Command { give: Give::Old, kind: Kind::String, ..command };
    (command, ReplyFormat::OldString(order.place.table_id()))
}

pub(super) fn setnx(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let command = Command { existence: Existence::Absent, ..assign(order, order.line.word(2))? };
    Ok((command, ReplyFormat::Whether))
}

pub(super) fn setex(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let unit = if order.verb == Verb::Setex { Unit::SecondsFromNow } else { Unit::MillisecondsFromNow };
    let ttl = positive_expiry(order, (unit, order.line.word(2))).map_err(|fault| fault.failure(order.verb))?;
    Ok((Command { ttl, ..assign(order, order.line.word(3))? }, ReplyFormat::Ok))
}

pub(super) fn mset<'a>(order: Order<'a>, value: &'a [u8]) -> Result<Plan<'a>, Failure> {
    Ok((assign(order, value)?, ReplyFormat::Ok))
}

pub(super) fn getset(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    Ok(give_old(order, assign(order, order.line.word(2))?))
}

pub(super) fn getdel(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    Slot::of_string(order.place.typed())?;
    Ok(give_old(order, Command::plain(order.place.row(), Action::Delete)))
}

/// The fields stay as they are, so what was is what is. A time that is none is only told to whoever has a string.
pub(super) fn getex(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    Slot::of_string(order.place.typed())?;
    let options = Options::parse(order.line.words(2))?;
    if options.existence != Existence::Any || options.gives || options.keeps {
        return Err(SYNTAX);
    }
    let touch = Command { existence: Existence::Live, ..Command::plain(order.place.row(), Action::Touch) };
    let ttl = match options.time.map(|time| positive_expiry(order, time)) {
        None if options.persists => Ttl::Clear,
        None => Ttl::Keep,
        Some(Ok(ttl)) => ttl,
        Some(Err(fault)) => return Ok(look_at(touch, fault)),
    };
    Ok(give_old(order, Command { ttl, ..touch }))
}

/// Does nothing to the record, and answers with what is wrong with the command unless something is wrong with the record.
fn look_at(touch: Command<'_>, fault: Fault) -> Plan<'_> {
    (Command { kind: Kind::String, ..touch }, ReplyFormat::Faulty(fault))
}

pub(super) fn incrby(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let step = match order.verb {
        Verb::Incr => 1,
        Verb::Decr => -1,
        _ => integer(order.line.word(2)).ok_or(NOT_AN_INTEGER)?,
    };
    let step = if order.verb == Verb::Decrby {
        step.checked_neg().ok_or(Failure::line("ERR decrement would overflow"))?
    } else {
        step
    };
    let slot = Slot::of_string(order.place.typed())?;
    let operator = add_integer(slot, step).ok_or(NOT_AN_INTEGER)?;
    Ok(count(order, slot, operator, ReplyFormat::Counter(Counter::Integer)))
}

pub(super) fn incrbyfloat(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let slot = Slot::of_string(order.place.typed())?;
    let Some(step) = float(order.line.word(2)) else {
        let touch = Command { existence: Existence::Live, ..Command::plain(order.place.row(), Action::Touch) };
        return Ok(look_at(touch, Fault::StepIsNoFloat));
    };
    let operator = add_float(slot, step, order.line.word(2)).ok_or(NOT_A_FLOAT)?;
    Ok(count(order, slot, operator, ReplyFormat::Counter(Counter::Float)))
}

pub(super) fn append(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let slot = Slot::of_string(order.place.typed())?;
    Ok(count(order, slot, Operator::Append(order.line.word(2)), ReplyFormat::Length))
}

/// Writes over part of a string. What lies between its end and the offset becomes zero bytes.
pub(super) fn setrange(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let at = setrange_offset(order.line)?;
    let paste = order.line.word(3);
    let slot = Slot::of_string(order.place.typed())?;
    if at.saturating_add(paste.len() as i64) > limits::VALUE_BYTES_MAX as i64 {
        let touch = Command { existence: Existence::Live, ..Command::plain(order.place.row(), Action::Touch) };
        return Ok(look_at(touch, Fault::TooLong));
    }
    Ok(count(order, slot, Operator::Splice { at, cut: paste.len() as u64, paste }, ReplyFormat::Length))
}

/// One bit of a string. Its byte must be known to be changed, so this one looks first. A bit that is as it should be is no change,
/// also for whoever watches the key.
pub(super) fn setbit<'a>(order: Order<'a>, seen: Found<'_>) -> Result<Decision<'a>, Failure> {
    let offset = read::offset(order.line.word(2))?;
    let bit = match order.line.word(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(Failure::line("ERR bit is not an integer or out of range")),
    };
    let slot = Slot::of_string(order.place.typed())?;
    let byte = match seen {
        Found::Live(view) => match slot.read(&view.fields) {
            None if order.place.typed().is_none() => return Err(WRONG_KIND),
            value => value.and_then(|value| with_text(value, |text| text.get(offset / 8).copied())),
        },
        Found::Absent { .. } => None,
    };
    let mask = 0x80 >> (offset % 8);
    let old = u8::from(byte.is_some_and(|byte| byte & mask != 0));
    if byte.is_some() && bit == (old == 1) {
        return Ok(Decision::Integer(i64::from(old)));
    }
    let byte = byte.unwrap_or(0);
    let byte = usize::from(if bit { byte | mask } else { byte & !mask });
    let operator = Operator::Splice { at: (offset / 8) as i64, cut: 1, paste: &BYTES[byte..=byte] };
    Ok(Decision::Change(count(order, slot, operator, ReplyFormat::Bit(old == 1))))
}

/// All bytes, to borrow one from.
static BYTES: [u8; 256] = {
    let (mut bytes, mut next) = ([0; 256], 0);
    while next < 256 {
        bytes[next] = next as u8;
        next += 1;
    }
    bytes
};

pub(crate) fn setrange_offset(line: Line<'_>) -> Result<i64, Failure> {
    let offset = integer(line.word(2)).ok_or(NOT_AN_INTEGER)?;
    if offset < 0 { Err(Failure::line("ERR offset is out of range")) } else { Ok(offset) }
}
