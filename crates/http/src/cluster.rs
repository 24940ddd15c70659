//! The cluster as a person wants to see it: status, shards, explain, write-back.

use axum::Json as JsonReply;
use axum::extract::State;
use http::request;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use shardine_model::ErrorCode;
use shardine_router::{
    CoordStatus, Explanation, ReplicaStatus, Residence, ShardStatus, TableWriteback, WritebackStatus,
};
use shardine_service::{RowAddress, address, trouble};

use crate::gate::deadline;
use crate::problem::Problem;
use crate::{Door, body, json, nodes, query, schemas};

#[utoipa::path(get, path = "/v1/status", tag = "cluster",
    responses((status = 200, description = "the cluster: its health, nodes, shards and write-back, and the counters of the node that is asked", body = schemas::StatusView)))]
pub(crate) async fn status(State(door): State<Door>, parts: request::Parts) -> Result<JsonReply<Json>, Problem> {
    let status = door.record_service.cluster(deadline(&parts)).await?;
    let trouble = trouble(&status, &door.record_service.writeback(deadline(&parts)).await?.tables);
    let counters: Map<String, Json> =
        status.counters.iter().map(|(name, count)| ((*name).to_owned(), json::unsigned(*count))).collect();
    Ok(JsonReply(json!({
        "nodes": status.nodes.iter().map(nodes::node_out).collect::<Vec<_>>(),
        "node": json::unsigned(status.node.0),
        "version": status.version,
        "uptime_ms": json::unsigned(status.uptime_ms),
        "wall_ahead_ms": status.wall_ahead_ms.map(json::integer),
        "lanes": status.lanes,
        "connections": json::unsigned(status.connections),
        "log_bytes": json::unsigned(status.log_bytes),
        "health": if trouble.is_empty() { "HEALTHY" } else { "DEGRADED" },
        "trouble": trouble,
        "shards": status.shards.iter().map(shard_out).collect::<Vec<_>>(),
        "writeback": status.writeback.as_ref().map(writeback_out),
        "coordination": status.coordination.iter().map(group_out).collect::<Vec<_>>(),
        "counters": counters,
    })))
}

#[utoipa::path(get, path = "/v1/shards", tag = "cluster",
    responses((status = 200, description = "all shards with their intervals of positions", body = schemas::ShardsView)))]
pub(crate) async fn shards(State(door): State<Door>, parts: request::Parts) -> Result<JsonReply<Json>, Problem> {
    let status = door.record_service.cluster(deadline(&parts)).await?;
    Ok(JsonReply(json!({ "shards": status.shards.iter().map(shard_out).collect::<Vec<_>>() })))
}

#[utoipa::path(get, path = "/v1/writeback", tag = "cluster",
    responses((status = 200, description = "the SQL database and what it does not have yet, table by table; null without one", body = schemas::WritebackReportView)))]
pub(crate) async fn writeback(State(door): State<Door>, parts: request::Parts) -> Result<JsonReply<Json>, Problem> {
    let report = door.record_service.writeback(deadline(&parts)).await?;
    let tables: Vec<Json> = report.tables.iter().map(table_writeback_out).collect();
    let database = report.database.as_ref().map(writeback_out);
    Ok(JsonReply(json!({ "writeback": database, "tables": tables, "unheard": report.unheard })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainParameters {
    key: Option<String>,
    scan: Option<String>,
}

#[utoipa::path(get, path = "/v1/explain", tag = "cluster",
    params(("key" = Option<String>, Query, description = "table:key, or table:key@sort"),
        ("scan" = Option<String>, Query, description = "table, or table:key")),
    responses((status = 200, description = "where a key lives and how it stands, or which shards a scan visits", body = schemas::ExplainView)))]
pub(crate) async fn explain(State(door): State<Door>, parts: request::Parts) -> Result<JsonReply<Json>, Problem> {
    let parameters: ExplainParameters = query::read(&parts.uri)?;
    let until = deadline(&parts);
    match (parameters.key, parameters.scan) {
        (Some(text), None) => {
            let (table, rest) = address::split_table(&text)?;
            let definition = door.record_service.table(table)?;
            let (key, sort) = address::split_sort(rest, &definition.sort_types())?;
            let row = RowAddress { table: table.to_owned(), key: key.as_bytes().to_vec(), sort };
            Ok(JsonReply(explanation_out(&door.record_service.explain(&row, until).await?)))
        }
        (None, Some(text)) => {
            let (table, partition) = match text.split_once(':') {
                Some((table, key)) => (table, Some(key.as_bytes())),
                None => (text.as_str(), None),
            };
            let plan = door.record_service.explain_scan(table, partition, until).await?;
            let shards: Vec<Json> = plan.shards.iter().map(shard_out).collect();
            let access = if plan.single { "SINGLE_SHARD" } else { "SHARD_MERGE" };
            Ok(JsonReply(json!({ "access": access, "table": plan.table, "shards": shards })))
        }
        (_, _) => Err(Problem::new(ErrorCode::BadRequest, "give either key=table:key or scan=table[:key]")),
    }
}

/// Positions are 64-bit numbers that nobody computes with: hexadecimal, as `docs/encoding.md` lists them.
fn shard_out(shard: &ShardStatus) -> Json {
    json!({
        "id": shard.shard.0,
        "lo": format!("{:016x}", shard.lo.0),
        "hi": shard.hi.map(|hi| format!("{:016x}", hi.0)),
        "lane": shard.lane,
        "leader": shard.leader.map(|leader| json::unsigned(leader.0)),
        "term": json::unsigned(shard.term),
        "applied": json::unsigned(shard.applied),
        "committed": json::unsigned(shard.committed),
        "snapshot": json::unsigned(shard.snapshot),
        "records": json::unsigned(shard.records),
        "bytes": json::unsigned(shard.bytes),
        "dirty": json::unsigned(shard.dirty),
        "stopped": shard.stopped,
        "unsplit": shard.unsplit,
        "suspended": shard.suspended,
        "bytes_max": json::unsigned(shard.bytes_max),
        "leader_name": shard.leader_name,
        "replicas": shard.replicas.iter().map(replica_out).collect::<Vec<_>>(),
        "epoch": json!({
            "generation": json::unsigned(shard.epoch.generation.0),
            "range": json::unsigned(shard.epoch.range.0),
            "conf": json::unsigned(shard.epoch.conf.0),
        }),
    })
}

fn replica_out(replica: &ReplicaStatus) -> Json {
    json!({ "node": json::unsigned(replica.node.0), "name": replica.name, "lives": replica.lives })
}

fn group_out(group: &CoordStatus) -> Json {
    json!({
        "group": group.group,
        "leader": group.leader.map(|leader| json::unsigned(leader.0)),
        "term": json::unsigned(group.term),
        "applied": json::unsigned(group.applied),
        "snapshot": json::unsigned(group.snapshot),
        "nodes": json::unsigned(group.nodes),
        "sessions": json::unsigned(group.sessions),
        "semaphores": json::unsigned(group.semaphores),
        "bytes": json::unsigned(group.bytes),
        "streams": json::unsigned(group.streams),
        "watches": json::unsigned(group.watches),
        "waiters": json::unsigned(group.waiters),
        "stopped": group.stopped,
    })
}

fn writeback_out(writeback: &WritebackStatus) -> Json {
    json!({
        "url": writeback.url,
        "connected": writeback.connected,
        "dirty": json::unsigned(writeback.dirty),
        "last_error": writeback.last_error.as_ref().map(|error| &error.message),
        "last_error_ago_ms": writeback.last_error.as_ref().map(|error| json::unsigned(error.ago_ms)),
        "tables_ahead": writeback.tables_ahead,
    })
}

fn table_writeback_out(table: &TableWriteback) -> Json {
    json!({
        "table": table.table,
        "dirty_rows": json::unsigned(table.dirty_rows),
        "dirty_bytes": json::unsigned(table.dirty_bytes),
        "oldest_dirty_ms": json::unsigned(table.oldest_dirty_ms),
        "paused_ms": json::unsigned(table.paused_ms),
        "conflicts": json::unsigned(table.conflicts),
        "dead_letters": json::unsigned(table.dead_letters),
        "written_rows": json::unsigned(table.written_rows),
        "written_per_second": table.written_per_second,
        "last_error": table.last_error.as_ref().map(|error| &error.message),
        "last_error_ago_ms": table.last_error.as_ref().map(|error| json::unsigned(error.ago_ms)),
        "ahead": table.ahead,
    })
}

fn explanation_out(explanation: &Explanation) -> Json {
    let residence = match explanation.residence {
        Residence::Live => "live",
        Residence::Absent => "absent",
        Residence::NotInMemory => "not_in_memory",
    };
    json!({
        "access": "SINGLE_SHARD",
        "table": explanation.table,
        "partition_key": body::shown(&explanation.partition_key),
        "position": format!("{:016x}", explanation.position.0),
        "shards": [shard_out(&explanation.shard)],
        "residence": residence,
        "version": json::integer(explanation.version.0),
        "sql_version": json::integer(explanation.sql_version.0),
        "expires_at_ms": explanation.expires_at.map(|at| json::unsigned(at.0)),
        "retries": explanation.retries,
    })
}
