//! Protobuf to the service's words and back. Refuses what protobuf lets through and the service has no word for.

use shardine_model::command::{Existence, Give};
use shardine_model::value::{DECIMAL_DIGITS_MAX, SECOND_DIGITS_MAX};
use shardine_model::{AckAfter, Decimal, ErrorCode, FieldType, Refusal, SqlValue, Value, Version};
use shardine_proto::v1;
use shardine_router::ShardRoute;
use shardine_service::{
    Changed, Deed, Delivery, Edge, Expiry, Get, Numbered, Order, Record, RowAddress, Step, StepOperator, Terms,
};

pub(crate) fn missing(what: &str) -> Refusal {
    Refusal::new(ErrorCode::BadRequest, format!("{what} is missing"))
}

pub(crate) fn value(value: Option<v1::Value>, what: &str) -> Result<Value, Refusal> {
    match value.and_then(|value| value.kind) {
        Some(v1::value::Kind::Int64(number)) => Ok(Value::Int(number)),
        Some(v1::value::Kind::Uint64(number)) => Ok(Value::Uint(number)),
        Some(v1::value::Kind::Float64(number)) => Ok(Value::Float(number)),
        Some(v1::value::Kind::String(text)) => Ok(Value::Str(text)),
        Some(v1::value::Kind::Blob(bytes)) => Ok(Value::Blob(bytes)),
        Some(v1::value::Kind::Null(v1::Null {})) => Ok(Value::Null),
        Some(v1::value::Kind::Bool(truth)) => Ok(Value::Bool(truth)),
        // Whether it is a JSON text is looked at with the field.
        Some(v1::value::Kind::Json(text)) => Ok(Value::Json(text)),
        Some(v1::value::Kind::Decimal(text)) => match Decimal::parse(&text) {
            Some(decimal) => Ok(Value::Sql(SqlValue::Decimal(decimal))),
            None => Err(no_text(what, FieldType::Decimal { precision: DECIMAL_DIGITS_MAX, scale: 0 }, &text)),
        },
        Some(v1::value::Kind::Timestamp(text)) => sql(what, FieldType::Timestamp { digits: SECOND_DIGITS_MAX }, &text),
        Some(v1::value::Kind::Date(text)) => sql(what, FieldType::Date, &text),
        Some(v1::value::Kind::Time(text)) => sql(what, FieldType::Time { digits: SECOND_DIGITS_MAX }, &text),
        Some(v1::value::Kind::Uuid(text)) => sql(what, FieldType::Uuid, &text),
        None => Err(missing(&format!("the value of {what}"))),
    }
}

/// A text of one of the types of SQL; how much of it the field keeps is looked at with the field.
fn sql(what: &str, kind: FieldType, text: &str) -> Result<Value, Refusal> {
    SqlValue::parse(kind, text).map(Value::Sql).ok_or_else(|| no_text(what, kind, text))
}

fn no_text(what: &str, kind: FieldType, text: &str) -> Refusal {
    Refusal::new(ErrorCode::WrongType, format!("{text:?} for {what} is not {}", shardine_service::text::rule(kind)))
}

pub(crate) fn value_out(value: Value) -> v1::Value {
    let kind = match value {
        Value::Int(number) => v1::value::Kind::Int64(number),
        Value::Uint(number) => v1::value::Kind::Uint64(number),
        Value::Float(number) => v1::value::Kind::Float64(number),
        Value::Str(text) => v1::value::Kind::String(text),
        Value::Blob(bytes) => v1::value::Kind::Blob(bytes),
        Value::Null => v1::value::Kind::Null(v1::Null {}),
        Value::Bool(truth) => v1::value::Kind::Bool(truth),
        Value::Json(text) => v1::value::Kind::Json(text),
        Value::Sql(value @ SqlValue::Decimal(_)) => v1::value::Kind::Decimal(value.to_string()),
        Value::Sql(value @ SqlValue::Timestamp(_)) => v1::value::Kind::Timestamp(value.to_string()),
        Value::Sql(value @ SqlValue::Date(_)) => v1::value::Kind::Date(value.to_string()),
        Value::Sql(value @ SqlValue::Time(_)) => v1::value::Kind::Time(value.to_string()),
        Value::Sql(value @ SqlValue::Uuid(_)) => v1::value::Kind::Uuid(value.to_string()),
    };
    v1::Value { kind: Some(kind) }
}

/// A type without parameters: of sort keys and of the keys of mapped tables.
pub(crate) fn plain_kind(number: i32) -> Result<FieldType, Refusal> {
    kind(number, &[])
}

pub(crate) fn kind(kind: i32, parameters: &[u32]) -> Result<FieldType, Refusal> {
    let small = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    let digits = parameters.first().map_or(SECOND_DIGITS_MAX, |digits| small(*digits));
    match v1::FieldType::try_from(kind) {
        Ok(v1::FieldType::Int64) => Ok(FieldType::Int64),
        Ok(v1::FieldType::Uint64) => Ok(FieldType::Uint64),
        Ok(v1::FieldType::Float64) => Ok(FieldType::Float64),
        Ok(v1::FieldType::String) => Ok(FieldType::String),
        Ok(v1::FieldType::Blob) => Ok(FieldType::Blob),
        Ok(v1::FieldType::Bool) => Ok(FieldType::Bool),
        Ok(v1::FieldType::Decimal) => match *parameters {
            [precision] => Ok(FieldType::Decimal { precision: small(precision), scale: 0 }),
            [precision, scale] => Ok(FieldType::Decimal { precision: small(precision), scale: small(scale) }),
            _ => Err(missing("how many digits a decimal has")),
        },
        Ok(v1::FieldType::Timestamp) => Ok(FieldType::Timestamp { digits }),
        Ok(v1::FieldType::Date) => Ok(FieldType::Date),
        Ok(v1::FieldType::Time) => Ok(FieldType::Time { digits }),
        Ok(v1::FieldType::Uuid) => Ok(FieldType::Uuid),
        Ok(v1::FieldType::Json) => Ok(FieldType::Json),
        Ok(v1::FieldType::Unspecified) | Err(_) => Err(missing("the type of a field")),
    }
}

pub(crate) fn kind_out(kind: FieldType) -> v1::FieldType {
    match kind {
        FieldType::Int64 => v1::FieldType::Int64,
        FieldType::Uint64 => v1::FieldType::Uint64,
        FieldType::Float64 => v1::FieldType::Float64,
        FieldType::String => v1::FieldType::String,
        FieldType::Blob => v1::FieldType::Blob,
        FieldType::Bool => v1::FieldType::Bool,
        FieldType::Decimal { .. } => v1::FieldType::Decimal,
        FieldType::Timestamp { .. } => v1::FieldType::Timestamp,
        FieldType::Date => v1::FieldType::Date,
        FieldType::Time { .. } => v1::FieldType::Time,
        FieldType::Uuid => v1::FieldType::Uuid,
        FieldType::Json => v1::FieldType::Json,
    }
}

pub(crate) fn parameters_out(kind: FieldType) -> Vec<u32> {
    match kind {
        FieldType::Decimal { precision, scale } => vec![u32::from(precision), u32::from(scale)],
        FieldType::Timestamp { digits } | FieldType::Time { digits } => vec![u32::from(digits)],
        FieldType::Int64 | FieldType::Uint64 | FieldType::Float64 | FieldType::String | FieldType::Blob => Vec::new(),
        FieldType::Bool | FieldType::Date | FieldType::Uuid | FieldType::Json => Vec::new(),
    }
}

pub(crate) fn route(route: ShardRoute) -> v1::ShardRoute {
    v1::ShardRoute {
        shard: route.shard.0,
        lo: route.lo.0,
        hi: route.hi.map(|hi| hi.0),
        generation: route.epoch.generation.0,
        range_version: route.epoch.range.0,
        leader: route.leader.map(|leader| leader.0),
        term: route.term,
        address: route.address,
    }
}

pub(crate) fn row(row: Option<v1::Row>) -> Result<RowAddress, Refusal> {
    let row = row.ok_or_else(|| missing("the row"))?;
    Ok(RowAddress { table: row.table, key: row.key, sort: values(row.sort)? })
}

fn values(parts: Vec<v1::Value>) -> Result<Vec<Value>, Refusal> {
    parts.into_iter().map(|part| value(Some(part), "a sort part")).collect()
}

pub(crate) fn edge(bound: Option<v1::SortBound>) -> Result<Option<Edge>, Refusal> {
    bound.map(|bound| Ok(Edge { parts: values(bound.parts)?, exclusive: bound.exclusive })).transpose()
}

pub(crate) fn names(names: Vec<String>) -> Vec<Vec<u8>> {
    names.into_iter().map(String::into_bytes).collect()
}

fn fields(fields: Vec<v1::Field>) -> Result<Vec<(Vec<u8>, Value)>, Refusal> {
    fields
        .into_iter()
        .map(|field| {
            let value = value(field.value, &field.name)?;
            let name = if field.raw_name.is_empty() { field.name.into_bytes() } else { field.raw_name };
            Ok((name, value))
        })
        .collect()
}

pub(crate) fn terms(terms: Option<v1::Terms>) -> Result<Terms, Refusal> {
    let terms = terms.unwrap_or_default();
    let unknown = |what: &str| Refusal::new(ErrorCode::BadRequest, format!("terms.{what} has an unknown value"));
    Ok(Terms {
        if_version: terms.if_version.map(Version),
        existence: match v1::Existence::try_from(terms.existence).map_err(|_| unknown("existence"))? {
            v1::Existence::Any => Existence::Any,
            v1::Existence::Live => Existence::Live,
            v1::Existence::Absent => Existence::Absent,
        },
        give: match v1::Return::try_from(terms.r#return).map_err(|_| unknown("return"))? {
            v1::Return::Nothing => Give::Nothing,
            v1::Return::Old => Give::Old,
            v1::Return::New => Give::New,
            v1::Return::Touched => Give::Touched,
        },
        expiry: match terms.expiry {
            Some(v1::terms::Expiry::TtlMs(ms)) => Expiry::AfterMs(ms),
            Some(v1::terms::Expiry::Persist(true)) => Expiry::Clear,
            Some(v1::terms::Expiry::Persist(false)) | None => Expiry::Keep,
        },
    })
}

pub(crate) fn delivery(delivery: Option<v1::Delivery>) -> Result<Delivery, Refusal> {
    let delivery = delivery.unwrap_or_default();
    let ack = match v1::Ack::try_from(delivery.ack) {
        Ok(v1::Ack::Raft) => AckAfter::Table,
        Ok(v1::Ack::Sql) => AckAfter::Sql,
        Ok(v1::Ack::RaftOnly) => AckAfter::Raft,
        Err(_) => return Err(Refusal::new(ErrorCode::BadRequest, "delivery.ack has an unknown value")),
    };
    let v1::Delivery { client_id, sequence, lowest_unanswered: lowest, again, .. } = delivery;
    let numbered = client_id.map(|client| Numbered { client, sequence, lowest, again });
    Ok(Delivery { origin: numbered.map(Numbered::origin).transpose()?, ack })
}

pub(crate) fn get(get: v1::GetRequest) -> Result<Get, Refusal> {
    let max_age_ms = get.stale.then(|| get.max_age_ms.unwrap_or(u64::MAX));
    let known_version = get.known_version.map(Version);
    Ok(Get { row: row(get.row)?, fields: names(get.fields), known_version, max_age_ms })
}

pub(crate) fn set(set: v1::SetRequest) -> Result<Order, Refusal> {
    Ok(Order { row: row(set.row)?, terms: terms(set.terms)?, deed: Deed::Set(fields(set.fields)?) })
}

pub(crate) fn insert(insert: v1::InsertRequest) -> Result<Order, Refusal> {
    Ok(Order { row: row(insert.row)?, terms: terms(insert.terms)?, deed: Deed::Insert(fields(insert.fields)?) })
}

pub(crate) fn replace(replace: v1::ReplaceRequest) -> Result<Order, Refusal> {
    Ok(Order { row: row(replace.row)?, terms: terms(replace.terms)?, deed: Deed::Replace(fields(replace.fields)?) })
}

pub(crate) fn update(update: v1::UpdateRequest) -> Result<Order, Refusal> {
    let steps = update.operations.into_iter().map(step).collect::<Result<_, _>>()?;
    let deed = Deed::Update { create: update.create, steps };
    Ok(Order { row: row(update.row)?, terms: terms(update.terms)?, deed })
}

fn step(operation: v1::Operation) -> Result<Step, Refusal> {
    use v1::operation::Operator;
    let given = |given: v1::Value| value(Some(given), &operation.field);
    let operator = match operation.operator {
        Some(Operator::Assign(by)) => StepOperator::Assign(given(by)?),
        Some(Operator::Add(by)) => StepOperator::Add(given(by)?),
        Some(Operator::Subtract(by)) => StepOperator::Subtract(given(by)?),
        Some(Operator::And(by)) => StepOperator::And(given(by)?),
        Some(Operator::Or(by)) => StepOperator::Or(given(by)?),
        Some(Operator::Xor(by)) => StepOperator::Xor(given(by)?),
        Some(Operator::Min(by)) => StepOperator::Min(given(by)?),
        Some(Operator::Max(by)) => StepOperator::Max(given(by)?),
        Some(Operator::Splice(splice)) => StepOperator::Splice { at: splice.at, cut: splice.cut, paste: splice.paste },
        Some(Operator::Append(bytes)) => StepOperator::Append(bytes),
        Some(Operator::Unset(true)) => StepOperator::Unset,
        Some(Operator::Unset(false)) | None => return Err(missing("the operator of an operation")),
    };
    Ok(Step { field: operation.field.into_bytes(), operator })
}

pub(crate) fn cas(cas: v1::CasRequest) -> Result<Order, Refusal> {
    let old = value(cas.old, "old")?;
    let new = value(cas.new, "new")?;
    let deed = Deed::Cas { create: cas.create, field: cas.field.into_bytes(), old, new };
    Ok(Order { row: row(cas.row)?, terms: terms(cas.terms)?, deed })
}

pub(crate) fn incr(incr: v1::IncrRequest) -> Result<Order, Refusal> {
    let by = match incr.by {
        None => Value::Int(1),
        given => value(given, "by")?,
    };
    let deed = Deed::Incr { field: incr.field.into_bytes(), by };
    Ok(Order { row: row(incr.row)?, terms: terms(incr.terms)?, deed })
}

pub(crate) fn delete(delete: v1::DeleteRequest) -> Result<Order, Refusal> {
    let mut terms = terms(delete.terms)?;
    if delete.return_record {
        terms.give = Give::Old;
    }
    Ok(Order { row: row(delete.row)?, terms, deed: Deed::Delete })
}

pub(crate) fn row_out(row: RowAddress) -> v1::Row {
    v1::Row { table: row.table, key: row.key, sort: row.sort.into_iter().map(value_out).collect() }
}

pub(crate) fn record(record: Record) -> v1::Record {
    let fields = record.fields.into_iter().map(|(name, value)| {
        let value = Some(value_out(value));
        match String::from_utf8(name) {
            Ok(name) => v1::Field { name, value, raw_name: Vec::new() },
            Err(raw) => v1::Field { name: String::new(), value, raw_name: raw.into_bytes() },
        }
    });
    v1::Record {
        row: Some(row_out(record.row)),
        version: record.version.0,
        sql_version: record.sql_version.0,
        fields: fields.collect(),
        expires_at_ms: record.expires_at.map(|at| at.0),
    }
}

pub(crate) fn changed(changed: Changed) -> v1::ChangeReply {
    v1::ChangeReply {
        version: changed.version.0,
        sql_version: changed.sql_version.0,
        changed: changed.changed,
        record: changed.record.map(record),
    }
}
