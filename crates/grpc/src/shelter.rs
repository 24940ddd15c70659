//! What stands around everything that the gRPC door serves, ours and YDB's: pages in browsers stay outside, and a panic
//! fails its own request alone (reliability F46).

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::header::ORIGIN;
use shardine_model::ErrorCode;
use shardine_proto::CODE_METADATA;
use shardine_service::{DoorMeasures, Failure, caught};
use tokio::time::Instant;

use crate::status::status_of;

/// Goes around the services of one door, after they were merged.
pub fn shelter(router: Router, measures: DoorMeasures) -> Router {
    router.layer(from_fn_with_state(measures, pass))
}

/// Answers a request, and counts how it ended. A stream ends when its client likes, and is not measured.
async fn pass(State(measures): State<DoorMeasures>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let (door, is_read) = (if path.starts_with("/Ydb.") { "ydb" } else { "grpc" }, is_read(path));
    let is_stream = path.ends_with("/Session") || path.ends_with("/ServerReflectionInfo") || path.ends_with("/Watch");
    let begun = Instant::now();
    let response = answer(request, next).await;
    if !is_stream {
        let name = response.headers().get(CODE_METADATA).and_then(|name| name.to_str().ok());
        let code = ErrorCode::ALL.iter().copied().find(|code| Some(code.name()) == name);
        measures.note(door, is_read, begun.elapsed(), code);
    }
    response
}

/// By the name of the method, as its authors mean it.
fn is_read(path: &str) -> bool {
    const READS: [&str; 12] = [
        "Get",
        "MGet",
        "Scan",
        "List",
        "Show",
        "Status",
        "Shards",
        "Explain",
        "Verify",
        "Describe",
        "WritebackStatus",
        "DeadLetters",
    ];
    let method = path.rsplit('/').next().unwrap_or_default();
    READS.iter().any(|read| method == *read || (method.starts_with(read) && *read != "Get" && *read != "Status"))
        || method == "Check"
}

async fn answer(request: Request, next: Next) -> Response {
    // Programs do not send it. A browser does with every change, also for a page whose name was made to point here.
    if request.headers().contains_key(ORIGIN) {
        let failure = Failure::new(ErrorCode::Forbidden, "pages in browsers are not served; there is an HTTP door");
        return status_of(failure).into_http();
    }
    match caught(next.run(request)).await {
        Ok(response) => renamed(response),
        Err(panicked) => status_of(panicked.failure(false)).into_http(),
    }
}

/// What tonic itself refuses before a service sees it, by the code that it should have: a message that cannot be read is the
/// sender's mistake (tonic says INTERNAL), one that is too long exhausts what we give it (OUT_OF_RANGE). Our own refusals carry
/// their name.
fn renamed(response: Response) -> Response {
    let headers = response.headers();
    if headers.contains_key(CODE_METADATA) {
        return response;
    }
    let code = match headers.get("grpc-status").map(http::HeaderValue::as_bytes) {
        Some(b"13") => ErrorCode::BadRequest,
        Some(b"11") => ErrorCode::TooLarge,
        Some(_) | None => return response,
    };
    let said = headers.get("grpc-message").and_then(|said| said.to_str().ok()).unwrap_or_default();
    let said = percent_encoding::percent_decode_str(said).decode_utf8_lossy();
    status_of(Failure::new(code, format!("the message cannot be taken: {said}"))).into_http()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::post;
    use tower::ServiceExt;

    use super::*;

    async fn status(path: &str, origin: Option<&str>) -> Option<String> {
        async fn broken() {
            panic!("on purpose");
        }
        let router = Router::new().route("/broken", post(broken)).route("/whole", post(|| async { "served" }));
        let mut request = http::Request::post(path);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        let response =
            shelter(router, DoorMeasures::default()).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        response.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned())
    }

    /// reliability F46: whoever asked is answered.
    #[tokio::test]
    async fn reliability_f46_a_panic_fails_its_own_request_alone() {
        assert_eq!(status("/broken", None).await.as_deref(), Some("2"), "UNKNOWN: it may have been done");
        assert_eq!(status("/whole", None).await, None, "let through, to a service that answers");
    }

    /// What tonic calls INTERNAL and OUT_OF_RANGE.
    /// reliability S11.
    #[tokio::test]
    async fn messages_that_cannot_be_taken_are_the_senders_mistake() {
        let service = || crate::service(shardine_fake::FakeEngine::new(), crate::Options::default());
        let status = async |message: &[u8]| {
            let request = http::Request::post("/shardine.v1.Records/Get").header("content-type", "application/grpc");
            let request = request.body(Body::from(message.to_vec())).unwrap();
            let response = shelter(service(), DoorMeasures::default()).oneshot(request).await.unwrap();
            let text = |name: &str| response.headers().get(name).unwrap().to_str().unwrap().to_owned();
            (text("grpc-status"), text(CODE_METADATA))
        };

        let invalid = ("3".to_owned(), "bad_request".to_owned());
        assert_eq!(status(&[0, 0, 0, 0, 2, 0xff, 0xff]).await, invalid, "no protobuf");
        assert_eq!(status(&[]).await, invalid, "nothing at all");
        assert_eq!(status(&[0, 0x7f, 0xff, 0xff, 0xff]).await, ("8".to_owned(), "too_large".to_owned()));
    }

    #[tokio::test]
    async fn pages_in_browsers_are_not_served() {
        assert_eq!(status("/whole", Some("http://evil.com")).await.as_deref(), Some("7"), "PERMISSION_DENIED");
    }
}
