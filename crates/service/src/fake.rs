//! A engine in memory for the tests of the doors: one shard, no log, no SQL. Not a model of the engine: it knows just
//! enough of every command that a door's answer can be told right from wrong.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound as RangeBound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardine_model::codec::Reader;
use shardine_model::command::{Action, Batch, BatchItem, Body, Existence, Give, Operation, Operator, Origin, Request};
use shardine_model::key::partition_key;
use shardine_model::{
    AckAfter, Answer, Catalogue, Command, ErrorCode, Field, FieldId, FieldRef, FieldValue, Outcome, Refusal, Reply,
    RowImage, RowKey, RowKeyBuf, ShardId, Table, Timestamp, Value, ValueRef, Version,
};
use shardine_router::{
    Bound, Call, CoordClaim, CoordLook, CoordNode, CoordSemaphore, CoordSession, CoordStatus, CoordView,
    DeadLetterLine, Difference, DifferenceKind, EngineStatus, Explanation, FieldSpec, NodeCall, RemoteEngine,
    Residence, Response, RowCall, ScanCall, ScanPage, ScannedRow, ShardStatus, ShardsCall, SqlError, Switch, TableCall,
    TableSpec, TableWriteback, VerifiedPage, WritebackReport, WritebackStatus,
};

/// Rows after which a page ends, whatever was asked for.
const PAGE_ROWS_MAX: usize = 2;

pub type Respond = Box<dyn FnOnce(Response) + Send>;

/// How the engine behaves, for tests of what doors do when it does not answer as usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    #[default]
    Normal,
    /// Takes calls and never answers.
    Silent,
    /// Refuses every call with this code.
    Refusing(ErrorCode),
}

#[derive(Default)]
pub struct FakeEngine {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    mood: Mood,
    sql_is_down: bool,
    suspended: bool,
    catalogue: Catalogue,
    rows: BTreeMap<RowKeyBuf, Row>,
    answers: HashMap<(u64, u64), Answer>,
    unanswered: Vec<Respond>,
    executed: u64,
}

#[derive(Clone, Default)]
struct Row {
    version: Version,
    sql_version: Version,
    expires_at: Option<Timestamp>,
    fields: Vec<(OwnedField, Value)>,
}

impl Row {
    fn reply(&self, outcome: Outcome) -> Reply {
        Reply { version: self.version, sql_version: self.sql_version, expires_at: self.expires_at, outcome }
    }
}

#[derive(Clone, PartialEq)]
enum OwnedField {
    Id(FieldId),
    Name(Vec<u8>),
}

impl FakeEngine {
    /// A engine with the table `kv`.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let engine = Self::default();
        engine.state().catalogue.put(Table::kv());
        Arc::new(engine)
    }

    pub fn set_mood(&self, mood: Mood) {
        self.state().mood = mood;
    }

    /// From now on flushes fail.
    pub fn stop_sql(&self) {
        self.state().sql_is_down = true;
    }

    /// Changes executed so far; repeats of a numbered request do not count.
    pub fn executed(&self) -> u64 {
        self.state().executed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RemoteEngine for FakeEngine {
    fn catalogue(&self) -> Arc<Catalogue> {
        Arc::new(self.state().catalogue.clone())
    }

    fn call(&self, call: Call, done: Respond) {
        let mut state = self.state();
        match state.mood {
            Mood::Normal => {
                let response = state.answer(call);
                drop(state);
                done(response);
            }
            Mood::Silent => state.unanswered.push(done),
            Mood::Refusing(code) => {
                drop(state);
                done(Response::Refused(Refusal::new(code, "the engine is in a mood")));
            }
        }
    }
}

impl State {
    fn answer(&mut self, call: Call) -> Response {
        match call {
            Call::Row(call) => self.row(call),
            Call::Shards(call) => self.shards(&call),
            Call::Table(call) => self.table(call),
            Call::Node(NodeCall::Status) => Response::Status(Box::new(self.status())),
            Call::Node(NodeCall::Coord(look)) => coord(&look),
        }
    }

    fn row(&mut self, call: RowCall) -> Response {
        match call {
            RowCall::Read { row } => Response::Answer(Answer::One(self.read(&row))),
            RowCall::ReadStale { row, max_age_ms } => Response::Stale { reply: self.read(&row), applied: max_age_ms },
            RowCall::Submit { request, ack, .. } => {
                let request = Request::decode(&mut Reader::new(&request)).expect("doors encode what decodes");
                let answer = self.submit(&request);
                Response::Answer(if ack.after == AckAfter::Sql { self.flushed(answer) } else { answer })
            }
            RowCall::AwaitSql { row, version, .. } => {
                if self.sql_is_down {
                    return Response::Answer(Answer::Failed(ErrorCode::Expired));
                }
                let held = self.rows.get(&row).map_or(Version::NEVER, |row| row.version);
                Response::Answer(match held.magnitude() < version.magnitude() {
                    true => Answer::Failed(ErrorCode::VersionMismatch),
                    false => Answer::Many(Vec::new()),
                })
            }
            RowCall::Scan(scan) => Response::Page(self.scan(&scan)),
            RowCall::Kick { .. } => Response::Done,
            RowCall::Flush { .. } => self.flush(),
            RowCall::RetryDeadLetter { .. } => Response::Answer(Answer::Failed(ErrorCode::BackendUnavailable)),
            RowCall::DiscardDeadLetter { .. } => Response::Answer(Answer::Many(Vec::new())),
            RowCall::Verify(_) => Response::Verified(Box::new(self.verify())),
            RowCall::Explain { row } => Response::Explanation(Box::new(self.explain(&row))),
        }
    }

    fn shards(&mut self, call: &ShardsCall) -> Response {
        match call {
            ShardsCall::Count { .. } => Response::Count(self.rows.len() as u64),
            ShardsCall::Clear { .. } => Response::Done,
            ShardsCall::Flush { .. } => self.flush(),
            ShardsCall::Suspend { shard: None | Some(ShardId(1)), switch } => {
                self.suspended = *switch == Switch::On;
                Response::Done
            }
            ShardsCall::Suspend { .. } => {
                Response::Refused(Refusal::new(ErrorCode::NotFound, "there is no such shard"))
            }
            ShardsCall::Writeback => Response::Writeback(Box::new(self.writeback())),
            ShardsCall::DeadLetters { .. } => Response::DeadLetters(self.dead_letters()),
            ShardsCall::RetryDeadLetters { .. } => Response::Answer(Answer::Failed(ErrorCode::BackendUnavailable)),
        }
    }

    fn table(&mut self, call: TableCall) -> Response {
        match call {
            TableCall::Create(spec) => self.create(spec),
            TableCall::AddField { table, field } => self.add_field(&table, field),
            TableCall::Drop { table } => {
                let mut dropped = Table::clone(self.catalogue.named(&table).expect("doors check names"));
                dropped.dropped = true;
                dropped.version += 1;
                self.catalogue.put(dropped);
                Response::Done
            }
        }
    }

    fn flush(&mut self) -> Response {
        if self.sql_is_down {
            return Response::Answer(Answer::Failed(ErrorCode::BackendUnavailable));
        }
        self.rows.values_mut().for_each(|row| row.sql_version = row.version);
        // As a lane answers for one row; for tables it says `Done`.
        Response::Answer(Answer::Many(Vec::new()))
    }

    fn read(&self, key: &RowKeyBuf) -> Reply {
        let row = self.rows.get(key).cloned().unwrap_or_default();
        let outcome = if row.version.is_live() {
            Outcome::Done { changed: 0, row: Some(image(&row)) }
        } else {
            Outcome::Refused { code: ErrorCode::NotFound, row: None }
        };
        row.reply(outcome)
    }

    fn submit(&mut self, request: &Request<'_>) -> Answer {
        let number = request.origin.map(|Origin { client, sequence, .. }| (client.0, sequence));
        if let Some(known) = number.and_then(|number| self.answers.get(&number)) {
            return known.clone();
        }
        self.executed += 1;
        let answer = match &request.body {
            Body::One(command) => Answer::One(self.execute(command)),
            Body::Batch(batch) => self.batch(batch),
            Body::Read(row) => Answer::One(self.read(&RowKey::to_owned(*row))),
        };
        if let Some(number) = number {
            self.answers.insert(number, answer.clone());
        }
        answer
    }

    /// What is answered when SQL has the change, or, if it is down, at the deadline.
    fn flushed(&mut self, mut answer: Answer) -> Answer {
        if self.sql_is_down {
            return answer;
        }
        self.rows.values_mut().for_each(|row| row.sql_version = row.version);
        match &mut answer {
            Answer::One(reply) => reply.sql_version = reply.version,
            Answer::Many(replies) => replies.iter_mut().for_each(|reply| reply.sql_version = reply.version),
            Answer::ConditionFailed | Answer::Failed(_) => {}
        }
        answer
    }

    fn batch(&mut self, batch: &Batch<'_>) -> Answer {
        let holds = |(row, version): &(RowKey<'_>, Version)| {
            self.rows.get(&RowKey::to_owned(*row)).map_or(Version::NEVER, |row| row.version) == *version
        };
        if !batch.conditions.iter().all(holds) {
            return Answer::ConditionFailed;
        }
        let before = self.rows.clone();
        let mut replies = Vec::new();
        for item in &batch.commands {
            let (reply, change) = match item {
                BatchItem::Change(command) => (self.execute(command), true),
                BatchItem::Read(row) => (self.read(&RowKey::to_owned(*row)), false),
            };
            let spoiled = change && reply.refusal().is_some();
            replies.push(reply);
            if spoiled {
                self.rows = before;
                break;
            }
        }
        Answer::Many(replies)
    }

    fn execute(&mut self, command: &Command<'_>) -> Reply {
        let key = command.row.to_owned();
        let old = self.rows.get(&key).cloned().unwrap_or_default();
        match self.changed(command, &old) {
            Err((code, shown)) => {
                let outcome = Outcome::Refused { code, row: shown.then(|| image(&old)) };
                old.reply(outcome)
            }
            Ok(mut new) => {
                new.expires_at = command.ttl.resolve(new.expires_at, Timestamp(1_000_000));
                let row = match command.give {
                    Give::Nothing => None,
                    Give::Old => Some(image(&old)),
                    Give::New | Give::Touched => Some(image(&new)),
                };
                let changed = u32::from(new.version != old.version);
                let outcome = Outcome::Done { changed, row };
                let reply = new.reply(outcome);
                self.rows.insert(key, new);
                reply
            }
        }
    }

    fn changed(&self, command: &Command<'_>, old: &Row) -> Result<Row, (ErrorCode, bool)> {
        let live = old.version.is_live();
        match command.existence {
            Existence::Absent if live => return Err((ErrorCode::Exists, true)),
            Existence::Live if !live => return Err((ErrorCode::NotFound, false)),
            Existence::Absent | Existence::Live | Existence::Any => {}
        }
        if command.if_version.is_some_and(|version| version != old.version && (live || version.is_live())) {
            return Err((ErrorCode::VersionMismatch, false));
        }
        let mut new = old.clone();
        new.version = Version(old.version.0.abs() + 1);
        match &command.action {
            Action::Set(fields) => fields.iter().for_each(|field| put(&mut new, *field)),
            Action::Replace(fields) => {
                new.fields.clear();
                fields.iter().for_each(|field| put(&mut new, *field));
            }
            Action::Update { create, .. } if !live && !create => return Err((ErrorCode::NotFound, false)),
            Action::Update { operations, .. } => {
                for operation in operations {
                    self.operate(&mut new, command, operation).map_err(|code| (code, false))?;
                }
            }
            Action::Cas { create, .. } if !live && !create => return Err((ErrorCode::NotFound, false)),
            Action::Cas { field, old: expected, new: value, .. } => {
                if live && self.current(old, command, *field).as_ref().map(Value::as_ref) != Some(*expected) {
                    return Err((ErrorCode::CasMismatch, true));
                }
                put(&mut new, FieldValue { field: *field, value: *value });
            }
            Action::Delete if !live => return Ok(old.clone()),
            Action::Delete => {
                new.version = Version(-new.version.0);
                new.fields.clear();
            }
            Action::Touch => new.version = old.version,
        }
        Ok(new)
    }

    fn operate(&self, row: &mut Row, command: &Command<'_>, operation: &Operation<'_>) -> Result<(), ErrorCode> {
        let current = self.current(row, command, operation.field);
        let numbers = |change: fn(i128, i128) -> i128, by: ValueRef<'_>| {
            let number = change(number(current.as_ref())?, number(Some(&by.to_owned()))?);
            match by {
                ValueRef::Uint(_) => u64::try_from(number).map(Value::Uint).map_err(|_| ErrorCode::Overflow),
                _ => i64::try_from(number).map(Value::Int).map_err(|_| ErrorCode::Overflow),
            }
        };
        let value = match operation.operator {
            Operator::Assign(value) | Operator::AssignIfUnset(value) => value.to_owned(),
            Operator::Add(by) => numbers(|left, right| left + right, by)?,
            Operator::Subtract(by) => numbers(|left, right| left - right, by)?,
            Operator::And(by) => numbers(|left, right| left & right, by)?,
            Operator::Or(by) => numbers(|left, right| left | right, by)?,
            Operator::Xor(by) => numbers(|left, right| left ^ right, by)?,
            Operator::Min(by) => numbers(std::cmp::min, by)?,
            Operator::Max(by) => numbers(std::cmp::max, by)?,
            Operator::Append(tail) => joined(current, |bytes| bytes.extend_from_slice(tail)),
            Operator::Splice { at, cut, paste } => joined(current, |bytes| {
                let at = usize::try_from(at).unwrap_or(0).min(bytes.len());
                let end = (at + cut as usize).min(bytes.len());
                bytes.splice(at..end, paste.iter().copied());
            }),
            Operator::Unset => {
                let field = owned(operation.field);
                row.fields.retain(|(known, _)| *known != field);
                return Ok(());
            }
        };
        put(row, FieldValue { field: operation.field, value: value.as_ref() });
        Ok(())
    }

    fn current(&self, row: &Row, command: &Command<'_>, field: FieldRef<'_>) -> Option<Value> {
        let wanted = owned(field);
        let stored = row.fields.iter().find(|(known, _)| *known == wanted).map(|(_, value)| value.clone());
        stored.or_else(|| match field {
            FieldRef::Id(id) => self.catalogue.get(command.row.table)?.default_of(id).map(ValueRef::to_owned),
            FieldRef::Name(_) => None,
        })
    }

    /// Cursors are the number of rows that earlier pages gave.
    fn scan(&self, scan: &ScanCall) -> ScanPage {
        let skip = scan.cursor.as_deref().and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()).unwrap_or(0);
        let mut rows: Vec<ScannedRow> = self
            .rows
            .iter()
            .filter(|(key, row)| {
                row.version.is_live()
                    && scan.table.is_none_or(|table| table == key.table)
                    && scan.partition.as_ref().is_none_or(|partition| *partition == key.key)
                    && in_range(&key.sort, scan)
            })
            .map(|(key, row)| ScannedRow {
                row: key.clone(),
                version: row.version,
                sql_version: row.sql_version,
                expires_at: row.expires_at,
                fields: image(row),
                in_memory: row.version == row.sql_version,
            })
            .collect();
        if scan.descending {
            rows.reverse();
        }
        let total = rows.len();
        // As the real engine may, it ends pages early.
        let rows: Vec<ScannedRow> = rows.into_iter().skip(skip).take(scan.limit.min(PAGE_ROWS_MAX)).collect();
        let end = skip + rows.len();
        ScanPage { next: (end < total).then(|| end.to_string().into_bytes()), rows }
    }

    fn create(&mut self, spec: TableSpec) -> Response {
        let fields: Vec<Field> = (1..).zip(spec.fields).map(|(id, field)| field_of(FieldId(id), field)).collect();
        let table = Table {
            id: self.catalogue.next_id(),
            name: spec.name,
            version: 1,
            next_field: FieldId(fields.len() as u16 + 1),
            fields,
            sort: spec.sort.into_iter().map(|(name, kind)| shardine_model::table::SortPart { name, kind }).collect(),
            backing: spec.backing,
            sql: spec.sql,
            dynamic: false,
            dropped: false,
        };
        if let Err(refusal) = table.check() {
            return Response::Refused(refusal);
        }
        if self.catalogue.named(&table.name).is_some() {
            return Response::Refused(Refusal::new(ErrorCode::Exists, format!("table {} exists", table.name)));
        }
        self.catalogue.put(table.clone());
        Response::Table(Arc::new(table))
    }

    fn add_field(&mut self, table: &str, field: FieldSpec) -> Response {
        let mut table = Table::clone(self.catalogue.named(table).expect("doors check names"));
        table.fields.push(field_of(table.next_field, field));
        table.next_field = FieldId(table.next_field.0 + 1);
        table.version += 1;
        self.catalogue.put(table.clone());
        Response::Table(Arc::new(table))
    }

    fn status(&self) -> EngineStatus {
        EngineStatus {
            histograms: Vec::new(),
            errors: Vec::new(),
            node: shardine_model::NodeId(1),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            wall_ahead_ms: None,
            uptime_ms: 61_000,
            lanes: 1,
            connections: 2,
            log_bytes: 4_096,
            shards: vec![self.shard()],
            writeback: Some(WritebackStatus {
                url: "sqlite:data.db".into(),
                connected: true,
                dirty: 0,
                last_error: None,
                tables_ahead: Vec::new(),
            }),
            coordination: vec![CoordStatus { group: 1 << 30, sessions: 4, ..CoordStatus::default() }],
            counters: vec![("commands", self.executed)],
        }
    }

    /// A row that nobody else knows is missing in SQL; the others are there.
    fn verify(&self) -> VerifiedPage {
        let is_dirty = |row: &&Row| row.version != row.sql_version;
        let dirty = self.rows.values().filter(is_dirty).count() as u64;
        let table = self.catalogue.named("users").map_or(shardine_model::TableId(2), |table| table.id);
        let row = RowKeyBuf { table, key: (*b"lost").into(), sort: Box::default() };
        let (memory, sql) = (Version(3), Version(0));
        let differences = vec![Difference { row, kind: DifferenceKind::Missing, memory, sql }];
        VerifiedPage { equal: 5, dirty, differences, ..VerifiedPage::default() }
    }

    fn dead_letters(&self) -> Vec<DeadLetterLine> {
        let Some(table) = self.catalogue.named("users").map(|table| table.id) else { return Vec::new() };
        let row = RowKeyBuf { table, key: (*b"long").into(), sort: Box::default() };
        let (first_at, last_at) = (Timestamp(1_000), Timestamp(2_000));
        vec![DeadLetterLine { row, version: Version(4), error: "too long".into(), tries: 2, first_at, last_at }]
    }

    fn writeback(&self) -> WritebackReport {
        let is_dirty = |row: &&Row| row.version != row.sql_version;
        let users = TableWriteback {
            table: "users".into(),
            dirty_rows: self.rows.values().filter(is_dirty).count() as u64,
            written_rows: 3,
            written_per_second: 0.5,
            last_error: Some(SqlError { message: "SQL refused lili: too long".into(), ago_ms: 12_000 }),
            ..TableWriteback::default()
        };
        WritebackReport { database: self.status().writeback, tables: vec![users] }
    }

    fn shard(&self) -> ShardStatus {
        let leader = Some(shardine_model::NodeId(1));
        let (records, suspended) = (self.rows.len() as u64, self.suspended);
        ShardStatus { shard: ShardId(1), leader, term: 1, records, suspended, ..ShardStatus::default() }
    }

    fn explain(&self, key: &RowKeyBuf) -> Explanation {
        let row = self.rows.get(key).cloned().unwrap_or_default();
        Explanation {
            table: self.catalogue.get(key.table).map(|table| table.name.clone()).unwrap_or_default(),
            partition_key: partition_key(&key.key).to_vec(),
            position: key.as_ref().position(),
            shard: self.shard(),
            residence: if row.version.is_live() { Residence::Live } else { Residence::Absent },
            version: row.version,
            sql_version: row.sql_version,
            expires_at: row.expires_at,
        }
    }
}

fn field_of(id: FieldId, spec: FieldSpec) -> Field {
    Field { id, name: spec.name, kind: spec.kind, default: spec.default.unwrap_or_else(|| spec.kind.zero()) }
}

fn in_range(sort: &[u8], scan: &ScanCall) -> bool {
    let edge = |bound: &Bound| match bound {
        Bound::Open => RangeBound::Unbounded,
        Bound::Including(bytes) => RangeBound::Included(bytes.to_vec()),
        Bound::Excluding(bytes) => RangeBound::Excluded(bytes.to_vec()),
    };
    let range = (edge(&scan.range.from), edge(&scan.range.to));
    std::ops::RangeBounds::contains(&range, &sort.to_vec())
}

fn owned(field: FieldRef<'_>) -> OwnedField {
    match field {
        FieldRef::Id(id) => OwnedField::Id(id),
        FieldRef::Name(name) => OwnedField::Name(name.to_vec()),
    }
}

fn put(row: &mut Row, field: FieldValue<'_>) {
    let name = owned(field.field);
    row.fields.retain(|(known, _)| *known != name);
    row.fields.push((name, field.value.to_owned()));
}

fn image(row: &Row) -> RowImage {
    let fields: Vec<FieldValue<'_>> = row
        .fields
        .iter()
        .map(|(name, value)| {
            let field = match name {
                OwnedField::Id(id) => FieldRef::Id(*id),
                OwnedField::Name(name) => FieldRef::Name(name),
            };
            FieldValue { field, value: value.as_ref() }
        })
        .collect();
    RowImage::of(&fields)
}

fn number(value: Option<&Value>) -> Result<i128, ErrorCode> {
    match value {
        None => Ok(0),
        Some(Value::Int(number)) => Ok(i128::from(*number)),
        Some(Value::Uint(number)) => Ok(i128::from(*number)),
        Some(Value::Float(_) | Value::Str(_) | Value::Blob(_)) => Err(ErrorCode::WrongType),
    }
}

fn joined(current: Option<Value>, change: impl FnOnce(&mut Vec<u8>)) -> Value {
    let (mut bytes, text) = match current {
        Some(Value::Str(text)) => (text.into_bytes(), true),
        Some(Value::Blob(bytes)) => (bytes, false),
        _ => (Vec::new(), false),
    };
    change(&mut bytes);
    if text { Value::Str(String::from_utf8_lossy(&bytes).into_owned()) } else { Value::Blob(bytes) }
}

/// One node with one session that holds the one semaphore; any other node is missing.
fn coord(look: &CoordLook) -> Response {
    let (CoordLook::Sessions { node, .. } | CoordLook::Semaphores { node, .. }) = look else {
        let node = CoordNode { path: "/local/locks".into(), sessions: 1, semaphores: 1, ..CoordNode::default() };
        return Response::Coord(CoordView::Nodes(vec![node]));
    };
    if node != "/local/locks" {
        return Response::Refused(Refusal::new(ErrorCode::NotFound, format!("there is no coordination node {node}")));
    }
    Response::Coord(match look {
        CoordLook::Sessions { after, limit, .. } => {
            let session = CoordSession { id: after + 1, claims: *limit as u64, attached: true, ..Default::default() };
            CoordView::Sessions(vec![session])
        }
        CoordLook::Nodes | CoordLook::Semaphores { .. } => {
            let owner = CoordClaim { order_id: u64::MAX, session_id: 1, count: 1, data: b"here".to_vec() };
            let semaphore = CoordSemaphore { name: format!("{look:?}"), owners: vec![owner], ..Default::default() };
            CoordView::Semaphores(vec![semaphore])
        }
    })
}
