//! Why a call has no answer.

use std::fmt::Debug;
use std::sync::Arc;

use tonic::{Code, Status};

/// What a host, or the way to it, said instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostStatus {
    /// gRPC's code.
    pub code: Code,
    /// The words that came with it.
    pub message: String,
}

impl From<&Status> for HostStatus {
    fn from(status: &Status) -> Self {
        Self { code: status.code(), message: status.message().to_owned() }
    }
}

impl std::fmt::Display for HostStatus {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.message.is_empty() {
            true => write!(out, "{:?}", self.code),
            false => write!(out, "{:?}: {}", self.code, self.message),
        }
    }
}

/// Why a host that was asked for a key brought no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// It answered, without a value of that key.
    #[error("no value")]
    NoValue,
    /// It does not serve the key any more.
    #[error("not its key")]
    Refused,
    /// It failed.
    #[error("{0}")]
    Failed(HostStatus),
    /// It did not answer in time.
    #[error("timed out")]
    TimedOut,
    /// The call's deadline came first.
    #[error("not answered yet")]
    Unfinished,
    /// It failed, and there was no budget to ask it or another one again.
    #[error("no budget for a retry{}", after(.0.as_ref()))]
    Forgone(Option<HostStatus>),
}

fn after(status: Option<&HostStatus>) -> String {
    status.map(|status| format!(" after {status}")).unwrap_or_default()
}

/// A host that was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{host} ({why})")]
pub struct Tried {
    /// Its address.
    pub host: Arc<str>,
    /// What came of the last request to it.
    pub why: Why,
}

/// Keys are named by their ids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error<I: Debug> {
    /// Nothing was sent.
    #[error("two keys of one call have the id {id:?}")]
    Duplicate {
        /// The one that is there twice.
        id: I,
    },
    /// Nobody is known to serve these keys, and nobody came to be known before the deadline.
    #[error("no host serves {}", listed(ids))]
    NoShard {
        /// All such keys, in the order of the call.
        ids: Vec<I>,
    },
    /// Everybody who serves these keys was asked, and none of them has answered.
    #[error("no value of {} from {}", listed(ids), joined(hosts))]
    Missing {
        /// All such keys, in the order of the call.
        ids: Vec<I>,
        /// Whoever was asked for one of them, by address, with what came of it.
        hosts: Vec<Tried>,
    },
}

/// Names of more do not help whoever reads the message; the error itself has them all.
const NAMED_MAX: usize = 10;

fn listed<I: Debug>(ids: &[I]) -> String {
    let named: Vec<String> = ids.iter().take(NAMED_MAX).map(|id| format!("{id:?}")).collect();
    match ids.len().saturating_sub(NAMED_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn joined(hosts: &[Tried]) -> String {
    hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_said_is_told_without_empty_words() {
        let status = |message: &str| HostStatus { code: Code::Unavailable, message: message.into() };
        let told = |why: Why| why.to_string();

        assert_eq!(told(Why::Failed(status(""))), "Unavailable");
        assert_eq!(told(Why::Failed(status("no route"))), "Unavailable: no route");
        assert_eq!(told(Why::Forgone(None)), "no budget for a retry");
        assert_eq!(told(Why::Forgone(Some(status("no route")))), "no budget for a retry after Unavailable: no route");
    }

    #[test]
    fn kit_a_27_an_error_names_keys_and_hosts() {
        let status = HostStatus { code: Code::OutOfRange, message: "5 MiB are too much".into() };
        let a = Tried { host: "a:1".into(), why: Why::Failed(status) };
        let b = Tried { host: "b:2".into(), why: Why::TimedOut };
        let error = Error::Missing { ids: (0..12).collect(), hosts: vec![a, b] };

        let keys = "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more";
        let expected = format!("no value of {keys} from a:1 (OutOfRange: 5 MiB are too much), b:2 (timed out)");
        assert_eq!(error.to_string(), expected);
    }
}
