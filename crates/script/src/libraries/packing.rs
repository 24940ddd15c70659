//! `struct`: numbers and text in bytes, laid out by a format.

use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::{Args, Fault, Outcome, put};
use crate::sandbox::Shared;

/// Bytes of a number that a format may ask for.
const INTEGER_BYTES_MAX: usize = 32;
const ALIGNMENT_MAX: usize = 8;
/// Bytes that one format may lay out.
const BYTES_MAX: usize = 16 << 20;

pub(super) fn install(lua: &Lua, library: &Table, shared: &Rc<Shared>) -> mlua::Result<()> {
    put(lua, library, shared, "pack", pack)?;
    put(lua, library, shared, "unpack", unpack)?;
    put(lua, library, shared, "size", |args| {
        let text = args.text(0)?;
        let format = text.as_bytes();
        let (mut layout, mut size) = (Layout::new(args, &format), 0usize);
        while let Some(item) = layout.next()? {
            match item {
                Item::Text => return Err(args.wrong(0, "variable-size format for 's'")),
                Item::Chars(0) => return Err(args.wrong(0, "variable-size format for 'c0'")),
                item => size = checked(size + layout.padding(size, &item) + item.size())?,
            }
        }
        Ok(vec![Value::Number(size as f64)])
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Integer {
        bytes: usize,
        is_signed: bool,
    },
    Float,
    Double,
    /// Up to a zero.
    Text,
    /// So many bytes; 0 stands for all there are, or as many as the number before says.
    Chars(usize),
    Padding,
}

impl Item {
    fn size(&self) -> usize {
        match self {
            Self::Integer { bytes, .. } => *bytes,
            Self::Float => 4,
            Self::Double => 8,
            Self::Text => 0,
            Self::Chars(count) => *count,
            Self::Padding => 1,
        }
    }
}

struct Layout<'a> {
    args: &'a Args<'a>,
    format: &'a [u8],
    at: usize,
    is_big: bool,
    align: usize,
}

impl<'a> Layout<'a> {
    fn new(args: &'a Args<'a>, format: &'a [u8]) -> Self {
        Self { args, format, at: 0, is_big: false, align: 1 }
    }

    /// A number that stands in the format, or what is usual.
    fn count(&mut self, usual: usize) -> Result<usize, Fault> {
        let digits = self.format[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = std::str::from_utf8(&self.format[self.at..self.at + digits]).unwrap_or_default();
        self.at += digits;
        if digits == 0 {
            return Ok(usual);
        }
        text.parse().ok().filter(|count| *count <= i32::MAX as usize).ok_or_else(|| "integral size overflow".into())
    }

    fn integer_bytes(&mut self) -> Result<usize, Fault> {
        let bytes = self.count(4)?;
        if bytes == 0 || bytes > INTEGER_BYTES_MAX {
            return Err(format!("integral size {bytes} is larger than limit of {INTEGER_BYTES_MAX}").into());
        }
        Ok(bytes)
    }

    fn next(&mut self) -> Result<Option<Item>, Fault> {
        loop {
            let Some(&mark) = self.format.get(self.at) else { return Ok(None) };
            self.at += 1;
            let whole = |bytes, is_signed| Item::Integer { bytes, is_signed };
            return Ok(Some(match mark {
                b'b' => whole(1, true),
                b'B' => whole(1, false),
                b'h' => whole(2, true),
                b'H' => whole(2, false),
                b'l' => whole(8, true),
                b'L' | b'T' => whole(8, false),
                b'i' => whole(self.integer_bytes()?, true),
                b'I' => whole(self.integer_bytes()?, false),
                b'f' => Item::Float,
                b'd' => Item::Double,
                b's' => Item::Text,
                b'c' => Item::Chars(self.count(1)?),
                b'x' => Item::Padding,
                b' ' => continue,
                b'<' => {
                    self.is_big = false;
                    continue;
                }
                b'>' => {
                    self.is_big = true;
                    continue;
                }
                b'!' => {
                    let align = self.count(ALIGNMENT_MAX)?;
                    if !align.is_power_of_two() {
                        return Err("alignment is not a power of 2".into());
                    }
                    self.align = align;
                    continue;
                }
                other => {
                    let option = char::from(other);
                    return Err(self.args.wrong(0, format_args!("invalid format option '{option}'")));
                }
            }));
        }
    }

    /// Bytes before an item, so that it lies where its size wants it.
    fn padding(&self, at: usize, item: &Item) -> usize {
        let size = item.size().min(self.align);
        let is_aligned = matches!(item, Item::Integer { .. } | Item::Float | Item::Double);
        if !is_aligned || size <= 1 { 0 } else { (size - (at & (size - 1))) & (size - 1) }
    }

    fn ordered(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.is_big {
            bytes.reverse();
        }
        bytes
    }
}

fn checked(size: usize) -> Result<usize, Fault> {
    if size > BYTES_MAX { Err("format result too large".into()) } else { Ok(size) }
}

fn pack(args: &Args<'_>) -> Outcome {
    let text = args.text(0)?;
    let format = text.as_bytes();
    let (mut layout, mut out, mut place) = (Layout::new(args, &format), Vec::new(), 1);
    while let Some(item) = layout.next()? {
        checked(out.len() + item.size())?;
        args.shared.charge(1 + item.size() as u64 / 16)?;
        out.resize(out.len() + layout.padding(out.len(), &item), 0);
        match item {
            Item::Padding => {
                out.push(0);
                continue;
            }
            Item::Integer { bytes, .. } => {
                let number = args.number(place)?;
                // Above the signed ones lie those that only an unsigned number holds.
                let whole = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                let fill = if number < 0.0 { 0xff } else { 0 };
                let mut laid: Vec<u8> = whole.to_le_bytes().into_iter().take(bytes).collect();
                laid.resize(bytes, fill);
                out.extend(layout.ordered(laid));
            }
            Item::Float => out.extend(layout.ordered((args.number(place)? as f32).to_le_bytes().to_vec())),
            Item::Double => out.extend(layout.ordered(args.number(place)?.to_le_bytes().to_vec())),
            Item::Text => {
                out.extend_from_slice(&args.text(place)?.as_bytes());
                out.push(0);
            }
            Item::Chars(count) => {
                let given = args.text(place)?;
                let bytes = given.as_bytes();
                let count = if count == 0 { bytes.len() } else { count };
                out.extend_from_slice(bytes.get(..count).ok_or_else(|| args.wrong(place + 1, "string too short"))?);
            }
        }
        checked(out.len())?;
        place += 1;
    }
    Ok(vec![Value::String(args.lua.create_string(&out)?)])
}

fn unpack(args: &Args<'_>) -> Outcome {
    let (format, data) = (args.text(0)?, args.text(1)?);
    let (format, data) = (format.as_bytes(), data.as_bytes());
    let from = args.number_or(2, 1.0)?;
    if from < 1.0 {
        return Err(args.wrong(2, "offset must be 1 or greater"));
    }
    let (mut layout, mut at, mut values) = (Layout::new(args, &format), from as usize - 1, Vec::new());
    let short = || args.wrong(1, "data string too short");
    while let Some(item) = layout.next()? {
        args.shared.charge(1 + item.size() as u64 / 16)?;
        at = at.saturating_add(layout.padding(at, &item));
        let taken = data.get(at..at.saturating_add(item.size())).ok_or_else(short)?;
        let mut length = item.size();
        match item {
            Item::Padding => {}
            Item::Integer { is_signed, .. } => {
                let laid = layout.ordered(taken.to_vec());
                values.push(Value::Number(integer(&laid, is_signed)));
            }
            Item::Float => {
                let laid = layout.ordered(taken.to_vec());
                let bytes = laid.first_chunk().copied().unwrap_or_default();
                values.push(Value::Number(f64::from(f32::from_le_bytes(bytes))));
            }
            Item::Double => {
                let laid = layout.ordered(taken.to_vec());
                values.push(Value::Number(f64::from_le_bytes(laid.first_chunk().copied().unwrap_or_default())));
            }
            Item::Chars(0) => {
                let Some(Value::Number(count)) = values.pop() else {
                    return Err("format 'c0' needs a previous size".into());
                };
                length = count.max(0.0) as usize;
                let bytes = data.get(at..at.saturating_add(length)).ok_or_else(short)?;
                values.push(Value::String(args.lua.create_string(bytes)?));
            }
            Item::Chars(_) => values.push(Value::String(args.lua.create_string(taken)?)),
            Item::Text => {
                let rest = &data[at..];
                let end = memchr::memchr(0, rest).ok_or("unfinished string in data")?;
                values.push(Value::String(args.lua.create_string(&rest[..end])?));
                length = end + 1;
            }
        }
        at += length;
    }
    values.push(Value::Number((at + 1) as f64));
    Ok(values)
}

/// From the lowest byte on. What is wider than eight bytes has its sign above them.
fn integer(laid: &[u8], is_signed: bool) -> f64 {
    let low = laid.iter().take(8).rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
    if !is_signed {
        return low as f64;
    }
    let spare = 64 - 8 * laid.len().min(8) as u32;
    ((low as i64) << spare >> spare) as f64
}
