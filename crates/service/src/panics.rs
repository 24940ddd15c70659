//! A panic in a request's own task fails that request alone (reliability F46).

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use shardine_model::ErrorCode;

use crate::Failure;

/// The work broke off in the middle. What it was about is in the server's log, where the panic wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panicked;

impl Panicked {
    /// A change may have gone to its shard before the panic, so only a read is certain to have done nothing.
    #[must_use]
    pub fn failure(self, is_read: bool) -> Failure {
        let message = "the request met a fault inside the server, whose log has it";
        Failure::new(if is_read { ErrorCode::Internal } else { ErrorCode::InDoubt }, message)
    }
}

/// Runs a request to its end. What it borrowed of others is behind locks and channels that outlive a panic; its own state is
/// dropped with it.
pub async fn caught<F: Future>(work: F) -> Result<F::Output, Panicked> {
    let mut work = pin!(work);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(_) => Poll::Ready(Err(Panicked)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reliability_f46_work_that_panics_is_told_from_work_that_ends() {
        let panics = async {
            tokio::task::yield_now().await;
            panic!("on purpose");
        };

        assert_eq!(caught(async { 7 }).await, Ok(7));
        assert_eq!(caught(panics).await.map(|()| 7), Err(Panicked));
        assert_eq!(Panicked.failure(true).code, ErrorCode::Internal);
        assert_eq!(Panicked.failure(false).code, ErrorCode::InDoubt);
    }
}
