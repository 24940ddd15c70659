//! `REC.…`: records with their versions, for clients that want more than a Redis hash (docs/redis.md has the grammar).
//!
//! Options stand behind the fields and in upper case, so that a table may have a field called `ack`.

mod operation;

use std::sync::Arc;

use shardine_model::command::{Action, Command, Existence, Fields, Give, Operations};
use shardine_model::row::FieldValue;
use shardine_model::table::{STRING_FIELD, VALUE_FIELD};
use shardine_model::{
    AckAfter, Backing, ErrorCode, FieldRef, FieldsView, Outcome, Reply, Table, TableId, ValueRef, Version,
};

use crate::command::change::{Order, Plan};
use crate::command::read::{Ask, Context, Found};
use crate::command::reply_format::{Gives, RenderContext, ReplyFormat};
use crate::failure::{Failure, NOT_AN_INTEGER, SYNTAX};
use crate::frame::Line;
use crate::value::{Slot, integer, is, quote, with_text, write_bulk, write_value};
use crate::verb::Verb;
use crate::wire::{self, Protocol};

/// The options of `REC.GET`.
#[derive(Default)]
struct GetOptions {
    known: Option<Version>,
    /// Where the names of the wanted fields begin, and how many there are.
    names: Option<(usize, usize)>,
    max_age_ms: Option<u64>,
}

impl GetOptions {
    fn parse(line: Line<'_>) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut index = 2;
        while index < line.len() {
            let word = line.word(index);
            let next = (index + 1 < line.len()).then(|| integer(line.word(index + 1)));
            if let (true, Some(number)) = (is(word, "VERSION"), next) {
                options.known = Some(Version(number.ok_or(NOT_AN_INTEGER)?));
                index += 2;
            } else if let (true, Some(count)) = (is(word, "FIELDS"), next) {
                let count = usize::try_from(count.ok_or(NOT_AN_INTEGER)?).map_err(|_| SYNTAX)?;
                let first = index + 2;
                if count == 0 || count > line.len() - first {
                    return Err(SYNTAX);
                }
                options.names = Some((first, count));
                index = first + count;
            } else if is(word, "STALE") {
                // Any age will do, unless a number follows.
                let bound = next.flatten().map(|bound| u64::try_from(bound).map_err(|_| NOT_AN_INTEGER));
                index += 1 + usize::from(bound.is_some());
                options.max_age_ms = Some(bound.transpose()?.unwrap_or(u64::MAX));
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
}

/// How old the answer to a `REC.GET` may be, if it may be old at all (records 36).
pub(crate) fn max_age_ms(line: Line<'_>) -> Option<u64> {
    GetOptions::parse(line).ok()?.max_age_ms
}

/// `REC.GET key [VERSION v] [FIELDS n f…] [STALE [ms]]` → version, sql_version, fields (null if absent), or `UNCHANGED`.
/// With `STALE`, the applied index comes fourth: null if the leader was asked.
pub(crate) fn get(ask: Ask<'_>, found: Found<'_>, context: Context, out: &mut Vec<u8>) -> Result<(), Failure> {
    let options = GetOptions::parse(ask.line)?;
    if let Some((first, count)) = options.names {
        ask.line.words(first).take(count).try_for_each(|name| Slot::find(ask.table, name).map(|_| ()))?;
    }
    write_found(ask, found, &options, context, out)
}

fn write_found(
    ask: Ask<'_>,
    found: Found<'_>,
    options: &GetOptions,
    context: Context,
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let (GetOptions { known, names, max_age_ms }, protocol) = (options, context.protocol);
    let (version, sql_version, fields) = match found {
        Found::Live(view) => (view.version, view.sql_version, Some(view.fields)),
        Found::Absent { version, sql_version } => (version, sql_version, None),
    };
    if *known == Some(version) && fields.is_some() {
        wire::simple(out, "UNCHANGED");
        return Ok(());
    }
    let start = out.len();
    wire::array(out, if max_age_ms.is_some() { 4 } else { 3 });
    wire::integer(out, version.0);
    wire::integer(out, sql_version.0);
    match (fields, *names) {
        (None, _) => wire::null(out, protocol),
        (Some(fields), None) => write_view(&fields, ask.table, protocol, out),
        (Some(fields), Some((first, count))) => {
            wire::map(out, count, protocol);
            for name in ask.line.words(first).take(count) {
                context.check_size(out.len() - start)?;
                wire::bulk(out, name);
                let value = match ask.table {
                    None => fields.named(name),
                    table => Slot::find(table, name).ok().and_then(|slot| slot.read(&fields)),
                };
                match value {
                    Some(value) => write_bulk(out, value),
                    None => wire::null(out, protocol),
                }
            }
        }
    }
    match (max_age_ms, context.applied) {
        (None, _) => {}
        (Some(_), Some(applied)) => wire::integer(out, i64::try_from(applied).unwrap_or(i64::MAX)),
        (Some(_), None) => wire::null(out, protocol),
    }
    context.check_size(out.len() - start)
}

fn write_view(fields: &FieldsView<'_>, table: Option<&Table>, protocol: Protocol, out: &mut Vec<u8>) {
    let Some(table) = table else {
        wire::map(out, fields.count(), protocol);
        for entry in fields.iter() {
            let FieldValue { field, value } = entry;
            wire::bulk(out, if let FieldRef::Name(name) = field { name } else { VALUE_FIELD.as_bytes() });
            write_bulk(out, value);
        }
        return;
    };
    wire::map(out, table.fields.len(), protocol);
    for field in &table.fields {
        wire::bulk(out, field.name.as_bytes());
        write_value(out, fields.get(FieldRef::Id(field.id)).unwrap_or(field.default.as_ref()), protocol);
    }
}

/// All fields of a record by name, whichever kind of table it is of.
pub(crate) fn write_fields(fields: &FieldsView<'_>, table: Option<&Arc<Table>>, protocol: Protocol, out: &mut Vec<u8>) {
    write_view(fields, table.map(|table| &**table).filter(|table| !table.dynamic), protocol, out);
}

/// What may stand behind the fields of a write.
#[derive(Default)]
struct Tail<'a> {
    if_version: Option<Version>,
    ack: AckAfter,
    create: bool,
    returns: bool,
    /// Fields to become NULL, which no word among the values can say.
    nulls: Vec<&'a [u8]>,
    /// In the place of the old value of `REC.CAS`, and of the new one.
    was_null: bool,
    to_null: bool,
}

impl<'a> Tail<'a> {
    fn begins(word: &[u8]) -> bool {
        matches!(word, b"IFVERSION" | b"ACK" | b"CREATE" | b"NX" | b"RETURN" | b"NULL")
    }

    fn parse(verb: Verb, line: Line<'a>, from: usize) -> Result<Self, Failure> {
        let mut tail = Tail::default();
        let mut words = line.words(from);
        while let Some(word) = words.next() {
            match word {
                b"IFVERSION" => {
                    let version = integer(words.next().ok_or(SYNTAX)?).ok_or(NOT_AN_INTEGER)?;
                    tail.if_version = Some(Version(version));
                }
                b"ACK" => {
                    let when = words.next().ok_or(SYNTAX)?;
                    tail.ack = match () {
                        () if is(when, "raft") => AckAfter::Raft,
                        () if is(when, "sql") => AckAfter::Sql,
                        () => return Err(Failure::bad_request(format!("ACK is raft or sql, not {}", quote(when)))),
                    };
                }
                b"CREATE" if verb == Verb::RecUpdate => tail.create = true,
                b"NX" if verb == Verb::RecCas => tail.create = true,
                b"WASNULL" if verb == Verb::RecCas => tail.was_null = true,
                b"TONULL" if verb == Verb::RecCas => tail.to_null = true,
                b"NULL" if matches!(verb, Verb::RecSet | Verb::RecInsert | Verb::RecReplace) => {
                    tail.nulls.push(words.next().ok_or(SYNTAX)?);
                }
                b"RETURN" if verb == Verb::RecDel => tail.returns = true,
                other => {
                    let name = verb.name();
                    let sentence = format!("{name} does not know {}; options stand last, in upper case", quote(other));
                    return Err(Failure::bad_request(sentence));
                }
            }
        }
        Ok(tail)
    }

    fn plan(&self, order: Order<'a>, action: Action<'a>, give: Give, gives: Gives) -> Result<Plan<'a>, Failure> {
        let is_in_sql = order.place.table.as_ref().is_some_and(|table| table.backing == Backing::Sql);
        if self.ack == AckAfter::Sql && !is_in_sql {
            return Err(Failure::bad_request("the table has no SQL behind it to wait for"));
        }
        let command = Command { if_version: self.if_version, give, ..Command::plain(order.place.row(), action) };
        Ok((command, ReplyFormat::Record { table: order.place.table_id(), ack: self.ack, gives }))
    }
}

/// Whether a name of the dynamic table is the one that strings show. Where no other is named, the string is meant.
fn is_value(field: FieldRef<'_>) -> bool {
    field == FieldRef::Name(VALUE_FIELD.as_bytes())
}

/// `REC.SET|INSERT|REPLACE key [field value …] [NULL field …] [IFVERSION v] [ACK raft|sql]`.
pub(crate) fn set(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let mut fields = Fields::new();
    let mut index = 2;
    while index < order.line.len() && !Tail::begins(order.line.word(index)) {
        if index + 1 == order.line.len() {
            return Err(Failure::bad_request(format!("field {} has no value", quote(order.line.word(index)))));
        }
        let slot = Slot::find(order.place.typed(), order.line.word(index))?;
        fields.push(FieldValue { field: slot.reference, value: slot.parse(order.line.word(index + 1))? });
        index += 2;
    }
    if order.place.typed().is_none() && fields.iter().all(|entry| is_value(entry.field)) {
        fields.iter_mut().for_each(|entry| entry.field = STRING_FIELD);
    }
    let tail = Tail::parse(order.verb, order.line, index)?;
    for name in &tail.nulls {
        let slot = Slot::find(order.place.typed(), name)?;
        fields.push(FieldValue { field: slot.reference, value: ValueRef::Null });
    }
    if order.verb == Verb::RecSet && fields.is_empty() {
        return Err(Failure::bad_request("REC.SET names no field"));
    }
    let action = if order.verb == Verb::RecReplace { Action::Replace(fields) } else { Action::Set(fields) };
    let (mut command, format) = tail.plan(order, action, Give::Nothing, Gives::Versions)?;
    if order.verb == Verb::RecInsert {
        command.existence = Existence::Absent;
    }
    Ok((command, format))
}

/// `REC.UPDATE key field op [value] … [CREATE] [IFVERSION v] [ACK raft|sql]` → also the new values of the fields named.
pub(crate) fn update(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let mut operations = Operations::new();
    let mut index = 2;
    while index < order.line.len() && !Tail::begins(order.line.word(index)) {
        let (operation, used) = operation::parse(order, index)?;
        operations.push(operation);
        index += used;
    }
    if order.place.typed().is_none() && operations.iter().all(|operation| is_value(operation.field)) {
        operations.iter_mut().for_each(|operation| operation.field = STRING_FIELD);
    }
    let tail = Tail::parse(order.verb, order.line, index)?;
    if operations.is_empty() {
        return Err(Failure::bad_request("REC.UPDATE names no operation"));
    }
    let action = Action::Update { create: tail.create, operations };
    tail.plan(order, action, Give::Touched, Gives::Values)
}

/// `REC.CAS key field old new [NX] [WASNULL] [TONULL] [IFVERSION v] [ACK raft|sql]`. With `WASNULL` nobody looks at `old`, with
/// `TONULL` at `new`.
pub(crate) fn cas(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let slot = Slot::find(order.place.typed(), order.line.word(2))?;
    let tail = Tail::parse(order.verb, order.line, 5)?;
    let value = |is_null: bool, index| if is_null { Ok(ValueRef::Null) } else { slot.parse(order.line.word(index)) };
    let (old, new) = (value(tail.was_null, 3)?, value(tail.to_null, 4)?);
    let is_string = order.place.typed().is_none() && is_value(slot.reference);
    let field = if is_string { STRING_FIELD } else { slot.reference };
    let action = Action::Cas { create: tail.create, field, old, new };
    tail.plan(order, action, Give::Nothing, Gives::Versions)
}

/// `REC.DEL key [RETURN] [IFVERSION v] [ACK raft|sql]` → also whether it existed, or with `RETURN` what it held.
pub(crate) fn delete(order: Order<'_>) -> Result<Plan<'_>, Failure> {
    let tail = Tail::parse(order.verb, order.line, 2)?;
    let (give, gives) = if tail.returns { (Give::Old, Gives::Values) } else { (Give::Nothing, Gives::Existed) };
    tail.plan(order, Action::Delete, give, gives)
}

/// The reply of a write. One that waited for SQL says whether SQL has it; if not, the write stands all the same.
pub(crate) fn write_reply(
    reply: &Reply,
    table: TableId,
    gives: Gives,
    ack: AckAfter,
    render: RenderContext<'_>,
    out: &mut Vec<u8>,
) {
    let (changed, row) = match &reply.outcome {
        Outcome::Done { changed, row } => (*changed, row.as_ref()),
        Outcome::Refused { code, .. } => return refusal(*code, reply).write(out),
    };
    let extra = usize::from(gives != Gives::Versions) + usize::from(ack == AckAfter::Sql);
    wire::array(out, 2 + extra);
    wire::integer(out, reply.version.0);
    wire::integer(out, reply.sql_version.0);
    match (gives, row) {
        (Gives::Versions, _) => {}
        (Gives::Existed, _) => wire::integer(out, i64::from(changed > 0)),
        (Gives::Values, None) => wire::null(out, render.protocol),
        (Gives::Values, Some(row)) => write_given(&row.view(), table, render, out),
    }
    if ack == AckAfter::Sql {
        let is_written = reply.sql_version.magnitude() >= reply.version.magnitude();
        wire::bulk(out, if is_written { b"written" } else { b"pending" });
    }
}

/// Only the fields that came back: an update gives those that it touched.
fn write_given(fields: &FieldsView<'_>, table: TableId, render: RenderContext<'_>, out: &mut Vec<u8>) {
    let table = render.catalogue.get(table);
    wire::map(out, fields.count(), render.protocol);
    for entry in fields.iter() {
        match entry.field {
            FieldRef::Name(name) => wire::bulk(out, name),
            FieldRef::Id(_) if table.is_some_and(|table| table.dynamic) => wire::bulk(out, VALUE_FIELD.as_bytes()),
            FieldRef::Id(id) => {
                let field = table.and_then(|table| table.field_by_id(id));
                wire::bulk(out, field.map_or(b"?", |field| field.name.as_bytes()));
            }
        }
        write_value(out, entry.value, render.protocol);
    }
}

fn shown(value: ValueRef<'_>) -> String {
    if value == ValueRef::Null { "NULL".to_owned() } else { with_text(value, quote) }
}

/// A refusal with the version that stands, so that the client can go on from it (records 15, 17, 19).
fn refusal(code: ErrorCode, reply: &Reply) -> Failure {
    let version = reply.version;
    match code {
        ErrorCode::VersionMismatch | ErrorCode::Exists => {
            Failure::new(code, format!("the record is at version {version}"))
        }
        ErrorCode::NotFound => Failure::new(code, format!("the record does not exist, its version is {version}")),
        ErrorCode::CasMismatch => {
            let held = reply.row().and_then(|row| row.view().iter().next().map(|entry| shown(entry.value)));
            let held = held.map_or(String::new(), |held| format!(", the field holds {held}"));
            Failure::new(code, format!("the record is at version {version}{held}"))
        }
        ErrorCode::WrongType if reply.row().is_some_and(|row| row.packed.is_empty()) => {
            let sentence = "the record is a string, which has the field 'value' alone, or a hash, which has others";
            Failure::new(code, sentence)
        }
        other => Failure::from(other),
    }
}
