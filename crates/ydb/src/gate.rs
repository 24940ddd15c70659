//! Who may enter: SDKs bring their token in a header of their own (coordination 5).

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

use crate::rights::{Access, Pass};

/// The tokens that open the door. Without the first one everybody may enter and do everything.
#[derive(Clone)]
pub(crate) struct Keys {
    token: Option<Arc<[u8]>>,
    access: Arc<[Access]>,
}

impl Keys {
    pub(crate) fn new(token: Option<String>, access: Vec<Access>) -> Self {
        Self { token: token.map(|token| token.into_bytes().into()), access: access.into() }
    }

    /// What whoever presents this may do; nothing at all if it is no token of ours.
    fn pass_of(&self, presented: &[u8]) -> Option<Pass> {
        let Some(token) = &self.token else { return Some(Pass::Everything) };
        // All are compared, whichever fits: how long it takes says nothing. The length of a token is no secret; its bytes are.
        let is = |token: &[u8]| bool::from(presented.ct_eq(token));
        let granted: Vec<Access> = self.access.iter().filter(|access| is(access.token.as_bytes())).cloned().collect();
        if is(token) {
            return Some(Pass::Everything);
        }
        (!granted.is_empty()).then_some(Pass::Some(granted))
    }
}

/// What the client dialled: an address that it can reach, whatever this node is called elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Dialled(pub Authority);

pub(crate) fn guard(router: Router, keys: Keys) -> Router {
    router.layer(from_fn_with_state(keys, pass))
}

async fn pass(State(keys): State<Keys>, mut request: Request, next: Next) -> Response {
    let presented = request.headers().get(TICKET).map_or(&[][..], http::HeaderValue::as_bytes);
    let Some(pass) = keys.pass_of(presented) else {
        return Status::unauthenticated("a valid token is needed: x-ydb-auth-ticket").into_http();
    };
    request.extensions_mut().insert(pass);
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
        let access = Access { token: "lesser".to_owned(), path: None, rights: Vec::new() };
        let keys = Keys::new(token.map(str::to_owned), vec![access]);
        let router = Router::new().route("/call", post(|| async { "inside" }));
        let mut request = http::Request::post("/call");
        if let Some(ticket) = ticket {
            request = request.header(TICKET, ticket);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = guard(router, keys).oneshot(request).await.unwrap();
        response.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned())
    }

    /// coordination 5: without a token everybody is let in, whatever they bring.
    #[tokio::test]
    async fn only_tokens_open() {
        let unauthenticated = Some("16".to_owned());

        assert_eq!(answer(None, None).await, None);
        assert_eq!(answer(None, Some("")).await, None);
        assert_eq!(answer(Some("secret"), Some("secret")).await, None);
        assert_eq!(answer(Some("secret"), Some("lesser")).await, None);
        assert_eq!(answer(Some("secret"), None).await, unauthenticated);
        assert_eq!(answer(Some("secret"), Some("")).await, unauthenticated);
        assert_eq!(answer(Some("secret"), Some("secret2")).await, unauthenticated);
    }
}
