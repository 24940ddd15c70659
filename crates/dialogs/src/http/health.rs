//! Whether the service lives, and whether it can answer.

use axum::extract::State;

use super::Door;
use super::problem::Problem;

#[utoipa::path(get, path = "/healthz", tag = "health",
    responses((status = 200, description = "the process lives", body = String, content_type = "text/plain")))]
pub(super) async fn alive() -> &'static str {
    "alive\n"
}

#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, description = "Shardine answers", body = String, content_type = "text/plain"),
        (status = 503, description = "Shardine does not answer", content_type = "application/problem+json")))]
pub(super) async fn ready(State(door): State<Door>) -> Result<&'static str, Problem> {
    door.dialogs.knock().await?;
    Ok("ready\n")
}
