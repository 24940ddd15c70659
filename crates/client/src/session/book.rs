//! The book of a session: requests without an answer, which are sent again on every new stream, and watches that stand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shardine_proto::ydb::coordination::session_request::{ReleaseSemaphore, Request, SessionStop};
use shardine_proto::ydb::coordination::session_response::Response;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::line::Stream;
use crate::semaphore::{Change, millis};

/// What the holders of a session ask of its keeper.
#[derive(Debug)]
pub(super) enum Order {
    Ask(u64, Box<Pending>),
    /// Nobody waits for this acquire any more.
    Abandon {
        req: u64,
        name: String,
    },
    Stop,
    Leave,
}

#[derive(Debug)]
pub(super) struct Pending {
    pub request: Request,
    /// Of an acquire: when it has waited long enough.
    pub deadline: Option<Instant>,
    /// `None` if nobody wants to know.
    pub reply: Option<oneshot::Sender<Response>>,
    pub watch: Option<oneshot::Sender<Change>>,
}

/// How the holders want the session to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Stop,
    Leave,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    /// In the order in which they were asked, which is the order in which they are sent again.
    pending: BTreeMap<u64, Pending>,
    watches: BTreeMap<u64, oneshot::Sender<Change>>,
    wish: Option<Wish>,
    last_req: Arc<AtomicU64>,
}

impl Book {
    pub fn new(last_req: Arc<AtomicU64>) -> Self {
        Self { last_req, ..Self::default() }
    }

    pub fn wish(&self) -> Option<Wish> {
        self.wish
    }

    /// Takes an order; `None` when nobody holds the session any more. What it asks for goes out at once if there is a stream.
    pub fn take(&mut self, order: Option<Order>, stream: Option<&Stream>) {
        match order {
            Some(Order::Ask(req, pending)) => self.add(req, *pending, stream),
            Some(Order::Abandon { req, name }) => {
                self.pending.remove(&req);
                let req_id = self.last_req.fetch_add(1, Ordering::Relaxed) + 1;
                let request = Request::ReleaseSemaphore(ReleaseSemaphore { req_id, name });
                self.add(req_id, Pending { request, deadline: None, reply: None, watch: None }, stream);
            }
            Some(Order::Leave) => self.wish = Some(Wish::Leave),
            Some(Order::Stop) | None => {
                self.wish = Some(Wish::Stop);
                if let Some(stream) = stream {
                    stream.say(Request::SessionStop(SessionStop {}));
                }
            }
        }
    }

    fn add(&mut self, req: u64, pending: Pending, stream: Option<&Stream>) {
        if let Some(stream) = stream {
            stream.say(pending.request.clone());
        }
        self.pending.insert(req, pending);
    }

    /// Says everything again that has no answer.
    pub fn repeat(&mut self, stream: &Stream) {
        for pending in self.pending.values() {
            let mut request = pending.request.clone();
            if let (Request::AcquireSemaphore(acquire), Some(deadline)) = (&mut request, pending.deadline) {
                acquire.timeout_millis = millis(deadline.saturating_duration_since(Instant::now()));
            }
            stream.say(request);
        }
        if self.wish == Some(Wish::Stop) {
            stream.say(Request::SessionStop(SessionStop {}));
        }
    }

    /// Gives an answer to whoever waits for it.
    pub fn answer(&mut self, response: Response) {
        let Some(req) = answered_req(&response) else { return };
        if let Response::DescribeSemaphoreChanged(changed) = &response {
            if let Some(watch) = self.watches.remove(&req) {
                let _ = watch.send(Change { data: changed.data_changed, owners: changed.owners_changed });
            }
            return;
        }
        let Some(pending) = self.pending.remove(&req) else { return };
        if let (Response::DescribeSemaphoreResult(result), Some(watch)) = (&response, pending.watch)
            && result.watch_added
        {
            self.watches.insert(req, watch);
        }
        if let Some(reply) = pending.reply {
            let _ = reply.send(response);
        }
    }

    /// The stream is lost, and with it what it was to tell: whoever watches hears that a change may be missed.
    pub fn lose_watches(&mut self) {
        self.watches.clear();
    }
}

/// The request that a response belongs to, if it says something about one.
fn answered_req(response: &Response) -> Option<u64> {
    match response {
        Response::AcquireSemaphoreResult(result) => Some(result.req_id),
        Response::ReleaseSemaphoreResult(result) => Some(result.req_id),
        Response::DescribeSemaphoreResult(result) => Some(result.req_id),
        Response::DescribeSemaphoreChanged(changed) => Some(changed.req_id),
        Response::CreateSemaphoreResult(result) => Some(result.req_id),
        Response::UpdateSemaphoreResult(result) => Some(result.req_id),
        Response::DeleteSemaphoreResult(result) => Some(result.req_id),
        Response::AcquireSemaphorePending(_)
        | Response::Ping(_)
        | Response::Pong(_)
        | Response::Failure(_)
        | Response::SessionStarted(_)
        | Response::SessionStopped(_) => None,
    }
}
