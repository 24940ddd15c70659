//! Why a call has no answer.

use std::fmt::Debug;
use std::sync::Arc;

/// Keys are named by their ids.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error<I: Debug> {
    /// Nothing was sent.
    #[error("two keys of one call have the id {id:?}")]
    Duplicate { id: I },
    /// Nobody is known to serve these keys, and nobody came to be known before the deadline.
    #[error("no host serves {}", listed(ids))]
    NoShard { ids: Vec<I> },
    /// Everybody who serves these keys was asked, and none of them has answered.
    #[error("no value of {} from {}", listed(ids), hosts.join(", "))]
    Missing { ids: Vec<I>, hosts: Vec<Arc<str>> },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kit_a_27_an_error_names_keys_and_hosts() {
        let error = Error::Missing { ids: (0..12).collect(), hosts: vec!["a:1".into(), "b:2".into()] };

        assert_eq!(error.to_string(), "no value of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more from a:1, b:2");
    }
}
