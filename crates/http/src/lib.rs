//! The HTTP door: REST with OpenAPI, metrics and health.
//!
//! It translates between JSON and the service; what a request means is decided there. Listening, timers and connection
//! caps belong to the accept loop (`shardine-accept`). The console and its events are not here yet.

// In the order in which a request meets them.
mod gate;
mod hosts;
mod record_path;
mod records;
mod batch;
mod scans;
mod tables;

mod cluster;
mod nodes;
mod coord;
mod health;
mod metrics;
mod openapi;

mod waiting;

mod query;
mod body;
mod schemas;
mod json;
mod problem;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, patch, post};
use http::StatusCode;
use shardine_model::ErrorCode;
use shardine_router::RemoteEngine;
use shardine_service::{DEADLINE_DEFAULT, DoorMeasures, GateOptions, RecordService};

pub use hosts::Hosts;
pub use problem::status_of;
pub use waiting::waiting;

use crate::problem::Problem;

/// Bytes of one body: the largest value (32 MiB) in base64, with its neighbours.
pub const BODY_BYTES_MAX: usize = 48 << 20;

#[derive(Clone, Debug)]
pub struct Options {
    /// The token, and how many requests may be inside.
    pub gate: GateOptions,
    /// Which names are answered to.
    pub hosts: Hosts,
    /// What all doors but Redis count, to be shown here.
    pub measures: DoorMeasures,
    /// How long a request may take that sets no `shardine-timeout-ms`.
    pub request_time: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            gate: GateOptions::default(),
            hosts: Hosts::default(),
            measures: DoorMeasures::default(),
            request_time: DEADLINE_DEFAULT,
        }
    }
}

/// What handlers share.
#[derive(Clone)]
pub(crate) struct Door {
    pub record_service: RecordService,
    pub measures: DoorMeasures,
}

/// Everything this door serves, ready for the accept loop.
pub fn router(engine: Arc<dyn RemoteEngine>, options: Options) -> Router {
    let door = Door { record_service: RecordService::new(engine), measures: options.measures.clone() };
    let record =
        get(records::get).put(records::replace).patch(records::set).post(records::change).delete(records::delete);
    let inside = Router::new()
        .route("/v1/tables", get(tables::list).post(tables::create))
        .route("/v1/tables/{table}", get(tables::show).delete(tables::remove))
        .route("/v1/tables/{table}/fields", post(tables::add_field))
        .route("/v1/tables/{table}/records", get(scans::table))
        .route("/v1/tables/{table}/records/{key}", record)
        .route("/v1/tables/{table}/records/{key}/flush", post(records::flush))
        .route("/v1/tables/{table}/records/{key}/kick", post(records::kick))
        .route("/v1/batch", post(batch::batch))
        .route("/v1/tables/{table}/partitions/{key}", get(scans::partition))
        .route("/v1/status", get(cluster::status))
        .route("/v1/nodes", get(nodes::list))
        .route("/v1/nodes/{node}", patch(nodes::change).delete(nodes::remove))
        .route("/v1/nodes/{node}/drain", get(nodes::drain))
        .route("/v1/shards", get(cluster::shards))
        .route("/v1/shards/{shard}/transfer-leader", post(nodes::transfer_leader))
        .route("/v1/explain", get(cluster::explain))
        .route("/v1/writeback", get(cluster::writeback))
        .route("/v1/coord/nodes", get(coord::nodes))
        .route("/v1/coord/sessions", get(coord::sessions))
        .route("/v1/coord/semaphores", get(coord::semaphores))
        .route("/metrics", get(metrics::metrics))
        .route("/openapi.json", get(openapi::document))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    let inside = gate::guard(inside, options);
    // Probes come without a token, and must get through when the house is full.
    let open = Router::new().route("/healthz", get(health::alive)).route("/readyz", get(health::ready));
    open.merge(inside).method_not_allowed_fallback(wrong_method).fallback(nothing_here).with_state(door)
}

async fn wrong_method() -> (StatusCode, Problem) {
    (StatusCode::METHOD_NOT_ALLOWED, Problem::new(ErrorCode::Unsupported, "this address does not know that method"))
}

async fn nothing_here() -> Problem {
    Problem::new(ErrorCode::NotFound, "nothing is served at this address; /openapi.json tells what is")
}
