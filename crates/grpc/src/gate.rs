//! What a request passes before its body is read: the token, a place among those in flight, and its deadline.

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::header::AUTHORIZATION;
use shardine_model::ErrorCode;
use shardine_service::{Failure, Gate, GateOptions};
use std::time::Duration;
use tokio::time::timeout_at;

use crate::deadline::Deadline;
use crate::status::status_of;

/// Probes come without a token, and must get through when the server is full.
const OPEN_PREFIX: &str = "/grpc.health.v1.Health/";

/// How long after the deadline a handler may take to say so itself. What ends here was still reading its body.
const DEADLINE_SLACK: Duration = Duration::from_secs(1);

pub(crate) fn guard(router: Router, options: GateOptions) -> Router {
    router.layer(from_fn_with_state(Gate::new(options), pass))
}

async fn pass(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    if request.uri().path().starts_with(OPEN_PREFIX) {
        return next.run(request).await;
    }
    let authorization = request.headers().get(AUTHORIZATION).map(http::HeaderValue::as_bytes);
    let _place = match gate.enter(authorization) {
        Ok(place) => place,
        Err(refusal) => return status_of(Failure::from(refusal)).into_http(),
    };
    let deadline = match Deadline::of(request.headers()) {
        Ok(deadline) => deadline,
        Err(refusal) => return status_of(Failure::from(refusal)).into_http(),
    };
    request.extensions_mut().insert(deadline);
    match timeout_at(deadline.0 + DEADLINE_SLACK, next.run(request)).await {
        Ok(response) => response,
        Err(_) => status_of(Failure::coded(ErrorCode::Expired, "the request")).into_http(),
    }
}
