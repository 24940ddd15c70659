//! Reads of a string as a row of bits, the highest of each byte first.

use shardine_model::limits;

use super::string::string_of;
use super::{Ask, Found};
use crate::failure::{Failure, NOT_AN_INTEGER, SYNTAX};
use crate::frame::Line;
use crate::value::{integer, is, with_text};
use crate::wire;

/// The place of a bit that a string may have.
pub(crate) fn offset(word: &[u8]) -> Result<usize, Failure> {
    let offset = integer(word).and_then(|offset| usize::try_from(offset).ok());
    offset
        .filter(|offset| offset / 8 < limits::VALUE_BYTES_MAX)
        .ok_or(Failure::line("ERR bit offset is not an integer or out of range"))
}

fn bit(text: &[u8], offset: usize) -> u8 {
    text.get(offset / 8).map_or(0, |byte| byte >> (7 - offset % 8) & 1)
}

pub(super) fn getbit(ask: Ask<'_>, found: Found<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let offset = offset(ask.line.word(2))?;
    let value = string_of(ask, &found)?;
    wire::integer(out, value.map_or(0, |value| with_text(value, |text| i64::from(bit(text, offset)))));
    Ok(())
}

/// Whether places are counted in bits, or in bytes.
fn is_bit(unit: &[u8]) -> Result<bool, Failure> {
    if is(unit, "BIT") { Ok(true) } else { is(unit, "BYTE").then_some(false).ok_or(SYNTAX) }
}

/// A range as a client writes it, both ends included.
struct Range {
    first: i64,
    last: Option<i64>,
    counts_bits: bool,
}

impl Range {
    /// `[first [last [BYTE | BIT]]]` from a word on.
    fn parse(line: Line<'_>, from: usize) -> Result<Option<Self>, Failure> {
        if line.len() <= from {
            return Ok(None);
        }
        if line.len() > from + 3 {
            return Err(SYNTAX);
        }
        let number = |place: usize| integer(line.word(place)).ok_or(NOT_AN_INTEGER);
        let first = number(from)?;
        let last = if line.len() > from + 1 { Some(number(from + 1)?) } else { None };
        let counts_bits = line.len() > from + 2 && is_bit(line.word(from + 2))?;
        Ok(Some(Self { first, last, counts_bits }))
    }

    /// The bits of a text of so many bytes, from one to behind the last; nothing if it names none.
    fn bits(&self, bytes: usize) -> Option<std::ops::Range<usize>> {
        let unit = if self.counts_bits { 1 } else { 8 };
        let length = (bytes * 8 / unit) as i64;
        let last = self.last.unwrap_or(length - 1);
        let place = |index: i64| if index < 0 { length.saturating_add(index).max(0) } else { index };
        let (first, last) = (place(self.first), place(last).min(length - 1));
        (first <= last).then(|| first as usize * unit..(last as usize + 1) * unit)
    }
}

/// As in Redis, nobody looks at the range if there is no string.
pub(super) fn bitcount(ask: Ask<'_>, found: Found<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let Some(value) = string_of(ask, &found)? else {
        wire::integer(out, 0);
        return Ok(());
    };
    if ask.line.len() == 3 {
        return Err(SYNTAX);
    }
    // Redis looks at such a range before it looks at the unit; `BITPOS` begins it at the first byte like any other.
    let ends = [2, 3].map(|place| (ask.line.len() > place).then(|| integer(ask.line.word(place))).flatten());
    if ask.line.len() <= 5 && matches!(ends, [Some(first), Some(last)] if last < first && first < 0) {
        wire::integer(out, 0);
        return Ok(());
    }
    let range = Range::parse(ask.line, 2)?;
    let count = with_text(value, |text| match &range {
        None => ones(text, 0..text.len() * 8),
        Some(range) => range.bits(text.len()).map_or(0, |bits| ones(text, bits)),
    });
    wire::integer(out, count as i64);
    Ok(())
}

fn ones(text: &[u8], bits: std::ops::Range<usize>) -> usize {
    let (first, last) = (bits.start.div_ceil(8), bits.end / 8);
    if first > last {
        return bits.filter(|&offset| bit(text, offset) == 1).count();
    }
    let whole: usize = text[first..last].iter().map(|byte| byte.count_ones() as usize).sum();
    let edges = (bits.start..first * 8).chain(last * 8..bits.end);
    whole + edges.filter(|&offset| bit(text, offset) == 1).count()
}

/// The first bit that is as wanted. Without a last place, zeros go on behind the string for ever.
pub(super) fn bitpos(ask: Ask<'_>, found: Found<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let wanted = match integer(ask.line.word(2)).ok_or(NOT_AN_INTEGER)? {
        0 => 0,
        1 => 1,
        _ => return Err(Failure::line("ERR The bit argument must be 1 or 0.")),
    };
    let Some(value) = string_of(ask, &found)? else {
        wire::integer(out, if wanted == 1 { -1 } else { 0 });
        return Ok(());
    };
    if ask.line.len() == 6 && integer(ask.line.word(3)).is_some() {
        // Redis tells of a wrong unit before a wrong end.
        is_bit(ask.line.word(5))?;
    }
    let range = Range::parse(ask.line, 3)?;
    let is_open = range.as_ref().is_none_or(|range| range.last.is_none());
    let place = with_text(value, |text| {
        let bits = range.as_ref().map_or(Some(0..text.len() * 8), |range| range.bits(text.len()));
        let bits = bits.filter(|bits| !bits.is_empty())?;
        let found = position(text, bits, wanted);
        found.or((is_open && wanted == 0).then_some(text.len() * 8))
    });
    wire::integer(out, place.map_or(-1, |place| place as i64));
    Ok(())
}

fn position(text: &[u8], bits: std::ops::Range<usize>, wanted: u8) -> Option<usize> {
    let skipped = if wanted == 1 { 0x00 } else { 0xff };
    let mut offset = bits.start;
    while offset < bits.end {
        if offset.is_multiple_of(8) && text[offset / 8] == skipped {
            offset += 8;
        } else if bit(text, offset) == wanted {
            return Some(offset);
        } else {
            offset += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bits_are_counted_as_one_by_one() {
        let text = [0xff, 0x00, 0xa5, 0x01];
        for first in 0..32 {
            for last in first..=32 {
                let slow = (first..last).filter(|&offset| bit(&text, offset) == 1).count();

                assert_eq!(ones(&text, first..last), slow, "{first}..{last}");
                let found = (first..last).find(|&offset| bit(&text, offset) == 1);
                assert_eq!(position(&text, first..last, 1), found, "{first}..{last}");
            }
        }
    }
}
