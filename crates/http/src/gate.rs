//! What a request passes before its body is read: where it comes from, the token, a place, and its deadline.

use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, request};
use shardine_model::{ErrorCode, Refusal};
use shardine_service::{DEADLINE_MAX, DoorMeasures, Gate, caught};
use tokio::time::{Instant, timeout_at};

use crate::hosts::Hosts;
use crate::problem::Problem;
use crate::{BODY_BYTES_MAX, Door, Options};

/// How long a client will wait, in milliseconds.
pub(crate) const TIMEOUT_HEADER: &str = "shardine-timeout-ms";

/// How long after the deadline a handler may take to say so itself. What ends here was still reading its body.
const DEADLINE_SLACK: Duration = Duration::from_secs(1);

#[derive(Clone)]
struct Guard {
    gate: Gate,
    hosts: Hosts,
    measures: DoorMeasures,
    request_time: Duration,
}

#[derive(Clone, Copy)]
struct Deadline(Instant);

pub(crate) fn guard(router: Router<Door>, options: Options) -> Router<Door> {
    let guard = Guard {
        gate: Gate::new(options.gate),
        hosts: options.hosts,
        measures: options.measures,
        request_time: options.request_time,
    };
    router.layer(from_fn_with_state(guard, pass))
}

/// What the guard noted.
pub(crate) fn deadline(parts: &request::Parts) -> Instant {
    parts.extensions.get::<Deadline>().map_or_else(Instant::now, |deadline| deadline.0)
}

/// Lets a request in, and counts how it ended.
async fn pass(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let (begun, is_read, measures) = (Instant::now(), request.method().is_safe(), guard.measures.clone());
    let response = admit(guard, request, next).await;
    measures.note("http", is_read, begun.elapsed(), response.extensions().get::<ErrorCode>().copied());
    response
}

async fn admit(guard: Guard, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let headers = &parts.headers;
    let comes_from_here = guard.hosts.check(&parts).and_then(|()| check_origin(&parts));
    if let Err(refusal) = comes_from_here.and_then(|()| check_length(headers)) {
        return Problem::from(refusal).into_response();
    }
    let _place = match guard.gate.enter(headers.get(AUTHORIZATION).map(HeaderValue::as_bytes)) {
        Ok(place) => place,
        Err(refusal) => return Problem::from(refusal).into_response(),
    };
    let length = match time_of(headers) {
        Ok(length) => length.unwrap_or(guard.request_time).min(DEADLINE_MAX),
        Err(refusal) => return Problem::from(refusal).into_response(),
    };
    let deadline = Instant::now() + length;
    parts.extensions.insert(Deadline(deadline));
    let is_read = parts.method.is_safe();
    let work = caught(next.run(Request::from_parts(parts, body)));
    match timeout_at(deadline + DEADLINE_SLACK, work).await {
        Ok(Ok(response)) => response,
        Ok(Err(panicked)) => Problem::from(panicked.failure(is_read)).into_response(),
        Err(_) => Problem::new(ErrorCode::Expired, "the request did not arrive in time").into_response(),
    }
}

/// A page of another site may make a browser send requests to loopback; browsers then say whose page it was.
fn check_origin(request: &request::Parts) -> Result<(), Refusal> {
    let Some(origin) = request.headers.get(ORIGIN) else { return Ok(()) };
    let site = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    let header = || request.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = request.uri.authority().map(Authority::as_str).or_else(header);
    if site.is_some() && site == host {
        return Ok(());
    }
    Err(Refusal::new(ErrorCode::Forbidden, "requests from pages of other sites are not served"))
}

/// A body that says it is too long is not read at all; one that lies is cut off while it is read.
fn check_length(headers: &HeaderMap) -> Result<(), Refusal> {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    match length {
        Some(length) if length > BODY_BYTES_MAX as u64 => Err(Refusal::new(
            ErrorCode::TooLarge,
            format!("the body has {length} bytes, the limit is {BODY_BYTES_MAX}"),
        )),
        Some(_) | None => Ok(()),
    }
}

fn time_of(headers: &HeaderMap) -> Result<Option<Duration>, Refusal> {
    let Some(header) = headers.get(TIMEOUT_HEADER) else { return Ok(None) };
    match header.to_str().ok().and_then(|text| text.parse().ok()) {
        Some(ms) => Ok(Some(Duration::from_millis(ms))),
        None => Err(Refusal::new(ErrorCode::BadRequest, format!("{TIMEOUT_HEADER} is a number of milliseconds"))),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::routing::get;
    use http::StatusCode;
    use shardine_fake::FakeEngine;
    use shardine_service::RecordService;
    use tower::ServiceExt;

    use super::*;

    async fn broken() {
        panic!("on purpose");
    }

    /// reliability F46: whoever asked is answered, and everybody else is served.
    #[tokio::test]
    async fn reliability_f46_a_panic_fails_its_own_request_alone() {
        let router =
            Router::new().route("/broken", get(broken).post(broken)).route("/whole", get(|| async { "served" }));
        let door = Door { record_service: RecordService::new(FakeEngine::new()), measures: DoorMeasures::default() };
        let router = guard(router, Options::default()).with_state(door);
        let ask = async |request: http::request::Builder| {
            let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
            let status = response.status();
            let body = to_bytes(response.into_body(), 10_000).await.unwrap();
            (status, String::from_utf8(body.to_vec()).unwrap())
        };

        let read = ask(http::Request::get("/broken")).await;
        let change = ask(http::Request::post("/broken")).await;

        assert_eq!(read.0, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(read.1.contains(r#""code":"internal""#), "{}", read.1);
        assert!(change.1.contains(r#""code":"in_doubt""#), "it may have been made: {}", change.1);
        assert_eq!(ask(http::Request::get("/whole")).await, (StatusCode::OK, "served".to_owned()));
    }
}
