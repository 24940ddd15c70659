//! What handlers read: bodies, parameters, ids. A field or a parameter that is not known is refused: it is more likely mistyped
//! than meant for somebody else.

use axum::body::Bytes;
use axum::extract::Query;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use http::HeaderMap;
use serde::de::DeserializeOwned;
use shardine_client::records::ErrorCode;

use super::problem::Problem;
use crate::error::Error;
use crate::id::{Id, Stamp};
use crate::limits;

pub(super) type Body = Result<Bytes, BytesRejection>;
pub(super) type Parameters<T> = Result<Query<T>, QueryRejection>;

const ONCE_HEADER: &str = "idempotency-key";

/// JSON, whatever the content type says: `curl -d` says that it is a form.
pub(super) fn body<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    let bytes = body.map_err(|rejection| {
        let code = if rejection.status() == 413 { ErrorCode::TooLarge } else { ErrorCode::BadRequest };
        Problem::new(code, rejection.body_text())
    })?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Problem::new(ErrorCode::BadRequest, format!("the body is not the JSON expected here: {error}"))
    })
}

pub(super) fn parameters<T>(parameters: Parameters<T>) -> Result<T, Problem> {
    let Query(parameters) =
        parameters.map_err(|rejection| Problem::new(ErrorCode::BadRequest, rejection.body_text()))?;
    Ok(parameters)
}

pub(super) fn id(text: &str) -> Result<Id, Problem> {
    text.parse().map_err(|error| Problem::new(ErrorCode::BadRequest, format!("{text:?}: {error}")))
}

/// Where a page or a stream begins: what `next` of a page, or the id of an event, was.
pub(super) fn cursor(text: &str) -> Result<Stamp, Problem> {
    text.parse().map_err(|_| Problem::new(ErrorCode::BadRequest, format!("{text:?} is not a cursor of this service")))
}

pub(super) fn limit(limit: Option<u32>) -> Result<u32, Error> {
    match limit.unwrap_or(limits::PAGE_DEFAULT) {
        0 => Err(Error::Bad("a page has one row at least".into())),
        limit => Ok(limit.min(limits::PAGE_MAX)),
    }
}

/// What makes repeated requests one.
pub(super) fn once_key(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let text = headers.get(ONCE_HEADER).map(|value| value.to_str());
    text.transpose().map_err(|_| Error::Bad("an Idempotency-Key is printable ASCII".into()))
}
