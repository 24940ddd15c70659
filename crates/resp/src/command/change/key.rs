//! Changes of a record as a whole: its end, and its time to live.

use shardine_model::Timestamp;
use shardine_model::command::{Action, Command, Existence, Ttl};

use super::{Decision, Order, Plan};
use crate::command::read::Found;
use crate::command::reply_format::ReplyFormat;
use crate::failure::{Failure, NOT_AN_INTEGER};
use crate::value::{integer, is};
use crate::verb::Verb;

pub(super) fn delete(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    Ok((Command::plain(order.place.row(), Action::Delete), ReplyFormat::Changed))
}

/// How a moment is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    SecondsFromNow,
    MillisecondsFromNow,
    AtSecond,
    AtMillisecond,
}

impl Unit {
    /// The option of `SET` and `GETEX` by that name.
    pub(crate) fn option(word: &[u8]) -> Option<Self> {
        let units = [
            ("EX", Self::SecondsFromNow),
            ("PX", Self::MillisecondsFromNow),
            ("EXAT", Self::AtSecond),
            ("PXAT", Self::AtMillisecond),
        ];
        units.into_iter().find(|(name, _)| is(word, name)).map(|(_, unit)| unit)
    }

    fn of(verb: Verb) -> Self {
        match verb {
            Verb::Pexpire => Self::MillisecondsFromNow,
            Verb::Expireat => Self::AtSecond,
            Verb::Pexpireat => Self::AtMillisecond,
            _ => Self::SecondsFromNow,
        }
    }
}

/// The moment meant; `None` if no clock shows it. A moment before 1970 is 1970: both are past.
pub(crate) fn expiry(number: i64, unit: Unit, now: Timestamp) -> Option<Timestamp> {
    let ms = match unit {
        Unit::SecondsFromNow | Unit::AtSecond => number.checked_mul(1_000)?,
        Unit::MillisecondsFromNow | Unit::AtMillisecond => number,
    };
    let base = match unit {
        Unit::SecondsFromNow | Unit::MillisecondsFromNow => i64::try_from(now.0).ok()?,
        Unit::AtSecond | Unit::AtMillisecond => 0,
    };
    Some(Timestamp(u64::try_from(base.checked_add(ms)?).unwrap_or(0)))
}

/// The same as a command carries it: what counts from now counts from the moment at which the command is applied.
pub(crate) fn time_to_live(number: i64, unit: Unit, at: Timestamp) -> Ttl {
    let ms = u64::try_from(number).unwrap_or(0);
    match unit {
        Unit::SecondsFromNow => Ttl::After(ms.saturating_mul(1_000)),
        Unit::MillisecondsFromNow => Ttl::After(ms),
        Unit::AtSecond | Unit::AtMillisecond => Ttl::At(at),
    }
}

fn expiry_of(order: Order<'_>) -> Result<(Timestamp, Ttl), Failure> {
    let number = integer(order.line.word(2)).ok_or(NOT_AN_INTEGER)?;
    let unit = Unit::of(order.verb);
    let at = expiry(number, unit, order.now).ok_or_else(|| Failure::bad_expiry(order.verb))?;
    Ok((at, time_to_live(number, unit, at)))
}

/// A moment that is past ends the record now.
pub(super) fn expire(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let (at, ttl) = expiry_of(order)?;
    let row = order.place.row();
    if at <= order.now {
        return Ok((Command::plain(row, Action::Delete), ReplyFormat::Changed));
    }
    let command = Command { existence: Existence::Live, ttl, ..Command::plain(row, Action::Touch) };
    Ok((command, ReplyFormat::Whether))
}

/// `EXPIRE … [NX | XX | GT | LT]`: which time to live the record must have. None counts as endless.
pub(super) fn decide_expire<'a>(order: Order<'a>, seen: Found<'_>) -> Result<Decision<'a>, Failure> {
    let (mut nx, mut xx, mut gt, mut lt) = (false, false, false, false);
    for word in order.line.words(3) {
        match () {
            () if is(word, "NX") => nx = true,
            () if is(word, "XX") => xx = true,
            () if is(word, "GT") => gt = true,
            () if is(word, "LT") => lt = true,
            () => return Err(Failure::line([b"ERR Unsupported option ", word].concat())),
        }
    }
    if nx && (xx || gt || lt) {
        let line = "ERR NX and XX, GT or LT options at the same time are not compatible";
        return Err(Failure::line(line));
    }
    if gt && lt {
        let line = "ERR GT and LT options at the same time are not compatible";
        return Err(Failure::line(line));
    }
    let (at, _) = expiry_of(order)?;
    let Found::Live(view) = seen else { return Ok(Decision::Integer(0)) };
    let fits = (!nx || view.expires_at.is_none())
        && (!xx || view.expires_at.is_some())
        && (!gt || view.expires_at.is_some_and(|old| at > old))
        && (!lt || view.expires_at.is_none_or(|old| at < old));
    if fits { expire(order).map(Decision::Change) } else { Ok(Decision::Integer(0)) }
}

pub(super) fn persist(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let touch = Command::plain(order.place.row(), Action::Touch);
    // Without an end to take away nothing changes, and the answer says so.
    Ok((Command { existence: Existence::Live, ttl: Ttl::Clear, ..touch }, ReplyFormat::Changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_beyond_the_clock_are_refused() {
        let now = Timestamp(1_000_000);
        assert_eq!(expiry(10, Unit::SecondsFromNow, now), Some(Timestamp(1_010_000)));
        assert_eq!(expiry(-10_000, Unit::SecondsFromNow, now), Some(Timestamp(0)));
        assert_eq!(expiry(5, Unit::AtMillisecond, now), Some(Timestamp(5)));
        assert_eq!(expiry(i64::MAX, Unit::SecondsFromNow, now), None);
        assert_eq!(expiry(i64::MAX, Unit::MillisecondsFromNow, now), None);
    }
}
