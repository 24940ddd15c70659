//! Query parameters, with refusals in our own form.

use axum::extract::Query;
use http::Uri;
use serde::de::DeserializeOwned;
use shardine_model::{ErrorCode, Refusal};

/// Reads the parameters of an address; an unknown one is refused, so that a slip of the pen is not silently ignored.
pub(crate) fn read<T: DeserializeOwned>(uri: &Uri) -> Result<T, Refusal> {
    match Query::<T>::try_from_uri(uri) {
        Ok(Query(parameters)) => Ok(parameters),
        Err(rejection) => Err(Refusal::new(ErrorCode::BadRequest, rejection.body_text())),
    }
}
