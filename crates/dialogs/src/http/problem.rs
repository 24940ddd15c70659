//! Failures as `application/problem+json` (RFC 9457), with the codes of `docs/errors.md`.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::json;
use shardine_client::records::ErrorCode;
use tracing::error;

use crate::error::Error;

/// Why a request has no other answer.
#[derive(Debug)]
pub(super) struct Problem {
    code: ErrorCode,
    status: StatusCode,
    detail: String,
}

impl Problem {
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self { code, status: status_of(code), detail: detail.into() }
    }

    /// With another status than its code usually has.
    pub fn with(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }
}

impl From<Error> for Problem {
    fn from(cause: Error) -> Self {
        let code = cause.code();
        let problem = Self::new(code, cause.to_string());
        if problem.status == StatusCode::INTERNAL_SERVER_ERROR {
            error!(%code, %cause, "a request met a fault");
        }
        match cause {
            Error::KeyReused => problem.with(StatusCode::UNPROCESSABLE_ENTITY),
            _ => problem,
        }
    }
}

/// What Shardine says of a table or a field is a fault of this service, and none of its caller's.
fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::BadRequest => StatusCode::BAD_REQUEST,
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::Forbidden => StatusCode::FORBIDDEN,
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::Exists => StatusCode::CONFLICT,
        ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::StaleRoute
        | ErrorCode::NotLeader
        | ErrorCode::NoLeader
        | ErrorCode::BackendUnavailable
        | ErrorCode::Busy
        | ErrorCode::DirtyLimit
        | ErrorCode::Suspended
        | ErrorCode::Expired => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::InDoubt => StatusCode::GATEWAY_TIMEOUT,
        ErrorCode::VersionMismatch
        | ErrorCode::CasMismatch
        | ErrorCode::Overflow
        | ErrorCode::UnknownTable
        | ErrorCode::UnknownField
        | ErrorCode::WrongType
        | ErrorCode::Unsupported
        | ErrorCode::SqlRefused
        | ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { code, status, detail } = self;
        let title = code.name().replace('_', " ");
        let body = json!({
            "type": format!("urn:shardine:error:{code}"), "title": title, "status": status.as_u16(),
            "detail": detail, "code": code.name(),
        });
        let mut response = (status, body.to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
