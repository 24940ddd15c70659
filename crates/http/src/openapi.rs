//! `/openapi.json`: what this door serves, for tools.

use axum::Json as JsonReply;
use utoipa::OpenApi;

use crate::{cluster, coord, health, metrics, records, scans, tables};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Shardine",
        description = "Records, tables, coordination and the cluster over HTTP. Errors are application/problem+json with a stable `code` (docs/errors.md). Blobs are base64; integers beyond 2^53 are strings."
    ),
    paths(
        records::get,
        records::replace,
        records::set,
        records::change,
        records::delete,
        records::flush,
        scans::table,
        scans::partition,
        tables::list,
        tables::create,
        tables::show,
        tables::add_field,
        tables::remove,
        cluster::status,
        cluster::shards,
        cluster::explain,
        cluster::writeback,
        coord::nodes,
        coord::sessions,
        coord::semaphores,
        health::alive,
        health::ready,
        metrics::metrics,
    )
)]
struct Document;

pub(crate) async fn document() -> JsonReply<utoipa::openapi::OpenApi> {
    JsonReply(Document::openapi())
}
