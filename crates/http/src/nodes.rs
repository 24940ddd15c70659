//! Nodes of the cluster, and what operators order of them: modes, weights, nodes that leave, leads for others.

use axum::Json as JsonReply;
use axum::extract::{Path, State};
use http::{StatusCode, request};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use shardine_model::{ErrorCode, GroupKind, NodeMode, ShardId};
use shardine_router::{DrainLeft, DrainReport, NodeState, NodeStatus};
use utoipa::ToSchema;

use crate::body::{self, Body};
use crate::gate::deadline;
use crate::problem::Problem;
use crate::{Door, json, schemas};

/// What is to change of a node: one of these, or both.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeBody {
    /// rw, ro or draining
    #[schema(pattern = "^(rw|ro|draining)$")]
    mode: Option<String>,
    #[schema(maximum = 1000)]
    weight: Option<u16>,
}

/// Who is to lead.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeadBody {
    /// The name or number of a node with a vote; the best heir without one.
    to: Option<String>,
}

#[utoipa::path(get, path = "/v1/nodes", tag = "cluster",
    responses((status = 200, description = "the nodes of the cluster; none for a node that is alone", body = schemas::NodesView)))]
pub(crate) async fn list(State(door): State<Door>, parts: request::Parts) -> Result<JsonReply<Json>, Problem> {
    let status = door.record_service.cluster(deadline(&parts)).await?;
    Ok(JsonReply(json!({ "nodes": status.nodes.iter().map(node_out).collect::<Vec<_>>() })))
}

#[utoipa::path(patch, path = "/v1/nodes/{node}", tag = "cluster", params(("node" = String, Path, description = "its name or its number")),
    request_body = NodeBody, responses((status = 204, description = "so it is, at every node that lives")))]
pub(crate) async fn change(
    State(door): State<Door>,
    Path(node): Path<String>,
    parts: request::Parts,
    body: Body,
) -> Result<StatusCode, Problem> {
    let NodeBody { mode, weight } = body::read(body)?;
    if mode.is_none() && weight.is_none() {
        return Err(Problem::new(ErrorCode::BadRequest, "give a mode, a weight, or both"));
    }
    let unknown = || Problem::new(ErrorCode::BadRequest, "a mode is rw, ro or draining");
    let mode = mode.map(|mode| NodeMode::named(&mode).ok_or_else(unknown)).transpose()?;
    if let Some(weight) = weight {
        door.record_service.set_node_weight(node.clone(), weight, deadline(&parts)).await?;
    }
    if let Some(mode) = mode {
        door.record_service.set_node_mode(node, mode, deadline(&parts)).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(delete, path = "/v1/nodes/{node}", tag = "cluster", params(("node" = String, Path, description = "its name or its number")),
    responses((status = 204, description = "it is out for good")))]
pub(crate) async fn remove(
    State(door): State<Door>,
    Path(node): Path<String>,
    parts: request::Parts,
) -> Result<StatusCode, Problem> {
    door.record_service.remove_node(node, deadline(&parts)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(get, path = "/v1/nodes/{node}/drain", tag = "cluster", params(("node" = String, Path, description = "its name or its number")),
    responses((status = 200, description = "what is still on a node, and what each of it waits for", body = schemas::DrainView)))]
pub(crate) async fn drain(
    State(door): State<Door>,
    Path(node): Path<String>,
    parts: request::Parts,
) -> Result<JsonReply<Json>, Problem> {
    Ok(JsonReply(drain_out(&door.record_service.drain_report(node, deadline(&parts)).await?)))
}

#[utoipa::path(post, path = "/v1/shards/{shard}/transfer-leader", tag = "cluster",
    params(("shard" = String, Path, description = "a shard's number, `coordination` or `meta`")), request_body = LeadBody,
    responses((status = 200, description = "the number of the node that leads now", body = schemas::LeadView)))]
pub(crate) async fn transfer_leader(
    State(door): State<Door>,
    Path(shard): Path<String>,
    parts: request::Parts,
    body: Body,
) -> Result<JsonReply<Json>, Problem> {
    let unknown = || Problem::new(ErrorCode::BadRequest, "a shard's number, `coordination` or `meta`");
    let shard = ShardId::named(&shard).ok_or_else(unknown)?;
    let LeadBody { to } = body::read(body)?;
    let node = door.record_service.transfer_leader(shard, to, deadline(&parts)).await?;
    Ok(JsonReply(json!({ "node": json::unsigned(node.0) })))
}

pub(crate) fn node_out(node: &NodeStatus) -> Json {
    let silent_ms = match node.state {
        NodeState::Silent { for_ms } => Some(json::unsigned(for_ms)),
        NodeState::Here | NodeState::Up | NodeState::Mute => None,
    };
    json!({
        "id": json::unsigned(node.node.0),
        "name": node.name,
        "zone": node.zone,
        "addresses": json!({
            "grpc": node.addresses.grpc,
            "redis": node.addresses.redis,
            "http": node.addresses.http,
            "peer": node.addresses.peer,
        }),
        "state": node.state.name(),
        "silent_ms": silent_ms,
        "mode": node.mode.name(),
        "weight": node.weight,
        "removed": node.is_removed,
        "gateway": node.is_gateway,
        "replicas": json::unsigned(node.replicas),
        "leads": json::unsigned(node.leads),
        "version": node.version,
        "protocol": json::unsigned(node.protocol),
        "uptime_ms": json::unsigned(node.uptime_ms),
        "connections": json::unsigned(node.connections),
    })
}

fn drain_out(report: &DrainReport) -> Json {
    json!({
        "id": json::unsigned(report.node.0),
        "name": report.name,
        "mode": report.mode.name(),
        "weight": report.weight,
        "left": report.left.iter().map(left_out).collect::<Vec<_>>(),
    })
}

fn left_out(left: &DrainLeft) -> Json {
    let kind = match left.shard.kind() {
        GroupKind::Records => "records",
        GroupKind::Coordination => "coordination",
        GroupKind::Meta => "meta",
    };
    json!({ "group": left.shard.0, "kind": kind, "leads": left.leads, "stuck": left.stuck, "waits_for": left.waits_for })
}
