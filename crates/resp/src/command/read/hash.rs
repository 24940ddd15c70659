//! Reads of a record as a hash. In a table with a definition every field is there, with its default if it was never set.

use shardine_model::row::FieldRef;
use shardine_model::table::VALUE_FIELD;
use shardine_model::{FieldsView, Table, ValueRef};

use super::{Ask, Context, Found};
use crate::failure::{Failure, INVALID_CURSOR, NOT_AN_INTEGER, OUT_OF_RANGE, SYNTAX, WRONG_KIND};
use crate::value::{Slot, integer, is, with_text, write_bulk};
use crate::{glob, value, wire};

/// The record as a hash. A string of the dynamic table is none.
#[inline]
fn hash_of<'f, 'a>(ask: Ask<'_>, found: &'f Found<'a>) -> Result<Option<&'f FieldsView<'a>>, Failure> {
    match found.fields() {
        Some(fields) if ask.table.is_none() && fields.is_string() => Err(WRONG_KIND),
        fields => Ok(fields),
    }
}

#[inline]
pub(super) fn hget(ask: Ask<'_>, found: Found<'_>, context: Context, out: &mut Vec<u8>) -> Result<(), Failure> {
    let slot = Slot::find(ask.table, ask.line.word(2))?;
    let fields = hash_of(ask, &found)?;
    match fields.and_then(|fields| slot.read(fields)) {
        Some(value) => write_bulk(out, value),
        None => wire::null(out, context.protocol),
    }
    Ok(())
}

pub(super) fn hmget(ask: Ask<'_>, found: Found<'_>, context: Context, out: &mut Vec<u8>) -> Result<(), Failure> {
    for name in ask.line.words(2) {
        Slot::find(ask.table, name)?;
    }
    let fields = hash_of(ask, &found)?;
    let start = out.len();
    wire::array(out, ask.line.len() - 2);
    for name in ask.line.words(2) {
        // The same field may be asked for again and again.
        context.check_size(out.len() - start)?;
        let slot = Slot::find(ask.table, name)?;
        match fields.and_then(|fields| slot.read(fields)) {
            Some(value) => write_bulk(out, value),
            None => wire::null(out, context.protocol),
        }
    }
    context.check_size(out.len() - start)
}

/// Calls `see` with the name and value of every field that has one: those of the definition in its order, or those that are
/// there. What is NULL has none: clients that read a hash expect no null among its values.
fn for_each_field(table: Option<&Table>, fields: &FieldsView<'_>, mut see: impl FnMut(&[u8], ValueRef<'_>)) {
    match table {
        Some(table) => table.fields.iter().for_each(|field| {
            let value = fields.get(FieldRef::Id(field.id)).unwrap_or(field.default.as_ref());
            if value != ValueRef::Null {
                see(field.name.as_bytes(), value);
            }
        }),
        None => fields.iter().for_each(|entry| match entry.field {
            FieldRef::Name(name) => see(name, entry.value),
            FieldRef::Id(_) => see(VALUE_FIELD.as_bytes(), entry.value),
        }),
    }
}

/// How many fields `for_each_field` will show.
fn field_count(table: Option<&Table>, fields: &FieldsView<'_>) -> usize {
    match table {
        Some(table) if table.fields.iter().any(|field| field.nullable) => {
            let mut count = 0;
            for_each_field(Some(table), fields, |_, _| count += 1);
            count
        }
        Some(table) => table.fields.len(),
        None => fields.count(),
    }
}

pub(super) fn hgetall(ask: Ask<'_>, found: Found<'_>, context: Context, out: &mut Vec<u8>) -> Result<(), Failure> {
    let fields = hash_of(ask, &found)?.copied();
    wire::map(out, fields.map_or(0, |fields| field_count(ask.table, &fields)), context.protocol);
    if let Some(fields) = fields {
        for_each_field(ask.table, &fields, |name, value| {
            wire::bulk(out, name);
            write_bulk(out, value);
        });
    }
    Ok(())
}

pub(super) fn hkeys(ask: Ask<'_>, found: Found<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    list(ask, found, out, |out, name, _| wire::bulk(out, name))
}

pub(super) fn hvals(ask: Ask<'_>, found: Found<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    list(ask, found, out, |out, _, value| write_bulk(out, value))
}

fn list(
    ask: Ask<'_>,
    found: Found<'_>,
    out: &mut Vec<u8>,
    write: impl Fn(&mut Vec<u8>, &[u8], ValueRef<'_>),
) -> Result<(), Failure> {
    let fields = hash_of(ask, &found)?.unwrap_or(&FieldsView::EMPTY);
    let count = if found.fields().is_some() { field_count(ask.table, fields) } else { 0 };
    wire::array(out, count);
    if count > 0 {
        for_each_field(ask.table, fields, |name, value| write(out, name, value));
    }
    Ok(())
}

pub(super) fn hlen(ask: Ask<'_>, found: Found<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    wire::integer(out, hash_of(ask, &found)?.map_or(0, |fields| field_count(ask.table, fields)) as i64);
    Ok(())
}

pub(super) fn hexists(ask: Ask<'_>, found: Found<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let slot = Slot::find(ask.table, ask.line.word(2))?;
    let there = hash_of(ask, &found)?.is_some_and(|fields| slot.read(fields).is_some());
    wire::integer(out, i64::from(there));
    Ok(())
}

pub(super) fn hstrlen(ask: Ask<'_>, found: Found<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let slot = Slot::find(ask.table, ask.line.word(2))?;
    let value = hash_of(ask, &found)?.and_then(|fields| slot.read(fields));
    wire::integer(out, value.map_or(0, |value| with_text(value, <[u8]>::len)) as i64);
    Ok(())
}

/// Fields that one `HRANDFIELD` may give when repetition is allowed; a negative count would otherwise fill the memory.
const RANDOM_FIELDS_MAX: i64 = 1 << 20;

pub(super) fn hrandfield(ask: Ask<'_>, found: Found<'_>, context: Context, out: &mut Vec<u8>) -> Result<(), Failure> {
    let count = match ask.line.len() {
        2 => None,
        _ => Some(integer(ask.line.word(2)).ok_or(NOT_AN_INTEGER)?),
    };
    if count == Some(i64::MIN) {
        let (least, most) = (-i64::MAX, i64::MAX);
        return Err(Failure::line(format!("ERR value is out of range, value must between {least} and {most}")));
    }
    let with_values = match ask.line.len() {
        2 | 3 => false,
        4 if is(ask.line.word(3), "WITHVALUES") => true,
        _ => return Err(SYNTAX),
    };
    if with_values && count.is_some_and(|count| count.unsigned_abs() > i64::MAX as u64 / 2) {
        return Err(OUT_OF_RANGE);
    }
    let mut fields = Vec::new();
    if let Some(view) = hash_of(ask, &found)? {
        if count.is_some_and(|count| count < -RANDOM_FIELDS_MAX) {
            return Err(Failure::too_long(context.reply_bytes_max));
        }
        for_each_field(ask.table, view, |name, value| fields.push((name.to_vec(), value.to_owned())));
    }
    let Some(count) = count else {
        match fields.get(pick(context.chance, fields.len())) {
            Some((name, _)) => wire::bulk(out, name),
            None => wire::null(out, context.protocol),
        }
        return Ok(());
    };
    let chosen = choose(count, fields.len(), context.chance);
    let pairs = with_values && context.protocol == wire::Protocol::Resp3;
    let start = out.len();
    wire::array(out, chosen.len() * if with_values && !pairs { 2 } else { 1 });
    for (name, value) in chosen.iter().map(|&index| &fields[index]) {
        context.check_size(out.len() - start)?;
        if pairs {
            wire::array(out, 2);
        }
        wire::bulk(out, name);
        if with_values {
            write_bulk(out, value.as_ref());
        }
    }
    context.check_size(out.len() - start)
}

/// Indexes of random fields: different ones for a positive count, with repetition for a negative one.
fn choose(count: i64, length: usize, mut chance: u64) -> Vec<usize> {
    if length == 0 {
        return Vec::new();
    }
    if count < 0 {
        let wanted = count.unsigned_abs() as usize;
        return std::iter::repeat_with(|| pick(next_chance(&mut chance), length)).take(wanted).collect();
    }
    let mut indexes: Vec<usize> = (0..length).collect();
    let wanted = (count as usize).min(length);
    for place in 0..wanted {
        let other = place + pick(next_chance(&mut chance), length - place);
        indexes.swap(place, other);
    }
    indexes.truncate(wanted);
    indexes
}

/// Advances a xorshift generator: good enough to pick a field, and the same on every run with the same seed.
pub(crate) fn next_chance(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn pick(chance: u64, length: usize) -> usize {
    if length == 0 { 0 } else { (chance % length as u64) as usize }
}

/// All fields come in one page, as Redis does for small hashes: a cursor into a record that changes could miss fields.
pub(super) fn hscan(ask: Ask<'_>, found: Found<'_>, out: &mut Vec<u8>) -> Result<(), Failure> {
    let cursor = value::cursor(ask.line.word(2)).ok_or(INVALID_CURSOR)?;
    // As in Redis, nobody looks at the options if there is nothing to scan.
    let Some(fields) = hash_of(ask, &found)? else {
        wire::array(out, 2);
        wire::bulk(out, b"0");
        wire::array(out, 0);
        return Ok(());
    };
    let (mut pattern, mut values) = (&b"*"[..], true);
    let mut words = ask.line.words(3);
    while let Some(word) = words.next() {
        if is(word, "MATCH") {
            pattern = words.next().ok_or(SYNTAX)?;
        } else if is(word, "COUNT") {
            let count = integer(words.next().ok_or(SYNTAX)?).ok_or(NOT_AN_INTEGER)?;
            if count < 1 {
                return Err(SYNTAX);
            }
        } else if is(word, "NOVALUES") {
            values = false;
        } else {
            return Err(SYNTAX);
        }
    }
    let (mut page, mut length) = (Vec::new(), 0);
    if cursor == 0 {
        for_each_field(ask.table, fields, |name, value| {
            if glob::matches(pattern, name) {
                wire::bulk(&mut page, name);
                length += 1;
                if values {
                    write_bulk(&mut page, value);
                    length += 1;
                }
            }
        });
    }
    wire::array(out, 2);
    wire::bulk(out, b"0");
    wire::array(out, length);
    out.extend_from_slice(&page);
    Ok(())
}
