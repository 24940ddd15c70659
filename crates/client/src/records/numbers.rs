//! Numbers for requests: the server executes each once, however often it is asked.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shardine_model::limits::REMEMBERED_RESULTS_MAX;
use shardine_proto::v1;
use tokio::sync::Notify;

/// A client as servers know it. Counts from 1.
#[derive(Debug)]
pub(super) struct Numbers {
    client: u64,
    state: Mutex<State>,
    closed: Notify,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    open: BTreeSet<u64>,
}

impl State {
    /// The lowest number of which this client does not have the answer.
    fn lowest(&self) -> u64 {
        self.open.first().copied().unwrap_or(self.last + 1)
    }

    /// `None` while the next one would be too far above one that is still open.
    fn take(&mut self) -> Option<(u64, u64)> {
        let (next, lowest) = (self.last + 1, self.lowest());
        (next - lowest < REMEMBERED_RESULTS_MAX as u64).then(|| {
            self.last = next;
            self.open.insert(next);
            (next, lowest.min(next))
        })
    }
}

/// A number as long as its request is under way.
#[derive(Debug)]
pub(super) struct Number {
    numbers: Arc<Numbers>,
    sequence: u64,
    lowest: u64,
}

impl Numbers {
    pub fn new() -> Arc<Self> {
        // Zero bits above, so that it is a number in every language.
        let client = rand::random::<u64>() >> 1;
        Arc::new(Self { client, state: Mutex::default(), closed: Notify::new() })
    }

    /// The next number. Waits while a request with a much lower one has no answer.
    pub async fn next(self: &Arc<Self>) -> Number {
        loop {
            let closed = self.closed.notified();
            let taken = self.lock().take();
            if let Some((sequence, lowest)) = taken {
                return Number { numbers: Arc::clone(self), sequence, lowest };
            }
            closed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Number {
    pub fn delivery(&self, is_again: bool) -> v1::Delivery {
        v1::Delivery {
            client_id: Some(self.numbers.client),
            sequence: self.sequence,
            lowest_unanswered: Some(self.lowest),
            again: is_again,
            ..v1::Delivery::default()
        }
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        self.numbers.lock().open.remove(&self.sequence);
        self.numbers.closed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// records 35
    #[test]
    fn no_number_is_given_that_is_too_far_above_an_open_one() {
        let mut state = State::default();
        let window = REMEMBERED_RESULTS_MAX as u64;
        for number in 1..=window {
            assert_eq!(state.take(), Some((number, 1)));
        }

        assert_eq!(state.take(), None);
        state.open.remove(&2);
        assert_eq!(state.take(), None, "the lowest is still open");
        state.open.remove(&1);

        assert_eq!(state.take(), Some((window + 1, 3)));
        assert_eq!(state.take(), Some((window + 2, 3)));
        assert_eq!(state.take(), None);
    }

    #[tokio::test]
    async fn whoever_waits_for_a_number_gets_it_when_one_is_answered() {
        let numbers = Numbers::new();
        let mut open = Vec::new();
        for _ in 0..REMEMBERED_RESULTS_MAX {
            open.push(numbers.next().await);
        }
        let waiting = tokio::spawn({
            let numbers = Arc::clone(&numbers);
            async move { numbers.next().await.sequence }
        });

        open.remove(0);

        assert_eq!(waiting.await.unwrap(), REMEMBERED_RESULTS_MAX as u64 + 1);
    }
}
