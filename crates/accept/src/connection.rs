//! One connection: serves requests until the client leaves, nothing has been asked for too long, or the door closes.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tower::ServiceExt;
use tracing::debug;

use crate::activity::{Activity, Silence, Watched};
use crate::limits::Limits;
use crate::unread::{Counted, Visitor};

/// HTTP/2 pings, so that a peer that vanished without a word is noticed (reliability S11).
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Connection {
    pub limits: Arc<Limits>,
    pub service: Router,
    /// What this client has not read.
    pub visitor: Visitor,
    /// Turns true when the door closes.
    pub closed: watch::Receiver<bool>,
}

impl Connection {
    pub(crate) async fn run(mut self, stream: TcpStream) {
        // Answers are small and waited for; nothing is gained by holding them back.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "the connection is gone already");
            return;
        }
        let activity = Activity::default();
        let stream = Watched::new(stream, activity.clone());
        let service =
            Served { router: self.service.clone(), activity: activity.clone(), visitor: self.visitor.clone() };
        let builder = self.builder();
        let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            ended = serving.as_mut() => return log_end(ended),
            silence = activity.silence(&self.limits) => if silence == Silence::HalfHeader { return },
            () = self.visitor.cut() => return,
            _ = self.closed.wait_for(|closed| *closed) => {}
        }
        // What is in flight may finish; a client that takes no bytes may not hold the place for ever.
        serving.as_mut().graceful_shutdown();
        if let Ok(ended) = tokio::time::timeout(self.limits.grace, serving).await {
            log_end(ended);
        }
    }

    fn builder(&self) -> Builder<TokioExecutor> {
        let limits = &self.limits;
        let mut builder = Builder::new(TokioExecutor::new());
        // No header timer here: hyper's would run while a connection is idle, too. `Activity` tells the two apart.
        builder.http1().max_headers(limits.headers_max).max_buf_size(limits.header_bytes_max.max(8 << 10));
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams_max)
            .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        builder
    }
}

/// Clients that leave in the middle are everyday; only someone who looks for them wants to read of them.
fn log_end(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(error) = ended {
        debug!(%error, "connection ended");
    }
}

/// The router, with a note of when it was last busy, and of what its answers hold.
#[derive(Clone)]
struct Served {
    router: Router,
    activity: Activity,
    visitor: Visitor,
}

impl Service<Request<Incoming>> for Served {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (busy, visitor) = (self.activity.begin(), self.visitor.clone());
        let answer = self.router.clone().oneshot(request.map(Body::new));
        Box::pin(async move {
            let Ok(response) = answer.await;
            let (head, body) = response.into_parts();
            let mut body = Counted::new(body, visitor);
            // A message that is not in bytes yet cannot be counted; whoever waits for room to write would leave it so.
            poll_fn(|context| body.look(context)).await;
            drop(busy);
            Ok(Response::from_parts(head, Body::new(body)))
        })
    }
}
