//! The functions of `string` that Lua's own library could do for ever.

use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::{Args, Fault, Outcome, put};
use crate::pattern::{self, Capture, Matcher, is_plain};
use crate::sandbox::Shared;

pub(super) fn install(lua: &Lua, native: &Table, shared: &Rc<Shared>) -> mlua::Result<()> {
    put(lua, native, shared, "rep", repeat)?;
    put(lua, native, shared, "find", |args| search(args, true))?;
    put(lua, native, shared, "match", |args| search(args, false))?;
    put(lua, native, shared, "gmatch", next_match)?;
    put(lua, native, shared, "gsub", replace)?;
    put(lua, native, shared, "gsub_matches", replaced_by_script)
}

impl From<pattern::Fault> for Fault {
    fn from(fault: pattern::Fault) -> Self {
        match fault {
            pattern::Fault::Pattern(message) => Self::Said(message.into()),
            pattern::Fault::Ended(error) => Self::Lua(error),
        }
    }
}

fn repeat(args: &Args<'_>) -> Outcome {
    let text = args.text(0)?;
    let (bytes, times) = (text.as_bytes(), args.number(1)?.max(0.0) as usize);
    let total = bytes.len().saturating_mul(times);
    // What does not fit into memory is refused by Lua; it must not be made before.
    args.shared.charge(total as u64 / 16)?;
    if total > crate::Limits::BESIDE.memory_bytes {
        return Err("resulting string too large".into());
    }
    Ok(vec![Value::String(args.lua.create_string(bytes.repeat(if bytes.is_empty() { 0 } else { times }))?)])
}

/// Where a search begins: from 0 on, counted from the end if negative.
fn begin(args: &Args<'_>, place: usize, length: usize) -> Result<usize, Fault> {
    let from = args.number_or(place, 1.0)?;
    let from = if from < 0.0 { (length as f64 + from).max(0.0) } else { (from - 1.0).max(0.0) };
    Ok((from as usize).min(length))
}

fn search(args: &Args<'_>, tells_place: bool) -> Outcome {
    let (subject, pattern) = (args.text(0)?, args.text(1)?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let begin = begin(args, 2, subject.len())?;
    let is_forced =
        tells_place && args.get(3).is_some_and(|plain| !matches!(plain, Value::Nil | Value::Boolean(false)));
    if tells_place && (is_forced || is_plain(&pattern)) {
        args.shared.charge((subject.len() - begin) as u64 / 16)?;
        let found = find_plain(&subject[begin..], &pattern).map(|at| begin + at);
        return Ok(found.map_or_else(
            || vec![Value::Nil],
            |at| vec![Value::Number((at + 1) as f64), Value::Number((at + pattern.len()) as f64)],
        ));
    }
    let charge = |steps| args.shared.charge(steps);
    let mut matcher = Matcher::new(&subject, &pattern, &charge)?;
    let is_anchored = pattern.first() == Some(&b'^');
    for start in begin..=subject.len() {
        if let Some(end) = matcher.match_at(start, usize::from(is_anchored))? {
            let mut results = Vec::new();
            if tells_place {
                results.extend([Value::Number((start + 1) as f64), Value::Number(end as f64)]);
            }
            // Without captures, `find` tells the places alone.
            let captures = matcher.captures(start, end)?;
            if !tells_place || matcher.has_captures() {
                push(args.lua, &subject, &captures, &mut results)?;
            }
            return Ok(results);
        }
        if is_anchored {
            break;
        }
    }
    Ok(vec![Value::Nil])
}

fn find_plain(subject: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return Some(0);
    }
    memchr::memmem::find(subject, wanted)
}

fn push(lua: &Lua, subject: &[u8], captures: &[Capture], results: &mut Vec<Value>) -> mlua::Result<()> {
    for capture in captures {
        results.push(match *capture {
            Capture::Text { start, end } => Value::String(lua.create_string(&subject[start..end])?),
            Capture::Position(place) => Value::Number(place as f64),
        });
    }
    Ok(())
}

/// Subject, pattern, and the place to go on from: the next place, and the captures. Nothing if there is no other match.
fn next_match(args: &Args<'_>) -> Outcome {
    let (subject, pattern) = (args.text(0)?, args.text(1)?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let from = args.number(2)? as usize - 1;
    let charge = |steps| args.shared.charge(steps);
    let mut matcher = Matcher::new(&subject, &pattern, &charge)?;
    for start in from..=subject.len() {
        if let Some(end) = matcher.match_at(start, 0)? {
            let next = if end == start { end + 1 } else { end };
            let mut results = vec![Value::Number((next + 1) as f64)];
            push(args.lua, &subject, &matcher.captures(start, end)?, &mut results)?;
            return Ok(results);
        }
    }
    Ok(vec![Value::Number((subject.len() + 2) as f64), Value::Nil])
}

/// Walks the matches that are to be replaced; `found` gets the text before each, where it is, and its captures. Gives the text behind
/// the last, and how many there were.
fn walk(
    args: &Args<'_>,
    subject: &[u8],
    pattern: &[u8],
    most: f64,
    mut found: impl FnMut(&[u8], (usize, usize), Vec<Capture>) -> Result<(), Fault>,
) -> Result<(usize, usize), Fault> {
    let charge = |steps| args.shared.charge(steps);
    let mut matcher = Matcher::new(subject, pattern, &charge)?;
    let is_anchored = pattern.first() == Some(&b'^');
    let (mut place, mut done, mut count) = (0, 0, 0);
    while (count as f64) < most {
        let end = matcher.match_at(place, usize::from(is_anchored))?;
        if let Some(end) = end {
            count += 1;
            found(&subject[done..place], (place, end), matcher.captures(place, end)?)?;
            done = end;
        }
        match end {
            Some(end) if end > place => place = end,
            _ if place < subject.len() => place += 1,
            _ => break,
        }
        if is_anchored {
            break;
        }
    }
    Ok((done, count))
}

fn replace(args: &Args<'_>) -> Outcome {
    let (subject, pattern, put) = (args.text(0)?, args.text(1)?, args.text(2)?);
    let (subject, pattern, put) = (subject.as_bytes(), pattern.as_bytes(), put.as_bytes());
    let most = args.number_or(3, f64::INFINITY)?;
    let mut out = Vec::new();
    let (done, count) = walk(args, &subject, &pattern, most, |before, (start, end), captures| {
        out.extend_from_slice(before);
        let mut marks = put.iter();
        while let Some(&byte) = marks.next() {
            match (byte, if byte == b'%' { marks.next() } else { None }) {
                (b'%', Some(b'0')) => out.extend_from_slice(&subject[start..end]),
                (b'%', Some(digit)) if digit.is_ascii_digit() => match captures.get(usize::from(digit - b'1')) {
                    Some(Capture::Text { start, end }) => out.extend_from_slice(&subject[*start..*end]),
                    Some(Capture::Position(place)) => out.extend_from_slice(place.to_string().as_bytes()),
                    None => return Err("invalid capture index".into()),
                },
                (b'%', Some(&other)) => out.push(other),
                (b'%', None) => {}
                (byte, _) => out.push(byte),
            }
        }
        args.shared.charge((put.len() + before.len()) as u64 / 16)?;
        if out.len() > crate::Limits::BESIDE.memory_bytes {
            return Err("resulting string too large".into());
        }
        Ok(())
    })?;
    out.extend_from_slice(&subject[done..]);
    Ok(vec![Value::String(args.lua.create_string(&out)?), Value::Number(count as f64)])
}

/// The matches themselves, where a function or a table of the script's says what takes their place.
fn replaced_by_script(args: &Args<'_>) -> Outcome {
    let (subject, pattern) = (args.text(0)?, args.text(1)?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let most = args.number_or(2, f64::INFINITY)?;
    let matches = args.lua.create_table()?;
    let (done, count) = walk(args, &subject, &pattern, most, |before, (start, end), captures| {
        let found = args.lua.create_table()?;
        found.raw_set("before", args.lua.create_string(before)?)?;
        found.raw_set("whole", args.lua.create_string(&subject[start..end])?)?;
        let mut values = Vec::new();
        push(args.lua, &subject, &captures, &mut values)?;
        found.raw_set("n", values.len())?;
        for (place, value) in (1..).zip(values) {
            found.raw_set(place, value)?;
        }
        Ok(matches.raw_push(found)?)
    })?;
    matches.raw_set("rest", args.lua.create_string(&subject[done..])?)?;
    Ok(vec![Value::Number(count as f64), Value::Table(matches)])
}
