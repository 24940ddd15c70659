//! The answers that are not "done", in YDB's words and numbers.

use std::borrow::Cow;

/// A status of YDB's API (coordination W-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    BadRequest,
    Unauthorized,
    Aborted,
    Unavailable,
    Overloaded,
    SchemeError,
    Timeout,
    BadSession,
    PreconditionFailed,
    AlreadyExists,
    NotFound,
    SessionExpired,
    Cancelled,
    Undetermined,
}

impl Status {
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::BadRequest => 400_010,
            Self::Unauthorized => 400_020,
            Self::Aborted => 400_040,
            Self::Unavailable => 400_050,
            Self::Overloaded => 400_060,
            Self::SchemeError => 400_070,
            Self::Timeout => 400_090,
            Self::BadSession => 400_100,
            Self::PreconditionFailed => 400_120,
            Self::AlreadyExists => 400_130,
            Self::NotFound => 400_140,
            Self::SessionExpired => 400_150,
            Self::Cancelled => 400_160,
            Self::Undetermined => 400_170,
        }
    }

    /// The name that YDB prints.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "BAD_REQUEST",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::Aborted => "ABORTED",
            Self::Unavailable => "UNAVAILABLE",
            Self::Overloaded => "OVERLOADED",
            Self::SchemeError => "SCHEME_ERROR",
            Self::Timeout => "TIMEOUT",
            Self::BadSession => "BAD_SESSION",
            Self::PreconditionFailed => "PRECONDITION_FAILED",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::NotFound => "NOT_FOUND",
            Self::SessionExpired => "SESSION_EXPIRED",
            Self::Cancelled => "CANCELLED",
            Self::Undetermined => "UNDETERMINED",
        }
    }
}

/// A status with the words that go along as an issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: Status,
    pub message: Cow<'static, str>,
}

impl Refusal {
    pub fn new(status: Status, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, message: message.into() }
    }
}

/// The shortest way to refuse.
pub(crate) fn refuse<T>(status: Status, message: impl Into<Cow<'static, str>>) -> Result<T, Refusal> {
    Err(Refusal::new(status, message))
}
