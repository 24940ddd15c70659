//! Holds names and values against a table's definition: unknown fields, wrong types and sizes end here.

use shardine_model::{
    Decimal, ErrorCode, FieldRef, FieldType, Refusal, SqlValue, Table, Value, json, limits, sort, table,
};

use crate::order::{NamedValues, Step, StepOperator};
use crate::text;

/// The field as commands name it: by id in typed tables, by name in dynamic ones. There, `value` among no other names
/// is the string that Redis clients know.
pub(crate) fn field_ref<'a>(
    table: &Table,
    name: &'a [u8],
    all: impl IntoIterator<Item = &'a [u8]>,
) -> Result<FieldRef<'a>, Refusal> {
    if table.dynamic {
        return Ok(table::dynamic_field(name, all));
    }
    match table.field(name) {
        Some(field) => Ok(FieldRef::Id(field.id)),
        None => {
            let known: Vec<&str> = table.fields.iter().map(|field| field.name.as_str()).collect();
            let message = format!(
                "table {} has no field {:?}; it has {}",
                table.name,
                String::from_utf8_lossy(name),
                known.join(", ")
            );
            Err(Refusal::new(ErrorCode::UnknownField, message))
        }
    }
}

pub(crate) fn named_values(table: &Table, fields: NamedValues) -> Result<NamedValues, Refusal> {
    let mut fitted: NamedValues = Vec::with_capacity(fields.len());
    for (name, given) in fields {
        if fitted.iter().any(|(known, _)| *known == name) {
            let message = format!("field {:?} is given twice", String::from_utf8_lossy(&name));
            return Err(Refusal::new(ErrorCode::BadRequest, message));
        }
        let given = value(table, &name, given)?;
        fitted.push((name, given));
    }
    Ok(fitted)
}

/// A value for a field of the table. Nothing is converted, but for text into the blobs of a dynamic table.
pub(crate) fn value(table: &Table, name: &[u8], given: Value) -> Result<Value, Refusal> {
    if table.dynamic {
        let given = match given {
            Value::Str(plain) => Value::Blob(plain.into_bytes()),
            other => other,
        };
        check_value(&given)?;
        let fits = FieldType::Blob.holds(given.as_ref());
        return if fits { Ok(given) } else { Err(wrong_type(table, name, FieldType::Blob, &given)) };
    }
    field_ref(table, name, [name])?;
    let Some(field) = table.field(name) else { return Ok(given) };
    check_value(&given)?;
    // A decimal gets the digits behind the point that the field has; no number changes by that.
    let fitted = match given {
        Value::Sql(value) => value.fitted(field.kind).map(Value::Sql).ok_or(Value::Sql(value)),
        Value::Json(ref text) if !json::is_json(text) => {
            return Err(Refusal::new(ErrorCode::WrongType, format!("the value for {} is no JSON text", show(name))));
        }
        other => Ok(other),
    };
    match fitted {
        Ok(value) if field.holds(value.as_ref()) => Ok(value),
        Ok(Value::Null) => {
            let message = format!("field {} of table {} is never NULL: {}", show(name), table.name, field.kind.name());
            Err(Refusal::new(ErrorCode::WrongType, message))
        }
        Ok(value) => Err(wrong_type(table, name, field.kind, &value)),
        Err(value) => Err(changed(table, name, field.kind, &value)),
    }
}

/// A value of the right kind that the field could only keep by changing it, or one of another kind.
fn changed(table: &Table, name: &[u8], kind: FieldType, given: &Value) -> Refusal {
    let is_same_kind = given.as_ref().field_type().is_some_and(|given| given.tag() == kind.tag());
    if !is_same_kind {
        return wrong_type(table, name, kind, given);
    }
    let (shown, rule) = (text::print(given.as_ref()).unwrap_or_default(), text::rule(kind));
    let message = format!("field {} of table {} is {}: {shown} is not {rule}", show(name), table.name, kind.name());
    Refusal::new(ErrorCode::WrongType, message)
}

pub(crate) fn steps(table: &Table, steps: Vec<Step>) -> Result<Vec<Step>, Refusal> {
    if steps.is_empty() {
        return Err(Refusal::new(ErrorCode::BadRequest, "an update needs at least one operation"));
    }
    steps.into_iter().map(|one| step(table, one)).collect()
}

fn step(table: &Table, step: Step) -> Result<Step, Refusal> {
    let kind = kind_of(table, &step.field)?;
    let number = |given: Value| match given {
        Value::Sql(SqlValue::Decimal(_)) => value(table, &step.field, given),
        given => operand(table, &step.field, given, &[FieldType::Int64, FieldType::Uint64, FieldType::Float64]),
    };
    let bits = |given: Value| operand(table, &step.field, given, &[FieldType::Int64, FieldType::Uint64]);
    let bytes = |given: Vec<u8>| {
        check_value(&Value::Blob(given.clone()))?;
        let text_fits = kind != FieldType::String || std::str::from_utf8(&given).is_ok();
        match kind {
            FieldType::String | FieldType::Blob if text_fits => Ok(given),
            _ => Err(wrong_type(table, &step.field, kind, &Value::Blob(given))),
        }
    };
    let operator = match step.operator {
        StepOperator::Assign(given) => StepOperator::Assign(value(table, &step.field, given)?),
        StepOperator::Min(given) => StepOperator::Min(comparable(table, &step.field, given)?),
        StepOperator::Max(given) => StepOperator::Max(comparable(table, &step.field, given)?),
        StepOperator::Add(given) => StepOperator::Add(number(given)?),
        StepOperator::Subtract(given) => StepOperator::Subtract(number(given)?),
        StepOperator::And(given) => StepOperator::And(bits(given)?),
        StepOperator::Or(given) => StepOperator::Or(bits(given)?),
        StepOperator::Xor(given) => StepOperator::Xor(bits(given)?),
        StepOperator::Splice { at, cut, paste } => StepOperator::Splice { at, cut, paste: bytes(paste)? },
        StepOperator::Append(given) => StepOperator::Append(bytes(given)?),
        StepOperator::Unset => StepOperator::Unset,
    };
    Ok(Step { field: step.field, operator })
}

/// An operand of arithmetic: the field's own type, or, in dynamic tables, any number (their blobs may spell one).
fn operand(table: &Table, name: &[u8], given: Value, allowed: &[FieldType]) -> Result<Value, Refusal> {
    let kind = kind_of(table, name)?;
    check_value(&given)?;
    let fits =
        given.as_ref().field_type().is_some_and(|given| allowed.contains(&given) && (table.dynamic || given == kind));
    if fits { Ok(given) } else { Err(wrong_type(table, name, kind, &given)) }
}

/// An operand of `min` and `max`: anything a field may hold, and numbers in dynamic tables.
fn comparable(table: &Table, name: &[u8], given: Value) -> Result<Value, Refusal> {
    match given {
        Value::Int(_) | Value::Uint(_) | Value::Float(_) if table.dynamic => check_value(&given).map(|()| given),
        other => value(table, name, other),
    }
}

/// What `incr` does to a field of its type, so that a caller need not know it: a negative amount of an unsigned
/// number is a subtraction.
pub(crate) fn amount(table: &Table, name: &[u8], by: Value) -> Result<StepOperator, Refusal> {
    let kind = kind_of(table, name)?;
    check_value(&by)?;
    let operator = match (kind, &by) {
        (FieldType::Int64 | FieldType::Blob, Value::Int(_)) => StepOperator::Add(by),
        (FieldType::Int64 | FieldType::Blob, Value::Uint(amount)) => match i64::try_from(*amount) {
            Ok(amount) => StepOperator::Add(Value::Int(amount)),
            Err(_) => return Err(overflow(name)),
        },
        (FieldType::Uint64, Value::Int(amount)) if *amount < 0 => {
            StepOperator::Subtract(Value::Uint(amount.unsigned_abs()))
        }
        (FieldType::Uint64, Value::Int(amount)) => StepOperator::Add(Value::Uint(amount.unsigned_abs())),
        (FieldType::Uint64, Value::Uint(_)) | (FieldType::Float64 | FieldType::Blob, Value::Float(_)) => {
            StepOperator::Add(by)
        }
        (FieldType::Float64, Value::Int(amount)) => StepOperator::Add(Value::Float(*amount as f64)),
        (FieldType::Float64, Value::Uint(amount)) => StepOperator::Add(Value::Float(*amount as f64)),
        (FieldType::Decimal { .. }, Value::Int(amount)) => whole(table, name, i128::from(*amount))?,
        (FieldType::Decimal { .. }, Value::Uint(amount)) => whole(table, name, i128::from(*amount))?,
        // `0.1` is no float that is exactly so; its shortest text is what was meant.
        (FieldType::Decimal { .. }, Value::Float(amount)) => match Decimal::parse(&amount.to_string()) {
            Some(amount) => StepOperator::Add(value(table, name, Value::Sql(SqlValue::Decimal(amount)))?),
            None => return Err(overflow(name)),
        },
        (FieldType::Decimal { .. }, Value::Sql(SqlValue::Decimal(_))) => StepOperator::Add(value(table, name, by)?),
        (_, _) => return Err(wrong_type(table, name, kind, &by)),
    };
    if kind == FieldType::Blob && !table.dynamic {
        return Err(Refusal::new(ErrorCode::WrongType, format!("field {} is a blob, not a number", show(name))));
    }
    Ok(operator)
}

/// A sort key, or the first parts of one, in its stored form.
pub(crate) fn sort_key(table: &Table, parts: &[Value]) -> Result<Vec<u8>, Refusal> {
    if parts.len() > table.sort.len() {
        let message = format!("{} sort values are given, table {} has {}", parts.len(), table.name, table.sort.len());
        return Err(Refusal::new(ErrorCode::BadRequest, message));
    }
    for (part, wanted) in parts.iter().zip(&table.sort) {
        if !wanted.kind.holds(part.as_ref()) {
            let given = part.as_ref().kind_name();
            let message = format!("sort part {} is {}, not {given}", wanted.name, wanted.kind.name());
            return Err(Refusal::new(ErrorCode::WrongType, message));
        }
    }
    let encoded = sort::encode(parts);
    if encoded.len() > limits::SORT_BYTES_MAX {
        let message = format!("the sort key has {} bytes, the limit is {}", encoded.len(), limits::SORT_BYTES_MAX);
        return Err(Refusal::new(ErrorCode::TooLarge, message));
    }
    Ok(encoded)
}

fn whole(table: &Table, name: &[u8], units: i128) -> Result<StepOperator, Refusal> {
    value(table, name, Value::Sql(SqlValue::Decimal(Decimal { units, scale: 0 }))).map(StepOperator::Add)
}

fn kind_of(table: &Table, name: &[u8]) -> Result<FieldType, Refusal> {
    if table.dynamic {
        return Ok(FieldType::Blob);
    }
    field_ref(table, name, [name])?;
    Ok(table.field(name).map_or(FieldType::Blob, |field| field.kind))
}

/// Size, and numbers that not every SQL database keeps as they are (write-back 104).
fn check_value(value: &Value) -> Result<(), Refusal> {
    let size = value.as_ref().size();
    if size > limits::VALUE_BYTES_MAX {
        let message = format!("a value has {size} bytes, the limit is {}", limits::VALUE_BYTES_MAX);
        return Err(Refusal::new(ErrorCode::TooLarge, message));
    }
    match value {
        Value::Float(number) if !number.is_finite() => {
            Err(Refusal::new(ErrorCode::BadRequest, format!("{number} is not a finite number")))
        }
        _ => Ok(()),
    }
}

fn wrong_type(table: &Table, name: &[u8], kind: FieldType, given: &Value) -> Refusal {
    let given = given.as_ref().kind_name();
    let message = format!("field {} of table {} is {}, not {given}", show(name), table.name, kind.name());
    Refusal::new(ErrorCode::WrongType, message)
}

fn overflow(name: &[u8]) -> Refusal {
    Refusal::new(ErrorCode::Overflow, format!("the amount for {} does not fit an int64", show(name)))
}

fn show(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
