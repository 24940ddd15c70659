//! Failures as `application/problem+json` (RFC 9457), and the one mapping of error codes to HTTP.

use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::{Map, Value as Json, json};
use shardine_model::{ErrorCode, Refusal};
use shardine_service::Failure;

use crate::json;

/// Boxed, because nearly every handler may return one and nearly none does.
pub(crate) struct Problem(Box<Failure>);

impl Problem {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(Failure::new(code, message)))
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self(Box::new(failure))
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::from(Failure::from(refusal))
    }
}

#[must_use]
pub fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::NotFound | ErrorCode::UnknownTable => StatusCode::NOT_FOUND,
        ErrorCode::Exists | ErrorCode::CasMismatch => StatusCode::CONFLICT,
        ErrorCode::VersionMismatch => StatusCode::PRECONDITION_FAILED,
        ErrorCode::Overflow | ErrorCode::SqlRefused | ErrorCode::Unsupported => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorCode::BadRequest | ErrorCode::UnknownField | ErrorCode::WrongType => StatusCode::BAD_REQUEST,
        ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::StaleRoute
        | ErrorCode::NotLeader
        | ErrorCode::NoLeader
        | ErrorCode::BackendUnavailable
        | ErrorCode::Busy
        | ErrorCode::DirtyLimit
        | ErrorCode::Suspended => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::InDoubt => StatusCode::GATEWAY_TIMEOUT,
        ErrorCode::Expired => StatusCode::REQUEST_TIMEOUT,
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::Forbidden => StatusCode::FORBIDDEN,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let failure = *self.0;
        let (code, status) = (failure.code, status_of(failure.code));
        let mut body = Map::new();
        body.insert("type".into(), json!(format!("urn:shardine:error:{code}")));
        body.insert("title".into(), json!(code.name().replace('_', " ")));
        body.insert("status".into(), json!(status.as_u16()));
        body.insert("detail".into(), json!(failure.message));
        body.insert("code".into(), json!(code.name()));
        if let Some(version) = failure.version {
            body.insert("version".into(), json::integer(version.0));
        }
        if let Some(version) = failure.sql_version {
            body.insert("sql_version".into(), json::integer(version.0));
        }
        if let Some(item) = failure.item {
            body.insert("item".into(), json!(item));
        }
        if let Some(record) = failure.record {
            body.insert("record".into(), json::record(&record));
        }
        let mut response = (status, Json::Object(body).to_string()).into_response();
        response.extensions_mut().insert(code);
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
