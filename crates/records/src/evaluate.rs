//! What a command would do to a row: checks and arithmetic, without touching the state.

use shardine_model::command::{Action, Command, Existence, Kind, Operation, Operator};
use shardine_model::table::STRING_FIELD;
use shardine_model::{Decimal, ErrorCode, Field, FieldRef, FieldType, RowView, SqlValue, Table, Value, ValueRef};
use smallvec::SmallVec;

pub(crate) type Changes<'a> = SmallVec<[(FieldRef<'a>, NewValue<'a>); 4]>;

/// A field's new content.
#[derive(Clone, Debug)]
pub(crate) enum NewValue<'a> {
    Given(ValueRef<'a>),
    Made(Value),
    Unset,
}

impl NewValue<'_> {
    pub fn as_value(&self) -> Option<ValueRef<'_>> {
        match self {
            Self::Given(value) => Some(*value),
            Self::Made(value) => Some(value.as_ref()),
            Self::Unset => None,
        }
    }
}

/// What is to be done with the row.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the large one is the usual one, and lives on the stack for one call")]
pub(crate) enum Plan<'a> {
    /// Accepted, and nothing to change: no new version (records 23).
    Nothing,
    Delete,
    /// The record with these fields changed; `clear` starts from an empty one.
    Put {
        clear: bool,
        changes: Changes<'a>,
    },
}

/// Checks a command against the row as it is. `current` is `None` for an absent record.
#[inline]
pub(crate) fn plan<'a>(
    table: &Table,
    current: Option<&RowView<'_>>,
    command: &Command<'a>,
) -> Result<Plan<'a>, ErrorCode> {
    match command.existence {
        Existence::Any => {}
        Existence::Live if current.is_none() => return Err(ErrorCode::NotFound),
        Existence::Absent if current.is_some() => return Err(ErrorCode::Exists),
        Existence::Live | Existence::Absent => {}
    }
    match &command.action {
        Action::Set(fields) => Ok(Plan::Put { clear: false, changes: given(table, fields)? }),
        Action::Replace(fields) => Ok(Plan::Put { clear: true, changes: given(table, fields)? }),
        Action::Update { create, operations } => plan_update(table, current, *create, operations),
        Action::Cas { create, field, old, new } => {
            check_field(table, *field, *new)?;
            match current {
                None if *create => {}
                None => return Err(ErrorCode::NotFound),
                Some(view) if value_of(table, view, *field) == Some(*old) => {}
                Some(_) => return Err(ErrorCode::CasMismatch),
            }
            Ok(Plan::Put { clear: false, changes: SmallVec::from_iter([(*field, NewValue::Given(*new))]) })
        }
        Action::Delete if current.is_some() => Ok(Plan::Delete),
        Action::Delete => Ok(Plan::Nothing),
        Action::Touch if current.is_none() => Err(ErrorCode::NotFound),
        Action::Touch => Ok(Plan::Put { clear: false, changes: Changes::new() }),
    }
}

/// Whether a command takes a record of a dynamic table for what it is, and leaves it one thing: a string has one field of its
/// own and no names, a hash has names and no string.
#[inline]
pub(crate) fn fits_kind(current: Option<&RowView<'_>>, command: &Command<'_>) -> bool {
    let is_string = current.map(|view| view.fields.is_string());
    if command.kind == Kind::String && is_string == Some(false) {
        return false;
    }
    match &command.action {
        Action::Set(fields) => all_alike(is_string, fields.iter().map(|entry| entry.field)),
        Action::Replace(fields) => all_alike(None, fields.iter().map(|entry| entry.field)),
        Action::Update { operations, .. } => all_alike(is_string, operations.iter().map(|operation| operation.field)),
        Action::Cas { field, .. } => all_alike(is_string, std::iter::once(*field)),
        Action::Delete | Action::Touch => true,
    }
}

/// Whether fields are all of a string, or all of a hash; of which, may be known.
#[inline]
fn all_alike<'a>(is_string: Option<bool>, fields: impl Iterator<Item = FieldRef<'a>>) -> bool {
    let mut known = is_string;
    fields.into_iter().all(|field| {
        let is_of_string = field == STRING_FIELD;
        *known.get_or_insert(is_of_string) == is_of_string
    })
}

#[inline]
fn given<'a>(table: &Table, fields: &[shardine_model::FieldValue<'a>]) -> Result<Changes<'a>, ErrorCode> {
    let mut changes = Changes::new();
    for entry in fields {
        check_field(table, entry.field, entry.value)?;
        changes.push((entry.field, NewValue::Given(entry.value)));
    }
    Ok(changes)
}

/// A field must be defined when the command is applied, whatever was defined when it was sent.
#[inline]
fn check_field(table: &Table, field: FieldRef<'_>, value: ValueRef<'_>) -> Result<(), ErrorCode> {
    match field {
        FieldRef::Name(_) | STRING_FIELD if table.dynamic => match FieldType::Blob.holds(value) {
            true => Ok(()),
            false => Err(ErrorCode::WrongType),
        },
        FieldRef::Name(_) => Err(ErrorCode::UnknownField),
        FieldRef::Id(id) => {
            let defined = table.field_by_id(id).ok_or(ErrorCode::UnknownField)?;
            if defined.holds(value) { Ok(()) } else { Err(ErrorCode::WrongType) }
        }
    }
}

/// The value that a reader would see: stored, or the default, or nothing in a dynamic table.
pub(crate) fn value_of<'a>(table: &'a Table, view: &RowView<'a>, field: FieldRef<'_>) -> Option<ValueRef<'a>> {
    view.fields.get(field).or_else(|| match field {
        FieldRef::Id(id) => table.default_of(id),
        FieldRef::Name(_) => None,
    })
}

fn plan_update<'a>(
    table: &Table,
    current: Option<&RowView<'_>>,
    create: bool,
    operations: &[Operation<'a>],
) -> Result<Plan<'a>, ErrorCode> {
    if current.is_none() && !create {
        return Err(ErrorCode::NotFound);
    }
    let mut changes = Changes::new();
    for operation in operations {
        let field = operation.field;
        // An operation sees what the ones before it made (records 25).
        let earlier = changes.iter().rev().find(|(changed, _)| *changed == field);
        let (before, is_set) = match earlier {
            Some((_, new)) => {
                (new.as_value().map(ValueRef::to_owned).or_else(|| default(table, field)), new.as_value().is_some())
            }
            None => {
                let stored = current.and_then(|view| view.fields.get(field));
                (stored.map(ValueRef::to_owned).or_else(|| default(table, field)), stored.is_some())
            }
        };
        let defined = definition(table, field)?;
        // What is NULL was never set, whoever made it so.
        let is_null = matches!(before, Some(Value::Null));
        if let Operator::AssignIfUnset(_) = operation.operator
            && !is_null
            && (is_set || (current.is_some() && !table.dynamic))
        {
            continue;
        }
        let new = operate(defined, before.as_ref().map(Value::as_ref), operation.operator)?;
        if let NewValue::Made(Value::Float(number)) = &new
            && !number.is_finite()
        {
            return Err(ErrorCode::Overflow);
        }
        changes.push((field, new));
    }
    if changes.is_empty() || changes.iter().all(|(_, new)| matches!(new, NewValue::Unset)) && current.is_none() {
        return Ok(Plan::Nothing);
    }
    Ok(Plan::Put { clear: false, changes })
}

fn default(table: &Table, field: FieldRef<'_>) -> Option<Value> {
    match field {
        FieldRef::Id(id) => table.default_of(id).map(ValueRef::to_owned),
        FieldRef::Name(_) => None,
    }
}

/// The definition of a field; `None` in a dynamic table, where text that reads as a number may be counted with.
fn definition<'t>(table: &'t Table, field: FieldRef<'_>) -> Result<Option<&'t Field>, ErrorCode> {
    match field {
        FieldRef::Name(_) | STRING_FIELD if table.dynamic => Ok(None),
        FieldRef::Name(_) => Err(ErrorCode::UnknownField),
        FieldRef::Id(id) => table.field_by_id(id).map(Some).ok_or(ErrorCode::UnknownField),
    }
}

fn operate<'a>(
    defined: Option<&Field>,
    before: Option<ValueRef<'_>>,
    operator: Operator<'a>,
) -> Result<NewValue<'a>, ErrorCode> {
    let kind = defined.map(|field| field.kind);
    match operator {
        Operator::Assign(value) | Operator::AssignIfUnset(value) => {
            let fits = defined.map_or_else(|| FieldType::Blob.holds(value), |field| field.holds(value));
            if fits { Ok(NewValue::Given(value)) } else { Err(ErrorCode::WrongType) }
        }
        Operator::Unset => Ok(NewValue::Unset),
        Operator::Append(bytes) => splice(kind, before, i64::MAX, 0, bytes).map(NewValue::Made),
        Operator::Splice { at, cut, paste } => splice(kind, before, at, cut, paste).map(NewValue::Made),
        Operator::Add(value) => arithmetic(kind, before, value, Arithmetic::Add),
        Operator::Subtract(value) => arithmetic(kind, before, value, Arithmetic::Subtract),
        Operator::And(value) => arithmetic(kind, before, value, Arithmetic::And),
        Operator::Or(value) => arithmetic(kind, before, value, Arithmetic::Or),
        Operator::Xor(value) => arithmetic(kind, before, value, Arithmetic::Xor),
        Operator::Min(value) => arithmetic(kind, before, value, Arithmetic::Min),
        Operator::Max(value) => arithmetic(kind, before, value, Arithmetic::Max),
    }
}

#[derive(Clone, Copy)]
enum Arithmetic {
    Add,
    Subtract,
    And,
    Or,
    Xor,
    Min,
    Max,
}

fn arithmetic<'a>(
    kind: Option<FieldType>,
    before: Option<ValueRef<'_>>,
    operand: ValueRef<'_>,
    operator: Arithmetic,
) -> Result<NewValue<'a>, ErrorCode> {
    let made = match (kind, operand) {
        (None, ValueRef::Int(operand)) => {
            let before = before.map_or(Ok(0), text_to_int)?;
            Value::Blob(int(before, operand, operator)?.to_string().into_bytes())
        }
        (None, ValueRef::Float(operand)) => {
            let before = before.map_or(Ok(0.0), text_to_float)?;
            let sum = float(before, operand, operator)?;
            if !sum.is_finite() {
                return Err(ErrorCode::Overflow);
            }
            Value::Blob(float_to_text(sum).into_bytes())
        }
        (Some(FieldType::Int64), ValueRef::Int(operand)) => match before {
            Some(ValueRef::Int(before)) => Value::Int(int(before, operand, operator)?),
            _ => return Err(ErrorCode::WrongType),
        },
        (Some(FieldType::Uint64), ValueRef::Uint(operand)) => match before {
            Some(ValueRef::Uint(before)) => Value::Uint(uint(before, operand, operator)?),
            _ => return Err(ErrorCode::WrongType),
        },
        // A signed step on an unsigned field: adding -1 takes one away.
        (Some(FieldType::Uint64), ValueRef::Int(operand)) => match before {
            Some(ValueRef::Uint(before)) => Value::Uint(signed_step(before, operand, operator)?),
            _ => return Err(ErrorCode::WrongType),
        },
        (Some(FieldType::Float64), ValueRef::Float(operand)) => match before {
            Some(ValueRef::Float(before)) => Value::Float(float(before, operand, operator)?),
            _ => return Err(ErrorCode::WrongType),
        },
        (Some(kind), ValueRef::Sql(operand)) => match before {
            Some(ValueRef::Sql(before)) => Value::Sql(sql_value(kind, before, operand, operator)?),
            _ => return Err(ErrorCode::WrongType),
        },
        // NULL among them: nothing can be added to what is not known, and nothing is the larger of the two.
        _ => return Err(ErrorCode::WrongType),
    };
    Ok(NewValue::Made(made))
}

/// Decimals are counted with exactly; what has an order has a smaller and a larger one.
fn sql_value(
    kind: FieldType,
    before: SqlValue,
    operand: SqlValue,
    operator: Arithmetic,
) -> Result<SqlValue, ErrorCode> {
    if !operand.is_of(kind) {
        return Err(ErrorCode::WrongType);
    }
    let made = match (operator, before, operand) {
        (Arithmetic::Add, SqlValue::Decimal(before), SqlValue::Decimal(operand)) => {
            before.units.checked_add(operand.units).map(|units| SqlValue::Decimal(Decimal { units, ..before }))
        }
        (Arithmetic::Subtract, SqlValue::Decimal(before), SqlValue::Decimal(operand)) => {
            before.units.checked_sub(operand.units).map(|units| SqlValue::Decimal(Decimal { units, ..before }))
        }
        (Arithmetic::Min, _, _) => Some(before.smaller(operand).ok_or(ErrorCode::WrongType)?),
        (Arithmetic::Max, _, _) => Some(before.larger(operand).ok_or(ErrorCode::WrongType)?),
        (_, _, _) => return Err(ErrorCode::WrongType),
    };
    made.filter(|made| made.is_of(kind)).ok_or(ErrorCode::Overflow)
}

/// Never wraps (records 22).
fn int(before: i64, operand: i64, operator: Arithmetic) -> Result<i64, ErrorCode> {
    match operator {
        Arithmetic::Add => before.checked_add(operand).ok_or(ErrorCode::Overflow),
        Arithmetic::Subtract => before.checked_sub(operand).ok_or(ErrorCode::Overflow),
        Arithmetic::And => Ok(before & operand),
        Arithmetic::Or => Ok(before | operand),
        Arithmetic::Xor => Ok(before ^ operand),
        Arithmetic::Min => Ok(before.min(operand)),
        Arithmetic::Max => Ok(before.max(operand)),
    }
}

fn uint(before: u64, operand: u64, operator: Arithmetic) -> Result<u64, ErrorCode> {
    match operator {
        Arithmetic::Add => before.checked_add(operand).ok_or(ErrorCode::Overflow),
        Arithmetic::Subtract => before.checked_sub(operand).ok_or(ErrorCode::Overflow),
        Arithmetic::And => Ok(before & operand),
        Arithmetic::Or => Ok(before | operand),
        Arithmetic::Xor => Ok(before ^ operand),
        Arithmetic::Min => Ok(before.min(operand)),
        Arithmetic::Max => Ok(before.max(operand)),
    }
}

fn signed_step(before: u64, operand: i64, operator: Arithmetic) -> Result<u64, ErrorCode> {
    match operator {
        Arithmetic::Add => before.checked_add_signed(operand).ok_or(ErrorCode::Overflow),
        Arithmetic::Subtract => before.checked_sub_signed(operand).ok_or(ErrorCode::Overflow),
        Arithmetic::And | Arithmetic::Or | Arithmetic::Xor | Arithmetic::Min | Arithmetic::Max => {
            uint(before, u64::try_from(operand).map_err(|_| ErrorCode::WrongType)?, operator)
        }
    }
}

fn float(before: f64, operand: f64, operator: Arithmetic) -> Result<f64, ErrorCode> {
    match operator {
        Arithmetic::Add => Ok(before + operand),
        Arithmetic::Subtract => Ok(before - operand),
        Arithmetic::Min => Ok(before.min(operand)),
        Arithmetic::Max => Ok(before.max(operand)),
        Arithmetic::And | Arithmetic::Or | Arithmetic::Xor => Err(ErrorCode::WrongType),
    }
}

fn text_to_int(value: ValueRef<'_>) -> Result<i64, ErrorCode> {
    let text = blob_text(value)?;
    let number: i64 = text.parse().map_err(|_| ErrorCode::WrongType)?;
    // Redis takes only the canonical form: no plus sign, no leading zeros.
    if number.to_string() == text { Ok(number) } else { Err(ErrorCode::WrongType) }
}

/// It may be endless; what comes of it then is refused as an overflow.
fn text_to_float(value: ValueRef<'_>) -> Result<f64, ErrorCode> {
    shardine_model::number::float(blob_text(value)?.as_bytes()).ok_or(ErrorCode::WrongType)
}

fn blob_text(value: ValueRef<'_>) -> Result<&str, ErrorCode> {
    match value {
        ValueRef::Blob(bytes) => std::str::from_utf8(bytes).map_err(|_| ErrorCode::WrongType),
        ValueRef::Str(text) => Ok(text),
        ValueRef::Int(_) | ValueRef::Uint(_) | ValueRef::Float(_) => Err(ErrorCode::WrongType),
        ValueRef::Null | ValueRef::Bool(_) | ValueRef::Json(_) | ValueRef::Sql(_) => Err(ErrorCode::WrongType),
    }
}

/// The shortest text that reads back as the same number, never with an exponent, as Redis prints them.
fn float_to_text(number: f64) -> String {
    format!("{number}")
}

/// Cuts and pastes in text or bytes. `at` may count from the end; what lies beyond the end is the end, but a paste
/// behind the end is padded with zeros, as `SETRANGE` does.
fn splice(
    kind: Option<FieldType>,
    before: Option<ValueRef<'_>>,
    at: i64,
    cut: u64,
    paste: &[u8],
) -> Result<Value, ErrorCode> {
    let before: &[u8] = match before {
        None => b"",
        Some(ValueRef::Blob(bytes)) => bytes,
        Some(ValueRef::Str(text)) => text.as_bytes(),
        Some(ValueRef::Int(_) | ValueRef::Uint(_) | ValueRef::Float(_)) => return Err(ErrorCode::WrongType),
        Some(ValueRef::Null | ValueRef::Bool(_) | ValueRef::Json(_) | ValueRef::Sql(_)) => {
            return Err(ErrorCode::WrongType);
        }
    };
    let length = before.len();
    let start = if at == i64::MAX {
        length
    } else if at < 0 {
        length.saturating_sub(usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX))
    } else {
        usize::try_from(at).unwrap_or(usize::MAX)
    };
    let resume = start.saturating_add(usize::try_from(cut).unwrap_or(usize::MAX));
    let pasted = start.saturating_add(paste.len());
    if pasted.saturating_add(length.saturating_sub(resume)) > shardine_model::limits::VALUE_BYTES_MAX {
        return Err(ErrorCode::TooLarge);
    }
    let mut made = before[..start.min(length)].to_vec();
    made.resize(start, 0);
    made.extend_from_slice(paste);
    if resume < length {
        made.extend_from_slice(&before[resume..]);
    }
    match kind {
        None | Some(FieldType::Blob) => Ok(Value::Blob(made)),
        Some(FieldType::String) => String::from_utf8(made).map(Value::Str).map_err(|_| ErrorCode::WrongType),
        // A part of a JSON text is none.
        Some(_) => Err(ErrorCode::WrongType),
    }
}
