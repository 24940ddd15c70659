//! Statuses, issues, and the operation that every unary answer is wrapped in.

use prost::Message;
use prost_types::Any;
use shardine_coord::{Refusal, Status};

use shardine_proto::ydb::issue::IssueMessage;
use shardine_proto::ydb::operations::Operation;
use shardine_proto::ydb::status_ids::StatusCode;

/// "Error" among the severities of an issue.
const SEVERITY_ERROR: u32 = 1;

/// What a result carries: its status, and words for whatever is not a success (coordination 82).
pub(crate) fn outcome<T>(result: &Result<T, Refusal>) -> (i32, Vec<IssueMessage>) {
    match result {
        Ok(_) => (StatusCode::Success as i32, Vec::new()),
        Err(refusal) => (refusal.status.code(), issues(refusal)),
    }
}

pub(crate) fn issues(refusal: &Refusal) -> Vec<IssueMessage> {
    let message = refusal.message.clone().into_owned();
    vec![IssueMessage { message, severity: SEVERITY_ERROR, ..IssueMessage::default() }]
}

/// An answer without a payload.
pub(crate) fn done(result: Result<(), Refusal>) -> Option<Operation> {
    let (status, issues) = outcome(&result);
    Some(Operation { ready: true, status, issues, ..Operation::default() })
}

/// An answer whose payload is packed under its full name (coordination 3).
pub(crate) fn packed<M: Message>(name: &str, result: Result<M, Refusal>) -> Option<Operation> {
    let (status, issues) = outcome(&result);
    let type_url = format!("type.googleapis.com/{name}");
    let result = result.ok().map(|payload| Any { type_url, value: payload.encode_to_vec() });
    Some(Operation { ready: true, status, issues, result, ..Operation::default() })
}

pub(crate) fn bad_request(message: &'static str) -> Refusal {
    Refusal::new(Status::BadRequest, message)
}
