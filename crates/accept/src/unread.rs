//! What answers hold that clients have not read, of all connections of a door together. Where it is too much, the connection that
//! holds most is cut, as at the Redis door: a client that does not read may not take the memory of those that do.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::Error;
use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::Notify;
use tracing::warn;

/// Answers are given out in pieces of this size. What HTTP has taken of one to write it is not counted any more, so it is little.
const PIECE_BYTES: usize = 64 << 10;

pub(crate) struct Unread {
    bytes_max: usize,
    total: AtomicUsize,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    next: u64,
    all: BTreeMap<u64, Arc<Account>>,
}

struct Account {
    peer: SocketAddr,
    bytes: AtomicUsize,
    is_cut: AtomicBool,
    cut: Notify,
}

/// One connection among those that are counted, until it and its last answer are gone.
#[derive(Clone)]
pub(crate) struct Visitor(Arc<Entry>);

struct Entry {
    number: u64,
    account: Arc<Account>,
    unread: Arc<Unread>,
}

impl Unread {
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, total: AtomicUsize::new(0), inside: Mutex::default() })
    }

    pub(crate) fn visitor(self: &Arc<Self>, peer: SocketAddr) -> Visitor {
        let account =
            Arc::new(Account { peer, bytes: AtomicUsize::new(0), is_cut: AtomicBool::new(false), cut: Notify::new() });
        let mut inside = self.inside();
        let number = inside.next;
        inside.next += 1;
        inside.all.insert(number, Arc::clone(&account));
        Visitor(Arc::new(Entry { number, account, unread: Arc::clone(self) }))
    }

    /// Cuts the connection that holds most, if all together hold too much. One that is cut already is about to give back what it
    /// holds, and nobody else has to go meanwhile.
    fn relieve(&self) {
        if self.total.load(Ordering::Relaxed) <= self.bytes_max {
            return;
        }
        let inside = self.inside();
        let most = inside.all.values().max_by_key(|account| account.bytes.load(Ordering::Relaxed));
        if let Some(account) = most
            && !account.is_cut.swap(true, Ordering::Relaxed)
        {
            let (peer, bytes) = (account.peer, account.bytes.load(Ordering::Relaxed));
            warn!(%peer, bytes, "cut: it holds most of the answers that nobody reads, and they have no more room");
            account.cut.notify_one();
        }
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Visitor {
    /// Resolves when the connection is to be closed at once.
    pub(crate) async fn cut(&self) {
        self.0.account.cut.notified().await;
    }

    fn hold(&self, bytes: usize) {
        self.0.account.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.0.unread.total.fetch_add(bytes, Ordering::Relaxed);
        self.0.unread.relieve();
    }

    fn give_back(&self, bytes: usize) {
        self.0.account.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.0.unread.total.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.unread.inside().all.remove(&self.number);
        // Others may have come to hold too much while this one was on its way out.
        self.unread.relieve();
    }
}

/// The body of an answer, counted for its connection as long as it is not written.
pub(crate) struct Counted {
    body: Body,
    /// What is left of the bytes that the body gave last, and how many they were: all of them are there until the last is gone.
    rest: Bytes,
    whole: usize,
    /// What the body said when it was looked at, if that were no bytes.
    said: Option<Option<Result<Frame<Bytes>, Error>>>,
    visitor: Visitor,
    held: usize,
}

impl Counted {
    pub(crate) fn new(body: Body, visitor: Visitor) -> Self {
        let mut counted = Self { body, rest: Bytes::new(), whole: 0, said: None, visitor, held: 0 };
        counted.count();
        counted
    }

    /// Has the body make its first bytes, if it can without waiting.
    pub(crate) fn look(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.body.is_end_stream()
            && let Poll::Ready(said) = Pin::new(&mut self.body).poll_frame(context)
        {
            self.take(said);
            self.count();
        }
        Poll::Ready(())
    }

    fn take(&mut self, said: Option<Result<Frame<Bytes>, Error>>) {
        match said.map(|frame| frame.map(Frame::into_data)) {
            Some(Ok(Ok(bytes))) => (self.whole, self.rest) = (bytes.len(), bytes),
            Some(Ok(Err(trailers))) => self.said = Some(Some(Ok(trailers))),
            Some(Err(error)) => self.said = Some(Some(Err(error))),
            None => self.said = Some(None),
        }
    }

    fn count(&mut self) {
        let left = usize::try_from(self.body.size_hint().lower()).unwrap_or(usize::MAX);
        let here = if self.rest.is_empty() { 0 } else { self.whole };
        let bytes = here.saturating_add(left);
        match bytes.checked_sub(self.held) {
            Some(more) if more > 0 => self.visitor.hold(more),
            Some(_) => {}
            None => self.visitor.give_back(self.held - bytes),
        }
        self.held = bytes;
    }
}

impl HttpBody for Counted {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        while self.rest.is_empty() {
            if let Some(said) = self.said.take() {
                return Poll::Ready(said);
            }
            let said = ready!(Pin::new(&mut self.body).poll_frame(context));
            self.take(said);
        }
        let length = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(length);
        self.count();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.said.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (left, here) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(left.lower() + here);
        if let Some(upper) = left.upper() {
            hint.set_upper(upper + here);
        }
        hint
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.visitor.give_back(self.held);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;

    use futures_util::stream::once;

    use super::*;

    /// The messages of gRPC come as streams, whose length nobody knows.
    #[tokio::test]
    async fn a_message_is_counted_before_there_is_room_to_write_it() {
        let unread = Unread::new(usize::MAX);
        let message = Bytes::from(vec![0; 3 * PIECE_BYTES]);
        let whole = message.len();
        let body = Body::from_stream(once(async { Ok::<_, Infallible>(message) }));
        let mut counted = Counted::new(body, unread.visitor(([127, 0, 0, 1], 1).into()));

        poll_fn(|context| counted.look(context)).await;
        assert_eq!(unread.total.load(Ordering::Relaxed), whole);

        let mut next = async || poll_fn(|context| Pin::new(&mut counted).poll_frame(context)).await;
        let first = next().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(
            (first.len(), unread.total.load(Ordering::Relaxed)),
            (PIECE_BYTES, whole),
            "its memory is still there"
        );
        while next().await.is_some() {}
        assert_eq!(unread.total.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn what_is_dropped_gives_its_room_back() {
        let unread = Unread::new(usize::MAX);
        let counted = Counted::new(Body::from("some text"), unread.visitor(([127, 0, 0, 1], 1).into()));
        assert_eq!(unread.total.load(Ordering::Relaxed), 9);

        drop(counted);

        assert_eq!(unread.total.load(Ordering::Relaxed), 0);
        assert!(unread.inside().all.is_empty());
    }
}
