//! What answers and bodies look like, for `/openapi.json`. Answers are written by hand where they are made, because some numbers
//! are strings beyond 2^53; that both agree is checked from outside (`tests/python/openapi.py`).

#![allow(dead_code, reason = "only their shapes are used, by the document")]

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// A whole number; beyond 2^53 a string of digits, because many readers of JSON keep numbers as doubles.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Number {
    Exact(i64),
    Text(String),
}

/// A number, a truth, NULL, or text, in which everything else is written. Blobs are base64, and so is everything in tables
/// without a definition.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum FieldValue {
    Number(f64),
    Truth(bool),
    Text(String),
    Null(Null),
}

/// The value that is none.
#[derive(Serialize)]
pub(crate) struct Null;

impl PartialSchema for Null {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(SchemaType::Type(Type::Null)).build().into()
    }
}

impl ToSchema for Null {}

/// Fields by name.
#[derive(Serialize, ToSchema)]
pub(crate) struct Fields(BTreeMap<String, FieldValue>);

/// A record as it is now.
#[derive(Serialize, ToSchema)]
pub(crate) struct RecordView {
    table: String,
    /// Absent if the key is not UTF-8.
    #[schema(nullable = false)]
    key: Option<String>,
    #[schema(nullable = false)]
    key_base64: Option<String>,
    #[schema(nullable = false)]
    sort: Option<Vec<FieldValue>>,
    version: Number,
    /// The newest version that SQL is known to hold.
    sql_version: Number,
    #[schema(nullable = false)]
    expires_at_ms: Option<Number>,
    fields: BTreeMap<String, FieldValue>,
    /// Fields whose names are not UTF-8; both in base64.
    #[schema(nullable = false)]
    raw_fields: Option<Vec<RawField>>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct RawField {
    name: String,
    value: FieldValue,
}

/// What a change did.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChangeView {
    version: Number,
    sql_version: Number,
    /// How many fields it touched; of a delete there is `existed` instead.
    #[schema(nullable = false)]
    changed: Option<u64>,
    #[schema(nullable = false)]
    existed: Option<bool>,
    #[schema(nullable = false)]
    record: Option<RecordView>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct BatchView {
    /// One per command, in their order.
    replies: Vec<ChangeView>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct PageView {
    records: Vec<RecordView>,
    /// Goes into `cursor` for the next page; null at the end.
    #[schema(required)]
    next: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct FlushedView {
    flushed: bool,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct KickedView {
    kicked: bool,
}

/// A definition.
#[derive(Serialize, ToSchema)]
pub(crate) struct TableView {
    name: String,
    id: u32,
    definition_version: u32,
    fields: Vec<FieldView>,
    sort: Vec<FieldView>,
    backing: String,
    /// Takes any field, as `kv` does.
    dynamic: bool,
    #[schema(required)]
    sql: Option<SqlView>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct FieldView {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    default: Option<FieldValue>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct SqlView {
    mode: String,
    delay_ms: u32,
    batch: u32,
    conflict: String,
    tombstone_keep_ms: u64,
    read_only: bool,
    #[schema(required)]
    mapping: Option<MappingView>,
    after: Vec<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct MappingView {
    table: String,
    key: String,
    key_type: String,
    #[schema(required)]
    version: Option<String>,
    columns: Vec<String>,
    deletes: String,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct TablesView {
    tables: Vec<TableView>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct StatusView {
    node: Number,
    version: String,
    uptime_ms: Number,
    lanes: u64,
    connections: Number,
    log_bytes: Number,
    /// HEALTHY, or DEGRADED with the reasons in `trouble`.
    health: String,
    trouble: Vec<String>,
    shards: Vec<ShardView>,
    #[schema(required)]
    writeback: Option<WritebackView>,
    coordination: Vec<GroupView>,
    counters: BTreeMap<String, Number>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct NodesView {
    nodes: Vec<NodeView>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct NodeView {
    id: Number,
    name: String,
    zone: String,
    addresses: NodeAddressesView,
    /// here (the one that was asked), up, silent, or mute: it has not answered.
    state: String,
    #[schema(required)]
    silent_ms: Option<Number>,
    /// rw, ro or draining
    mode: String,
    weight: u16,
    /// Whether it was taken out; it is listed until its replicas are replaced.
    removed: bool,
    /// Whether it holds no data and only passes requests on.
    gateway: bool,
    replicas: Number,
    leads: Number,
    /// This and what follows is empty of one that says nothing.
    version: String,
    protocol: Number,
    uptime_ms: Number,
    connections: Number,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct NodeAddressesView {
    grpc: String,
    redis: String,
    http: String,
    peer: String,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct DrainView {
    id: Number,
    name: String,
    mode: String,
    weight: u16,
    /// Empty once the node holds nothing.
    left: Vec<DrainLeftView>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct DrainLeftView {
    group: u32,
    /// records, coordination or meta
    kind: String,
    leads: bool,
    /// Whether somebody has to do something first.
    stuck: bool,
    waits_for: String,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct LeadView {
    node: Number,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ShardsView {
    shards: Vec<ShardView>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ShardView {
    id: u32,
    /// Positions are hexadecimal.
    lo: String,
    #[schema(required)]
    hi: Option<String>,
    lane: u64,
    #[schema(required)]
    leader: Option<Number>,
    term: Number,
    applied: Number,
    committed: Number,
    snapshot: Number,
    records: Number,
    bytes: Number,
    dirty: Number,
    #[schema(required)]
    stopped: Option<String>,
    /// Why it is not split although it is large or hot.
    #[schema(required)]
    unsplit: Option<String>,
    suspended: bool,
    /// 0 means no limit.
    bytes_max: Number,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct GroupView {
    group: u32,
    #[schema(required)]
    leader: Option<Number>,
    term: Number,
    applied: Number,
    snapshot: Number,
    nodes: Number,
    sessions: Number,
    semaphores: Number,
    bytes: Number,
    streams: Number,
    watches: Number,
    waiters: Number,
    #[schema(required)]
    stopped: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct WritebackView {
    url: String,
    connected: bool,
    dirty: Number,
    #[schema(required)]
    last_error: Option<String>,
    #[schema(required)]
    last_error_ago_ms: Option<Number>,
    tables_ahead: Vec<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct WritebackReportView {
    #[schema(required)]
    writeback: Option<WritebackView>,
    tables: Vec<TableWritebackView>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct TableWritebackView {
    table: String,
    dirty_rows: Number,
    dirty_bytes: Number,
    oldest_dirty_ms: Number,
    paused_ms: Number,
    conflicts: Number,
    dead_letters: Number,
    written_rows: Number,
    written_per_second: f64,
    #[schema(required)]
    last_error: Option<String>,
    #[schema(required)]
    last_error_ago_ms: Option<Number>,
    #[schema(required)]
    ahead: Option<String>,
}

/// Of a key, everything; of a scan, `access`, `table` and `shards`.
#[derive(Serialize, ToSchema)]
pub(crate) struct ExplainView {
    access: String,
    table: String,
    shards: Vec<ShardView>,
    /// Text, or an object with `base64`.
    partition_key: Option<serde_json::Value>,
    #[schema(nullable = false)]
    position: Option<String>,
    #[schema(nullable = false)]
    residence: Option<String>,
    #[schema(nullable = false)]
    version: Option<Number>,
    #[schema(nullable = false)]
    sql_version: Option<Number>,
    expires_at_ms: Option<Number>,
    /// How often this request was refused or lost on its way, and sent again by the node that was asked.
    #[schema(nullable = false)]
    retries: Option<u32>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct CoordNodesView {
    nodes: Vec<CoordNodeView>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct CoordNodeView {
    path: String,
    self_check_ms: Number,
    grace_ms: Number,
    /// strict or relaxed
    reads: String,
    attaches: String,
    sessions: Number,
    semaphores: Number,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct CoordSessionsView {
    sessions: Vec<CoordSessionView>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct CoordSessionView {
    id: Number,
    timeout_ms: Number,
    description: String,
    attached: bool,
    claims: Number,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct CoordSemaphoresView {
    semaphores: Vec<CoordSemaphoreView>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct CoordSemaphoreView {
    name: String,
    /// base64
    data: String,
    limit: Number,
    count: Number,
    ephemeral: bool,
    owners: Vec<CoordClaimView>,
    owners_total: Number,
    waiters: Vec<CoordClaimView>,
    waiters_total: Number,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct CoordClaimView {
    order_id: Number,
    session_id: Number,
    count: Number,
    /// base64
    data: String,
}

/// An error (RFC 9457). `code` is one of docs/errors.md and does not change.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemView {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    detail: String,
    code: String,
    #[schema(nullable = false)]
    version: Option<Number>,
    #[schema(nullable = false)]
    sql_version: Option<Number>,
    #[schema(nullable = false)]
    record: Option<RecordView>,
    /// Of a batch: which command was refused, counted from 0.
    #[schema(nullable = false)]
    item: Option<u64>,
}
