//! What went wrong, in the words that both doors show.

use shardine_model::{ErrorCode, Refusal, Version};
use shardine_router::ShardRoute;

use crate::gate::TOKEN_NEEDED;
use crate::record::Record;

/// A refusal with what is known of the record that it concerns.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub code: ErrorCode,
    pub message: String,
    pub version: Option<Version>,
    pub sql_version: Option<Version>,
    /// What stood in the way, where that helps.
    pub record: Option<Box<Record>>,
    /// The command of a batch that was refused, from 0.
    pub item: Option<usize>,
    /// Who leads, for a client that goes to leaders by itself.
    pub moved: Option<Box<ShardRoute>>,
}

impl Failure {
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), version: None, sql_version: None, record: None, item: None, moved: None }
    }

    /// A failure of which only the code is known; `what` is the row or table it was about.
    #[must_use]
    pub fn coded(code: ErrorCode, what: &str) -> Self {
        Self::new(code, sentence(code, what))
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code, refusal.message)
    }
}

/// The fact and the remedy in one line; `docs/errors.md` says more.
fn sentence(code: ErrorCode, what: &str) -> String {
    match code {
        ErrorCode::NotFound => format!("{what} does not exist"),
        ErrorCode::Exists => format!("{what} exists already"),
        ErrorCode::VersionMismatch => format!("{what} is at another version; read it again and decide anew"),
        ErrorCode::CasMismatch => format!("the field of {what} does not hold the expected value"),
        ErrorCode::Overflow => format!("the number in {what} would leave the range of its type; nothing was changed"),
        ErrorCode::BadRequest => format!("the request for {what} is malformed"),
        ErrorCode::UnknownTable => format!("the table of {what} does not exist"),
        ErrorCode::UnknownField => format!("a field named for {what} does not exist"),
        ErrorCode::WrongType => format!("a value for {what} does not have the field's type"),
        ErrorCode::TooLarge => format!("{what} would be larger than a record may be"),
        ErrorCode::StaleRoute => format!("{what} lives in another shard by now; ask again"),
        ErrorCode::NotLeader => format!("this node does not lead the shard of {what}; ask again"),
        ErrorCode::NoLeader => format!("the shard of {what} has no leader now; nothing was done, ask again shortly"),
        ErrorCode::BackendUnavailable => {
            format!("{what} is not in memory, and SQL does not give it: `shardine writeback status` says why")
        }
        ErrorCode::Busy => format!("too much is waiting for the shard of {what}; nothing was done, ask again shortly"),
        ErrorCode::DirtyLimit => format!("too much is waiting to be written to SQL to change {what} now"),
        ErrorCode::InDoubt => {
            format!(
                "it is not known whether {what} was changed; read it, or repeat under the same client id and sequence"
            )
        }
        ErrorCode::Expired => format!("the deadline passed before {what} was touched; certainly nothing was done"),
        ErrorCode::Unauthenticated => TOKEN_NEEDED.to_owned(),
        ErrorCode::Forbidden => format!("this token does not allow that for {what}"),
        ErrorCode::Unsupported => {
            format!("the table of {what} does not allow that: it is only read from SQL, or has no SQL behind it")
        }
        ErrorCode::Suspended => {
            format!("the shard of {what} was suspended by an operator; nothing was done, ask again after a resume")
        }
        ErrorCode::SqlRefused => {
            format!("SQL does not take {what} as it is; the change stands in memory, and the dead letters say why")
        }
        ErrorCode::Internal => format!("something broke inside while serving {what}; the server's log says more"),
    }
}
