//! `BITFIELD`: a string as an array of numbers of any width up to 64 bits.

use shardine_model::limits;
use shardine_router::LocalEngine;

use super::{Halt, Outcome, Scene};
use crate::failure::{Failure, NOT_AN_INTEGER, SYNTAX};
use crate::value::{integer, is};
use crate::verb::Verb;
use crate::wire;

const BAD_TYPE: Failure = Failure::of_redis(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
);
const BAD_OFFSET: Failure = Failure::of_redis("ERR bit offset is not an integer or out of range");

/// What becomes of a number that does not fit.
#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

#[derive(Clone, Copy)]
enum Deed {
    Get,
    Set(i64),
    Increase(i64),
}

struct Operation {
    deed: Deed,
    overflow: Overflow,
    is_signed: bool,
    bits: u32,
    /// The first bit.
    at: u64,
}

pub(super) fn bitfield<H: LocalEngine>(scene: &mut Scene<'_, H>) -> Outcome {
    let operations = parse(scene)?;
    let writes = operations.iter().any(|operation| !matches!(operation.deed, Deed::Get));
    if writes && scene.verb == Verb::BitfieldRo {
        return Err(Failure::line("ERR BITFIELD_RO only supports the GET subcommand").into());
    }
    let place = scene.place(1)?;
    let before = scene.string(&place)?;
    let mut bytes = before.clone().unwrap_or_default();
    if writes {
        let end = |operation: &Operation| (operation.at + u64::from(operation.bits)).div_ceil(8);
        let needed = operations.iter().filter(|operation| !matches!(operation.deed, Deed::Get)).map(end).max();
        let needed = needed.unwrap_or(0) as usize;
        bytes.resize(bytes.len().max(needed), 0);
    }
    let replies: Vec<Option<i64>> = operations.iter().map(|operation| operation.perform(&mut bytes)).collect();
    let protocol = scene.connection.protocol;
    let write = |out: &mut Vec<u8>| {
        wire::array(out, replies.len());
        for reply in replies {
            match reply {
                Some(number) => wire::integer(out, number),
                None => wire::null(out, protocol),
            }
        }
    };
    if !writes || before.as_ref() == Some(&bytes) {
        return scene.reply(write);
    }
    let key = scene.line.word(1);
    scene.set(key, &bytes, &[b"KEEPTTL"], write)
}

fn parse<H: LocalEngine>(scene: &Scene<'_, H>) -> Result<Vec<Operation>, Halt> {
    let (mut operations, mut overflow) = (Vec::new(), Overflow::Wrap);
    let mut words = scene.line.words(2);
    while let Some(word) = words.next() {
        if is(word, "OVERFLOW") {
            let Some(how) = words.next() else { return Err(SYNTAX.into()) };
            let named = [("WRAP", Overflow::Wrap), ("SAT", Overflow::Saturate), ("FAIL", Overflow::Fail)];
            let found = named.into_iter().find(|(name, _)| is(how, name));
            let Some((_, how)) = found else {
                return Err(Failure::line("ERR Invalid OVERFLOW type specified").into());
            };
            overflow = how;
            continue;
        }
        let has_value = is(word, "SET") || is(word, "INCRBY");
        if !has_value && !is(word, "GET") {
            return Err(SYNTAX.into());
        }
        let (Some(kind), Some(offset)) = (words.next(), words.next()) else { return Err(SYNTAX.into()) };
        let value = if has_value { Some(words.next().ok_or(SYNTAX)?) } else { None };
        let (is_signed, bits) = kind_of(kind)?;
        let at = offset_of(offset, bits)?;
        let value = value.map(|value| integer(value).ok_or(NOT_AN_INTEGER)).transpose()?;
        let deed = match value {
            None => Deed::Get,
            Some(value) if is(word, "SET") => Deed::Set(value),
            Some(value) => Deed::Increase(value),
        };
        operations.push(Operation { deed, overflow, is_signed, bits, at });
    }
    Ok(operations)
}

fn kind_of(word: &[u8]) -> Result<(bool, u32), Failure> {
    let (mark, digits) = word.split_first().ok_or(BAD_TYPE)?;
    let is_signed = match mark {
        b'i' => true,
        b'u' => false,
        _ => return Err(BAD_TYPE),
    };
    let bits = integer(digits).filter(|bits| (1..=if is_signed { 64 } else { 63 }).contains(bits)).ok_or(BAD_TYPE)?;
    Ok((is_signed, bits as u32))
}

/// In bits, or, behind a `#`, in numbers of this width.
fn offset_of(word: &[u8], bits: u32) -> Result<u64, Failure> {
    let (digits, unit) = match word.strip_prefix(b"#") {
        Some(digits) => (digits, i64::from(bits)),
        None => (word, 1),
    };
    let offset = integer(digits).and_then(|number| number.checked_mul(unit)).filter(|offset| *offset >= 0);
    let fits = |offset: &i64| (*offset as u64 >> 3) < limits::VALUE_BYTES_MAX as u64;
    offset.filter(fits).map(|offset| offset as u64).ok_or(BAD_OFFSET)
}

impl Operation {
    /// The old value of what is set, the new one of what is counted; `None` if it would not fit and must.
    fn perform(&self, bytes: &mut [u8]) -> Option<i64> {
        let old = self.read(bytes);
        match self.deed {
            Deed::Get => Some(self.signed(old)),
            Deed::Set(value) => {
                let value = self.fit(self.as_redis_reads(value))?;
                self.write(bytes, value);
                Some(self.signed(old))
            }
            Deed::Increase(step) => {
                let new = self.fit(i128::from(self.signed(old)) + i128::from(step))?;
                self.write(bytes, new);
                Some(self.signed(new))
            }
        }
    }

    fn read(&self, bytes: &[u8]) -> u64 {
        (self.at..self.at + u64::from(self.bits)).fold(0, |value, bit| {
            let byte = bytes.get((bit >> 3) as usize).copied().unwrap_or(0);
            value << 1 | u64::from(byte >> (7 - (bit & 7)) & 1)
        })
    }

    fn write(&self, bytes: &mut [u8], value: u64) {
        for place in 0..self.bits {
            let (bit, is_set) = (self.at + u64::from(place), value >> (self.bits - 1 - place) & 1 == 1);
            let mask = 1 << (7 - (bit & 7));
            let byte = &mut bytes[(bit >> 3) as usize];
            *byte = if is_set { *byte | mask } else { *byte & !mask };
        }
    }

    fn signed(&self, value: u64) -> i64 {
        let spare = 64 - self.bits;
        if self.is_signed { (value << spare) as i64 >> spare } else { value as i64 }
    }

    /// The smallest and the largest number of this width.
    fn range(&self) -> (i128, i128) {
        match self.is_signed {
            true => (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1),
            false => (0, (1i128 << self.bits) - 1),
        }
    }

    /// A number that is to be set. Redis counts in 64 bits, and where they do not suffice a number far below the smallest is above
    /// the largest: a negative one where there is no sign, and one whose distance to the largest has no room. Only saturation shows it.
    fn as_redis_reads(&self, number: i64) -> i128 {
        let (number, high) = (i128::from(number), self.range().1);
        let is_turned = if self.is_signed { high - number > i128::from(i64::MAX) } else { number < 0 };
        match self.overflow {
            Overflow::Saturate if is_turned && number < self.range().0 => high,
            Overflow::Wrap | Overflow::Saturate | Overflow::Fail => number,
        }
    }

    /// The bits of a number in this width.
    fn fit(&self, number: i128) -> Option<u64> {
        let (low, high) = self.range();
        let number = match self.overflow {
            _ if (low..=high).contains(&number) => number,
            Overflow::Wrap => number,
            Overflow::Saturate => number.clamp(low, high),
            Overflow::Fail => return None,
        };
        let mask = if self.bits == 64 { u64::MAX } else { (1 << self.bits) - 1 };
        Some(number as u64 & mask)
    }
}
