//! `cmsgpack`: values as MessagePack and back, in the forms that Redis' library chooses.

use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::{Args, Fault, Outcome, put};
use crate::sandbox::Shared;

/// Tables within tables; what lies deeper is written as nothing.
const NESTING_MAX: usize = 16;

pub(super) fn install(lua: &Lua, library: &Table, shared: &Rc<Shared>) -> mlua::Result<()> {
    library.raw_set("_NAME", "cmsgpack")?;
    library.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    put(lua, library, shared, "pack", |args| {
        if args.len() == 0 {
            return Err("bad argument #0 to 'pack' (MessagePack pack needs input.)".into());
        }
        let mut out = Vec::new();
        for place in 0..args.len() {
            write(args, args.get(place).unwrap_or(&Value::Nil), 0, &mut out)?;
        }
        Ok(vec![Value::String(args.lua.create_string(&out)?)])
    })?;
    put(lua, library, shared, "unpack", |args| unpack(args, None, 0.0, false))?;
    put(lua, library, shared, "unpack_one", |args| unpack(args, Some(1), args.number_or(1, 0.0)?, true))?;
    put(lua, library, shared, "unpack_limit", |args| {
        unpack(args, Some(args.number(1)? as usize), args.number_or(2, 0.0)?, true)
    })
}

fn write(args: &Args<'_>, value: &Value, depth: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
    args.shared.charge(1)?;
    match value {
        Value::Boolean(flag) => out.push(if *flag { 0xc3 } else { 0xc2 }),
        Value::Integer(whole) => write_integer(*whole, out),
        Value::Number(number) => write_number(*number, out),
        Value::String(text) => {
            let bytes = text.as_bytes();
            args.shared.charge(bytes.len() as u64 / 16)?;
            match bytes.len() {
                length @ 0..=31 => out.push(0xa0 | length as u8),
                length @ 32..=0xff => out.extend_from_slice(&[0xd9, length as u8]),
                length => put_length(length, 0xda, out),
            }
            out.extend_from_slice(&bytes);
        }
        Value::Table(table) if depth < NESTING_MAX => match array_length(table)? {
            Some(length) => {
                put_count(length, 0x90, 0xdc, out);
                for place in 1..=length {
                    write(args, &table.raw_get(place)?, depth + 1, out)?;
                }
            }
            None => {
                put_count(table.pairs::<Value, Value>().count(), 0x80, 0xde, out);
                for pair in table.pairs::<Value, Value>() {
                    let (name, value) = pair?;
                    write(args, &name, depth + 1, out)?;
                    write(args, &value, depth + 1, out)?;
                }
            }
        },
        _ => out.push(0xc0),
    }
    Ok(())
}

/// Up to fifteen in the mark itself, else in two or four bytes behind it.
fn put_count(count: usize, mark: u8, wide: u8, out: &mut Vec<u8>) {
    if count <= 15 { out.push(mark | count as u8) } else { put_length(count, wide, out) }
}

fn put_length(length: usize, mark: u8, out: &mut Vec<u8>) {
    match u16::try_from(length) {
        Ok(short) => {
            out.push(mark);
            out.extend_from_slice(&short.to_be_bytes());
        }
        Err(_) => {
            out.push(mark + 1);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
}

fn write_number(number: f64, out: &mut Vec<u8>) {
    let is_whole = number.fract() == 0.0 && (-9.2e18..9.2e18).contains(&number);
    if is_whole {
        return write_integer(number as i64, out);
    }
    let short = number as f32;
    if f64::from(short) == number {
        out.push(0xca);
        out.extend_from_slice(&short.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn write_integer(whole: i64, out: &mut Vec<u8>) {
    match whole {
        0..=0x7f => out.push(whole as u8),
        0x80..=0xff => out.extend_from_slice(&[0xcc, whole as u8]),
        0x100..=0xffff => tagged(0xcd, &(whole as u16).to_be_bytes(), out),
        0x1_0000..=0xffff_ffff => tagged(0xce, &(whole as u32).to_be_bytes(), out),
        0x1_0000_0000.. => tagged(0xcf, &whole.to_be_bytes(), out),
        -32..=-1 => out.push(whole as i8 as u8),
        -128..=-33 => out.extend_from_slice(&[0xd0, whole as i8 as u8]),
        -32_768..=-129 => tagged(0xd1, &(whole as i16).to_be_bytes(), out),
        -2_147_483_648..=-32_769 => tagged(0xd2, &(whole as i32).to_be_bytes(), out),
        _ => tagged(0xd3, &whole.to_be_bytes(), out),
    }
}

fn tagged(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

/// How long the table is if its keys are 1 and those behind it; an empty one is an array.
fn array_length(table: &Table) -> mlua::Result<Option<usize>> {
    let (mut highest, mut count) = (0usize, 0usize);
    for pair in table.pairs::<Value, Value>() {
        let place = match pair?.0 {
            Value::Integer(place) => place as f64,
            Value::Number(place) => place,
            _ => return Ok(None),
        };
        if place < 1.0 || place.fract() != 0.0 {
            return Ok(None);
        }
        highest = highest.max(place as usize);
        count += 1;
    }
    Ok((highest == count).then_some(count))
}

fn unpack(args: &Args<'_>, limit: Option<usize>, offset: f64, tells_place: bool) -> Outcome {
    let text = args.text(0)?;
    let bytes = text.as_bytes();
    args.shared.charge(bytes.len() as u64 / 16)?;
    if offset < 0.0 || limit.is_some_and(|limit| limit as i64 as f64 != limit as f64) {
        return Err(format!("Invalid request to unpack with offset of {offset} and limit of {}.", bytes.len()).into());
    }
    let from = offset as usize;
    if from > bytes.len() {
        return Err(format!("Start offset {from} greater than input length {}.", bytes.len()).into());
    }
    let mut reader = Reader { args, rest: &bytes[from..] };
    let mut values = Vec::new();
    // Nothing asked for by a limit of zero is everything.
    let most = limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    while !reader.rest.is_empty() && values.len() < most {
        values.push(reader.value(0)?);
    }
    if tells_place {
        let at = bytes.len() - reader.rest.len();
        let next = if reader.rest.is_empty() { -1.0 } else { at as f64 };
        values.insert(0, Value::Number(next));
    }
    Ok(values)
}

struct Reader<'a> {
    args: &'a Args<'a>,
    rest: &'a [u8],
}

const MISSING: &str = "Missing bytes in input.";

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(MISSING)?;
        self.rest = rest;
        Ok(taken)
    }

    fn unsigned(&mut self, count: usize) -> Result<u64, Fault> {
        Ok(self.take(count)?.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, count: usize) -> Result<i64, Fault> {
        let spare = 64 - count as u32 * 8;
        Ok((self.unsigned(count)? as i64) << spare >> spare)
    }

    fn value(&mut self, depth: usize) -> Result<Value, Fault> {
        self.args.shared.charge(1)?;
        if depth > crate::limits::DEPTH_MAX {
            return Err("Bad data format in input.".into());
        }
        let tag = self.take(1)?[0];
        let number = |number: f64| Ok(Value::Number(number));
        match tag {
            0..=0x7f => number(f64::from(tag)),
            0xe0..=0xff => number(f64::from(tag as i8)),
            0x80..=0x8f => self.map(usize::from(tag & 0x0f), depth),
            0x90..=0x9f => self.array(usize::from(tag & 0x0f), depth),
            0xa0..=0xbf => self.text(usize::from(tag & 0x1f)),
            0xc0 => Ok(Value::Nil),
            0xc2 => Ok(Value::Boolean(false)),
            0xc3 => Ok(Value::Boolean(true)),
            0xca => number(f64::from(f32::from_bits(self.unsigned(4)? as u32))),
            0xcb => number(f64::from_bits(self.unsigned(8)?)),
            0xcc..=0xcf => {
                let whole = self.unsigned(1 << (tag - 0xcc))?;
                number(whole as f64)
            }
            0xd0..=0xd3 => {
                let whole = self.signed(1 << (tag - 0xd0))?;
                number(whole as f64)
            }
            0xc4 | 0xd9 => self.counted(1, Self::text),
            0xc5 | 0xda => self.counted(2, Self::text),
            0xc6 | 0xdb => self.counted(4, Self::text),
            0xdc => self.counted(2, |reader, count| reader.array(count, depth)),
            0xdd => self.counted(4, |reader, count| reader.array(count, depth)),
            0xde => self.counted(2, |reader, count| reader.map(count, depth)),
            0xdf => self.counted(4, |reader, count| reader.map(count, depth)),
            _ => Err("Bad data format in input.".into()),
        }
    }

    fn counted(
        &mut self,
        bytes: usize,
        read: impl FnOnce(&mut Self, usize) -> Result<Value, Fault>,
    ) -> Result<Value, Fault> {
        let count = self.unsigned(bytes)? as usize;
        read(self, count)
    }

    fn text(&mut self, length: usize) -> Result<Value, Fault> {
        let bytes = self.take(length)?;
        Ok(Value::String(self.args.lua.create_string(bytes)?))
    }

    fn array(&mut self, count: usize, depth: usize) -> Result<Value, Fault> {
        let table = self.args.lua.create_table()?;
        for place in 1..=count {
            let value = self.value(depth + 1)?;
            table.raw_set(place, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize, depth: usize) -> Result<Value, Fault> {
        let table = self.args.lua.create_table()?;
        for _ in 0..count {
            let (name, value) = (self.value(depth + 1)?, self.value(depth + 1)?);
            if name.is_nil() || matches!(name, Value::Number(number) if number.is_nan()) {
                return Err("Bad data format in input.".into());
            }
            table.raw_set(name, value)?;
        }
        Ok(Value::Table(table))
    }
}
