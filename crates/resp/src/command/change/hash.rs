//! Changes of a record as a hash.

use shardine_model::command::{Action, Command, Fields, Give, Operation, Operations, Operator};
use shardine_model::number::float;
use shardine_model::row::FieldValue;
use shardine_model::{Decimal, FieldType, SqlValue, ValueRef};
use smallvec::smallvec;

use super::{Order, Plan};
use crate::command::reply_format::{Counter, ReplyFormat, wrong_arity};
use crate::failure::{Failure, HASH_NOT_A_FLOAT, HASH_NOT_AN_INTEGER, NOT_A_FLOAT, NOT_AN_INTEGER};
use crate::value::{Slot, integer};

#[inline]
pub(super) fn hset(order: Order<'_>, format: ReplyFormat) -> Result<Plan<'_>, Failure> {
    if !order.line.len().is_multiple_of(2) {
        return Err(wrong_arity(order.verb.name()));
    }
    let mut fields = Fields::new();
    let mut words = order.line.words(2);
    while let (Some(name), Some(text)) = (words.next(), words.next()) {
        let slot = Slot::find(order.place.typed(), name)?;
        fields.push(FieldValue { field: slot.reference, value: slot.parse(text)? });
    }
    Ok((Command::plain(order.place.row(), Action::Set(fields)), format))
}

pub(super) fn hsetnx(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let slot = Slot::find(order.place.typed(), order.line.word(2))?;
    let operator = Operator::AssignIfUnset(slot.parse(order.line.word(3))?);
    let operations = smallvec![Operation { field: slot.reference, operator }];
    let action = Action::Update { create: true, operations };
    Ok((Command::plain(order.place.row(), action), ReplyFormat::Changed))
}

pub(super) fn hdel(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let mut operations = Operations::new();
    for name in order.line.words(2) {
        let slot = Slot::find(order.place.typed(), name)?;
        operations.push(Operation { field: slot.reference, operator: Operator::Unset });
    }
    let action = Action::Update { create: false, operations };
    Ok((Command::plain(order.place.row(), action), ReplyFormat::Changed))
}

pub(super) fn hincrby(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let step = integer(order.line.word(3)).ok_or(NOT_AN_INTEGER)?;
    let slot = Slot::find(order.place.typed(), order.line.word(2))?;
    let operator = add_integer(slot, step).ok_or(HASH_NOT_AN_INTEGER)?;
    Ok(count(order, slot, operator, ReplyFormat::Counter(Counter::HashInteger)))
}

pub(super) fn hincrbyfloat(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let step = float(order.line.word(3)).ok_or(NOT_A_FLOAT)?;
    if step.is_infinite() {
        return Err(Failure::line("ERR value is NaN or Infinity"));
    }
    let slot = Slot::find(order.place.typed(), order.line.word(2))?;
    let operator = add_float(slot, step, order.line.word(3)).ok_or(HASH_NOT_A_FLOAT)?;
    Ok(count(order, slot, operator, ReplyFormat::Counter(Counter::HashFloat)))
}

/// Adds to a field, from its default if the record or the field is not there, and gives the new value back.
pub(super) fn count<'a>(order: Order<'a>, slot: Slot<'a>, operator: Operator<'a>, format: ReplyFormat) -> Plan<'a> {
    let operations = smallvec![Operation { field: slot.reference, operator }];
    let action = Action::Update { create: true, operations };
    (Command { give: Give::Touched, ..Command::plain(order.place.row(), action) }, format)
}

/// The step in the type of the field. Text is counted by the state machine, which knows whether it is a number.
pub(super) fn add_integer(slot: Slot<'_>, step: i64) -> Option<Operator<'static>> {
    match slot.field.map(|field| field.kind) {
        None | Some(FieldType::Int64 | FieldType::String | FieldType::Blob) => Some(Operator::Add(ValueRef::Int(step))),
        Some(FieldType::Uint64) if step < 0 => Some(Operator::Subtract(ValueRef::Uint(step.unsigned_abs()))),
        Some(FieldType::Uint64) => Some(Operator::Add(ValueRef::Uint(step.unsigned_abs()))),
        Some(FieldType::Decimal { scale, .. }) => {
            let step = Decimal { units: i128::from(step), scale: 0 }.at_scale(scale)?;
            Some(Operator::Add(ValueRef::Sql(SqlValue::Decimal(step))))
        }
        Some(FieldType::Float64 | FieldType::Bool | FieldType::Timestamp { .. } | FieldType::Date) => None,
        Some(FieldType::Time { .. } | FieldType::Uuid | FieldType::Json) => None,
    }
}

/// `text` is the step as it was written, from which a decimal gets every digit.
pub(super) fn add_float(slot: Slot<'_>, step: f64, text: &[u8]) -> Option<Operator<'static>> {
    match slot.field.map(|field| field.kind) {
        None | Some(FieldType::Float64 | FieldType::String | FieldType::Blob) => {
            Some(Operator::Add(ValueRef::Float(step)))
        }
        Some(FieldType::Decimal { scale, .. }) => {
            let step = Decimal::parse(std::str::from_utf8(text).ok()?)?.at_scale(scale)?;
            Some(Operator::Add(ValueRef::Sql(SqlValue::Decimal(step))))
        }
        Some(FieldType::Int64 | FieldType::Uint64 | FieldType::Bool | FieldType::Timestamp { .. }) => None,
        Some(FieldType::Date | FieldType::Time { .. } | FieldType::Uuid | FieldType::Json) => None,
    }
}
