//! For load balancers and supervisors: is the process alive, and does it serve?

use std::time::Duration;

use axum::extract::State;
use http::StatusCode;
use shardine_service::{trouble, unready};
use tokio::time::Instant;

use crate::Door;

/// How long a probe waits for the engine; longer means that it does not serve.
const PROBE_TIME: Duration = Duration::from_secs(2);

#[utoipa::path(get, path = "/healthz", tag = "health",
    responses((status = 200, description = "the process is alive", body = String, content_type = "text/plain")))]
pub(crate) async fn alive() -> &'static str {
    "alive\n"
}

/// A node that serves is ready, also while something needs a look: a balancer would gain nothing by leaving it.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, description = "every shard serves and coordination is led; a line for whatever is degraded all the same", body = String, content_type = "text/plain"),
        (status = 503, description = "what does not", body = String, content_type = "text/plain")))]
pub(crate) async fn ready(State(door): State<Door>) -> (StatusCode, String) {
    let until = Instant::now() + PROBE_TIME;
    let status = match door.record_service.status(until).await {
        Ok(status) => status,
        Err(failure) => return (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", failure.message)),
    };
    if let Some(reason) = unready(&status) {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n"));
    }
    let tables = door.record_service.writeback(until).await.map(|report| report.tables).unwrap_or_default();
    let degraded = trouble(&status, &tables).into_iter().map(|trouble| format!("degraded: {trouble}\n"));
    (StatusCode::OK, std::iter::once("ready\n".to_owned()).chain(degraded).collect())
}
