//! Until when a request wants its answer.

use std::time::Duration;

use http::HeaderMap;
use shardine_model::{ErrorCode, Refusal};
use shardine_service::{DEADLINE_DEFAULT, DEADLINE_MAX};
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(pub Instant);

impl Deadline {
    /// Counts from now: the client's clock is not ours.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let length = match headers.get("grpc-timeout") {
            None => DEADLINE_DEFAULT,
            Some(header) => header.to_str().ok().and_then(parse).ok_or_else(|| {
                Refusal::new(ErrorCode::BadRequest, "grpc-timeout is at most eight digits and a unit of HMSmun")
            })?,
        };
        Ok(Self(Instant::now() + length.min(DEADLINE_MAX)))
    }
}

/// What the gate noted; requests that did not pass it (in tests) get the default.
pub(crate) fn deadline<T>(request: &tonic::Request<T>) -> Instant {
    request.extensions().get::<Deadline>().map_or_else(|| Instant::now() + DEADLINE_DEFAULT, |deadline| deadline.0)
}

/// `100m`: at most eight digits and a unit, as the gRPC specification writes time-outs.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3_600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outs_are_read_as_specified() {
        assert_eq!(parse("250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse("3S"), Some(Duration::from_secs(3)));
        assert_eq!(parse("99999999H"), Some(Duration::from_secs(99_999_999 * 3_600)));
        for wrong in ["", "m", "3", "123456789m", "-1m", "3x", "é"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
