//! Requests that were read by newer definitions than this shard has: they wait until those have come through the log
//! (`docs/encoding.md`, Epochs). Whoever comes behind one of them waits too, so that nobody overtakes.

use std::collections::VecDeque;

use shardine_model::codec::Reader;
use shardine_model::{Answer, CatalogueVersion, ErrorCode, Request, RequestEpoch, RowKey, limits};

use crate::actions::{Actions, Caller, Returned};
use crate::gather::Touched;
use crate::hold::Wish;
use crate::replica::{Replica, fail};

#[derive(Debug)]
struct EarlyRequest {
    caller: Caller,
    request: Box<[u8]>,
    epoch: RequestEpoch,
    wish: Wish,
    since_ms: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Early {
    requests: VecDeque<EarlyRequest>,
    bytes: usize,
    touched: Touched,
}

impl Early {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    #[inline]
    pub fn touches(&self, row: RowKey<'_>) -> bool {
        !self.requests.is_empty() && self.touched.contains(row)
    }

    /// Whether the first of them need not wait any longer.
    fn is_over(&self, version: CatalogueVersion) -> bool {
        self.requests.front().is_some_and(|first| first.epoch.catalogue <= version)
    }

    fn take(&mut self) -> VecDeque<EarlyRequest> {
        std::mem::take(self).requests
    }

    /// All of them, for another shard.
    pub fn give_back(&mut self) -> impl Iterator<Item = Returned> + use<> {
        let why = ErrorCode::StaleRoute;
        let returned = move |EarlyRequest { caller, request, epoch, .. }: EarlyRequest| Returned {
            caller,
            request: request.into(),
            catalogue: epoch.catalogue,
            why,
        };
        self.take().into_iter().map(returned)
    }

    pub fn give_up(&mut self) -> Vec<Caller> {
        self.take().into_iter().map(|early| early.caller).collect()
    }
}

impl Replica {
    /// Keeps a request until this shard has the definitions that it names.
    #[cold]
    pub(crate) fn keep_early(
        &mut self,
        caller: Caller,
        request: &Request<'_>,
        epoch: RequestEpoch,
        wish: Wish,
        actions: &mut Actions,
    ) {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        if self.early.bytes + bytes.len() > limits::PENDING_BYTES_MAX {
            return actions.answers.push((caller, Answer::Failed(ErrorCode::Busy)));
        }
        request.rows().for_each(|row| self.early.touched.insert(row));
        self.early.bytes += bytes.len();
        let (request, since_ms) = (bytes.into(), self.time.monotonic_ms);
        self.early.requests.push_back(EarlyRequest { caller, request, epoch, wish, since_ms });
    }

    /// Lets them go on, in the order in which they came, as far as the definitions have come.
    pub(crate) fn release_early(&mut self, actions: &mut Actions) {
        if !self.early.is_over(self.records.catalogue().version()) {
            return;
        }
        for early in self.early.take() {
            let request = Request::decode(&mut Reader::new(&early.request)).expect("encoded here");
            self.take(early.caller, &request, None, early.epoch, early.wish, actions);
        }
    }

    /// Nobody waits for ever for a definition that does not come; nothing was done.
    pub(crate) fn fail_early(&mut self, actions: &mut Actions) {
        let is_overdue = |early: &EarlyRequest| {
            self.time.monotonic_ms.saturating_sub(early.since_ms) >= limits::EARLY_REQUEST_MS_MAX
        };
        if self.early.requests.front().is_some_and(is_overdue) {
            fail(actions, self.early.give_up(), ErrorCode::Busy);
        }
    }
}
