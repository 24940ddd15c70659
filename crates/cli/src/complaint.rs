//! Errors in four parts: what failed, why, what to try, and the code that `docs/errors.md` explains.

use std::io;

use serde_json::json;
use shardine_model::{ErrorCode, Refusal};
use shardine_proto::CODE_METADATA;
use tonic::{Code as GrpcCode, Status};

use crate::show::{Output, say};

/// The command did not do its work.
const FAILED: u8 = 1;
/// The command was typed wrongly.
const MISUSED: u8 = 2;

#[derive(Debug)]
pub struct Complaint {
    pub what: String,
    pub cause: String,
    pub remedy: String,
    pub code: Code,
    pub exit: u8,
}

/// What failed, by a name that scripts may compare: one of the doors' codes, or one that only a command can meet. Each has
/// its section in `docs/errors.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Door(ErrorCode),
    /// A door would be open to other machines, and anybody could enter.
    Exposed,
    /// `doctor` found something.
    Unfit,
    /// The data directory has a form that this version does not read.
    OtherForm,
    /// What is on disk is not what was written there, or is not all there.
    Damaged,
    /// The options ask for something else than the data directory was made with.
    OtherLayout,
    /// SQL does not let us in, has no such database, or is damaged.
    SqlUnusable,
    /// The disk refused.
    Disk,
    /// A door's address cannot be had.
    Listen,
}

impl Code {
    /// Those that no door answers with.
    #[cfg(test)]
    const OWN: [Self; 8] = [
        Self::Exposed,
        Self::Unfit,
        Self::OtherForm,
        Self::Damaged,
        Self::OtherLayout,
        Self::SqlUnusable,
        Self::Disk,
        Self::Listen,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Door(code) => code.name(),
            Self::Exposed => "exposed",
            Self::Unfit => "unfit",
            Self::OtherForm => "other_form",
            Self::Damaged => "damaged",
            Self::OtherLayout => "other_layout",
            Self::SqlUnusable => "sql_unusable",
            Self::Disk => "disk",
            Self::Listen => "listen",
        }
    }
}

impl From<ErrorCode> for Code {
    fn from(code: ErrorCode) -> Self {
        Self::Door(code)
    }
}

impl Complaint {
    pub fn failed(what: impl Into<String>, cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (what, cause, remedy) = (what.into(), cause.into(), remedy.into());
        Self { what, cause, remedy, code: ErrorCode::Internal.into(), exit: FAILED }
    }

    pub fn misused(what: impl Into<String>, cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { code: ErrorCode::BadRequest.into(), exit: MISUSED, ..Self::failed(what, cause, remedy) }
    }

    pub fn coded(self, code: impl Into<Code>) -> Self {
        Self { code: code.into(), ..self }
    }

    pub fn from_io(error: io::Error) -> Self {
        Self::failed("the system refused", error.to_string(), "shardine doctor")
    }

    /// What was typed cannot be understood.
    pub fn from_usage(refusal: Refusal) -> Self {
        let remedy = hint(refusal.code).1;
        Self::misused(refusal.message, hint(refusal.code).0, remedy).coded(refusal.code)
    }

    /// The server said no, or could not be asked.
    pub fn from_status(status: &Status) -> Self {
        let name = status.metadata().get(CODE_METADATA).and_then(|name| name.to_str().ok());
        let known = name.and_then(|name| ErrorCode::ALL.iter().copied().find(|code| code.name() == name));
        let code = known.unwrap_or_else(|| guess(status.code()));
        let (cause, remedy) = hint(code);
        let cause = if known.is_some() { cause.to_owned() } else { format!("{cause} ({})", deepest(status)) };
        let what = if known.is_some() { status.message().to_owned() } else { unanswered(code).to_owned() };
        Self::failed(what, cause, remedy).coded(code)
    }

    pub fn report(&self, output: Output) {
        let Self { what, cause, remedy, code, .. } = self;
        if output.json {
            let error = json!({ "code": code.name(), "message": what, "cause": cause, "try": remedy });
            return say(&json!({ "error": error }).to_string());
        }
        let code = code.name();
        say(&format!("error[{code}]: {what}\n  cause: {cause}\n  try:   {remedy}\n  more:  docs/errors.md#{code}"));
    }
}

/// What an answer without a code of ours means: it came from the client library or from a stranger.
fn guess(code: GrpcCode) -> ErrorCode {
    match code {
        GrpcCode::Cancelled | GrpcCode::DeadlineExceeded => ErrorCode::InDoubt,
        GrpcCode::Unavailable => ErrorCode::NoLeader,
        GrpcCode::Unimplemented => ErrorCode::Unsupported,
        _ => ErrorCode::Internal,
    }
}

fn unanswered(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::InDoubt => "no answer in time",
        ErrorCode::NoLeader => "the server cannot be reached",
        _ => "the server answered something unexpected",
    }
}

fn deepest(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        text = error.to_string();
        source = error.source();
    }
    text
}

/// The usual cause of a code, and the first thing to do.
fn hint(code: ErrorCode) -> (&'static str, &'static str) {
    match code {
        ErrorCode::NotFound => ("nothing is stored there, or it was deleted", "shardine scan TABLE"),
        ErrorCode::Exists => (
            "somebody made it before",
            "shardine get KEY (of a table: shardine table show NAME), or set instead of insert",
        ),
        ErrorCode::VersionMismatch => ("somebody changed it since", "read it again and decide anew"),
        ErrorCode::CasMismatch => ("somebody changed it since", "shardine get KEY"),
        ErrorCode::Overflow => ("the result does not fit the field's type", "a smaller amount, or another type"),
        ErrorCode::BadRequest => ("the request is malformed", "shardine COMMAND --help"),
        ErrorCode::UnknownTable => ("no table has this name", "shardine table list"),
        ErrorCode::UnknownField => ("the table has no such field", "shardine table show TABLE"),
        ErrorCode::WrongType => ("the value does not have the field's type", "shardine table show TABLE"),
        ErrorCode::TooLarge => ("a limit was passed", "smaller keys, values or batches"),
        ErrorCode::StaleRoute | ErrorCode::NotLeader => ("the shard is led elsewhere by now", "the same again"),
        ErrorCode::NoLeader => {
            ("no server listens there, or its shard has no leader", "shardine up, or shardine doctor")
        }
        ErrorCode::BackendUnavailable => {
            ("SQL cannot be reached, or its table is not what the definition says", "shardine writeback status")
        }
        ErrorCode::Busy => ("too much is waiting", "the same again in a moment"),
        ErrorCode::DirtyLimit => ("SQL is slower than the changes", "shardine status; wait for SQL"),
        ErrorCode::InDoubt => ("the change may or may not have been made", "shardine get KEY"),
        ErrorCode::Expired => ("the deadline passed; nothing was done", "a longer --timeout"),
        ErrorCode::Unauthenticated => ("the server wants a token", "--token TOKEN, or SHARDINE_TOKEN"),
        ErrorCode::Forbidden => {
            ("the token does not allow that, or the cluster could not go on with it", "what the message says")
        }
        ErrorCode::Unsupported => {
            ("this server, table or record does not offer that", "docs/errors.md; shardine --version on both sides")
        }
        ErrorCode::Suspended => ("an operator has suspended the shard", "shardine shards; shardine shards resume"),
        ErrorCode::SqlRefused => ("SQL does not take the row", "shardine writeback dead-letters says why"),
        ErrorCode::Internal => ("something broke inside", "the server's log; shardine doctor"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_our_own_has_its_section() {
        let page = include_str!("../../../docs/errors.md");

        for code in Code::OWN {
            let section = page.split("\n## ").find(|section| section.lines().next() == Some(code.name()));
            let section = section.unwrap_or_else(|| panic!("docs/errors.md has no section for {}", code.name()));
            assert!(section.contains("**Cause.** ") && section.contains("**Remedy.** "), "{}", code.name());
        }
    }
}
