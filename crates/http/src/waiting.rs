//! What the HTTP door of a node says that has no cluster yet.

use axum::Router;
use axum::routing::get;
use http::StatusCode;

use crate::health;

/// It is alive, and not ready.
pub fn waiting() -> Router {
    Router::new().route("/healthz", get(health::alive)).fallback(get(not_ready))
}

async fn not_ready() -> (StatusCode, &'static str) {
    let reason = "not ready: this node waits for a cluster; `shardine init --server ADDR` makes one, once\n";
    (StatusCode::SERVICE_UNAVAILABLE, reason)
}
