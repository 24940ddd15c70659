//! What a response of the engine means for the one who asked: records with names, or a failure with its facts.

use std::sync::Arc;

use shardine_model::{Answer, ErrorCode, Outcome, Reply, RowKeyBuf, Table, Version, limits};
use shardine_router::{Response, ScannedRow};

use crate::failure::Failure;
use crate::order::Checked;
use crate::query::{CheckedItem, Get, Got};
use crate::record::{Record, Show, Versions};

/// What a change answers.
#[derive(Clone, Debug)]
pub struct Changed {
    pub version: Version,
    pub sql_version: Version,
    /// Fields created or removed; 1 for the delete of a record that existed.
    pub changed: u32,
    pub record: Option<Record>,
}

pub(crate) fn answer(response: Response, what: &str) -> Result<Answer, Failure> {
    match response {
        Response::Answer(Answer::Failed(code)) => Err(Failure::coded(code, what)),
        Response::Answer(answer) => Ok(answer),
        other => Err(unexpected(&other)),
    }
}

/// For calls that have nothing to tell but that they are done: whatever is not a failure means so.
pub(crate) fn settled(response: Response, what: &str) -> Result<(), Failure> {
    match response {
        Response::Answer(Answer::Failed(code)) => Err(Failure::coded(code, what)),
        Response::Answer(Answer::One(reply)) => reply.refusal().map_or(Ok(()), |code| Err(Failure::coded(code, what))),
        Response::Answer(Answer::ConditionFailed) => Err(unexpected(&Answer::ConditionFailed)),
        Response::Answer(Answer::Many(_)) | Response::Table(_) | Response::Done => Ok(()),
        other => Err(unexpected(&other)),
    }
}

pub(crate) fn got(get: &Get, table: &Table, row: &RowKeyBuf, response: Response) -> Result<Got, Failure> {
    let what = show(table, row);
    let (reply, applied) = match response {
        Response::Stale { reply, applied } => (reply, Some(applied)),
        response => match answer(response, &what)? {
            Answer::One(reply) => (reply, None),
            other => return Err(unexpected(&other)),
        },
    };
    if let Some(code) = reply.refusal() {
        return Err(refused(table, row, reply, code));
    }
    let versions = versions(&reply);
    if get.known_version == Some(reply.version) {
        return Ok(Got { record: Record::bare(table, row, versions), unchanged: true, applied });
    }
    let image = reply.row().cloned().unwrap_or_default();
    let what = if get.fields.is_empty() { Show::Whole } else { Show::Named(&get.fields) };
    Ok(Got { record: Record::shown(table, row, versions, &image, what), unchanged: false, applied })
}

pub(crate) fn changed(checked: &Checked, reply: Reply) -> Result<Changed, Failure> {
    if let Some(code) = reply.refusal() {
        return Err(refused(&checked.table, &checked.row, reply, code));
    }
    let what = if checked.gives_whole_record() { Show::Whole } else { Show::Stored };
    Ok(done(&checked.table, &checked.row, &reply, what))
}

pub(crate) fn item_result(item: &CheckedItem, reply: Reply) -> Result<Changed, Failure> {
    match item {
        CheckedItem::Change(checked) if reply.refusal() == Some(ErrorCode::TooLarge) => {
            let (row, limit) = (show(&checked.table, &checked.row), limits::REPLY_BYTES_MAX);
            let message =
                format!("{row} would be larger than a record may be, or all that the batch gives than {limit} bytes");
            Err(Failure { message, ..refused(&checked.table, &checked.row, reply, ErrorCode::TooLarge) })
        }
        CheckedItem::Change(checked) => changed(checked, reply),
        CheckedItem::Read { table, row, .. } if reply.refusal() == Some(ErrorCode::TooLarge) => {
            Err(Failure { version: Some(reply.version), sql_version: Some(reply.sql_version), ..too_much(table, row) })
        }
        CheckedItem::Read { table, row, .. } if reply.refusal() == Some(ErrorCode::NotFound) => {
            // Reading what is not there spoils no batch.
            let record = Some(Record::bare(table, row, versions(&reply)));
            Ok(Changed { version: reply.version, sql_version: reply.sql_version, changed: 0, record })
        }
        CheckedItem::Read { table, row, fields } => match reply.refusal() {
            Some(code) => Err(refused(table, row, reply, code)),
            None if fields.is_empty() => Ok(done(table, row, &reply, Show::Whole)),
            None => Ok(done(table, row, &reply, Show::Named(fields))),
        },
    }
}

pub(crate) fn done(table: &Table, row: &RowKeyBuf, reply: &Reply, what: Show<'_>) -> Changed {
    let changed = match &reply.outcome {
        Outcome::Done { changed, .. } => *changed,
        Outcome::Refused { .. } => 0,
    };
    let record = reply.row().map(|image| Record::shown(table, row, versions(reply), image, what));
    Changed { version: reply.version, sql_version: reply.sql_version, changed, record }
}

pub(crate) fn refused(table: &Table, row: &RowKeyBuf, reply: Reply, code: ErrorCode) -> Failure {
    // An insert that found a record shows all of it; a cas shows the field it looked at (records 17, 19).
    let what = if code == ErrorCode::Exists { Show::Whole } else { Show::Stored };
    let record = reply.row().map(|image| Box::new(Record::shown(table, row, versions(&reply), image, what)));
    Failure {
        version: Some(reply.version),
        sql_version: Some(reply.sql_version),
        record,
        ..Failure::coded(code, &show(table, row))
    }
}

pub(crate) fn scanned_record(table: &Table, scanned: &ScannedRow, what: Show<'_>) -> Record {
    let ScannedRow { version, sql_version, expires_at, .. } = *scanned;
    Record::shown(table, &scanned.row, Versions { version, sql_version, expires_at }, &scanned.fields, what)
}

pub(crate) fn table_of(response: Response) -> Result<Arc<Table>, Failure> {
    match response {
        Response::Table(table) => Ok(table),
        other => Err(unexpected(&other)),
    }
}

pub(crate) fn versions(reply: &Reply) -> Versions {
    Versions { version: reply.version, sql_version: reply.sql_version, expires_at: reply.expires_at }
}

/// A record that may be read, but not as one more of those that were asked for together.
pub(crate) fn too_much(table: &Table, row: &RowKeyBuf) -> Failure {
    let (row, limit) = (show(table, row), limits::REPLY_BYTES_MAX);
    let message = format!("{row} is beyond the {limit} bytes that one reply may hold: ask for fewer records at once");
    Failure::new(ErrorCode::TooLarge, message)
}

/// `table:key`, for sentences.
pub(crate) fn show(table: &Table, row: &RowKeyBuf) -> String {
    format!("{}:{}", table.name, String::from_utf8_lossy(&row.key))
}

/// The engine answered something that the call cannot have as its answer.
pub(crate) fn unexpected(answer: &dyn std::fmt::Debug) -> Failure {
    let shape = format!("{answer:?}");
    let shape: String = shape.chars().take_while(|character| character.is_alphanumeric()).collect();
    Failure::new(ErrorCode::Internal, format!("the engine answered with {shape}, which this call cannot have"))
}
