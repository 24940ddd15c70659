//! What a door gets for a call. Responses own their bytes, so that they can cross threads.

use std::sync::Arc;

use shardine_model::{
    Answer, Epoch, ErrorCode, NodeId, Position, Refusal, Reply, RowImage, RowKeyBuf, ShardId, Table, Timestamp, Version,
};

use crate::balance::BalanceView;
use crate::cluster_status::{DrainReport, NodeStatus, ReplicaStatus};
use crate::coord::{CoordStatus, CoordView};
use crate::histogram::Histogram;

#[derive(Clone, Debug)]
pub enum Response {
    Answer(Answer),
    /// A row as a replica had it after applying the entries up to `applied`.
    Stale {
        reply: Reply,
        applied: u64,
    },
    Page(ScanPage),
    Count(u64),
    /// The definition in force after a table call.
    Table(Arc<Table>),
    Status(Box<EngineStatus>),
    Writeback(Box<WritebackReport>),
    Verified(Box<VerifiedPage>),
    DeadLetters(Vec<DeadLetterLine>),
    Explanation(Box<Explanation>),
    Coord(CoordView),
    Routes(Box<RouteList>),
    /// Another node leads the shard, and nothing was done here.
    Moved(Box<ShardRoute>),
    Drain(Box<DrainReport>),
    Balance(Box<BalanceView>),
    /// Where a path of coordination is: its group, and the number of its place.
    Place {
        group: ShardId,
        placed: u64,
    },
    Done,
    Refused(Refusal),
    /// A reply as the client is to get it.
    Written(Vec<u8>),
    /// Nothing was done: it belongs where this row lives.
    Elsewhere(RowKeyBuf),
}

/// A shard of records and who leads it, as one node knows it: for clients that keep the map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardRoute {
    pub shard: ShardId,
    pub lo: Position,
    /// Up to the end without it.
    pub hi: Option<Position>,
    pub epoch: Epoch,
    pub leader: Option<NodeId>,
    /// In which term; 0 if nothing is known.
    pub term: u64,
    /// The leader's gRPC door; empty on a node that is alone.
    pub address: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteList {
    /// Of the map; leaders change without it.
    pub version: u64,
    /// In routing order.
    pub shards: Vec<ShardRoute>,
    /// The gRPC doors of all nodes; none for a node that is alone.
    pub addresses: Vec<String>,
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
    /// Whether memory held it when the page began; else it came from SQL, and still is not in memory.
    pub in_memory: bool,
}

/// The node as a person wants to see it, or, with what the others say, the cluster.
#[derive(Clone, Debug, Default)]
pub struct EngineStatus {
    pub node: NodeId,
    pub version: String,
    /// What it speaks with other nodes.
    pub protocol: u64,
    pub uptime_ms: u64,
    /// Set while the machine's clock is not believed: how far it is ahead of the time that is, or behind it if negative.
    pub wall_ahead_ms: Option<i64>,
    pub lanes: usize,
    pub connections: u64,
    pub log_bytes: u64,
    pub shards: Vec<ShardStatus>,
    pub writeback: Option<WritebackStatus>,
    /// All nodes; empty for one that is alone, or that speaks of itself only.
    pub nodes: Vec<NodeStatus>,
    /// Coordination groups.
    pub coordination: Vec<CoordStatus>,
    /// What is known of replicas that differ from others of their group, in sentences.
    pub differences: Vec<String>,
    /// Counters since start, by name, for `INFO` and `/metrics`.
    pub counters: Vec<(&'static str, u64)>,
    /// How long things took since start, for `/metrics`.
    pub histograms: Vec<HistogramStatus>,
    /// Refusals and failures since start, by door and code.
    pub errors: Vec<(&'static str, ErrorCode, u64)>,
}

/// A histogram under its name without the program's, and its labels.
#[derive(Clone, Debug)]
pub struct HistogramStatus {
    pub name: &'static str,
    pub labels: Vec<(&'static str, &'static str)>,
    pub histogram: Histogram,
}

impl HistogramStatus {
    /// Adds the lines of another lane to those of the same name and labels.
    pub fn join(all: &mut Vec<Self>, more: Vec<Self>) {
        for one in more {
            match all.iter_mut().find(|known| (known.name, &known.labels) == (one.name, &one.labels)) {
                Some(known) => known.histogram.add(&one.histogram),
                None => all.push(one),
            }
        }
    }
}

impl Response {
    /// Bytes of the record that a read has brought.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        match self {
            Self::Answer(answer) => answer.row_bytes(),
            Self::Stale { reply, .. } => reply.row().map_or(0, |row| row.packed.len()),
            _ => 0,
        }
    }

    /// What is told of a request of which an earlier try may have been executed: that this one was refused does not mean that nothing was done.
    #[must_use]
    pub fn of_later_try(self) -> Self {
        match &self {
            Self::Refused(Refusal { code, .. }) | Self::Answer(Answer::Failed(code)) if !code.is_in_doubt() => {
                Self::Answer(Answer::Failed(ErrorCode::InDoubt))
            }
            _ => self,
        }
    }

    /// Why it was refused, or failed.
    #[inline]
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(refusal) => Some(refusal.code),
            Self::Answer(Answer::Failed(code)) => Some(*code),
            Self::Answer(Answer::One(reply)) | Self::Stale { reply, .. } => reply.refusal(),
            Self::Moved(_) => Some(ErrorCode::NotLeader),
            Self::Answer(Answer::Many(_) | Answer::ConditionFailed)
            | Self::Page(_)
            | Self::Count(_)
            | Self::Table(_)
            | Self::Status(_)
            | Self::Writeback(_)
            | Self::Verified(_)
            | Self::DeadLetters(_)
            | Self::Explanation(_)
            | Self::Coord(_)
            | Self::Routes(_)
            | Self::Drain(_)
            | Self::Balance(_)
            | Self::Place { .. }
            | Self::Written(_)
            | Self::Elsewhere(_)
            | Self::Done => None,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct ShardStatus {
    pub shard: ShardId,
    pub lo: Position,
    pub hi: Option<Position>,
    pub lane: usize,
    pub leader: Option<NodeId>,
    /// Of these three whoever has the map knows more than the shard itself, and fills them in.
    pub leader_name: String,
    pub replicas: Vec<ReplicaStatus>,
    pub epoch: Epoch,
    pub term: u64,
    pub applied: u64,
    pub committed: u64,
    pub snapshot: u64,
    pub records: u64,
    pub bytes: u64,
    /// Bytes above which records that SQL has are evicted; 0 means no limit.
    pub bytes_max: u64,
    pub dirty: u64,
    /// Whether an operator has suspended it: requests are refused, write-back goes on.
    pub suspended: bool,
    /// Set when the shard has stopped; says why and what to do.
    pub stopped: Option<String>,
    /// Set when it should be split and cannot be; says why.
    pub unsplit: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct WritebackStatus {
    pub url: String,
    pub connected: bool,
    pub dirty: u64,
    pub last_error: Option<SqlError>,
    /// Tables of which nothing is written, because SQL is ahead of this node's memory.
    pub tables_ahead: Vec<String>,
}

/// What SQL said last, until a while after it has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    pub message: String,
    pub ago_ms: u64,
    /// Whether SQL has done since what it was asked to do.
    pub is_past: bool,
}

/// What one page of a comparison found. The end is a `next` of `None`.
#[derive(Clone, Debug, Default)]
pub struct VerifiedPage {
    /// Clean in memory, and the same in SQL.
    pub equal: u64,
    /// On their way to SQL.
    pub dirty: u64,
    /// In SQL only.
    pub not_in_memory: u64,
    /// Changed at every look, so that nothing can be said about them.
    pub changing: u64,
    pub differences: Vec<Difference>,
    pub next: Option<Vec<u8>>,
}

/// A row that is not in SQL as memory knows it to be.
#[derive(Clone, Debug)]
pub struct Difference {
    pub row: RowKeyBuf,
    pub kind: DifferenceKind,
    pub memory: Version,
    pub sql: Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DifferenceKind {
    /// SQL does not have it.
    Missing,
    /// SQL has another content under the same version.
    Content,
    /// SQL has an older version than the one it has confirmed.
    Older,
    /// SQL has a newer version: somebody else wrote it.
    Newer,
    /// SQL has it in a form that does not fit the definition.
    Unfit(String),
}

impl DifferenceKind {
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Content => "content",
            Self::Older => "older",
            Self::Newer => "newer",
            Self::Unfit(_) => "unfit",
        }
    }
}

/// How far SQL is behind (`writeback status`).
#[derive(Clone, Debug, Default)]
pub struct WritebackReport {
    /// `None` without SQL.
    pub database: Option<WritebackStatus>,
    /// Every table that lives in SQL, by name.
    pub tables: Vec<TableWriteback>,
    /// Nodes that have not answered: what they lead is not in it.
    pub unheard: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableWriteback {
    pub table: String,
    pub dirty_rows: u64,
    pub dirty_bytes: u64,
    /// How long the row that waits longest has been dirty, as far as the leaders have seen.
    pub oldest_dirty_ms: u64,
    /// How long until the next try, if SQL is being left alone.
    pub paused_ms: u64,
    /// Rows that SQL held in a version of somebody else's, since the leaders took over.
    pub conflicts: u64,
    /// Rows that SQL does not take.
    pub dead_letters: u64,
    /// Rows that SQL has taken since the start of the node, and per second of late.
    pub written_rows: u64,
    pub written_per_second: f64,
    /// The newest trouble with rows of this table.
    pub last_error: Option<SqlError>,
    /// Why nothing of it is written: SQL is ahead of this node's memory.
    pub ahead: Option<String>,
}

/// A row that SQL does not take, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterLine {
    pub row: RowKeyBuf,
    pub version: Version,
    pub error: String,
    pub tries: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
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
    /// How often this very request was refused on its way, or lost, and sent again by the node that was asked.
    pub retries: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    Live,
    /// Known not to exist, or deleted.
    Absent,
    /// Only SQL can tell.
    NotInMemory,
}
