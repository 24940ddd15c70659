//! What can go wrong with a record, in terms of what is certain.

use prost::Message;
use shardine_model::ErrorCode;
use shardine_proto::{CODE_METADATA, v1};

use super::value::Record;

/// Why something was not done, or is not known to have been.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The cluster said no, and nothing was done.
    #[error("{code}: {message}")]
    Refused {
        /// The one list of codes (`docs/errors.md`).
        code: ErrorCode,
        /// The fact and the remedy, in the server's words.
        message: String,
        /// The record's version, where it is known.
        version: Option<i64>,
        /// What stood in the way, where that helps and is small.
        record: Option<Box<Record>>,
    },
    /// The change may or may not have been made. With numbered requests this is rare ([`super::Records::numbered`]).
    #[error("in doubt: {0}")]
    InDoubt(String),
    /// Nobody could be reached in time, and nothing was done.
    #[error("no node answers: {0}")]
    Unreachable(String),
}

impl Error {
    /// Whether nothing was done, for certain.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        !matches!(self, Self::InDoubt(_))
    }

    /// Whether it tells what became of the request itself, and not only of the last attempt to send it.
    pub(super) fn is_result(&self) -> bool {
        use ErrorCode::{BadRequest, CasMismatch, Exists, NotFound, Overflow, TooLarge, VersionMismatch, WrongType};
        let results = [NotFound, Exists, VersionMismatch, CasMismatch, Overflow, WrongType, TooLarge, BadRequest];
        self.code().is_some_and(|code| results.contains(&code))
    }

    /// The cluster's code, if it said no.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::InDoubt(_) | Self::Unreachable(_) => None,
        }
    }
}

/// The standard envelope of error details (`google.rpc.Status`).
#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(message, repeated, tag = "3")]
    details: Vec<Detail>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Detail {
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// What an answer means for a request, whatever that is.
#[derive(Debug)]
pub(super) enum Meaning {
    /// It is the answer.
    Refused(Error),
    /// Another node leads; nothing was done.
    Moved(Box<v1::ShardRoute>),
    /// Certainly nothing was done, and the same may succeed a moment later.
    NotDone(Error),
    /// A node says that nobody knows.
    Doubt(String),
    /// No node has said anything.
    Lost(String),
}

impl Meaning {
    pub fn of_status(status: &tonic::Status) -> Self {
        let name = status.metadata().get(CODE_METADATA).and_then(|name| name.to_str().ok());
        let Some(name) = name else { return Self::of_transport(status) };
        let detail = Envelope::decode(status.details()).ok().and_then(|envelope| envelope.details.into_iter().next());
        let refusal = detail.and_then(|detail| v1::Refusal::decode(&detail.value[..]).ok());
        let (code, message) = (name.to_owned(), status.message().to_owned());
        Self::of_refusal(v1::Refusal { code, message, ..refusal.unwrap_or_default() })
    }

    pub fn of_refusal(refusal: v1::Refusal) -> Self {
        if let Some(route) = refusal.moved {
            return Self::Moved(Box::new(route));
        }
        let known = ErrorCode::ALL.iter().copied().find(|code| code.name() == refusal.code);
        // One of a later version is shown as what it is to this one.
        let code = known.unwrap_or(ErrorCode::Internal);
        let record = refusal.record.and_then(Record::from_message).map(Box::new);
        let error = Error::Refused { code, message: refusal.message.clone(), version: refusal.version, record };
        match code {
            ErrorCode::InDoubt => Self::Doubt(refusal.message),
            ErrorCode::StaleRoute | ErrorCode::NotLeader | ErrorCode::NoLeader | ErrorCode::Busy => {
                Self::NotDone(error)
            }
            _ => Self::Refused(error),
        }
    }

    /// Nobody has answered. What could not even be sent was not done.
    fn of_transport(status: &tonic::Status) -> Self {
        let cause = crate::dial::deepest(status);
        let mut source = std::error::Error::source(status);
        while let Some(error) = source {
            if error.is::<tonic::ConnectError>() {
                return Self::NotDone(Error::Unreachable(cause));
            }
            source = error.source();
        }
        Self::Lost(cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: ErrorCode) -> v1::Refusal {
        v1::Refusal { code: code.name().to_owned(), ..v1::Refusal::default() }
    }

    /// records 34: what is tried again is what was certainly not done.
    #[test]
    fn only_what_was_certainly_not_done_is_tried_again() {
        for code in ErrorCode::ALL {
            let passes = [ErrorCode::StaleRoute, ErrorCode::NotLeader, ErrorCode::NoLeader, ErrorCode::Busy];
            match Meaning::of_refusal(refusal(*code)) {
                Meaning::NotDone(_) => assert!(passes.contains(code), "{code}"),
                Meaning::Doubt(_) => assert_eq!(*code, ErrorCode::InDoubt),
                Meaning::Refused(error) => assert_eq!(error.code(), Some(*code)),
                Meaning::Moved(_) | Meaning::Lost(_) => panic!("{code} is an answer and names no leader"),
            }
        }
    }

    #[test]
    fn a_refusal_that_names_the_leader_is_followed() {
        let moved = Some(v1::ShardRoute { shard: 3, ..v1::ShardRoute::default() });

        let verdict = Meaning::of_refusal(v1::Refusal { moved, ..refusal(ErrorCode::NotLeader) });

        assert!(matches!(verdict, Meaning::Moved(route) if route.shard == 3));
    }

    #[test]
    fn silence_is_doubt() {
        let status = tonic::Status::unavailable("the connection was closed");

        assert!(matches!(Meaning::of_status(&status), Meaning::Lost(_)));
    }
}
