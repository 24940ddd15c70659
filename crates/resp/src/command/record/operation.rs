//! One step of `REC.UPDATE`: `field op value`, with op one of `= + - & | ^ min max append splice unset null`.

use shardine_model::command::{Operation, Operator};
use shardine_model::number::float;
use shardine_model::{FieldType, ValueRef};

use crate::command::change::Order;
use crate::failure::{Failure, NOT_AN_INTEGER};
use crate::value::{Slot, integer, is, quote, unsigned};

/// The operation whose field stands at `index`, and how many words it took.
pub(super) fn parse(order: Order<'_>, index: usize) -> Result<(Operation<'_>, usize), Failure> {
    let line = order.line;
    let slot = Slot::find(order.place.typed(), line.word(index))?;
    let name = line.word(index + 1);
    let words = if is(name, "unset") || is(name, "null") {
        2
    } else if is(name, "splice") {
        5
    } else {
        3
    };
    if index + words > line.len() {
        let field = quote(line.word(index));
        return Err(Failure::bad_request(format!("the operation on {field} is not complete: field op value")));
    }
    let text = line.word(index + 2);
    let operator = match name {
        b"=" => Operator::Assign(slot.parse(text)?),
        b"+" => Operator::Add(number(slot, text)?),
        b"-" => Operator::Subtract(number(slot, text)?),
        b"&" => Operator::And(number(slot, text)?),
        b"|" => Operator::Or(number(slot, text)?),
        b"^" => Operator::Xor(number(slot, text)?),
        name if is(name, "min") => Operator::Min(comparable(slot, text)?),
        name if is(name, "max") => Operator::Max(comparable(slot, text)?),
        name if is(name, "append") => Operator::Append(text),
        name if is(name, "unset") => Operator::Unset,
        name if is(name, "null") => Operator::Assign(ValueRef::Null),
        name if is(name, "splice") => Operator::Splice {
            at: integer(text).ok_or(NOT_AN_INTEGER)?,
            cut: unsigned(line.word(index + 3)).ok_or(NOT_AN_INTEGER)?,
            paste: line.word(index + 4),
        },
        other => {
            let sentence =
                format!("there is no operation {}: use = + - & | ^ min max append splice unset null", quote(other));
            return Err(Failure::bad_request(sentence));
        }
    };
    Ok((Operation { field: slot.reference, operator }, words))
}

/// A number for arithmetic. Fields of text take either kind; the state machine reads the text that they hold.
fn number<'a>(slot: Slot<'a>, text: &'a [u8]) -> Result<ValueRef<'a>, Failure> {
    match slot.field.map(|field| field.kind) {
        Some(FieldType::Int64 | FieldType::Uint64 | FieldType::Float64 | FieldType::Bool) => slot.parse(text),
        Some(FieldType::Decimal { .. } | FieldType::Timestamp { .. } | FieldType::Date) => slot.parse(text),
        Some(FieldType::Time { .. } | FieldType::Uuid | FieldType::Json) => slot.parse(text),
        None | Some(FieldType::String | FieldType::Blob) => {
            let whole = integer(text).map(ValueRef::Int);
            whole.or_else(|| float(text).filter(|number| number.is_finite()).map(ValueRef::Float)).ok_or(NOT_AN_INTEGER)
        }
    }
}

/// In fields of text, numbers compare as numbers and everything else as bytes.
fn comparable<'a>(slot: Slot<'a>, text: &'a [u8]) -> Result<ValueRef<'a>, Failure> {
    match slot.field {
        None => Ok(number(slot, text).unwrap_or(ValueRef::Blob(text))),
        Some(_) => slot.parse(text),
    }
}
