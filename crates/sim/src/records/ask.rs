//! What clients ask of rows, as requests, and what the answers tell about them.

use shardine_model::command::{
    Action, Batch, BatchItem, BatchMode, Body, Command, Existence, Fields, Give, Operation, Operations, Operator,
    Origin, Ttl,
};
use shardine_model::{
    Answer, ErrorCode, FieldRef, FieldValue, Outcome, Reply, Request, RowImage, Timestamp, ValueRef, Version,
};

use crate::records::universe::{COUNT, COUNT_NAME, Content, Row, VALUE, VALUE_NAME, content_of};

/// One thing done to one row. Every write brings a value that no other write brings, so whoever sees it knows whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Get,
    Set {
        value: i64,
        expires: Option<Expiry>,
    },
    SetIf {
        value: i64,
        version: Version,
    },
    Insert {
        value: i64,
    },
    /// Adds one to the counter and sets the value, in one update.
    Incr {
        value: i64,
    },
    Cas {
        old: i64,
        value: i64,
    },
    Delete,
    Touch {
        expires: Expiry,
    },
}

/// When a row's time shall be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// In milliseconds of the true wall clock.
    At(u64),
    /// So many milliseconds after it is done.
    After(u64),
}

impl Ask {
    /// The value that nobody else writes.
    #[must_use]
    pub fn value(&self) -> Option<i64> {
        match *self {
            Self::Set { value, .. }
            | Self::SetIf { value, .. }
            | Self::Insert { value }
            | Self::Incr { value }
            | Self::Cas { value, .. } => Some(value),
            Self::Get | Self::Delete | Self::Touch { .. } => None,
        }
    }
}

/// What a client does in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    One {
        row: usize,
        ask: Ask,
    },
    /// Two rows of one partition at one moment, all or none.
    Pair {
        rows: [usize; 2],
        asks: [Ask; 2],
    },
    /// A read of any replica, for whoever does not mind an old state.
    Stale {
        row: usize,
        max_age_ms: u64,
    },
    Kick {
        row: usize,
        nowait: bool,
    },
    Flush {
        row: usize,
        whole_shard: bool,
    },
}

impl Job {
    #[must_use]
    pub fn row(&self) -> usize {
        match self {
            Self::One { row, .. } | Self::Stale { row, .. } | Self::Kick { row, .. } | Self::Flush { row, .. } => *row,
            Self::Pair { rows, .. } => rows[0],
        }
    }

    /// Whether it changes nothing and may be sent again as it is.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        match self {
            Self::Stale { .. } => true,
            Self::Kick { .. } | Self::Flush { .. } => false,
            Self::One { .. } | Self::Pair { .. } => self.touches().iter().all(|(_, ask)| *ask == Ask::Get),
        }
    }

    /// The rows that it looks at or changes, with what it asks of each.
    #[must_use]
    pub fn looks_at(&self) -> Vec<(usize, Ask)> {
        match self {
            Self::One { row, ask } => vec![(*row, *ask)],
            Self::Pair { rows, asks } => rows.iter().copied().zip(*asks).collect(),
            Self::Stale { row, .. } => vec![(*row, Ask::Get)],
            Self::Kick { .. } | Self::Flush { .. } => Vec::new(),
        }
    }

    /// The same without stale reads, which have no place in a row's order.
    #[must_use]
    pub fn touches(&self) -> Vec<(usize, Ask)> {
        if matches!(self, Self::Stale { .. }) { Vec::new() } else { self.looks_at() }
    }
}

/// What an answer told about one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saw {
    Read {
        version: Version,
        now: Option<Content>,
    },
    /// Executed; the row was this before.
    Changed {
        version: Version,
        before: Option<Content>,
    },
    /// Executed, and there was nothing to change.
    Kept {
        version: Version,
    },
    Refused {
        version: Version,
        code: ErrorCode,
        now: Option<Content>,
    },
    /// Part of a batch that another part undid.
    Undone,
}

impl Saw {
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        match *self {
            Self::Read { version, .. }
            | Self::Changed { version, .. }
            | Self::Kept { version }
            | Self::Refused { version, .. } => Some(version),
            Self::Undone => None,
        }
    }
}

/// Calls `use_it` with the request, which borrows from this frame.
pub fn with_request<R>(
    rows: &[Row],
    job: &Job,
    origin: Option<Origin>,
    use_it: impl FnOnce(&Request<'_>) -> R,
) -> Option<R> {
    let texts: Vec<[Vec<u8>; 2]> = job.touches().iter().map(|(_, ask)| texts(*ask)).collect();
    let body = match job {
        Job::One { row, ask } => Body::One(command(&rows[*row], *ask, &texts[0])),
        Job::Pair { rows: pair, asks } => {
            let items = pair.iter().zip(asks).zip(&texts).map(|((row, ask), texts)| match ask {
                Ask::Get => BatchItem::Read(rows[*row].key.as_ref()),
                _ => BatchItem::Change(command(&rows[*row], *ask, texts)),
            });
            Body::Batch(Batch { mode: BatchMode::AllOrNone, conditions: Vec::new(), commands: items.collect() })
        }
        Job::Stale { .. } | Job::Kick { .. } | Job::Flush { .. } => return None,
    };
    Some(use_it(&Request { origin, body }))
}

/// The texts that a command on a dynamic table borrows: the new value and the old one.
fn texts(ask: Ask) -> [Vec<u8>; 2] {
    let old = match ask {
        Ask::Cas { old, .. } => old,
        _ => 0,
    };
    [ask.value().unwrap_or(0), old].map(|number| number.to_string().into_bytes())
}

fn command<'a>(row: &'a Row, ask: Ask, texts: &'a [Vec<u8>; 2]) -> Command<'a> {
    let dynamic = row.is_dynamic();
    let field = |id, name| if dynamic { FieldRef::Name(name) } else { FieldRef::Id(id) };
    let number = |number, text: &'a [u8]| if dynamic { ValueRef::Blob(text) } else { ValueRef::Int(number) };
    let new = number(ask.value().unwrap_or(0), &texts[0]);
    let set = Fields::from_iter([FieldValue { field: field(VALUE, VALUE_NAME), value: new }]);
    let action = match ask {
        Ask::Get => unreachable!("a read is no command"),
        Ask::Set { .. } | Ask::SetIf { .. } | Ask::Insert { .. } => Action::Set(set),
        Ask::Incr { .. } => {
            let add = Operation { field: field(COUNT, COUNT_NAME), operator: Operator::Add(ValueRef::Int(1)) };
            let assign = Operation { field: field(VALUE, VALUE_NAME), operator: Operator::Assign(new) };
            Action::Update { create: true, operations: Operations::from_iter([add, assign]) }
        }
        Ask::Cas { old, .. } => {
            let old = number(old, &texts[1]);
            Action::Cas { create: false, field: field(VALUE, VALUE_NAME), old, new }
        }
        Ask::Delete => Action::Delete,
        Ask::Touch { .. } => Action::Touch,
    };
    let mut command = Command { give: Give::Old, ..Command::plain(row.key.as_ref(), action) };
    match ask {
        Ask::SetIf { version, .. } => command.if_version = Some(version),
        Ask::Insert { .. } => command.existence = Existence::Absent,
        Ask::Set { expires: Some(expires), .. } | Ask::Touch { expires } => {
            command.ttl = match expires {
                Expiry::At(at) => Ttl::At(Timestamp(at)),
                Expiry::After(ms) => Ttl::After(ms),
            };
        }
        Ask::Get | Ask::Set { .. } | Ask::Incr { .. } | Ask::Cas { .. } | Ask::Delete => {}
    }
    command
}

/// What an answer says about each row of the job, or the code that says that it says nothing.
pub fn read_answer(job: &Job, answer: &Answer) -> Result<Vec<Saw>, ErrorCode> {
    let replies: &[Reply] = match answer {
        Answer::Failed(code) => return Err(*code),
        Answer::ConditionFailed => return Err(ErrorCode::Internal),
        Answer::One(reply) => std::slice::from_ref(reply),
        Answer::Many(replies) => replies,
    };
    let touches = job.looks_at();
    let refused = |(reply, (_, ask)): (&Reply, &(usize, Ask))| *ask != Ask::Get && reply.refusal().is_some();
    let undone = touches.len() > 1 && replies.iter().zip(&touches).any(refused);
    let mut seen = Vec::with_capacity(touches.len());
    for (place, (_, ask)) in touches.iter().enumerate() {
        let reply = replies.get(place);
        seen.push(match reply {
            Some(reply) if !undone || refused((reply, &touches[place])) => saw(*ask, reply),
            Some(_) | None => Saw::Undone,
        });
    }
    Ok(seen)
}

fn saw(ask: Ask, reply: &Reply) -> Saw {
    let version = reply.version;
    let content = |row: &Option<RowImage>| row.as_ref().map(|image| content_of(image.view()));
    match (&reply.outcome, ask) {
        (Outcome::Done { row, .. }, Ask::Get) => Saw::Read { version, now: content(row) },
        (Outcome::Refused { code: ErrorCode::NotFound, .. }, Ask::Get) => Saw::Read { version, now: None },
        (Outcome::Done { changed: 0, .. }, Ask::Delete) => Saw::Kept { version },
        (Outcome::Done { row, .. }, _) => Saw::Changed { version, before: content(row) },
        (Outcome::Refused { code, row }, _) => Saw::Refused { version, code: *code, now: content(row) },
    }
}
