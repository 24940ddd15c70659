//! What a connection is doing: answering, waiting for the rest of a header, or nothing at all.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::limits::Limits;

/// What HTTP/2 clients say first. Their frames come at any time, so a byte is not the beginning of a header.
const PREFACE_START: &[u8] = b"PRI ";

/// Why a connection should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    Idle,
    /// A request was begun and not finished in time.
    HalfHeader,
}

#[derive(Clone)]
pub(crate) struct Activity {
    state: Arc<Mutex<State>>,
    header_begun: Arc<Notify>,
}

struct State {
    in_flight: usize,
    quiet_since: Instant,
    header_since: Option<Instant>,
}

/// A request in flight, until dropped.
pub(crate) struct Busy(Activity);

impl Default for Activity {
    fn default() -> Self {
        let state = State { in_flight: 0, quiet_since: Instant::now(), header_since: None };
        Self { state: Arc::new(Mutex::new(state)), header_begun: Arc::default() }
    }
}

impl Activity {
    pub(crate) fn begin(&self) -> Busy {
        let mut state = self.state();
        state.in_flight += 1;
        state.header_since = None;
        Busy(self.clone())
    }

    /// Resolves once the client has been silent for longer than it may.
    pub(crate) async fn silence(&self, limits: &Limits) -> Silence {
        loop {
            let (until, silence) = {
                let state = self.state();
                match state.header_since {
                    Some(since) => (since + limits.header_time, Silence::HalfHeader),
                    None if state.in_flight > 0 => (Instant::now() + limits.idle_time, Silence::Idle),
                    None => (state.quiet_since + limits.idle_time, Silence::Idle),
                }
            };
            if until <= Instant::now() {
                return silence;
            }
            tokio::select! {
                () = sleep_until(until) => {}
                () = self.header_begun.notified() => {}
            }
        }
    }

    fn heard(&self) {
        let mut state = self.state();
        if state.in_flight == 0 && state.header_since.is_none() {
            state.header_since = Some(Instant::now());
            self.header_begun.notify_one();
        }
    }

    /// Somebody takes what is written: a response that goes on is no silence.
    fn told(&self) {
        self.state().quiet_since = Instant::now();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.in_flight -= 1;
        state.quiet_since = Instant::now();
    }
}

/// A stream that tells when bytes of an HTTP/1 request arrive.
pub(crate) struct Watched {
    stream: TcpStream,
    activity: Activity,
    protocol: Protocol,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Unknown,
    One,
    Two,
}

impl Watched {
    pub(crate) fn new(stream: TcpStream, activity: Activity) -> Self {
        Self { stream, activity, protocol: Protocol::Unknown }
    }

    fn heard(&mut self, bytes: &[u8]) {
        if self.protocol == Protocol::Unknown {
            let two = bytes.starts_with(PREFACE_START);
            self.protocol = if two { Protocol::Two } else { Protocol::One };
        }
        if self.protocol == Protocol::One {
            self.activity.heard();
        }
    }

    /// Bytes that the system has taken: it does not for long if the client takes none. On HTTP/2 they may be pings, which say
    /// nothing of requests.
    fn told(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if self.protocol == Protocol::One && matches!(written, Poll::Ready(Ok(bytes)) if bytes > 0) {
            self.activity.told();
        }
        written
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let read = &buffer.filled()[before..];
        if !read.is_empty() {
            self.heard(read);
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.told(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.told(written)
    }
}
