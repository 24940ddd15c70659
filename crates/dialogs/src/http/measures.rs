//! What the service counts, as Prometheus reads it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use http::header::CONTENT_TYPE;
use http::{HeaderName, Method, StatusCode};

use super::Door;

/// Upper bounds of how long a request takes, in seconds.
const BOUNDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];

/// Clones count together.
#[derive(Clone, Debug, Default)]
pub(super) struct Measures(Arc<Mutex<BTreeMap<Route, Tally>>>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Route {
    method: String,
    path: String,
    status: u16,
}

#[derive(Clone, Debug, Default)]
struct Tally {
    count: u64,
    seconds: f64,
    /// Requests that took no longer than each of the bounds.
    within: [u64; BOUNDS.len()],
}

impl Measures {
    pub fn note(&self, method: &Method, path: &str, status: StatusCode, took: Duration) {
        let route = Route { method: method.to_string(), path: path.to_owned(), status: status.as_u16() };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tally = all.entry(route).or_default();
        let seconds = took.as_secs_f64();
        tally.count += 1;
        tally.seconds += seconds;
        for (within, bound) in tally.within.iter_mut().zip(BOUNDS) {
            *within += u64::from(seconds <= bound);
        }
    }

    fn to_prometheus(&self) -> String {
        let name = "shardine_dialogs_request_seconds";
        let mut text =
            format!("# HELP {name} Requests by what they asked and how they ended.\n# TYPE {name} histogram\n");
        for (Route { method, path, status }, tally) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let labels = format!("method=\"{method}\",path=\"{path}\",status=\"{status}\"");
            // Writing to a string does not fail.
            for (within, bound) in tally.within.iter().zip(BOUNDS) {
                let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {within}");
            }
            let Tally { count, seconds, .. } = tally;
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
            let _ = writeln!(text, "{name}_sum{{{labels}}} {seconds}\n{name}_count{{{labels}}} {count}");
        }
        text
    }
}

#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, description = "Prometheus' text", body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(door): State<Door>) -> ([(HeaderName, &'static str); 1], String) {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], door.measures.to_prometheus())
}
