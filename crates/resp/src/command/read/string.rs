//! Reads of a record as a string: its field `value`.

use shardine_model::ValueRef;

use super::{Ask, Context, Found};
use crate::command::change::setrange_offset;
use crate::failure::{Failure, NOT_AN_INTEGER, WRONG_KIND};
use crate::value::{Slot, integer, with_text, write_bulk};
use crate::wire;

/// The string of a record. A hash of the dynamic table is none.
#[inline]
pub(crate) fn string_of<'a>(ask: Ask<'a>, found: &Found<'a>) -> Result<Option<ValueRef<'a>>, Failure> {
    let slot = Slot::of_string(ask.table)?;
    let Some(fields) = found.fields() else { return Ok(None) };
    match slot.read(fields) {
        None if ask.table.is_none() => Err(WRONG_KIND),
        value => Ok(value),
    }
}

#[inline]
pub(super) fn get(ask: Ask<'_>, found: Found<'_>, context: Context, out: &mut Vec<u8>) -> Result<(), Failure> {
    match string_of(ask, &found)? {
        Some(value) => write_bulk(out, value),
        None => wire::null(out, context.protocol),
    }
    Ok(())
}

/// One element of `MGET`, where what is no string counts as absent.
pub(super) fn mget(ask: Ask<'_>, found: Found<'_>, context: Context, out: &mut Vec<u8>) -> Result<(), Failure> {
    match string_of(ask, &found) {
        Ok(Some(value)) => write_bulk(out, value),
        Ok(None) | Err(_) => wire::null(out, context.protocol),
    }
    Ok(())
}

pub(super) fn strlen(ask: Ask<'_>, found: Found<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let length = string_of(ask, &found)?.map_or(0, |value| with_text(value, <[u8]>::len));
    wire::integer(out, length as i64);
    Ok(())
}

/// `SETRANGE` with nothing to write.
pub(super) fn setrange(ask: Ask<'_>, found: Found<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    setrange_offset(ask.line)?;
    strlen(ask, found, out)
}

pub(super) fn getrange(ask: Ask<'_>, found: Found<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let first = integer(ask.line.word(2)).ok_or(NOT_AN_INTEGER)?;
    let last = integer(ask.line.word(3)).ok_or(NOT_AN_INTEGER)?;
    match string_of(ask, &found)? {
        Some(value) => with_text(value, |text| wire::bulk(out, range(text, first, last))),
        None => wire::bulk(out, b""),
    }
    Ok(())
}

/// The bytes from `first` to `last`, both included; negative ones count from the end.
fn range(text: &[u8], first: i64, last: i64) -> &[u8] {
    let length = text.len() as i64;
    let place = |index: i64| if index < 0 { (length.saturating_add(index)).max(0) } else { index };
    if first < 0 && last < 0 && first > last {
        return b"";
    }
    let (first, last) = (place(first), place(last).min(length - 1));
    if first > last { b"" } else { &text[first as usize..=last as usize] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_as_in_redis() {
        let text = b"This is a string";
        assert_eq!(range(text, 0, 3), b"This");
        assert_eq!(range(text, -3, -1), b"ing");
        assert_eq!(range(text, 0, -1), text);
        assert_eq!(range(text, 10, 100), b"string");
        assert_eq!(range(text, 5, 2), b"");
        assert_eq!(range(text, i64::MIN, i64::MAX), text);
        assert_eq!(range(text, -1, -3), b"");
        assert_eq!(range(b"", 0, -1), b"");
    }
}
