//! A session as its user holds it. The work is done by a task of its own (`keeper.rs`), which outlives lost connections.

// In the order in which a request meets them.
mod book;
mod keeper;
mod line;
mod requests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shardine_proto::ydb::coordination::session_request::{Request, SessionStart};
use shardine_proto::ydb::coordination::session_response::Response;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use self::book::{Order, Pending};
use self::keeper::Keeper;
use self::line::Line;
use crate::connections::Connections;
use crate::error::Error;
use crate::semaphore::{Change, millis};

pub use self::requests::{Follow, Watching};

/// The shortest timeout that leaves room for pings and for a second try.
const TIMEOUT_MIN: Duration = Duration::from_millis(300);

/// How a session is asked for.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// How long the session, and all that it holds, outlives its last sign of life. At most 30 minutes.
    pub timeout: Duration,
    /// For people who look at the server.
    pub description: String,
    /// Whoever comes back to the session must bring the same, at most 16 bytes; an empty one lets everybody in. `None` makes
    /// one up, so that only this process can.
    pub protection_key: Option<Vec<u8>>,
    /// The number of a session to come back to, instead of a new one.
    pub resume: Option<u64>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), description: String::new(), protection_key: None, resume: None }
    }
}

/// How a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Connected: what it holds, it holds.
    Attached,
    /// The connection is lost. It holds what it held, and is on its way back.
    Detached,
    /// It did not come back in time, or was taken away. What it held may be held by others. Final.
    Expired,
    /// It was stopped or left from here. Final.
    Stopped,
}

impl State {
    /// Whether nothing can follow.
    #[must_use]
    pub fn is_over(self) -> bool {
        matches!(self, Self::Expired | Self::Stopped)
    }
}

/// A session that keeps itself alive. Clones are the same session; with the last of them it is stopped, and what it held is
/// free. Needs tokio's runtime for as long as it lives.
///
/// A request whose connection was lost before its answer came is sent again after the return. Acquire, update and describe
/// mean the same however often they are sent; a create may find what it has made itself (`ALREADY_EXISTS`), a delete what it
/// has removed itself (`NOT_FOUND`), and a release may have been done already (`false`).
#[derive(Clone, Debug)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: u64,
    orders: mpsc::UnboundedSender<Order>,
    last_req: Arc<AtomicU64>,
    state: watch::Receiver<State>,
    deadline: watch::Receiver<Instant>,
}

pub(crate) async fn start(connections: Connections, node: &str, options: SessionOptions) -> Result<Session, Error> {
    if options.timeout < TIMEOUT_MIN {
        return Err(Error::Misused(format!("a session's timeout is {TIMEOUT_MIN:?} or more")));
    }
    let start = SessionStart {
        path: node.to_owned(),
        session_id: options.resume.unwrap_or(0),
        timeout_millis: millis(options.timeout),
        description: options.description,
        seq_no: first_seq_no(),
        protection_key: options.protection_key.unwrap_or_else(|| rand::random::<[u8; 16]>().to_vec()),
    };
    let mut line = Line::new(connections, start, options.timeout);
    let stream = line.open().await?;
    let (id, deadline) = (line.session_id(), line.deadlines());
    let (orders, taken) = mpsc::unbounded_channel();
    let (told, state) = watch::channel(State::Attached);
    let last_req = Arc::new(AtomicU64::new(0));
    tokio::spawn(Keeper::new(line, taken, told, Arc::clone(&last_req)).keep(stream));
    Ok(Session { inner: Arc::new(Inner { id, orders, last_req, state, deadline }) })
}

/// A later connection to a session has a higher number than an earlier one, also from another process.
fn first_seq_no() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, millis)
}

impl Session {
    /// Its number on its node, as owners and waiters are shown with it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// How it stands at this moment, as far as is known here.
    #[must_use]
    pub fn state(&self) -> State {
        *self.inner.state.borrow()
    }

    /// Follows how it stands.
    #[must_use]
    pub fn states(&self) -> watch::Receiver<State> {
        self.inner.state.clone()
    }

    /// Follows until when it is certain on this machine's clock: its timeout after the last proof that the server had it.
    /// Whoever lets somebody else watch over what the session holds passes this on.
    #[must_use]
    pub fn deadlines(&self) -> watch::Receiver<Instant> {
        self.inner.deadline.clone()
    }

    /// Waits until it is over, and says how.
    ///
    /// Counted on this machine's clock from the last proof that the server had the session: with sound clocks it is told
    /// here before the server gives to others what it held. A process that stood still hears it when it goes on, which may
    /// be too late for what it has begun: that is what fencing is for (`docs/coordination.md`).
    pub async fn over(&self) -> State {
        let mut states = self.states();
        // The keeper tells the end before it goes.
        states.wait_for(|state| state.is_over()).await.map_or(State::Expired, |state| *state)
    }

    /// Ends the session on the server; what it held is free at once.
    ///
    /// # Errors
    ///
    /// [`Error::Expired`] if the server could not be told in time; it has ended by itself then.
    pub async fn stop(self) -> Result<(), Error> {
        let _ = self.inner.orders.send(Order::Stop);
        match self.over().await {
            State::Stopped => Ok(()),
            State::Attached | State::Detached | State::Expired => Err(Error::Expired),
        }
    }

    /// Leaves the session to itself: it lives on the server for its timeout, holding what it holds, and whoever has its
    /// number and key may come back to it ([`SessionOptions::resume`]).
    pub async fn leave(self) -> u64 {
        let _ = self.inner.orders.send(Order::Leave);
        self.over().await;
        self.inner.id
    }

    /// Sends a request and waits for its answer, across lost connections.
    async fn ask(&self, asked: Asked) -> Result<Response, Error> {
        let (reply, answer) = oneshot::channel();
        let Asked { req, request, deadline, watch } = asked;
        let pending = Pending { request, deadline, reply: Some(reply), watch };
        self.inner.orders.send(Order::Ask(req, Box::new(pending))).map_err(|_| self.end())?;
        answer.await.map_err(|_| self.end())
    }

    fn next_req(&self) -> u64 {
        self.inner.last_req.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Why there is no answer.
    fn end(&self) -> Error {
        match self.state() {
            State::Stopped => Error::Stopped,
            State::Attached | State::Detached | State::Expired => Error::Expired,
        }
    }
}

/// A request on its way to the keeper.
struct Asked {
    req: u64,
    request: Request,
    /// Of an acquire: when it has waited long enough.
    deadline: Option<Instant>,
    watch: Option<oneshot::Sender<Change>>,
}

impl Asked {
    fn plain(req: u64, request: Request) -> Self {
        Self { req, request, deadline: None, watch: None }
    }
}
