//! A record engine in a map, just true enough to answer the door: one replica, no log, no limits.

use std::collections::BTreeMap;

use shardine_model::command::{Batch, BatchItem, BatchMode, Body, Existence, Give, Kind, Operator, Ttl};
use shardine_model::number::float;
use shardine_model::table::{KV, STRING_FIELD};
use shardine_model::{
    Action, Answer, Catalogue, Command, ErrorCode, FieldId, FieldRef, FieldValue, Outcome, Reply, Request, RowImage,
    RowKey, RowKeyBuf, TableId, Timestamp, Value, ValueRef, Version,
};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    Id(FieldId),
    Text(Vec<u8>),
}

impl Name {
    fn of(field: FieldRef<'_>) -> Self {
        match field {
            FieldRef::Id(id) => Self::Id(id),
            FieldRef::Name(name) => Self::Text(name.to_vec()),
        }
    }

    fn as_ref(&self) -> FieldRef<'_> {
        match self {
            Self::Id(id) => FieldRef::Id(*id),
            Self::Text(name) => FieldRef::Name(name),
        }
    }
}

pub type Fields = BTreeMap<Name, Value>;

#[derive(Clone, Debug, Default)]
pub struct Record {
    pub version: i64,
    pub expires_at: Option<Timestamp>,
    pub image: RowImage,
}

#[derive(Default)]
pub struct State {
    pub catalogue: Catalogue,
    pub rows: BTreeMap<RowKeyBuf, Record>,
    now: Timestamp,
}

fn unpack(image: &RowImage) -> Fields {
    image.view().iter().map(|entry| (Name::of(entry.field), entry.value.to_owned())).collect()
}

fn pack(fields: &Fields) -> RowImage {
    let entries: Vec<FieldValue<'_>> =
        fields.iter().map(|(name, value)| FieldValue { field: name.as_ref(), value: value.as_ref() }).collect();
    RowImage::of(&entries)
}

impl State {
    pub fn version(&self, row: RowKey<'_>) -> Version {
        Version(self.rows.get(&row.to_owned()).map_or(0, |record| record.version))
    }

    pub fn read(&self, row: RowKey<'_>) -> Reply {
        let version = self.version(row);
        let live = self.rows.get(&row.to_owned()).filter(|record| record.version > 0);
        let expires_at = live.and_then(|record| record.expires_at);
        let outcome = match live {
            Some(record) => Outcome::Done { changed: 0, row: Some(record.image.clone()) },
            None => Outcome::Refused { code: ErrorCode::NotFound, row: None },
        };
        Reply { version, sql_version: Version(0), expires_at, outcome }
    }

    pub fn submit(&mut self, request: &Request<'_>, now: u64) -> Answer {
        self.now = Timestamp(now);
        match &request.body {
            Body::One(command) => Answer::One(self.apply(command)),
            Body::Batch(batch) => self.apply_batch(batch),
            other => panic!("the door does not submit {other:?}"),
        }
    }

    fn apply_batch(&mut self, batch: &Batch<'_>) -> Answer {
        if batch.conditions.iter().any(|(row, version)| self.version(*row) != *version) {
            return Answer::ConditionFailed;
        }
        let before = self.rows.clone();
        let mut replies = Vec::new();
        for item in &batch.commands {
            let reply = match item {
                BatchItem::Change(command) => self.apply(command),
                BatchItem::Read(row) => self.read(*row),
            };
            let undoes = batch.mode == BatchMode::AllOrNone && reply.refusal().is_some();
            replies.push(reply);
            if undoes {
                self.rows = before;
                break;
            }
        }
        Answer::Many(replies)
    }

    fn apply(&mut self, command: &Command<'_>) -> Reply {
        let key = command.row.to_owned();
        let old = self.rows.get(&key).cloned().unwrap_or_default();
        let is_live = old.version > 0;
        let reply =
            |version, outcome| Reply { version: Version(version), sql_version: Version(0), expires_at: None, outcome };
        let refused = |code| {
            let row = (is_live && command.give == Give::Old).then(|| old.image.clone());
            reply(old.version, Outcome::Refused { code, row })
        };
        if command.if_version.is_some_and(|wanted| wanted.0.max(0) != old.version.max(0)) {
            return refused(ErrorCode::VersionMismatch);
        }
        if command.row.table == KV && !fits_kind(is_live.then_some(&old.image), command) {
            return reply(old.version, Outcome::Refused { code: ErrorCode::WrongType, row: Some(RowImage::default()) });
        }
        match command.existence {
            Existence::Live if !is_live => return refused(ErrorCode::NotFound),
            Existence::Absent if is_live => return refused(ErrorCode::Exists),
            _ => {}
        }
        let before = if is_live { unpack(&old.image) } else { Fields::new() };
        let mut fields = before.clone();
        let mut touched = Vec::new();
        let is_deleted = match &command.action {
            Action::Delete => true,
            Action::Touch => !is_live,
            Action::Set(entries) | Action::Replace(entries) => {
                if matches!(command.action, Action::Replace(_)) {
                    fields.clear();
                }
                for entry in entries {
                    fields.insert(Name::of(entry.field), entry.value.to_owned());
                }
                false
            }
            Action::Cas { create, field, old: wanted, new } => {
                let current = self.value(command.row.table, &fields, *field);
                if !is_live && !create {
                    return refused(ErrorCode::NotFound);
                }
                if is_live && current.as_ref().map(Value::as_ref) != Some(*wanted) {
                    return refused(ErrorCode::CasMismatch);
                }
                fields.insert(Name::of(*field), (*new).to_owned());
                false
            }
            Action::Update { create, operations } => {
                if !is_live && !create {
                    return refused(ErrorCode::NotFound);
                }
                for operation in operations {
                    let current = self.value(command.row.table, &fields, operation.field);
                    match operate(current, operation.operator, fields.contains_key(&Name::of(operation.field))) {
                        Ok(Some(value)) => fields.insert(Name::of(operation.field), value),
                        Ok(None) => fields.remove(&Name::of(operation.field)),
                        Err(code) => return refused(code),
                    };
                    touched.push(Name::of(operation.field));
                }
                fields.is_empty() && command.row.table.0 == 1
            }
        };
        if is_deleted && !is_live {
            return reply(old.version, Outcome::Done { changed: 0, row: None });
        }
        if command.action == Action::Touch && matches!(command.ttl, Ttl::Keep | Ttl::Clear) && old.expires_at.is_none()
        {
            let row = (command.give == Give::Old).then(|| old.image.clone());
            return reply(old.version, Outcome::Done { changed: 0, row });
        }
        let changed = match &command.action {
            Action::Delete | Action::Touch => 1,
            Action::Update { operations, .. } if operations[0].operator == Operator::Unset => {
                before.keys().filter(|name| !fields.contains_key(name)).count()
            }
            _ => fields.keys().filter(|name| !before.contains_key(name)).count(),
        };
        let magnitude = old.version.abs() + 1;
        let expires_at = command.ttl.resolve(old.expires_at, self.now);
        touched.retain(|name| fields.contains_key(name));
        let row = match command.give {
            Give::Nothing => None,
            Give::Old => is_live.then(|| old.image.clone()),
            Give::New => Some(pack(&fields)),
            Give::Touched => {
                Some(pack(&fields.clone().into_iter().filter(|(name, _)| touched.contains(name)).collect()))
            }
        };
        let version = if is_deleted { -magnitude } else { magnitude };
        let expires_at = expires_at.filter(|_| !is_deleted);
        let image = if is_deleted { RowImage::default() } else { pack(&fields) };
        self.rows.insert(key, Record { version, expires_at, image });
        reply(version, Outcome::Done { changed: changed as u32, row })
    }

    fn value(&self, table: TableId, fields: &Fields, field: FieldRef<'_>) -> Option<Value> {
        let default = || match field {
            FieldRef::Id(id) => self.catalogue.get(table)?.default_of(id).map(ValueRef::to_owned),
            FieldRef::Name(_) => None,
        };
        fields.get(&Name::of(field)).cloned().or_else(default)
    }
}

/// A string has the one field with an id, a hash has names.
fn fits_kind(image: Option<&RowImage>, command: &Command<'_>) -> bool {
    let Some(is_string) = image.map(|image| image.view().is_string()) else { return true };
    let fits = |field: FieldRef<'_>| (field == STRING_FIELD) == is_string;
    (command.kind == Kind::Any || is_string)
        && match &command.action {
            Action::Set(entries) => entries.iter().all(|entry| fits(entry.field)),
            Action::Update { operations, .. } => operations.iter().all(|operation| fits(operation.field)),
            Action::Cas { field, .. } => fits(*field),
            Action::Replace(_) | Action::Delete | Action::Touch => true,
        }
}

/// The new value of a field; `None` takes the field away.
fn operate(current: Option<Value>, operator: Operator<'_>, is_set: bool) -> Result<Option<Value>, ErrorCode> {
    let text = |value: &Option<Value>| match value {
        Some(Value::Blob(bytes)) => bytes.clone(),
        Some(Value::Str(text)) => text.clone().into_bytes(),
        _ => Vec::new(),
    };
    let as_text = |number: String| Ok(Some(Value::Blob(number.into_bytes())));
    Ok(match operator {
        Operator::Assign(value) => Some(value.to_owned()),
        Operator::AssignIfUnset(value) => {
            if is_set {
                current
            } else {
                Some(value.to_owned())
            }
        }
        Operator::Unset => None,
        Operator::Append(bytes) => Some(Value::Blob([&text(&current), bytes].concat())),
        Operator::Splice { at, cut, paste } => {
            let mut bytes = text(&current);
            let at = at as usize;
            bytes.resize(bytes.len().max(at), 0);
            let end = (at + cut as usize).min(bytes.len());
            bytes.splice(at..end, paste.iter().copied());
            Some(Value::Blob(bytes))
        }
        Operator::Add(step) => match (current, step) {
            (Some(Value::Int(value)), ValueRef::Int(step)) => {
                Some(Value::Int(value.checked_add(step).ok_or(ErrorCode::Overflow)?))
            }
            (Some(Value::Uint(value)), ValueRef::Uint(step)) => {
                Some(Value::Uint(value.checked_add(step).ok_or(ErrorCode::Overflow)?))
            }
            (Some(Value::Float(value)), ValueRef::Float(step)) => Some(Value::Float(value + step)),
            (None, ValueRef::Int(step)) => return as_text(step.to_string()),
            (Some(Value::Blob(bytes)), ValueRef::Int(step)) => {
                let value: i64 = number(&bytes)?;
                return as_text(value.checked_add(step).ok_or(ErrorCode::Overflow)?.to_string());
            }
            (None, ValueRef::Float(step)) if !step.is_finite() => return Err(ErrorCode::Overflow),
            (None, ValueRef::Float(step)) => return as_text(step.to_string()),
            (Some(Value::Blob(bytes)), ValueRef::Float(step)) => {
                let sum = float(&bytes).ok_or(ErrorCode::WrongType)? + step;
                return if sum.is_finite() { as_text(sum.to_string()) } else { Err(ErrorCode::Overflow) };
            }
            _ => return Err(ErrorCode::WrongType),
        },
        Operator::Subtract(ValueRef::Uint(step)) => match current {
            Some(Value::Uint(value)) => Some(Value::Uint(value.checked_sub(step).ok_or(ErrorCode::Overflow)?)),
            _ => return Err(ErrorCode::WrongType),
        },
        Operator::Max(ValueRef::Int(other)) => match current {
            Some(Value::Int(value)) => Some(Value::Int(value.max(other))),
            _ => return Err(ErrorCode::WrongType),
        },
        other => panic!("the map does not know {other:?}"),
    })
}

fn number<T: std::str::FromStr>(bytes: &[u8]) -> Result<T, ErrorCode> {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).ok_or(ErrorCode::WrongType)
}
