//! For load balancers and supervisors: is the process alive, and does it serve?

use std::time::Duration;

use axum::extract::State;
use http::StatusCode;
use tokio::time::Instant;

use crate::Door;

/// How long a probe waits for the engine; longer means that it does not serve.
const PROBE_TIME: Duration = Duration::from_secs(2);

#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, description = "the process is alive")))]
pub(crate) async fn alive() -> &'static str {
    "alive\n"
}

#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, description = "every shard has a leader"), (status = 503, description = "which one has not")))]
pub(crate) async fn ready(State(door): State<Door>) -> (StatusCode, String) {
    let status = match door.record_service.status(Instant::now() + PROBE_TIME).await {
        Ok(status) => status,
        Err(failure) => return (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {}\n", failure.message)),
    };
    let lame = status.shards.iter().find(|shard| shard.leader.is_none() || shard.stopped.is_some());
    match lame {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(shard) => {
            let reason = shard.stopped.as_deref().unwrap_or("it has no leader");
            (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: shard {}: {reason}\n", shard.shard))
        }
    }
}
