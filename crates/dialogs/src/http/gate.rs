//! What a request passes before its body is read: the token, and a place.

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::AUTHORIZATION;
use shardine_service::{Gate, GateOptions, caught};
use tokio::time::Instant;

use super::Door;
use super::measures::Measures;
use super::problem::Problem;

#[derive(Clone)]
struct Guard {
    gate: Gate,
    measures: Measures,
}

pub(super) fn guard(router: Router<Door>, options: GateOptions, measures: Measures) -> Router<Door> {
    router.route_layer(from_fn_with_state(Guard { gate: Gate::new(options), measures }, pass))
}

/// Lets a request in, and counts how it ended.
async fn pass(State(guard): State<Guard>, path: MatchedPath, request: Request, next: Next) -> Response {
    let (begun, method) = (Instant::now(), request.method().clone());
    let response = admit(&guard.gate, request, next).await;
    guard.measures.note(&method, path.as_str(), response.status(), begun.elapsed());
    response
}

async fn admit(gate: &Gate, request: Request, next: Next) -> Response {
    let _place = match gate.enter(request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes)) {
        Ok(place) => place,
        Err(refusal) => return Problem::new(refusal.code, refusal.message).into_response(),
    };
    let is_read = request.method().is_safe();
    match caught(next.run(request)).await {
        Ok(response) => response,
        Err(panicked) => {
            let failure = panicked.failure(is_read);
            Problem::new(failure.code, failure.message).into_response()
        }
    }
}
