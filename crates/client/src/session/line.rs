//! The way to the server: one stream after the other, and until when the server is known to keep the session.

use std::sync::Arc;
use std::time::Duration;

use shardine_proto::ydb::coordination::session_request::{PingPong, Request, SessionStart};
use shardine_proto::ydb::coordination::session_response::Response;
use shardine_proto::ydb::coordination::v1::coordination_service_client::CoordinationServiceClient;
use shardine_proto::ydb::coordination::{SessionRequest, SessionResponse};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;

use crate::connections::{Connection, Connections};
use crate::error::{Error, check, unexpected};

/// Bytes of one response: a description with many owners may be large.
const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// Between two pings, and for how long one may stay unanswered.
const PERIOD_MAX: Duration = Duration::from_secs(10);

/// How long one attempt to open a stream may take: a machine that has vanished does not say so.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);

/// Between two attempts: twice as long each time, give or take.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Our pings are numbered from here: one that repeats the server's number would count as the answer to its ping.
const FIRST_PING: u64 = 1 << 63;

pub(super) struct Line {
    connections: Connections,
    start: SessionStart,
    timeout: Duration,
    /// Its timeout after something was sent that the server has answered: it had the session then.
    deadline: watch::Sender<Instant>,
}

impl Line {
    pub fn new(connections: Connections, start: SessionStart, timeout: Duration) -> Self {
        Self { connections, start, timeout, deadline: watch::Sender::new(after(Instant::now(), timeout)) }
    }

    /// Follows until when the session is certain.
    pub fn deadlines(&self) -> watch::Receiver<Instant> {
        self.deadline.subscribe()
    }

    pub fn session_id(&self) -> u64 {
        self.start.session_id
    }

    /// A third of the timeout: one ping may be lost, and there is still time to come back.
    pub fn period(&self) -> Duration {
        (self.timeout / 3).min(PERIOD_MAX)
    }

    /// How long one attempt may take. Where there are other nodes to try, their turn must come while the session lives.
    fn patience(&self) -> Duration {
        if self.connections.doors().count() > 1 { (self.timeout / 4).min(ATTEMPT_MAX) } else { ATTEMPT_MAX }
    }

    pub fn prove(&mut self, sent_at: Instant) {
        let proven = after(sent_at, self.timeout);
        self.deadline.send_if_modified(|deadline| {
            let is_later = proven > *deadline;
            *deadline = proven.max(*deadline);
            is_later
        });
    }

    /// One attempt.
    pub async fn open(&mut self) -> Result<Stream, Error> {
        self.start.seq_no += 1;
        let sent_at = Instant::now();
        let patience = self.patience();
        let until = sent_at + patience;
        let dial = self.connections.doors().current();
        let silence = |_| dial.unreachable(format!("no answer in {patience:?}"));
        let connection = timeout_at(until, self.connections.join()).await.map_err(silence)??;
        let mut attempt = Attempt { connection: &connection, is_answered: false };
        let opened = timeout_at(until, open(&connection, self.start.clone())).await.map_err(silence).flatten();
        attempt.is_answered = !matches!(opened, Err(Error::Unreachable { .. }));
        let (stream, session_id) = opened?;
        self.connections.doors().learn_soon(&connection.carrier);
        self.start.session_id = session_id;
        self.prove(sent_at);
        Ok(stream)
    }

    /// Attempts until one succeeds, or it is certain that none will, or too late to trust one.
    pub async fn come_back(&mut self) -> Option<Stream> {
        let deadline = *self.deadline.borrow();
        let attempts = async {
            let mut pause = PAUSE_MIN;
            loop {
                match self.open().await {
                    Ok(stream) => return Some(stream),
                    Err(error) if !error.is_passing() => return None,
                    Err(_) => sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await,
                }
                pause = (pause * 2).min(PAUSE_MAX);
            }
        };
        timeout_at(deadline, attempts).await.ok().flatten()
    }
}

/// An attempt on a connection. One without an answer, also if whoever waited for it has given up early, leaves the connection
/// to itself: it may lead to a machine that has vanished, where the next attempt would wait in vain too.
struct Attempt<'a> {
    connection: &'a Connection,
    is_answered: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.connection.lose();
        }
    }
}

/// A timeout that no clock can count is refused by the server.
fn after(at: Instant, timeout: Duration) -> Instant {
    at.checked_add(timeout).unwrap_or(at)
}

async fn open(connection: &Arc<Connection>, start: SessionStart) -> Result<(Stream, u64), Error> {
    let dial = &connection.dial;
    let (requests, sent) = unbounded_channel();
    // The first message stands in line before the call is made, because nothing is answered before it.
    let _ = requests.send(SessionRequest { request: Some(Request::SessionStart(start)) });
    let mut client =
        CoordinationServiceClient::new(connection.carrier.clone()).max_decoding_message_size(RESPONSE_BYTES_MAX);
    let answered = client.session(UnboundedReceiverStream::new(sent)).await;
    let mut responses = answered.map_err(|failure| dial.failure(&failure))?.into_inner();
    match responses.message().await.map_err(|failure| dial.failure(&failure))?.and_then(|first| first.response) {
        Some(Response::SessionStarted(started)) => {
            let connection = Arc::clone(connection);
            let stream = Stream { connection, requests, responses, last_ping: FIRST_PING, unanswered: None };
            Ok((stream, started.session_id))
        }
        Some(Response::Failure(failure)) => {
            check(failure.status, &failure.issues)?;
            Err(unexpected("status of a failure"))
        }
        Some(_) | None => Err(dial.unreachable("the stream ended at once".to_owned())),
    }
}

/// An open stream that holds the session.
pub(super) struct Stream {
    connection: Arc<Connection>,
    /// Unbounded, because whoever asks waits for the answer: there are never more requests than callers.
    requests: UnboundedSender<SessionRequest>,
    responses: Streaming<SessionResponse>,
    last_ping: u64,
    unanswered: Option<Instant>,
}

impl Stream {
    /// What cannot be sent any more is noticed where responses are read.
    pub fn say(&self, request: Request) {
        let _ = self.requests.send(SessionRequest { request: Some(request) });
    }

    /// `None` when the stream is over.
    pub async fn next(&mut self) -> Option<Response> {
        loop {
            let message: SessionResponse = self.responses.message().await.ok().flatten()?;
            if message.response.is_some() {
                return message.response;
            }
        }
    }

    pub fn pong(&self, opaque: u64) {
        self.say(Request::Pong(PingPong { opaque }));
    }

    /// Others that share its connection do not wait for an answer in vain.
    pub fn lose(&self) {
        self.connection.lose();
    }

    pub fn next_beat(&self, period: Duration) -> Instant {
        self.connection.next_beat(period)
    }

    /// Sends the next ping, unless one has just been sent; false if that has been without an answer for too long.
    pub fn ping(&mut self, patience: Duration) -> bool {
        if let Some(sent_at) = self.unanswered {
            return sent_at.elapsed() < patience;
        }
        self.last_ping += 1;
        self.unanswered = Some(Instant::now());
        self.say(Request::Ping(PingPong { opaque: self.last_ping }));
        true
    }

    /// When the ping was sent that this answers.
    pub fn heard_pong(&mut self, opaque: u64) -> Option<Instant> {
        if opaque == self.last_ping { self.unanswered.take() } else { None }
    }
}
