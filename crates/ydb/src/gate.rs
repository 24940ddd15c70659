//! Who may enter: SDKs bring their token in a header of their own (coordination-semantics 5).

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::header::HOST;
use http::uri::Authority;
use shardine_proto::YDB_TICKET_METADATA as TICKET;
use subtle::ConstantTimeEq;
use tonic::Status;

type Token = Option<Arc<[u8]>>;

/// What the client dialled: an address that it can reach, whatever this node is called elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Dialled(pub Authority);

pub(crate) fn guard(router: Router, token: Option<String>) -> Router {
    let token: Token = token.map(|token| token.into_bytes().into());
    router.layer(from_fn_with_state(token, pass))
}

async fn pass(State(token): State<Token>, mut request: Request, next: Next) -> Response {
    if let Some(token) = token {
        let presented = request.headers().get(TICKET).map_or(&[][..], http::HeaderValue::as_bytes);
        // The length of a token is no secret; its bytes are.
        if !bool::from(presented.ct_eq(&token)) {
            return Status::unauthenticated("a valid token is needed: x-ydb-auth-ticket").into_http();
        }
    }
    let host = || request.headers().get(HOST)?.to_str().ok()?.parse().ok();
    if let Some(authority) = request.uri().authority().cloned().or_else(host) {
        request.extensions_mut().insert(Dialled(authority));
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::post;
    use tower::ServiceExt;

    use super::*;

    /// The gRPC status that the gate itself answers with; `None` if it lets the call through.
    async fn answer(token: Option<&str>, ticket: Option<&str>) -> Option<String> {
        let router = Router::new().route("/call", post(|| async { "inside" }));
        let mut request = http::Request::post("/call");
        if let Some(ticket) = ticket {
            request = request.header(TICKET, ticket);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = guard(router, token.map(str::to_owned)).oneshot(request).await.unwrap();
        response.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned())
    }

    /// coordination-semantics 5: without a token everybody is let in, whatever they bring.
    #[tokio::test]
    async fn only_the_token_opens() {
        let unauthenticated = Some("16".to_owned());

        assert_eq!(answer(None, None).await, None);
        assert_eq!(answer(None, Some("")).await, None);
        assert_eq!(answer(Some("secret"), Some("secret")).await, None);
        assert_eq!(answer(Some("secret"), None).await, unauthenticated);
        assert_eq!(answer(Some("secret"), Some("")).await, unauthenticated);
        assert_eq!(answer(Some("secret"), Some("secret2")).await, unauthenticated);
    }
}
