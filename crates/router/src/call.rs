//! Calls and responses that own their bytes, so that they can cross threads.

use std::sync::Arc;

use shardine_model::{
    Answer, Backing, FieldType, NodeId, Position, Refusal, RowImage, RowKeyBuf, ShardId, Table, TableId, Timestamp,
    Value, Version,
};

/// Everything a door can ask for beyond the two hot paths of [`crate::Hall`].
#[derive(Clone, Debug)]
pub enum Call {
    /// Linearizable read of one row: `Response::Answer` with the whole row, or refused with `not_found`.
    Read {
        row: RowKeyBuf,
    },
    /// An encoded [`shardine_model::Request`], all of whose rows share one partition.
    Submit {
        request: Box<[u8]>,
    },
    Scan(ScanCall),
    /// Drops a clean record from memory; a dirty one is first written, unless `nowait`, which answers `busy`.
    Kick {
        row: RowKeyBuf,
        nowait: bool,
    },
    /// Answers once SQL holds what was current when the call arrived.
    Flush(FlushScope),
    /// Empties a table that has no SQL behind it.
    Clear {
        table: TableId,
    },
    /// Live records, of one table or all.
    Count {
        table: Option<TableId>,
    },
    CreateTable(TableSpec),
    AddField {
        table: String,
        field: FieldSpec,
    },
    DropTable {
        table: String,
    },
    Status,
    Explain {
        row: RowKeyBuf,
    },
}

#[derive(Clone, Debug)]
pub enum FlushScope {
    Row(RowKeyBuf),
    Table(TableId),
    All,
}

#[derive(Clone, Debug)]
pub enum Response {
    Answer(Answer),
    Page(ScanPage),
    Count(u64),
    /// The definition in force after a table call.
    Table(Arc<Table>),
    Status(Box<EngineStatus>),
    Explanation(Box<Explanation>),
    Done,
    Refused(Refusal),
}

/// A page of rows in routing order `(position, key, table, sort)`, or, inside one partition, in sort order.
#[derive(Clone, Debug, Default)]
pub struct ScanCall {
    /// `None` scans all tables (Redis `SCAN`).
    pub table: Option<TableId>,
    /// Rows of one key only, of a table with a sort key.
    pub partition: Option<Box<[u8]>>,
    pub range: SortRange,
    pub descending: bool,
    pub limit: usize,
    /// What the previous page gave as `next`.
    pub cursor: Option<Vec<u8>>,
    /// End pages between positions only, so that a position alone can serve as cursor (Redis `SCAN`).
    pub whole_positions: bool,
}

/// Encoded sort keys; a bound may be a prefix (the first part of two).
#[derive(Clone, Debug, Default)]
pub struct SortRange {
    pub from: Bound,
    pub to: Bound,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    #[default]
    Open,
    Including(Box<[u8]>),
    Excluding(Box<[u8]>),
}

/// Rows of one page. The end is a `next` of `None`; a page may be short, even empty, and still have a next.
#[derive(Clone, Debug, Default)]
pub struct ScanPage {
    pub rows: Vec<ScannedRow>,
    pub next: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub struct ScannedRow {
    pub row: RowKeyBuf,
    pub version: Version,
    pub sql_version: Version,
    pub expires_at: Option<Timestamp>,
    pub fields: RowImage,
}

/// What `table create` asks for.
#[derive(Clone, Debug)]
pub struct TableSpec {
    pub name: String,
    pub fields: Vec<FieldSpec>,
    pub sort: Vec<(String, FieldType)>,
    pub backing: Backing,
}

#[derive(Clone, Debug)]
pub struct FieldSpec {
    pub name: String,
    pub kind: FieldType,
    pub default: Option<Value>,
}

/// The node as a person wants to see it.
#[derive(Clone, Debug, Default)]
pub struct EngineStatus {
    pub node: NodeId,
    pub version: String,
    pub uptime_ms: u64,
    pub lanes: usize,
    pub connections: u64,
    pub log_bytes: u64,
    pub shards: Vec<ShardStatus>,
    pub writeback: Option<WritebackStatus>,
    /// Counters since start, by name, for `INFO` and `/metrics`.
    pub counters: Vec<(&'static str, u64)>,
}

#[derive(Clone, Debug, Default)]
pub struct ShardStatus {
    pub shard: ShardId,
    pub lo: Position,
    pub hi: Option<Position>,
    pub lane: usize,
    pub leader: Option<NodeId>,
    pub term: u64,
    pub applied: u64,
    pub committed: u64,
    pub snapshot: u64,
    pub records: u64,
    pub bytes: u64,
    pub dirty: u64,
    /// Set when the shard has stopped; says why and what to do.
    pub stopped: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct WritebackStatus {
    pub url: String,
    pub connected: bool,
    pub dirty: u64,
    pub last_error: Option<String>,
}

/// Where a key lives and how it stands (`explain`).
#[derive(Clone, Debug)]
pub struct Explanation {
    pub table: String,
    pub partition_key: Vec<u8>,
    pub position: Position,
    pub shard: ShardStatus,
    pub residence: Residence,
    pub version: Version,
    pub sql_version: Version,
    pub expires_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    Live,
    /// Known not to exist, or deleted.
    Absent,
    /// Only SQL can tell.
    NotInMemory,
}
