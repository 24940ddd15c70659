//! Replies of commands as values of Lua, and values of Lua as replies, as Redis converts them.

use mlua::{IntoLuaMulti, Lua, MultiValue, Table, Value};
use shardine_resp::{Protocol, digest, hex, wire};

use crate::limits::DEPTH_MAX;
use crate::number;
use crate::sandbox::{CHUNK, FUNCTION_CHUNK};

/// A word of a command as a script gives it.
pub(crate) enum Argument {
    Text(mlua::LuaString),
    Number(String),
}

impl Argument {
    pub fn bytes(&self) -> std::borrow::Cow<'_, [u8]> {
        match self {
            Self::Text(text) => text.as_bytes().to_vec().into(),
            Self::Number(text) => text.as_bytes().into(),
        }
    }
}

pub(crate) fn argument(value: &Value) -> Option<Argument> {
    match value {
        Value::String(text) => Some(Argument::Text(text.clone())),
        Value::Integer(number) => Some(Argument::Number(number::general(*number as f64, 17))),
        Value::Number(number) => Some(Argument::Number(number::general(*number, 17))),
        _ => None,
    }
}

/// An error as a script sees it.
pub(crate) fn failure(lua: &Lua, line: &[u8]) -> mlua::Result<Value> {
    one(lua, "err", lua.create_string(line)?)
}

fn one(lua: &Lua, name: &str, value: impl mlua::IntoLua) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

/// Reads the reply of a command: whether it is an error, and what it is.
pub(crate) fn read(lua: &Lua, bytes: &[u8]) -> mlua::Result<(bool, Value)> {
    let mut rest = bytes;
    let is_error = rest.first() == Some(&b'-');
    let value = read_one(lua, &mut rest, 0)?;
    Ok((is_error, value.unwrap_or_default()))
}

/// The next value; `None` where the bytes end early, which what the door writes never does.
fn read_one(lua: &Lua, rest: &mut &[u8], depth: usize) -> mlua::Result<Option<Value>> {
    let Some((mark, line)) = take_line(rest).and_then(|line| line.split_first()) else { return Ok(None) };
    if depth > DEPTH_MAX {
        return Ok(None);
    }
    let text = |bytes: &[u8]| lua.create_string(bytes);
    let length = || std::str::from_utf8(line).ok().and_then(|line| line.parse::<i64>().ok());
    Ok(Some(match mark {
        b'+' => one(lua, "ok", text(line)?)?,
        b'-' => failure(lua, line)?,
        b':' => Value::Number(length().unwrap_or_default() as f64),
        b'_' => Value::Nil,
        b'#' => Value::Boolean(line == b"t"),
        b',' => {
            let number = std::str::from_utf8(line).ok().and_then(|line| line.parse::<f64>().ok());
            one(lua, "double", number.unwrap_or_default())?
        }
        b'(' => one(lua, "big_number", text(line)?)?,
        b'$' | b'=' => {
            let Some(length) = length().and_then(|length| usize::try_from(length).ok()) else {
                return Ok(Some(Value::Boolean(false)));
            };
            let Some((bytes, behind)) = rest.split_at_checked(length) else { return Ok(None) };
            *rest = behind.get(2..).unwrap_or_default();
            if *mark == b'$' { Value::String(text(bytes)?) } else { verbatim(lua, bytes)? }
        }
        b'*' | b'>' => {
            let Some(length) = length().and_then(|length| usize::try_from(length).ok()) else {
                return Ok(Some(Value::Boolean(false)));
            };
            let table = lua.create_table()?;
            for place in 1..=length {
                let Some(value) = read_one(lua, rest, depth + 1)? else { return Ok(None) };
                table.raw_set(place, value)?;
            }
            Value::Table(table)
        }
        b'%' | b'~' => {
            let table = lua.create_table()?;
            for _ in 0..length().unwrap_or_default() {
                let Some(name) = read_one(lua, rest, depth + 1)? else { return Ok(None) };
                let value = match mark {
                    b'%' => read_one(lua, rest, depth + 1)?,
                    _ => Some(Value::Boolean(true)),
                };
                let Some(value) = value else { return Ok(None) };
                if !name.is_nil() {
                    table.raw_set(name, value)?;
                }
            }
            one(lua, if *mark == b'%' { "map" } else { "set" }, table)?
        }
        _ => return Ok(None),
    }))
}

fn verbatim(lua: &Lua, bytes: &[u8]) -> mlua::Result<Value> {
    let (format, text) = bytes.split_at_checked(4).unwrap_or((b"txt:", bytes));
    let table = lua.create_table()?;
    table.raw_set("format", lua.create_string(&format[..3])?)?;
    table.raw_set("string", lua.create_string(text)?)?;
    one(lua, "verbatim_string", table)
}

fn take_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, behind) = (&rest[..end], &rest[end + 2..]);
    *rest = behind;
    Some(line)
}

/// In which forms of the protocol a reply is meant and written.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub client: Protocol,
    pub script: Protocol,
}

/// Appends what a script returned.
pub(crate) fn write(value: &Value, form: Form, out: &mut Vec<u8>) -> mlua::Result<()> {
    let start = out.len();
    if !write_one(value, form, 0, out)? {
        out.truncate(start);
        wire::error(out, b"ERR reached lua stack limit");
    }
    Ok(())
}

/// `false` if there are too many tables within tables.
fn write_one(value: &Value, form: Form, depth: usize, out: &mut Vec<u8>) -> mlua::Result<bool> {
    if depth > DEPTH_MAX {
        return Ok(false);
    }
    match value {
        Value::String(text) => wire::bulk(out, &text.as_bytes()),
        Value::Integer(number) => wire::integer(out, *number),
        Value::Number(number) => wire::integer(out, number::to_integer(*number)),
        // A script that has not asked for the newer form has no truth in its replies, whatever its client speaks.
        Value::Boolean(flag) => match (form.script, form.client, flag) {
            (Protocol::Resp2, _, true) | (_, Protocol::Resp2, true) => wire::integer(out, 1),
            (Protocol::Resp2, _, false) => wire::null(out, form.client),
            (_, Protocol::Resp2, false) => wire::integer(out, 0),
            (Protocol::Resp3, Protocol::Resp3, flag) => {
                out.extend_from_slice(if *flag { b"#t\r\n" } else { b"#f\r\n" })
            }
        },
        Value::Table(table) => return write_table(table, form, depth, out),
        _ => wire::null(out, form.client),
    }
    Ok(true)
}

fn write_table(table: &Table, form: Form, depth: usize, out: &mut Vec<u8>) -> mlua::Result<bool> {
    if let Value::String(line) = table.raw_get("err")? {
        wire::error(out, &line.as_bytes());
        return Ok(true);
    }
    if let Value::String(line) = table.raw_get("ok")? {
        wire::status(out, &line.as_bytes());
        return Ok(true);
    }
    match table.raw_get("double")? {
        Value::Number(number) => {
            write_double(number, form, out);
            return Ok(true);
        }
        Value::Integer(number) => {
            write_double(number as f64, form, out);
            return Ok(true);
        }
        _ => {}
    }
    if let Value::Table(content) = table.raw_get("map")? {
        return write_map(&content, form, depth, out);
    }
    if let Value::Table(content) = table.raw_get("set")? {
        return write_set(&content, form, depth, out);
    }
    if let Value::String(digits) = table.raw_get("big_number")? {
        match form.client {
            Protocol::Resp2 => wire::bulk(out, &digits.as_bytes()),
            Protocol::Resp3 => {
                out.push(b'(');
                wire::line(out, &digits.as_bytes());
            }
        }
        return Ok(true);
    }
    if let Value::Table(content) = table.raw_get("verbatim_string")?
        && let (Value::String(format), Value::String(text)) = (content.raw_get("format")?, content.raw_get("string")?)
    {
        wire::verbatim(out, &format.as_bytes(), &text.as_bytes(), form.client);
        return Ok(true);
    }
    write_array(table, form, depth, out)
}

fn write_array(table: &Table, form: Form, depth: usize, out: &mut Vec<u8>) -> mlua::Result<bool> {
    // As far as the first that is not there.
    let mut elements = Vec::new();
    let mut count = 0;
    loop {
        let value: Value = table.raw_get(count + 1)?;
        if value.is_nil() {
            break;
        }
        if !write_one(&value, form, depth + 1, &mut elements)? {
            return Ok(false);
        }
        count += 1;
    }
    wire::array(out, count);
    out.extend_from_slice(&elements);
    Ok(true)
}

fn write_map(content: &Table, form: Form, depth: usize, out: &mut Vec<u8>) -> mlua::Result<bool> {
    let (mut pairs, mut count, mut fits) = (Vec::new(), 0, true);
    content.for_each(|name: Value, value: Value| {
        fits =
            fits && write_one(&name, form, depth + 1, &mut pairs)? && write_one(&value, form, depth + 1, &mut pairs)?;
        count += 1;
        Ok(())
    })?;
    wire::map(out, count, form.client);
    out.extend_from_slice(&pairs);
    Ok(fits)
}

fn write_set(content: &Table, form: Form, depth: usize, out: &mut Vec<u8>) -> mlua::Result<bool> {
    let (mut members, mut count, mut fits) = (Vec::new(), 0, true);
    content.for_each(|name: Value, _: Value| {
        fits = fits && write_one(&name, form, depth + 1, &mut members)?;
        count += 1;
        Ok(())
    })?;
    wire::set(out, count, form.client);
    out.extend_from_slice(&members);
    Ok(fits)
}

fn write_double(number: f64, form: Form, out: &mut Vec<u8>) {
    let text = number::general(number, 17);
    match form.client {
        Protocol::Resp2 => wire::bulk(out, text.as_bytes()),
        Protocol::Resp3 => {
            out.push(b',');
            wire::line(out, text.as_bytes());
        }
    }
}

/// What failed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    Script([u8; 20]),
    Function(&'a [u8]),
}

/// What a script that failed is answered with: what it failed by, and where.
pub(crate) fn write_failure(failure: &Table, place: Place<'_>, out: &mut Vec<u8>) -> mlua::Result<()> {
    let mut line = match failure.raw_get("err")? {
        Value::String(text) => text.as_bytes().to_vec(),
        _ => b"ERR the script failed, and said neither why nor where".to_vec(),
    };
    if let Some(number) = failure.raw_get::<Option<i64>>("line").ok().flatten() {
        let (name, chunk) = match place {
            Place::Script(sum) => (hex(sum).into_bytes(), CHUNK),
            Place::Function(name) => (name.to_vec(), FUNCTION_CHUNK),
        };
        let at = format!(", on {chunk}:{number}.");
        line.extend([b" script: ", &name[..], at.as_bytes()].concat());
    }
    wire::error(out, &line);
    Ok(())
}

/// `redis.sha1hex`: numbers count as their text, and what has none as nothing.
pub(crate) fn sum_of(value: &Value) -> String {
    hex(match value {
        Value::String(text) => digest(&text.as_bytes()),
        Value::Integer(number) => digest(number::general(*number as f64, 14).as_bytes()),
        Value::Number(number) => digest(number::general(*number, 14).as_bytes()),
        _ => digest(b""),
    })
}

/// `redis.error_reply`: a line with a prefix, and the general one if it has none.
pub(crate) fn error_reply(lua: &Lua, args: MultiValue) -> mlua::Result<MultiValue> {
    let line = match args.iter().next() {
        Some(Value::String(text)) if args.len() == 1 => {
            let text = text.as_bytes();
            let text = text.strip_prefix(b"-").unwrap_or(&text);
            if text.contains(&b' ') { text.to_vec() } else { [b"ERR ", text].concat() }
        }
        _ => b"ERR wrong number or type of arguments".to_vec(),
    };
    failure(lua, &line)?.into_lua_multi(lua)
}
