//! Coordination for those who look: nodes, sessions, semaphores with owners and waiters. Changes belong to sessions, and
//! sessions to the gRPC door.

use axum::Json as JsonReply;
use axum::extract::State;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::request;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use shardine_router::{CoordClaim, CoordLook, CoordNode, CoordSemaphore, CoordSession, CoordView, SemaphoreRange};

use crate::gate::deadline;
use crate::problem::Problem;
use crate::{Door, json, query, schemas};

/// Lines of a page, when the address does not say and at most.
const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1_000;

#[utoipa::path(get, path = "/v1/coord/nodes", tag = "coordination",
    responses((status = 200, description = "all coordination nodes, with the settings in use and their sizes", body = schemas::CoordNodesView)))]
pub(crate) async fn nodes(State(door): State<Door>, parts: request::Parts) -> Result<JsonReply<Json>, Problem> {
    let view = door.record_service.coord(CoordLook::Nodes, deadline(&parts)).await?;
    Ok(JsonReply(view_out(&view)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionParameters {
    node: String,
    after: Option<u64>,
    limit: Option<usize>,
}

#[utoipa::path(get, path = "/v1/coord/sessions", tag = "coordination",
    params(("node" = String, Query, description = "the node's path"),
        ("after" = Option<u64>, Query, description = "the last id of the page before"),
        ("limit" = Option<usize>, Query, description = "100 unless said, 1000 at most")),
    responses((status = 200, description = "sessions of a node by their ids", body = schemas::CoordSessionsView)))]
pub(crate) async fn sessions(State(door): State<Door>, parts: request::Parts) -> Result<JsonReply<Json>, Problem> {
    let SessionParameters { node, after, limit } = query::read(&parts.uri)?;
    let look = CoordLook::Sessions { node, after: after.unwrap_or(0), limit: page(limit) };
    Ok(JsonReply(view_out(&door.record_service.coord(look, deadline(&parts)).await?)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SemaphoreParameters {
    node: String,
    name: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

#[utoipa::path(get, path = "/v1/coord/semaphores", tag = "coordination",
    params(("node" = String, Query, description = "the node's path"),
        ("name" = Option<String>, Query, description = "only this one"),
        ("after" = Option<String>, Query, description = "the last name of the page before"),
        ("limit" = Option<usize>, Query, description = "100 unless said, 1000 at most")),
    responses((status = 200, description = "semaphores of a node by name, each with the first of its owners and waiters", body = schemas::CoordSemaphoresView)))]
pub(crate) async fn semaphores(State(door): State<Door>, parts: request::Parts) -> Result<JsonReply<Json>, Problem> {
    let SemaphoreParameters { node, name, after, limit } = query::read(&parts.uri)?;
    let which = match (name, after) {
        (Some(name), _) => SemaphoreRange::Named(name),
        (None, Some(after)) => SemaphoreRange::After(after),
        (None, None) => SemaphoreRange::All,
    };
    let look = CoordLook::Semaphores { node, which, limit: page(limit) };
    Ok(JsonReply(view_out(&door.record_service.coord(look, deadline(&parts)).await?)))
}

fn page(limit: Option<usize>) -> usize {
    limit.unwrap_or(PAGE_DEFAULT).min(PAGE_MAX)
}

fn view_out(view: &CoordView) -> Json {
    match view {
        CoordView::Nodes(nodes) => json!({ "nodes": nodes.iter().map(node_out).collect::<Vec<_>>() }),
        CoordView::Sessions(sessions) => {
            json!({ "sessions": sessions.iter().map(session_out).collect::<Vec<_>>() })
        }
        CoordView::Semaphores(semaphores) => {
            json!({ "semaphores": semaphores.iter().map(semaphore_out).collect::<Vec<_>>() })
        }
    }
}

fn node_out(node: &CoordNode) -> Json {
    let mode = |strict| if strict { "strict" } else { "relaxed" };
    json!({
        "path": node.path,
        "self_check_ms": json::unsigned(node.self_check_ms),
        "grace_ms": json::unsigned(node.grace_ms),
        "reads": mode(node.strict_reads),
        "attaches": mode(node.strict_attaches),
        "sessions": json::unsigned(node.sessions),
        "semaphores": json::unsigned(node.semaphores),
    })
}

fn session_out(session: &CoordSession) -> Json {
    json!({
        "id": json::unsigned(session.id),
        "timeout_ms": json::unsigned(session.timeout_ms),
        "description": session.description,
        "attached": session.attached,
        "claims": json::unsigned(session.claims),
    })
}

fn semaphore_out(semaphore: &CoordSemaphore) -> Json {
    json!({
        "name": semaphore.name,
        "data": STANDARD.encode(&semaphore.data),
        "limit": json::unsigned(semaphore.limit),
        "count": json::unsigned(semaphore.count),
        "ephemeral": semaphore.ephemeral,
        "owners": semaphore.owners.iter().map(claim_out).collect::<Vec<_>>(),
        "owners_total": json::unsigned(semaphore.owners_total),
        "waiters": semaphore.waiters.iter().map(claim_out).collect::<Vec<_>>(),
        "waiters_total": json::unsigned(semaphore.waiters_total),
    })
}

fn claim_out(claim: &CoordClaim) -> Json {
    json!({
        "order_id": json::unsigned(claim.order_id),
        "session_id": json::unsigned(claim.session_id),
        "count": json::unsigned(claim.count),
        "data": STANDARD.encode(&claim.data),
    })
}
