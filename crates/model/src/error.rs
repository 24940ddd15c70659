//! The one list of error codes for all doors (`docs/errors.md` has a page for each).

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// Why something was not done. The number is frozen: it travels in stored results.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant = $number,)*
        }

        impl ErrorCode {
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// The name that users see and scripts compare.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(ErrorCode::$variant => $name,)* }
            }

            #[must_use]
            pub fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(ErrorCode::$variant),)* _ => None }
            }
        }
    };
}

codes! {
    /// The record does not exist and the command needs it to.
    NotFound = 1, "not_found";
    /// The record exists and the command needs it not to.
    Exists = 2, "exists";
    /// The record's version is not the one the command was made for.
    VersionMismatch = 3, "version_mismatch";
    /// The field does not hold the value the command expected.
    CasMismatch = 4, "cas_mismatch";
    /// Arithmetic would leave the range of the field's type.
    Overflow = 5, "overflow";
    /// The request itself is malformed.
    BadRequest = 6, "bad_request";
    UnknownTable = 7, "unknown_table";
    UnknownField = 8, "unknown_field";
    /// A value does not fit the field's type.
    WrongType = 9, "wrong_type";
    /// A key, value, record, frame or batch is above its limit.
    TooLarge = 10, "too_large";
    /// The shard map that the request was routed by is old.
    StaleRoute = 11, "stale_route";
    NotLeader = 12, "not_leader";
    NoLeader = 13, "no_leader";
    /// The SQL database is needed for this key and cannot be reached.
    BackendUnavailable = 14, "backend_unavailable";
    /// Try again shortly; nothing was done.
    Busy = 15, "busy";
    /// Too much is waiting to be written to SQL.
    DirtyLimit = 16, "dirty_limit";
    /// The change may or may not have been made.
    InDoubt = 17, "in_doubt";
    /// The deadline passed before execution; certainly nothing was done.
    Expired = 18, "expired";
    Unauthenticated = 19, "unauthenticated";
    Forbidden = 20, "forbidden";
    Unsupported = 21, "unsupported";
    Internal = 22, "internal";
    /// An operator has suspended the shard; nothing was done.
    Suspended = 23, "suspended";
    /// SQL does not take the row; it stays in memory, among the dead letters.
    SqlRefused = 24, "sql_refused";
}

impl ErrorCode {
    /// What is certain about a command that was answered with this code.
    #[must_use]
    pub fn is_in_doubt(self) -> bool {
        matches!(self, ErrorCode::InDoubt)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A refusal as a door shows it: the code, and a sentence with the facts and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refusal {
    pub code: ErrorCode,
    pub message: String,
}

impl Refusal {
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}
