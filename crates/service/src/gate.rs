//! Who may enter: a token, and a place among the requests in flight.

use std::sync::Arc;

use shardine_model::{ErrorCode, Refusal};
use subtle::ConstantTimeEq;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What somebody is told who brings no token, or a wrong one.
pub(crate) const TOKEN_NEEDED: &str = "a valid token is needed: authorization: Bearer TOKEN";

#[derive(Clone, Debug)]
pub struct GateOptions {
    /// Without one everybody may enter; the server binds to loopback then, or was told `--insecure`.
    pub token: Option<String>,
    /// Requests of one door at once. Each may hold a body of up to 40 MiB while it is read.
    pub requests_max: usize,
}

impl Default for GateOptions {
    fn default() -> Self {
        Self { token: None, requests_max: 4_096 }
    }
}

/// Stands before a door's services and asks before a body is read. What it turns away costs nearly nothing.
#[derive(Clone)]
pub struct Gate {
    token: Option<Arc<[u8]>>,
    places: Arc<Semaphore>,
}

impl Gate {
    #[must_use]
    pub fn new(options: GateOptions) -> Self {
        Self {
            token: options.token.map(|token| token.into_bytes().into()),
            places: Arc::new(Semaphore::new(options.requests_max)),
        }
    }

    /// Checks the `authorization` header and takes a place, which is given back when the permit is dropped.
    pub fn enter(&self, authorization: Option<&[u8]>) -> Result<OwnedSemaphorePermit, Refusal> {
        if !self.knows(authorization) {
            return Err(Refusal::new(ErrorCode::Unauthenticated, TOKEN_NEEDED));
        }
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            Refusal::new(ErrorCode::Busy, "too many requests are in flight; nothing was done, ask again shortly")
        })
    }

    fn knows(&self, authorization: Option<&[u8]>) -> bool {
        let Some(token) = &self.token else { return true };
        let Some((scheme, presented)) = authorization.and_then(|header| header.split_at_checked(7)) else {
            return false;
        };
        // The length of a token is no secret; its bytes are, so they are compared in constant time.
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(presented.ct_eq(token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(token: Option<&str>, requests_max: usize) -> Gate {
        Gate::new(GateOptions { token: token.map(str::to_owned), requests_max })
    }

    #[test]
    fn only_the_token_opens() {
        let gate = gate(Some("secret"), 8);

        assert!(gate.enter(Some(b"Bearer secret")).is_ok());
        assert!(gate.enter(Some(b"bearer secret")).is_ok());
        for wrong in [&b"Bearer secre"[..], b"Bearer secret2", b"Basic secret", b"secret", b""] {
            assert_eq!(gate.enter(Some(wrong)).unwrap_err().code, ErrorCode::Unauthenticated);
        }
        assert_eq!(gate.enter(None).unwrap_err().code, ErrorCode::Unauthenticated);
    }

    /// reliability I88: were the comparison to end at the first wrong byte, one would take thousands of times as long as the other.
    #[test]
    fn a_token_takes_as_long_wherever_it_is_wrong() {
        let gate = gate(Some(&"x".repeat(1 << 20)), 1);
        let wrong_at = |at: usize| {
            let mut header = format!("Bearer {}", "x".repeat(1 << 20)).into_bytes();
            header[7 + at] = b'y';
            header
        };
        let shortest = |header: &[u8]| {
            let measured = (0..20).map(|_| {
                let begun = std::time::Instant::now();
                assert!(!gate.knows(Some(header)));
                begun.elapsed()
            });
            measured.min().unwrap()
        };

        let (early, late) = (shortest(&wrong_at(0)), shortest(&wrong_at((1 << 20) - 1)));

        assert!(late < early * 20 && early < late * 20, "{early:?} and {late:?}");
    }

    #[test]
    fn a_full_house_answers_busy_until_somebody_leaves() {
        let gate = gate(None, 1);
        let inside = gate.enter(None);

        assert_eq!(gate.enter(None).unwrap_err().code, ErrorCode::Busy);
        drop(inside);
        assert!(gate.enter(None).is_ok());
    }
}
