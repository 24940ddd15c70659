//! The one accept loop of the gRPC and HTTP doors: timers, caps, idle limits, graceful stop.
//!
//! The loops that come with the HTTP libraries install no timer, so a client that sends its header a byte a minute
//! holds a connection for ever (reliability S12, S13), and one that asks and does not read holds its answers. It speaks
//! HTTP/1 and HTTP/2 without TLS and knows nothing of what is served.

mod activity;
mod connection;
mod limits;
mod unread;
mod visitors;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{debug, warn};

pub use limits::Limits;

use crate::connection::Connection;
use crate::unread::Unread;
use crate::visitors::Visitors;

/// How long to leave the listener alone after it failed for want of files or memory: an error that repeats at once
/// would turn the loop into a spin, and ending it would close the door for good.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `shutdown` resolves, then stops accepting, lets requests in flight finish within `limits.grace`, and returns.
pub async fn serve(listener: TcpListener, service: Router, limits: Limits, shutdown: impl Future<Output = ()> + Send) {
    let visitors = Visitors::new(&limits);
    let unread = Unread::new(limits.unread_bytes_max);
    let limits = Arc::new(limits);
    let (closing, closed) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(ended) = connections.join_next(), if !connections.is_empty() => {
                if let Err(error) = ended {
                    warn!(%error, "a connection ended in panic");
                }
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                after_accept_error(&error).await;
                continue;
            }
        };
        // Closing at once tells the client more than leaving it in the backlog would.
        let Some(place) = visitors.admit(peer.ip()) else {
            debug!(%peer, "connection refused: too many");
            continue;
        };
        let visitor = unread.visitor(peer);
        let connection =
            Connection { limits: Arc::clone(&limits), service: service.clone(), visitor, closed: closed.clone() };
        connections.spawn(async move {
            connection.run(stream).await;
            drop(place);
        });
    }
    drop(listener);
    closing.send_replace(true);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.grace, all_ended).await.is_err() {
        warn!("connections that did not end in time are cut");
        connections.shutdown().await;
    }
}

/// A connection that died in the backlog concerns nobody; anything else is a shortage that passes.
async fn after_accept_error(error: &io::Error) {
    match error.kind() {
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted => {}
        _ => {
            warn!(%error, "cannot accept now, will try again");
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests;
