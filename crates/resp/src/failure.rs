//! Errors as Redis clients expect them: a prefix that they parse, the code of our one list, and a sentence.
//!
//! Decides nothing about what went wrong; only how it is said (`docs/errors.md`).

use std::borrow::Cow;

use shardine_model::{ErrorCode, Refusal};

use crate::verb::Verb;
use crate::wire;

/// An error line without its leading minus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure(Cow<'static, [u8]>);

const fn redis(line: &'static str) -> Failure {
    Failure(Cow::Borrowed(line.as_bytes()))
}

// Redis's own sentences, to the byte: clients and tests compare them whole. The codes of our list stand in our own alone.
pub(crate) const SYNTAX: Failure = redis("ERR syntax error");
pub(crate) const NOT_AN_INTEGER: Failure = redis("ERR value is not an integer or out of range");
pub(crate) const NOT_A_FLOAT: Failure = redis("ERR value is not a valid float");
pub(crate) const HASH_NOT_AN_INTEGER: Failure = redis("ERR hash value is not an integer");
pub(crate) const HASH_NOT_A_FLOAT: Failure = redis("ERR hash value is not a float");
pub(crate) const OVERFLOW: Failure = redis("ERR increment or decrement would overflow");
pub(crate) const NOT_FINITE: Failure = redis("ERR increment would produce NaN or Infinity");
pub(crate) const OUT_OF_RANGE: Failure = redis("ERR value is out of range");
pub(crate) const STRING_TOO_LONG: Failure = redis("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
pub(crate) const INVALID_CURSOR: Failure = redis("ERR invalid cursor");
pub(crate) const WRONG_KIND: Failure = redis("WRONGTYPE Operation against a key holding the wrong kind of value");
pub(crate) const NOT_AUTHENTICATED: Failure = redis("NOAUTH Authentication required.");
pub(crate) const WRONG_PASSWORD: Failure = redis("WRONGPASS invalid username-password pair or user is disabled.");
pub(crate) const ABORTED: Failure = redis("EXECABORT Transaction discarded because of previous errors.");
pub(crate) const CROSS_PARTITION: Failure = redis(
    "CROSSSLOT bad_request: the keys of a transaction must share one partition: give them the same {tag}, or make them rows \
     of one key, or send the commands without MULTI (transaction=False in redis-py's pipeline)",
);

pub(crate) const CROSS_SCRIPT: Failure = redis(
    "CROSSSLOT bad_request: the keys of a script, and of a command that changes several at one moment, must share one \
     partition: give them the same {tag}, or make them rows of one key",
);

impl Failure {
    /// A sentence of Redis's, to the byte.
    pub(crate) const fn of_redis(line: &'static str) -> Self {
        redis(line)
    }

    /// A sentence with its code under the general prefix.
    pub(crate) fn new(code: ErrorCode, sentence: impl std::fmt::Display) -> Self {
        Self::line(format!("{} {code}: {sentence}", prefix(code)))
    }

    /// A whole line, for errors whose exact words clients know. It may quote bytes that are no text.
    pub(crate) fn line(line: impl Into<Vec<u8>>) -> Self {
        Self(Cow::Owned(line.into()))
    }

    /// Redis's words for a time to live that no clock shows.
    pub(crate) fn bad_expiry(verb: Verb) -> Self {
        Self::line(format!("ERR invalid expire time in '{}' command", verb.name().to_ascii_lowercase()))
    }

    pub(crate) fn bad_request(sentence: impl std::fmt::Display) -> Self {
        Self::new(ErrorCode::BadRequest, sentence)
    }

    pub(crate) fn unsupported(sentence: impl std::fmt::Display) -> Self {
        Self::new(ErrorCode::Unsupported, sentence)
    }

    /// One reply would hold more than it may.
    pub(crate) fn too_long(limit: usize) -> Self {
        let sentence = format!("the reply would hold more than {limit} bytes: ask for fewer records or fields at once");
        Self::new(ErrorCode::TooLarge, sentence)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        wire::error(out, &self.0);
    }
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        Self::new(code, sentence(code))
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code, refusal.message)
    }
}

/// The first word of the line: what client libraries turn into a type of exception, or a retry.
fn prefix(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::WrongType => "WRONGTYPE",
        // Not CLUSTERDOWN, and not LOADING for SQL that is away: redis-py sends a whole pipeline again when it reads one of
        // them, and what was counted is counted twice.
        ErrorCode::StaleRoute | ErrorCode::NoLeader => "TRYAGAIN",
        ErrorCode::NotLeader => "READONLY",
        ErrorCode::Suspended => "SUSPENDED",
        ErrorCode::Busy => "BUSY",
        ErrorCode::DirtyLimit => "OOM",
        ErrorCode::InDoubt => "INDOUBT",
        ErrorCode::Unauthenticated => "NOAUTH",
        ErrorCode::Forbidden => "NOPERM",
        ErrorCode::NotFound
        | ErrorCode::Exists
        | ErrorCode::VersionMismatch
        | ErrorCode::CasMismatch
        | ErrorCode::Overflow
        | ErrorCode::BadRequest
        | ErrorCode::UnknownTable
        | ErrorCode::UnknownField
        | ErrorCode::TooLarge
        | ErrorCode::Expired
        | ErrorCode::Unsupported
        | ErrorCode::SqlRefused
        | ErrorCode::BackendUnavailable
        | ErrorCode::Internal => "ERR",
    }
}

/// What a code means when nobody said more.
fn sentence(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::NotFound => "the record does not exist",
        ErrorCode::Exists => "the record exists already",
        ErrorCode::VersionMismatch => "the record is not at the version that the command was made for",
        ErrorCode::CasMismatch => "the field does not hold the expected value",
        ErrorCode::Overflow => "the result would leave the range of the field",
        ErrorCode::BadRequest => "the request is malformed",
        ErrorCode::UnknownTable => "there is no such table",
        ErrorCode::UnknownField => "the table has no such field",
        ErrorCode::WrongType => "the value does not fit the type of the field",
        ErrorCode::TooLarge => "a key, value, record, batch or reply is above its limit",
        ErrorCode::StaleRoute => "the shard has moved, try again",
        ErrorCode::NotLeader => "this replica does not lead the shard, try again",
        ErrorCode::NoLeader => "the shard has no leader at the moment, try again",
        ErrorCode::BackendUnavailable => {
            "the record must be read from SQL, which does not give it: see `shardine writeback status`"
        }
        ErrorCode::Busy => "too much is waiting, nothing was done, try again shortly",
        ErrorCode::DirtyLimit => "too much is waiting to be written to SQL, nothing was done",
        ErrorCode::InDoubt => "the change may or may not have been made, read the record to find out",
        ErrorCode::Expired => "the deadline passed, nothing was done",
        ErrorCode::Unauthenticated => "say who you are with AUTH first",
        ErrorCode::Forbidden => "this is not allowed to you",
        ErrorCode::Unsupported => "the table does not allow this: it is only read from SQL, or has no SQL behind it",
        ErrorCode::Suspended => "an operator has suspended the shard, nothing was done, try again after a resume",
        ErrorCode::SqlRefused => "SQL does not take the row, which stays in memory among the dead letters",
        ErrorCode::Internal => "something went wrong inside, see the server's log",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_appears_in_its_line() {
        for &code in ErrorCode::ALL {
            let mut out = Vec::new();
            Failure::from(code).write(&mut out);

            let line = String::from_utf8(out).unwrap();
            assert!(line.contains(code.name()), "{line}");
            assert!(line.starts_with('-') && line.ends_with("\r\n"), "{line}");
        }
    }

    #[test]
    fn nothing_makes_a_client_send_a_pipeline_again_by_itself() {
        for &code in ErrorCode::ALL {
            let line = Failure::from(code).to_bytes();

            assert!(!line.starts_with(b"-LOADING") && !line.starts_with(b"-CLUSTERDOWN"), "{code}");
        }
        assert!(Failure::from(ErrorCode::NoLeader).to_bytes().starts_with(b"-TRYAGAIN no_leader: "));
        assert!(Failure::from(ErrorCode::BackendUnavailable).to_bytes().starts_with(b"-ERR backend_unavailable: "));
    }

    #[test]
    fn doubt_has_a_prefix_of_its_own() {
        let mut out = Vec::new();
        Failure::from(ErrorCode::InDoubt).write(&mut out);

        assert!(out.starts_with(b"-INDOUBT in_doubt: the change may or may not have been made"));
    }
}
