//! What can go wrong, in terms of what the caller can do about it.

use shardine_proto::ydb::issue::IssueMessage;
/// A status of YDB's API, as the server names it.
pub use shardine_proto::ydb::status_ids::StatusCode as Status;

/// Why something was not done, or is not known to have been.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The server said no. Nothing was done, unless the status is `Undetermined`.
    #[error("{}: {message}", status.as_str_name())]
    Refused {
        /// What kind of a no it is.
        status: Status,
        /// The server's own words.
        message: String,
    },
    /// Nobody answers there, or not as this protocol wants it.
    #[error("{address} cannot be reached: {cause}")]
    Unreachable {
        /// Where it was looked for.
        address: String,
        /// What the system or the library said.
        cause: String,
    },
    /// The session could not be kept alive; what it held is free for others.
    #[error("the session has expired")]
    Expired,
    /// The session was stopped from here.
    #[error("the session was stopped")]
    Stopped,
    /// Cannot be sent as it is.
    #[error("{0}")]
    Misused(String),
}

impl Error {
    /// The server's status, if it was the server that said no.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Unreachable { .. } | Self::Expired | Self::Stopped | Self::Misused(_) => None,
        }
    }

    /// Whether the same may succeed a moment later.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => {
                matches!(status, Status::Unavailable | Status::Overloaded | Status::Timeout | Status::Undetermined)
            }
            Self::Expired | Self::Stopped | Self::Misused(_) => false,
        }
    }
}

/// Nothing for a success; else the status with all words that came along.
pub(crate) fn check(status: i32, issues: &[IssueMessage]) -> Result<(), Error> {
    match Status::try_from(status) {
        Ok(Status::Success) => Ok(()),
        Ok(status) => Err(Error::Refused { status, message: words(issues) }),
        Err(_) => {
            let message = format!("status {status}: {}", words(issues));
            Err(Error::Refused { status: Status::GenericError, message })
        }
    }
}

/// An answer that this protocol does not have.
pub(crate) fn unexpected(what: &str) -> Error {
    Error::Refused { status: Status::InternalError, message: format!("the server's answer has no {what}") }
}

fn words(issues: &[IssueMessage]) -> String {
    let words: Vec<&str> = issues.iter().map(|issue| issue.message.as_str()).collect();
    words.join("; ")
}
