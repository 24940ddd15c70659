//! Commands that change records. They are replicated as commands and evaluated when applied, in log order.
//!
//! A command borrows from the request it came in; its encoded form is what stands in the log, so it is encoded once
//! at the door and decoded once when applied.

use smallvec::SmallVec;

use crate::codec::{DecodeError, Reader, put_bytes, put_signed, put_varint};
use crate::ids::{ClientId, TableId, Timestamp};
use crate::key::RowKey;
use crate::limits;
use crate::row::{FieldRef, FieldValue};
use crate::value::ValueRef;
use crate::version::Version;

pub type Fields<'a> = SmallVec<[FieldValue<'a>; 4]>;
pub type Operations<'a> = SmallVec<[Operation<'a>; 2]>;

/// One change of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Command<'a> {
    pub row: RowKey<'a>,
    /// Execute only at exactly this version (0 and below match an absent record).
    pub if_version: Option<Version>,
    pub existence: Existence,
    pub ttl: Ttl,
    pub give: Give,
    /// What the record must be, if it exists.
    pub kind: Kind,
    pub action: Action<'a>,
}

/// What a record of a dynamic table must be for a command to be executed. An action that names fields says so by them: a
/// string has one field of its own, a hash has named ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Any,
    String,
}

/// Whether the record must, must not, or may exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existence {
    #[default]
    Any,
    Live,
    Absent,
}

/// What becomes of the record's time to live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ttl {
    #[default]
    Keep,
    Clear,
    /// At a moment that the client named.
    At(Timestamp),
    /// So many milliseconds after the stamp of the entry that carries the command: nobody's clock is asked before it is applied.
    After(u64),
}

impl Ttl {
    /// The record's end by a command that is applied at `now`; `before` is the end that it had.
    #[inline]
    #[must_use]
    pub fn resolve(self, before: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Keep => before,
            Self::Clear => None,
            Self::At(at) => Some(at),
            Self::After(ms) => Some(now.plus_ms(ms)),
        }
    }
}

/// What the reply carries beside the versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Give {
    #[default]
    Nothing,
    /// The whole record as it was before.
    Old,
    /// The whole record as it is now.
    New,
    /// The new values of the fields that the action names.
    Touched,
}

/// What is done to the row.
#[derive(Clone, Debug, PartialEq)]
pub enum Action<'a> {
    /// Changes the named fields; creates from defaults.
    Set(Fields<'a>),
    /// Replaces the whole record; unnamed fields return to their defaults.
    Replace(Fields<'a>),
    /// Applies operations in order, all or none. Needs the record unless `create`.
    Update {
        create: bool,
        operations: Operations<'a>,
    },
    /// Sets one field if it holds `old`. With `create`, an absent record is made with `new`.
    Cas {
        create: bool,
        field: FieldRef<'a>,
        old: ValueRef<'a>,
        new: ValueRef<'a>,
    },
    Delete,
    /// Changes nothing but the time to live.
    Touch,
}

/// One step of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation<'a> {
    pub field: FieldRef<'a>,
    pub operator: Operator<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operator<'a> {
    Assign(ValueRef<'a>),
    /// Sets the field only if it was never set (`HSETNX`).
    AssignIfUnset(ValueRef<'a>),
    Add(ValueRef<'a>),
    Subtract(ValueRef<'a>),
    And(ValueRef<'a>),
    Or(ValueRef<'a>),
    Xor(ValueRef<'a>),
    Min(ValueRef<'a>),
    Max(ValueRef<'a>),
    /// Replaces `cut` bytes from `at` (negative counts from the end) by `paste`.
    Splice {
        at: i64,
        cut: u64,
        paste: &'a [u8],
    },
    Append(&'a [u8]),
    /// Returns the field to its default; in a dynamic table it is gone.
    Unset,
}

/// Who asked, and under which number, for clients that want each request executed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub client: ClientId,
    /// From 1, each number for one request.
    pub sequence: u64,
    /// The lowest number whose answer the client does not have: at most `sequence`. Results below it are forgotten.
    pub lowest: u64,
    pub attempt: Attempt,
}

/// Whether a request was sent before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attempt {
    #[default]
    First,
    Again,
}

impl Origin {
    /// A first attempt of a client that does not say what it has: as many of the last numbers as it may have open count as
    /// unanswered.
    #[must_use]
    pub fn new(client: ClientId, sequence: u64) -> Self {
        let lowest = sequence.saturating_sub(limits::REMEMBERED_RESULTS_MAX as u64 - 1).max(1).min(sequence);
        Self { client, sequence, lowest, attempt: Attempt::First }
    }
}

/// What is proposed, answered and deduplicated as one thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Request<'a> {
    pub origin: Option<Origin>,
    pub body: Body<'a>,
}

#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "the large one is the usual one, and lives on the stack for one call")]
pub enum Body<'a> {
    One(Command<'a>),
    /// A read that must come behind the changes before it, or decide an expiry: it travels in the log.
    Read(RowKey<'a>),
    Batch(Batch<'a>),
}

/// Commands on one partition that happen at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch<'a> {
    pub mode: BatchMode,
    /// Versions that must all still hold, else nothing is done (`WATCH`).
    pub conditions: Vec<(RowKey<'a>, Version)>,
    pub commands: Vec<BatchItem<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchMode {
    /// One refusal undoes everything.
    AllOrNone,
    /// Each command has its own outcome, as Redis's `EXEC` does.
    EachItsOwn,
}

/// A change, or a read that must see the changes before it.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "batches are rare and short-lived; a box would cost more than the room")]
pub enum BatchItem<'a> {
    Change(Command<'a>),
    Read(RowKey<'a>),
}

impl BatchItem<'_> {
    /// Whether its reply may hold a record, or a part of one.
    #[must_use]
    pub fn may_give(&self) -> bool {
        match self {
            Self::Read(_) => true,
            Self::Change(command) => {
                let tells_what_stood_in_the_way =
                    command.existence == Existence::Absent || matches!(command.action, Action::Cas { .. });
                command.give != Give::Nothing || tells_what_stood_in_the_way
            }
        }
    }
}

// Frozen numbers of stored forms. Never reuse one.
const TAG_SET: u8 = 1;
const TAG_REPLACE: u8 = 2;
const TAG_UPDATE: u8 = 3;
const TAG_UPSERT: u8 = 4;
const TAG_CAS: u8 = 5;
const TAG_CAS_CREATE: u8 = 6;
const TAG_DELETE: u8 = 7;
const TAG_TOUCH: u8 = 8;
/// Beside the tag: the record must be a string.
const MARK_STRING: u8 = 1 << 7;

const FLAG_IF_VERSION: u8 = 1 << 0;
const FLAG_SORT: u8 = 1 << 1;
const SHIFT_EXISTENCE: u8 = 2;
const SHIFT_TTL: u8 = 4;
const SHIFT_GIVE: u8 = 6;

impl<'a> Command<'a> {
    /// A command without conditions that answers with versions only.
    #[must_use]
    pub fn plain(row: RowKey<'a>, action: Action<'a>) -> Self {
        let (existence, ttl, give) = (Existence::Any, Ttl::Keep, Give::Nothing);
        Self { row, if_version: None, existence, ttl, give, kind: Kind::Any, action }
    }

    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.tag() | if self.kind == Kind::String { MARK_STRING } else { 0 });
        out.push(self.flags());
        put_row_key(out, self.row);
        if let Some(version) = self.if_version {
            put_signed(out, version.0);
        }
        match self.ttl {
            Ttl::Keep | Ttl::Clear => {}
            Ttl::At(at) => put_varint(out, at.0),
            Ttl::After(ms) => put_varint(out, ms),
        }
        self.encode_action(out);
    }

    fn tag(&self) -> u8 {
        match &self.action {
            Action::Set(_) => TAG_SET,
            Action::Replace(_) => TAG_REPLACE,
            Action::Update { create: false, .. } => TAG_UPDATE,
            Action::Update { create: true, .. } => TAG_UPSERT,
            Action::Cas { create: false, .. } => TAG_CAS,
            Action::Cas { create: true, .. } => TAG_CAS_CREATE,
            Action::Delete => TAG_DELETE,
            Action::Touch => TAG_TOUCH,
        }
    }

    fn flags(&self) -> u8 {
        let existence = match self.existence {
            Existence::Any => 0,
            Existence::Live => 1,
            Existence::Absent => 2,
        };
        let ttl = match self.ttl {
            Ttl::Keep => 0,
            Ttl::Clear => 1,
            Ttl::At(_) => 2,
            Ttl::After(_) => 3,
        };
        let give = match self.give {
            Give::Nothing => 0,
            Give::Old => 1,
            Give::New => 2,
            Give::Touched => 3,
        };
        let if_version = if self.if_version.is_some() { FLAG_IF_VERSION } else { 0 };
        let sort = if self.row.sort.is_empty() { 0 } else { FLAG_SORT };
        if_version | sort | (existence << SHIFT_EXISTENCE) | (ttl << SHIFT_TTL) | (give << SHIFT_GIVE)
    }

    fn encode_action(&self, out: &mut Vec<u8>) {
        match &self.action {
            Action::Set(fields) | Action::Replace(fields) => {
                put_varint(out, fields.len() as u64);
                fields.iter().for_each(|entry| entry.encode(out));
            }
            Action::Update { operations, .. } => {
                put_varint(out, operations.len() as u64);
                operations.iter().for_each(|operation| operation.encode(out));
            }
            Action::Cas { field, old, new, .. } => {
                field.encode(out);
                old.encode(out);
                new.encode(out);
            }
            Action::Delete | Action::Touch => {}
        }
    }

    #[inline]
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let tag = reader.u8("command")?;
        let flags = reader.u8("command flags")?;
        let row = read_row_key(reader, flags & FLAG_SORT != 0)?;
        let if_version = match flags & FLAG_IF_VERSION {
            0 => None,
            _ => Some(Version(reader.signed("version")?)),
        };
        let existence = match flags >> SHIFT_EXISTENCE & 3 {
            0 => Existence::Any,
            1 => Existence::Live,
            2 => Existence::Absent,
            value => return Err(DecodeError::Unknown { what: "existence", value: u64::from(value) }),
        };
        let ttl = match flags >> SHIFT_TTL & 3 {
            0 => Ttl::Keep,
            1 => Ttl::Clear,
            2 => Ttl::At(Timestamp(reader.varint("expiry")?)),
            _ => Ttl::After(reader.varint("time to live")?),
        };
        let give = [Give::Nothing, Give::Old, Give::New, Give::Touched][usize::from(flags >> SHIFT_GIVE & 3)];
        let kind = if tag & MARK_STRING == 0 { Kind::Any } else { Kind::String };
        let action = Action::decode(tag & !MARK_STRING, reader)?;
        Ok(Self { row, if_version, existence, ttl, give, kind, action })
    }
}

impl<'a> Action<'a> {
    #[inline]
    fn decode(tag: u8, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match tag {
            TAG_SET => Self::Set(read_fields(reader)?),
            TAG_REPLACE => Self::Replace(read_fields(reader)?),
            TAG_UPDATE | TAG_UPSERT => {
                let count = reader.count("operation count")?;
                let mut operations = Operations::new();
                for _ in 0..count {
                    operations.push(Operation::decode(reader)?);
                }
                Self::Update { create: tag == TAG_UPSERT, operations }
            }
            TAG_CAS | TAG_CAS_CREATE => Self::Cas {
                create: tag == TAG_CAS_CREATE,
                field: FieldRef::decode(reader)?,
                old: ValueRef::decode(reader)?,
                new: ValueRef::decode(reader)?,
            },
            TAG_DELETE => Self::Delete,
            TAG_TOUCH => Self::Touch,
            _ => return Err(DecodeError::Unknown { what: "command", value: u64::from(tag) }),
        })
    }
}

#[inline]
fn read_fields<'a>(reader: &mut Reader<'a>) -> Result<Fields<'a>, DecodeError> {
    let count = reader.count("field count")?;
    let mut fields = Fields::new();
    for _ in 0..count {
        fields.push(FieldValue::decode(reader)?);
    }
    Ok(fields)
}

impl<'a> Operation<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.field.encode(out);
        let mut valued = |tag: u8, value: ValueRef<'_>| {
            out.push(tag);
            value.encode(out);
        };
        match self.operator {
            Operator::Assign(value) => valued(1, value),
            Operator::Add(value) => valued(2, value),
            Operator::Subtract(value) => valued(3, value),
            Operator::And(value) => valued(4, value),
            Operator::Or(value) => valued(5, value),
            Operator::Xor(value) => valued(6, value),
            Operator::Min(value) => valued(7, value),
            Operator::Max(value) => valued(8, value),
            Operator::AssignIfUnset(value) => valued(12, value),
            Operator::Splice { at, cut, paste } => {
                out.push(9);
                put_signed(out, at);
                put_varint(out, cut);
                put_bytes(out, paste);
            }
            Operator::Append(bytes) => {
                out.push(10);
                put_bytes(out, bytes);
            }
            Operator::Unset => out.push(11),
        }
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let field = FieldRef::decode(reader)?;
        let tag = reader.u8("operator")?;
        let operator = match tag {
            1 => Operator::Assign(ValueRef::decode(reader)?),
            2 => Operator::Add(ValueRef::decode(reader)?),
            3 => Operator::Subtract(ValueRef::decode(reader)?),
            4 => Operator::And(ValueRef::decode(reader)?),
            5 => Operator::Or(ValueRef::decode(reader)?),
            6 => Operator::Xor(ValueRef::decode(reader)?),
            7 => Operator::Min(ValueRef::decode(reader)?),
            8 => Operator::Max(ValueRef::decode(reader)?),
            9 => Operator::Splice {
                at: reader.signed("splice start")?,
                cut: reader.varint("splice length")?,
                paste: reader.bytes("splice text")?,
            },
            10 => Operator::Append(reader.bytes("appended bytes")?),
            11 => Operator::Unset,
            12 => Operator::AssignIfUnset(ValueRef::decode(reader)?),
            _ => return Err(DecodeError::Unknown { what: "operator", value: u64::from(tag) }),
        };
        Ok(Self { field, operator })
    }
}

const REQUEST_BATCH: u8 = 1 << 0;
const REQUEST_ORIGIN: u8 = 1 << 1;
const REQUEST_ALL_OR_NONE: u8 = 1 << 2;
const REQUEST_READ: u8 = 1 << 3;
const REQUEST_READ_SORT: u8 = 1 << 4;
const REQUEST_AGAIN: u8 = 1 << 5;
const REQUEST_KNOWN: u8 =
    REQUEST_BATCH | REQUEST_ORIGIN | REQUEST_ALL_OR_NONE | REQUEST_READ | REQUEST_READ_SORT | REQUEST_AGAIN;

impl Origin {
    fn decode(flags: u8, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let client = ClientId(reader.varint("client id")?);
        let sequence = reader.varint("sequence")?;
        let open = reader.varint("open numbers")?;
        let lowest = sequence.checked_sub(open).ok_or(DecodeError::Unknown { what: "open numbers", value: open })?;
        let attempt = if flags & REQUEST_AGAIN == 0 { Attempt::First } else { Attempt::Again };
        Ok(Self { client, sequence, lowest, attempt })
    }
}

impl<'a> Request<'a> {
    #[must_use]
    pub fn one(command: Command<'a>) -> Self {
        Self { origin: None, body: Body::One(command) }
    }

    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let form = match &self.body {
            Body::One(_) => 0,
            Body::Read(row) if row.sort.is_empty() => REQUEST_READ,
            Body::Read(_) => REQUEST_READ | REQUEST_READ_SORT,
            Body::Batch(batch) => match batch.mode {
                BatchMode::AllOrNone => REQUEST_BATCH | REQUEST_ALL_OR_NONE,
                BatchMode::EachItsOwn => REQUEST_BATCH,
            },
        };
        match self.origin {
            None => out.push(form),
            Some(origin) => {
                out.push(form | REQUEST_ORIGIN | if origin.attempt == Attempt::Again { REQUEST_AGAIN } else { 0 });
                put_varint(out, origin.client.0);
                put_varint(out, origin.sequence);
                put_varint(out, origin.sequence.saturating_sub(origin.lowest));
            }
        }
        match &self.body {
            Body::One(command) => command.encode(out),
            Body::Read(row) => put_row_key(out, *row),
            Body::Batch(batch) => batch.encode(out),
        }
    }

    #[inline]
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let flags = reader.u8("request flags")?;
        if flags & !REQUEST_KNOWN != 0 {
            return Err(DecodeError::Unknown { what: "request flags", value: u64::from(flags) });
        }
        let origin = match flags & REQUEST_ORIGIN {
            0 => None,
            _ => Some(Origin::decode(flags, reader)?),
        };
        let body = match flags & (REQUEST_BATCH | REQUEST_READ) {
            0 => Body::One(Command::decode(reader)?),
            REQUEST_READ => Body::Read(read_row_key(reader, flags & REQUEST_READ_SORT != 0)?),
            _ => Body::Batch(Batch::decode(flags & REQUEST_ALL_OR_NONE != 0, reader)?),
        };
        Ok(Self { origin, body })
    }

    /// The row that decides where the request goes.
    #[must_use]
    pub fn first_row(&self) -> Option<RowKey<'a>> {
        self.rows().next()
    }

    /// Every row that the request reads, changes or watches.
    pub fn rows(&self) -> impl Iterator<Item = RowKey<'a>> + '_ {
        let (one, batch) = match &self.body {
            Body::One(command) => (Some(command.row), None),
            Body::Read(row) => (Some(*row), None),
            Body::Batch(batch) => (None, Some(batch)),
        };
        let items = batch.into_iter().flat_map(|batch| {
            let watched = batch.conditions.iter().map(|(row, _)| *row);
            batch.commands.iter().map(BatchItem::row).chain(watched)
        });
        one.into_iter().chain(items)
    }
}

impl<'a> BatchItem<'a> {
    #[must_use]
    pub fn row(&self) -> RowKey<'a> {
        match self {
            Self::Change(command) => command.row,
            Self::Read(row) => *row,
        }
    }
}

impl<'a> Batch<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.conditions.len() as u64);
        for (row, version) in &self.conditions {
            out.push(u8::from(!row.sort.is_empty()));
            put_row_key(out, *row);
            put_signed(out, version.0);
        }
        put_varint(out, self.commands.len() as u64);
        for item in &self.commands {
            match item {
                BatchItem::Change(command) => {
                    out.push(0);
                    command.encode(out);
                }
                BatchItem::Read(row) => {
                    out.push(1 + u8::from(!row.sort.is_empty()));
                    put_row_key(out, *row);
                }
            }
        }
    }

    fn decode(all_or_none: bool, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let mut conditions = Vec::new();
        for _ in 0..reader.count("condition count")? {
            let sorted = reader.u8("condition form")? != 0;
            let row = read_row_key(reader, sorted)?;
            conditions.push((row, Version(reader.signed("condition version")?)));
        }
        let count = reader.count("command count")?;
        if count > limits::BATCH_COMMANDS_MAX {
            let (value, limit) = (count as u64, limits::BATCH_COMMANDS_MAX as u64);
            return Err(DecodeError::TooLong { what: "batch", value, limit });
        }
        let mut commands = Vec::new();
        for _ in 0..count {
            commands.push(match reader.u8("batch item")? {
                0 => BatchItem::Change(Command::decode(reader)?),
                form @ (1 | 2) => BatchItem::Read(read_row_key(reader, form == 2)?),
                form => return Err(DecodeError::Unknown { what: "batch item", value: u64::from(form) }),
            });
        }
        let mode = if all_or_none { BatchMode::AllOrNone } else { BatchMode::EachItsOwn };
        Ok(Self { mode, conditions, commands })
    }
}

#[inline]
pub(crate) fn put_row_key(out: &mut Vec<u8>, row: RowKey<'_>) {
    put_varint(out, u64::from(row.table.0));
    put_bytes(out, row.key);
    if !row.sort.is_empty() {
        put_bytes(out, row.sort);
    }
}

#[inline]
pub(crate) fn read_row_key<'a>(reader: &mut Reader<'a>, sorted: bool) -> Result<RowKey<'a>, DecodeError> {
    let table = reader.varint("table id")?;
    let table = u32::try_from(table).map_err(|_| DecodeError::Unknown { what: "table id", value: table })?;
    let key = reader.bytes("key")?;
    let sort = if sorted { reader.bytes("sort key")? } else { &[] };
    Ok(RowKey { table: TableId(table), key, sort })
}
