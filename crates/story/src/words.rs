//! The words of stories for addresses, values, commands and requests.
//!
//! Everything parsed is leaked: commands borrow their bytes, and the process of a test does not live long.

use shardine_model::command::{
    Attempt, Batch, BatchItem, BatchMode, Body, Existence, Fields, Give, Kind, Operation, Operations, Operator, Origin,
    Ttl,
};
use shardine_model::table::STRING_FIELD;
use shardine_model::{
    Action, Backing, Catalogue, ClientId, Command, Conflict, Deletes, Field, FieldId, FieldRef, FieldType, FieldValue,
    Mapping, Request, RowKey, SqlOptions, SqlValue, Table, TableId, Timestamp, Value, ValueRef, Version, WriteMode,
    sort, table::SortPart,
};

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn leak_value(value: Value) -> ValueRef<'static> {
    let value: &'static Value = Box::leak(Box::new(value));
    value.as_ref()
}

/// `v3`, `v-2`, `v0`.
pub fn version(text: &str) -> Version {
    let number = text.strip_prefix('v').and_then(|number| number.parse().ok());
    Version(number.unwrap_or_else(|| panic!("{text:?} is not a version, like v3")))
}

/// `users:lili`, `posts:lili@7,first` with sort values, `#99:lili` by table id, `users:lili@^7` with an `int64` sort value
/// that the table has no place for.
pub fn address(catalogue: &Catalogue, text: &str) -> RowKey<'static> {
    let (name, key) = text.split_once(':').unwrap_or_else(|| panic!("{text:?} is not table:key"));
    if let Some(id) = name.strip_prefix('#') {
        let table = TableId(id.parse().expect("a table id is a number"));
        return RowKey { table, key: leak(key).as_bytes(), sort: b"" };
    }
    let table = catalogue.named(name).unwrap_or_else(|| panic!("no table {name}"));
    let (key, parts) = key.split_once('@').map_or((key, None), |(key, parts)| (key, Some(parts)));
    let sort = match parts {
        None => Vec::new(),
        Some(parts) if parts.starts_with('^') => sort::encode(&[value(FieldType::Int64, &parts[1..])]),
        Some(parts) => {
            let types = table.sort_types();
            let values: Vec<Value> = parts.split(',').zip(&types).map(|(part, kind)| value(*kind, part)).collect();
            sort::encode(&values)
        }
    };
    RowKey { table: table.id, key: leak(key).as_bytes(), sort: Box::leak(sort.into_boxed_slice()) }
}

pub fn value(kind: FieldType, text: &str) -> Value {
    let wrong = || panic!("{text:?} is not a {}", kind.name());
    if text == "NULL" {
        return Value::Null;
    }
    match kind {
        FieldType::Int64 => text.parse().map(Value::Int).unwrap_or_else(|_| wrong()),
        FieldType::Uint64 => text.parse().map(Value::Uint).unwrap_or_else(|_| wrong()),
        FieldType::Float64 => text.parse().map(Value::Float).unwrap_or_else(|_| wrong()),
        FieldType::String => Value::Str(text.to_owned()),
        FieldType::Blob => Value::Blob(text.as_bytes().to_vec()),
        FieldType::Bool => text.parse().map(Value::Bool).unwrap_or_else(|_| wrong()),
        FieldType::Json => Value::Json(text.to_owned()),
        FieldType::Decimal { .. } | FieldType::Timestamp { .. } | FieldType::Time { .. } => sql_value(kind, text),
        FieldType::Date | FieldType::Uuid => sql_value(kind, text),
    }
}

fn sql_value(kind: FieldType, text: &str) -> Value {
    Value::Sql(SqlValue::parse(kind, text).unwrap_or_else(|| panic!("{text:?} is not a {}", kind.name())))
}

/// `table users age:int64 name:string=anon sort=at:int64,tag:string version=2 sql|none|guest dropped`
pub fn table(catalogue: &Catalogue, words: &[&str]) -> Table {
    let name = words[0];
    let known = catalogue.named(name);
    let mut made = Table {
        id: known.map_or(catalogue.next_id(), |known| known.id),
        name: name.to_owned(),
        version: known.map_or(1, |known| known.version + 1),
        fields: Vec::new(),
        sort: Vec::new(),
        backing: Backing::None,
        sql: Default::default(),
        dynamic: false,
        dropped: false,
        next_field: FieldId(1),
    };
    for word in &words[1..] {
        if let Some(number) = word.strip_prefix("version=") {
            made.version = number.parse().expect("a definition's version is a number");
        } else if let Some(parts) = word.strip_prefix("sort=") {
            made.sort = parts.split(',').map(sort_part).collect();
        } else if let Some((option, value)) = word.split_once('=').filter(|(option, _)| SQL_OPTIONS.contains(option)) {
            sql_option(&mut made.sql, option, value);
        } else if let Some((name, rest)) = word.split_once(':') {
            made.fields.push(field(made.next_field, name, rest));
            made.next_field = FieldId(made.next_field.0 + 1);
        } else {
            match *word {
                "sql" => made.backing = Backing::Sql,
                "none" => made.backing = Backing::None,
                "guest" => (made.backing, made.sql.mapping) = (Backing::Sql, Some(guest())),
                "dropped" => made.dropped = true,
                other => panic!("{other:?} says nothing about a table"),
            }
        }
    }
    made
}

/// A table that was there before, of which stories know no more than that others use it too.
fn guest() -> Mapping {
    let [table, key, version] = ["theirs", "id", "rev"].map(str::to_owned);
    let (key_type, version, columns) = (FieldType::String, Some(version), Vec::new());
    Mapping { table, key, key_type, version, columns, deletes: Deletes::Row }
}

const SQL_OPTIONS: [&str; 6] = ["mode", "delay", "batch", "conflict", "keep", "after"];

fn sql_option(sql: &mut SqlOptions, option: &str, value: &str) {
    let number = || value.parse().expect("a number");
    match option {
        "mode" => sql.mode = WriteMode::ALL.into_iter().find(|mode| mode.name() == value).expect("a known mode"),
        "conflict" => sql.conflict = Conflict::ALL.into_iter().find(|one| one.name() == value).expect("a known policy"),
        "delay" => sql.delay_ms = number(),
        "batch" => sql.batch = number(),
        "after" => sql.after = value.split(',').map(str::to_owned).collect(),
        "keep" => sql.tombstone_keep_ms = u64::from(number()),
        other => panic!("{other:?} is no option"),
    }
}

fn sort_part(text: &str) -> SortPart {
    let (name, kind) = text.split_once(':').expect("a sort part is name:type");
    SortPart { name: name.to_owned(), kind: FieldType::from_name(kind).expect("a known type") }
}

fn field(id: FieldId, name: &str, rest: &str) -> Field {
    let (kind, default) = rest.split_once('=').map_or((rest, None), |(kind, default)| (kind, Some(default)));
    let (kind, nullable) = kind.strip_suffix('?').map_or((kind, false), |kind| (kind, true));
    let kind = FieldType::from_name(kind).unwrap_or_else(|| panic!("no type {kind}"));
    let default = default.map_or_else(|| Field::unnamed_default(kind, nullable), |text| value(kind, text));
    Field { id, name: name.to_owned(), kind, nullable, default }
}

/// A request: one command, or `batch all|each [when ADDRESS=vN …]: COMMAND ; COMMAND ; read ADDRESS`. A word
/// `as=CLIENT/SEQUENCE` or `as=CLIENT/SEQUENCE/LOWEST` numbers it, `again=…` says that it was sent before.
pub fn request(catalogue: &Catalogue, line: &str) -> Option<Request<'static>> {
    let (line, origin) = take_origin(line);
    let body = match line.strip_prefix("batch ") {
        Some(rest) => Body::Batch(batch(catalogue, rest)),
        None => Body::One(command(catalogue, &line)?),
    };
    Some(Request { origin, body })
}

fn take_origin(line: &str) -> (String, Option<Origin>) {
    let mut origin = None;
    let mut kept = Vec::new();
    for word in line.split_whitespace() {
        match word.split_once('=') {
            Some(("as", numbers)) => origin = Some(numbered(numbers)),
            Some(("again", numbers)) => origin = Some(Origin { attempt: Attempt::Again, ..numbered(numbers) }),
            _ => kept.push(word),
        }
    }
    (kept.join(" "), origin)
}

fn numbered(text: &str) -> Origin {
    let numbers: Vec<u64> = text.split('/').map(|number| number.parse().expect("as=CLIENT/SEQUENCE")).collect();
    match numbers[..] {
        [client, sequence] => Origin::new(ClientId(client), sequence),
        [client, sequence, lowest] => Origin { lowest, ..Origin::new(ClientId(client), sequence) },
        _ => panic!("{text:?} is not CLIENT/SEQUENCE or CLIENT/SEQUENCE/LOWEST"),
    }
}

fn batch(catalogue: &Catalogue, text: &str) -> Batch<'static> {
    let (head, commands) = text.split_once(": ").unwrap_or((text.trim_end_matches(':'), ""));
    let mut words = head.split_whitespace();
    let mode = match words.next() {
        Some("all") => BatchMode::AllOrNone,
        Some("each") => BatchMode::EachItsOwn,
        other => panic!("a batch is all or each, not {other:?}"),
    };
    let conditions = words.filter(|word| *word != "when").map(|word| {
        let (row, wanted) = word.rsplit_once('=').expect("a condition is ADDRESS=vN");
        (address(catalogue, row), version(wanted))
    });
    let conditions = conditions.collect();
    let items = commands.split(" ; ").filter(|text| !text.is_empty()).map(|text| match text.strip_prefix("read ") {
        Some(row) => BatchItem::Read(address(catalogue, row.trim())),
        None => BatchItem::Change(command(catalogue, text).unwrap_or_else(|| panic!("{text:?} is no command"))),
    });
    Batch { mode, conditions, commands: items.collect() }
}

/// `VERB ADDRESS ARGUMENTS [if=vN] [nx|xx] [string] [expires=MS|never] [give=old|new|touched]`; nothing for other verbs.
pub fn command(catalogue: &Catalogue, line: &str) -> Option<Command<'static>> {
    let mut words = line.split_whitespace();
    let verb = words.next()?;
    const VERBS: [&str; 11] =
        ["set", "insert", "replace", "update", "upsert", "incr", "decr", "cas", "casnx", "delete", "touch"];
    if !VERBS.contains(&verb) {
        return None;
    }
    let row = address(catalogue, words.next().expect("a command names a row"));
    let table = catalogue.get(row.table).map(|table| &**table);
    let mut made = Command::plain(row, Action::Delete);
    let arguments: Vec<&str> = words.filter(|word| !takes_option(&mut made, word)).collect();
    made.action = match verb {
        "set" | "insert" => Action::Set(fields(table, &arguments)),
        "replace" => Action::Replace(fields(table, &arguments)),
        "update" | "upsert" => {
            let operations = arguments.iter().map(|word| operation(table, word)).collect();
            Action::Update { create: verb == "upsert", operations }
        }
        "incr" | "decr" => {
            made.give = Give::Touched;
            count(table, verb, &arguments)
        }
        "cas" | "casnx" => {
            let (field, kind) = field_ref(table, arguments[0]);
            let (old, new) = (leak_value(value(kind, arguments[1])), leak_value(value(kind, arguments[2])));
            Action::Cas { create: verb == "casnx", field, old, new }
        }
        "delete" => Action::Delete,
        _ => Action::Touch,
    };
    if verb == "insert" {
        made.existence = Existence::Absent;
    }
    Some(made)
}

fn takes_option(command: &mut Command<'static>, word: &str) -> bool {
    match word.split_once('=') {
        Some(("if", wanted)) => command.if_version = Some(version(wanted)),
        Some(("expires", "never")) => command.ttl = Ttl::Clear,
        Some(("expires", at)) => command.ttl = Ttl::At(Timestamp(at.parse().expect("expiry is in milliseconds"))),
        Some(("lives", ms)) => command.ttl = Ttl::After(ms.parse().expect("a time to live is in milliseconds")),
        Some(("give", "old")) => command.give = Give::Old,
        Some(("give", "new")) => command.give = Give::New,
        Some(("give", "touched")) => command.give = Give::Touched,
        None if word == "string" => command.kind = Kind::String,
        None if word == "nx" => command.existence = Existence::Absent,
        None if word == "xx" => command.existence = Existence::Live,
        _ => return false,
    }
    true
}

/// A field by its name, `#9` by id for one that is not defined, or `$` for the string of a dynamic table.
fn field_ref(table: Option<&Table>, name: &str) -> (FieldRef<'static>, FieldType) {
    if name == "$" {
        return (STRING_FIELD, FieldType::Blob);
    }
    if let Some(id) = name.strip_prefix('#') {
        return (FieldRef::Id(FieldId(id.parse().expect("a field id is a number"))), FieldType::Int64);
    }
    match table {
        Some(table) if !table.dynamic => {
            let field = table.field(name.as_bytes()).unwrap_or_else(|| panic!("{} has no field {name}", table.name));
            (FieldRef::Id(field.id), field.kind)
        }
        _ => (FieldRef::Name(leak(name).as_bytes()), FieldType::Blob),
    }
}

fn fields(table: Option<&Table>, words: &[&str]) -> Fields<'static> {
    words.iter().map(|word| field_value(table, word)).collect()
}

/// `age=10`; `age=string:ten` gives a value of another type than the field's.
pub fn field_value(table: Option<&Table>, word: &str) -> FieldValue<'static> {
    let (name, text) = word.split_once('=').unwrap_or_else(|| panic!("{word:?} is not field=value"));
    let (field, kind) = field_ref(table, name);
    FieldValue { field, value: typed(kind, text) }
}

fn typed(kind: FieldType, text: &str) -> ValueRef<'static> {
    let given = text.split_once(':').and_then(|(name, rest)| Some((FieldType::from_name(name)?, rest)));
    let (kind, text) = given.unwrap_or((kind, text));
    leak_value(value(kind, text))
}

/// In a dynamic table numbers are counted with as text, so the operand is a number there.
fn count(table: Option<&Table>, verb: &str, arguments: &[&str]) -> Action<'static> {
    let (field, kind) = field_ref(table, arguments[0]);
    let by = arguments.get(1).copied().unwrap_or("1");
    let value = number(kind, by);
    let operator = if verb == "incr" { Operator::Add(value) } else { Operator::Subtract(value) };
    Action::Update { create: true, operations: Operations::from_iter([Operation { field, operator }]) }
}

fn number(kind: FieldType, text: &str) -> ValueRef<'static> {
    match kind {
        FieldType::Blob if text.contains('.') => typed(FieldType::Float64, text),
        FieldType::Blob => typed(FieldType::Int64, text),
        kind => typed(kind, text),
    }
}

/// `age=1 age+=1 age-=1 bits&=6 bits|=1 bits^=3 age.min=3 age.max=9 name.append=x name.splice=AT,CUT,PASTE name.nx=x
/// name.unset`
fn operation(table: Option<&Table>, word: &str) -> Operation<'static> {
    if let Some(name) = word.strip_suffix(".unset") {
        return Operation { field: field_ref(table, name).0, operator: Operator::Unset };
    }
    let (left, text) = word.split_once('=').unwrap_or_else(|| panic!("{word:?} is no operation"));
    let (name, operator) = split_operator(left);
    let (field, kind) = field_ref(table, name);
    let operator = match operator {
        "" => Operator::Assign(typed(kind, text)),
        ".nx" => Operator::AssignIfUnset(typed(kind, text)),
        "+" => Operator::Add(number(kind, text)),
        "-" => Operator::Subtract(number(kind, text)),
        "&" => Operator::And(number(kind, text)),
        "|" => Operator::Or(number(kind, text)),
        "^" => Operator::Xor(number(kind, text)),
        ".min" => Operator::Min(number(kind, text)),
        ".max" => Operator::Max(number(kind, text)),
        ".append" => Operator::Append(leak(text).as_bytes()),
        ".splice" => {
            let mut parts = text.splitn(3, ',');
            let mut part = || parts.next().expect("a splice is AT,CUT,PASTE");
            let (at, cut) = (part().parse().expect("AT is a number"), part().parse().expect("CUT is a number"));
            Operator::Splice { at, cut, paste: leak(part()).as_bytes() }
        }
        other => panic!("no operator {other}"),
    };
    Operation { field, operator }
}

fn split_operator(left: &str) -> (&str, &str) {
    const OPERATORS: [&str; 10] = [".nx", ".min", ".max", ".append", ".splice", "+", "-", "&", "|", "^"];
    let found = OPERATORS.iter().find_map(|operator| Some((left.strip_suffix(operator)?, *operator)));
    found.unwrap_or((left, ""))
}
