//! `bit`: operations on 32 bits. Numbers outside are taken modulo 2^32, and results are signed.

use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::{Args, Fault, Outcome, put};
use crate::sandbox::Shared;

pub(super) fn install(lua: &Lua, library: &Table, shared: &Rc<Shared>) -> mlua::Result<()> {
    put(lua, library, shared, "tobit", |args| one(bits(args, 0)?))?;
    put(lua, library, shared, "bnot", |args| one(!bits(args, 0)?))?;
    put(lua, library, shared, "bswap", |args| one(bits(args, 0)?.swap_bytes()))?;
    put(lua, library, shared, "band", |args| all(args, |one, other| one & other))?;
    put(lua, library, shared, "bor", |args| all(args, |one, other| one | other))?;
    put(lua, library, shared, "bxor", |args| all(args, |one, other| one ^ other))?;
    put(lua, library, shared, "lshift", |args| one(bits(args, 0)? << (bits(args, 1)? & 31)))?;
    put(lua, library, shared, "rshift", |args| one(bits(args, 0)? >> (bits(args, 1)? & 31)))?;
    put(lua, library, shared, "arshift", |args| one((bits(args, 0)? as i32 >> (bits(args, 1)? & 31)) as u32))?;
    put(lua, library, shared, "rol", |args| one(bits(args, 0)?.rotate_left(bits(args, 1)? & 31)))?;
    put(lua, library, shared, "ror", |args| one(bits(args, 0)?.rotate_right(bits(args, 1)? & 31)))?;
    put(lua, library, shared, "tohex", to_hex)
}

/// To the nearest whole number, and of two to the even one.
fn bits(args: &Args<'_>, place: usize) -> Result<u32, Fault> {
    let number = args.number(place)?;
    let whole = number.round_ties_even().rem_euclid(4_294_967_296.0);
    Ok(if whole.is_finite() { whole as u32 } else { 0 })
}

#[allow(clippy::unnecessary_wraps, reason = "what a library's function gives")]
fn one(bits: u32) -> Outcome {
    Ok(vec![Value::Number(f64::from(bits as i32))])
}

fn all(args: &Args<'_>, join: fn(u32, u32) -> u32) -> Outcome {
    let mut joined = bits(args, 0)?;
    for place in 1..args.len() {
        joined = join(joined, bits(args, place)?);
    }
    one(joined)
}

fn to_hex(args: &Args<'_>) -> Outcome {
    let number = bits(args, 0)?;
    let digits = args.number_or(1, 8.0)? as i64;
    let count = digits.unsigned_abs().min(8) as usize;
    let text = if digits < 0 { format!("{number:08X}") } else { format!("{number:08x}") };
    Ok(vec![Value::String(args.lua.create_string(&text[8 - count..])?)])
}
