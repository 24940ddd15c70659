//! What the gRPC and HTTP doors count of themselves, for `/metrics`. The Redis door is counted on its lane.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shardine_model::ErrorCode;
use shardine_router::{Histogram, HistogramStatus};

/// Shared by the doors of a node. A lock a request is nothing beside the request.
#[derive(Clone, Debug, Default)]
pub struct DoorMeasures(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    took: BTreeMap<(&'static str, &'static str), Histogram>,
    errors: BTreeMap<(&'static str, ErrorCode), u64>,
}

impl DoorMeasures {
    /// A request was answered at this door; `is_read` if it could change nothing.
    pub fn note(&self, door: &'static str, is_read: bool, took: Duration, code: Option<ErrorCode>) {
        let kind = if is_read { "read" } else { "write" };
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.took.entry((door, kind)).or_default().note(us, 1);
        if let Some(code) = code {
            *inner.errors.entry((door, code)).or_default() += 1;
        }
    }

    #[must_use]
    pub fn histograms(&self) -> Vec<HistogramStatus> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = |(&(door, kind), histogram): (&(&'static str, &'static str), &Histogram)| HistogramStatus {
            name: "request_duration_seconds",
            labels: vec![("door", door), ("kind", kind)],
            histogram: histogram.clone(),
        };
        inner.took.iter().map(line).collect()
    }

    /// Refusals and failures, by door and code.
    #[must_use]
    pub fn errors(&self) -> Vec<(&'static str, ErrorCode, u64)> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.errors.iter().map(|(&(door, code), &count)| (door, code, count)).collect()
    }
}
