//! What stands around everything that the gRPC door serves, ours and YDB's: pages in browsers stay outside, and a panic
//! fails its own request alone (reliability F46).

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use http::header::ORIGIN;
use shardine_model::ErrorCode;
use shardine_service::{Failure, caught};

use crate::status::status_of;

/// Goes around the services of one door, after they were merged.
pub fn shelter(router: Router) -> Router {
    router.layer(from_fn(pass))
}

async fn pass(request: Request, next: Next) -> Response {
    // Programs do not send it. A browser does with every change, also for a page whose name was made to point here.
    if request.headers().contains_key(ORIGIN) {
        let failure = Failure::new(ErrorCode::Forbidden, "pages in browsers are not served; there is an HTTP door");
        return status_of(failure).into_http();
    }
    match caught(next.run(request)).await {
        Ok(response) => response,
        Err(panicked) => status_of(panicked.failure(false)).into_http(),
    }
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
        let response = shelter(router).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        response.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned())
    }

    /// reliability F46: whoever asked is answered.
    #[tokio::test]
    async fn reliability_f46_a_panic_fails_its_own_request_alone() {
        assert_eq!(status("/broken", None).await.as_deref(), Some("2"), "UNKNOWN: it may have been done");
        assert_eq!(status("/whole", None).await, None, "let through, to a service that answers");
    }

    #[tokio::test]
    async fn pages_in_browsers_are_not_served() {
        assert_eq!(status("/whole", Some("http://evil.com")).await.as_deref(), Some("7"), "PERMISSION_DENIED");
    }
}
