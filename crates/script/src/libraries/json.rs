//! `cjson`: values as JSON and back, with the words and limits of the library that Redis has.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::{Args, Fault, put};
use crate::limits::DEPTH_MAX;
use crate::number;
use crate::sandbox::Shared;

/// What scripts may set. Each run begins with what is usual: a script that sets something sets it for itself.
#[derive(Clone, Copy)]
struct Options {
    precision: usize,
    sparse_becomes_object: bool,
}

const USUAL: Options = Options { precision: 14, sparse_becomes_object: false };
/// An array may have so many holes, or twice as many places as elements, before it is taken for an accident.
const SPARSE_RATIO: usize = 2;
const SPARSE_SAFE: usize = 10;

pub(super) fn install(lua: &Lua, library: &Table, shared: &Rc<Shared>) -> mlua::Result<()> {
    let options = Rc::new(Cell::new(USUAL));
    library.raw_set("null", Value::NULL)?;
    library.raw_set("_NAME", "cjson")?;
    library.raw_set("_VERSION", "2.1.0")?;
    let known = Rc::clone(&options);
    put(lua, library, shared, "encode", move |args| {
        if args.len() != 1 {
            return Err(args.wrong(0, "expected 1 argument"));
        }
        let mut out = Vec::new();
        let value = args.get(0).cloned().unwrap_or_default();
        Writer { args, options: known.get(), out: &mut out }.write(&value, 0)?;
        Ok(vec![Value::String(args.lua.create_string(&out)?)])
    })?;
    put(lua, library, shared, "decode", |args| {
        if args.len() != 1 {
            return Err(args.wrong(0, "expected 1 argument"));
        }
        let text = args.text(0)?;
        let bytes = text.as_bytes();
        args.shared.charge(bytes.len() as u64 / 16)?;
        let mut reader = Reader { args, text: &bytes, at: 0 };
        let token = reader.next();
        let value = reader.value(token, 0)?;
        match reader.next() {
            (Token::End, _) => Ok(vec![value]),
            token => Err(reader.unexpected("the end", &token)),
        }
    })?;
    let known = Rc::clone(&options);
    put(lua, library, shared, "encode_sparse_array", move |args| {
        if let Some(Value::Boolean(flag)) = args.get(0) {
            known.set(Options { sparse_becomes_object: *flag, ..known.get() });
        }
        let number = |number: usize| Value::Number(number as f64);
        Ok(vec![Value::Boolean(known.get().sparse_becomes_object), number(SPARSE_RATIO), number(SPARSE_SAFE)])
    })?;
    put(lua, library, shared, "encode_number_precision", move |args| {
        let precision = args.number_or(0, options.get().precision as f64)?;
        if !(1.0..=14.0).contains(&precision) {
            return Err(args.wrong(0, "expected integer between 1 and 14"));
        }
        options.set(Options { precision: precision as usize, ..options.get() });
        Ok(vec![Value::Number(precision)])
    })?;
    // These keep what is usual, and say so.
    for (name, value) in [
        ("encode_max_depth", Value::Number(DEPTH_MAX as f64)),
        ("decode_max_depth", Value::Number(DEPTH_MAX as f64)),
        ("encode_keep_buffer", Value::Boolean(true)),
        ("encode_invalid_numbers", Value::Boolean(false)),
        ("decode_invalid_numbers", Value::Boolean(true)),
    ] {
        put(lua, library, shared, name, move |_| Ok(vec![value.clone()]))?;
    }
    Ok(())
}

struct Writer<'a, 'o> {
    args: &'a Args<'a>,
    options: Options,
    out: &'o mut Vec<u8>,
}

impl Writer<'_, '_> {
    fn write(&mut self, value: &Value, depth: usize) -> Result<(), Fault> {
        self.args.shared.charge(1)?;
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend_from_slice(b"null"),
            Value::Boolean(flag) => self.out.extend_from_slice(if *flag { b"true" } else { b"false" }),
            Value::Integer(whole) => self.number(*whole as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::String(text) => {
                let bytes = text.as_bytes();
                self.args.shared.charge(bytes.len() as u64 / 16)?;
                self.text(&bytes);
            }
            Value::Table(table) => self.table(table, depth + 1)?,
            other => {
                let kind = match other.type_name() {
                    "error" | "other" => "userdata",
                    kind => kind,
                };
                return Err(format!("Cannot serialise {kind}: type not supported").into());
            }
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<(), Fault> {
        if !number.is_finite() {
            return Err("Cannot serialise number: must not be NaN or Inf".into());
        }
        self.out.extend_from_slice(number::general(number, self.options.precision).as_bytes());
        Ok(())
    }

    fn text(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for &byte in text {
            match byte {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'/' => self.out.extend_from_slice(b"\\/"),
                0x08 => self.out.extend_from_slice(b"\\b"),
                0x0c => self.out.extend_from_slice(b"\\f"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                0..=0x1f | 0x7f => self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                byte => self.out.push(byte),
            }
        }
        self.out.push(b'"');
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(format!("Cannot serialise, excessive nesting ({depth})").into());
        }
        match self.array_length(table)? {
            Some(length) => {
                self.out.push(b'[');
                for place in 1..=length {
                    if place > 1 {
                        self.out.push(b',');
                    }
                    self.write(&table.raw_get::<Value>(place)?, depth)?;
                }
                self.out.push(b']');
            }
            None => self.object(table, depth)?,
        }
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: usize) -> Result<(), Fault> {
        self.out.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (name, value) = pair?;
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            match &name {
                Value::String(text) => self.text(&text.as_bytes()),
                Value::Integer(whole) => self.quoted(*whole as f64)?,
                Value::Number(number) => self.quoted(*number)?,
                other => {
                    let kind = other.type_name();
                    let message = format!("Cannot serialise {kind}: table key must be a number or string");
                    return Err(message.into());
                }
            }
            self.out.push(b':');
            self.write(&value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn quoted(&mut self, number: f64) -> Result<(), Fault> {
        self.out.push(b'"');
        self.number(number)?;
        self.out.push(b'"');
        Ok(())
    }

    /// How long the table is as an array; `None` if it is none.
    fn array_length(&self, table: &Table) -> Result<Option<usize>, Fault> {
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
        if highest > count.saturating_mul(SPARSE_RATIO) && highest > SPARSE_SAFE {
            if !self.options.sparse_becomes_object {
                return Err("Cannot serialise table: excessively sparse array".into());
            }
            return Ok(None);
        }
        Ok((highest > 0).then_some(highest))
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    /// What is no token, and where that shows.
    Wrong(&'static str, usize),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::Text(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Wrong(why, _) => why,
        }
    }
}

struct Reader<'a> {
    args: &'a Args<'a>,
    text: &'a [u8],
    at: usize,
}

/// A token, and where it begins.
type Placed = (Token, usize);

impl Reader<'_> {
    fn unexpected(&self, wanted: &str, (token, at): &Placed) -> Fault {
        let at = if let Token::Wrong(_, at) = token { at } else { at };
        format!("Expected {wanted} but found {} at character {}", token.name(), at + 1).into()
    }

    fn next(&mut self) -> Placed {
        while self.text.get(self.at).is_some_and(|byte| b" \t\n\r".contains(byte)) {
            self.at += 1;
        }
        let begin = self.at;
        let Some(&byte) = self.text.get(begin) else { return (Token::End, begin) };
        let simple = match byte {
            b'{' => Some(Token::ObjectBegin),
            b'}' => Some(Token::ObjectEnd),
            b'[' => Some(Token::ArrayBegin),
            b']' => Some(Token::ArrayEnd),
            b':' => Some(Token::Colon),
            b',' => Some(Token::Comma),
            _ => None,
        };
        if let Some(token) = simple {
            self.at += 1;
            return (token, begin);
        }
        let token = match byte {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.word(),
        };
        (token, begin)
    }

    fn word(&mut self) -> Token {
        for (word, token) in [("true", Token::Boolean(true)), ("false", Token::Boolean(false)), ("null", Token::Null)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return token;
            }
        }
        for (word, number) in [("nan", f64::NAN), ("infinity", f64::INFINITY), ("inf", f64::INFINITY)] {
            let found = self.text.get(self.at..self.at + word.len());
            if found.is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes())) {
                self.at += word.len();
                return Token::Number(number);
            }
        }
        Token::Wrong("invalid token", self.at)
    }

    fn number(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let length = rest.iter().take_while(|byte| b"+-.0123456789eExXabcdfABCDF".contains(byte)).count();
        // As far as it is one, as C reads numbers.
        for end in (1..=length).rev() {
            let text = &rest[..end];
            if text.last().is_some_and(u8::is_ascii_whitespace) {
                continue;
            }
            if let Some(number) = shardine_model::number::float(text) {
                self.at += end;
                return Token::Number(number);
            }
        }
        Token::Wrong("invalid number", self.at)
    }

    fn string(&mut self) -> Token {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let Some(&byte) = self.text.get(self.at) else { return Token::Wrong("unexpected end of string", self.at) };
            let begin = self.at;
            self.at += 1;
            match byte {
                b'"' => return Token::Text(out),
                b'\\' => {
                    let Some(&escape) = self.text.get(self.at) else {
                        return Token::Wrong("unexpected end of string", self.at);
                    };
                    self.at += 1;
                    match escape {
                        b'"' | b'\\' | b'/' => out.push(escape),
                        b'b' => out.push(0x08),
                        b'f' => out.push(0x0c),
                        b'n' => out.push(b'\n'),
                        b'r' => out.push(b'\r'),
                        b't' => out.push(b'\t'),
                        b'u' => match self.unicode() {
                            Some(letter) => out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
                            None => return Token::Wrong("invalid unicode escape code", begin),
                        },
                        _ => return Token::Wrong("invalid escape code", begin),
                    }
                }
                byte => out.push(byte),
            }
        }
    }

    fn unicode(&mut self) -> Option<char> {
        let first = self.hex()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first);
        }
        if self.text.get(self.at..self.at + 2) != Some(b"\\u") {
            return None;
        }
        self.at += 2;
        let second = self.hex().filter(|second| (0xdc00..0xe000).contains(second))?;
        char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = std::str::from_utf8(self.text.get(self.at..self.at + 4)?).ok()?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }

    fn value(&mut self, placed: Placed, depth: usize) -> Result<Value, Fault> {
        Ok(match placed.0 {
            Token::Text(bytes) => Value::String(self.args.lua.create_string(&bytes)?),
            Token::Number(number) => Value::Number(number),
            Token::Boolean(flag) => Value::Boolean(flag),
            Token::Null => Value::NULL,
            Token::ObjectBegin => self.object(depth + 1)?,
            Token::ArrayBegin => self.array(depth + 1)?,
            _ => return Err(self.unexpected("value", &placed)),
        })
    }

    fn check_depth(&self, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(format!("Found too many nested data structures ({depth}) at character {}", self.at).into());
        }
        Ok(self.args.shared.charge(1)?)
    }

    fn object(&mut self, depth: usize) -> Result<Value, Fault> {
        self.check_depth(depth)?;
        let table = self.args.lua.create_table()?;
        let mut token = self.next();
        if token.0 == Token::ObjectEnd {
            return Ok(Value::Table(table));
        }
        loop {
            let Token::Text(name) = token.0 else { return Err(self.unexpected("object key string", &token)) };
            let colon = self.next();
            if colon.0 != Token::Colon {
                return Err(self.unexpected("colon", &colon));
            }
            let first = self.next();
            let value = self.value(first, depth)?;
            table.raw_set(self.args.lua.create_string(&name)?, value)?;
            match self.next() {
                (Token::ObjectEnd, _) => return Ok(Value::Table(table)),
                (Token::Comma, _) => token = self.next(),
                other => return Err(self.unexpected("comma or object end", &other)),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, Fault> {
        self.check_depth(depth)?;
        let table = self.args.lua.create_table()?;
        let mut token = self.next();
        if token.0 == Token::ArrayEnd {
            return Ok(Value::Table(table));
        }
        loop {
            let value = self.value(token, depth)?;
            table.raw_push(value)?;
            match self.next() {
                (Token::ArrayEnd, _) => return Ok(Value::Table(table)),
                (Token::Comma, _) => token = self.next(),
                other => return Err(self.unexpected("comma or array end", &other)),
            }
        }
    }
}
