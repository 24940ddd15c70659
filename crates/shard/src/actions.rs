//! What a replica asks its host to do, and the words used between them.

use bytes::Bytes;
use shardine_consensus::Message;
use shardine_model::log::{LogWrite, SnapshotMeta};
use shardine_model::sql::{Class, FlushRow};
use shardine_model::{Answer, CatalogueVersion, ErrorCode, RowImage, RowKeyBuf, TableId, Timestamp, Version};

use crate::split::Newborn;

/// Who waits for an answer. Means something to the host only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller {
    pub source: u64,
    pub sequence: u64,
}

/// The time as a host sees it: a clock that only runs forward, for timers, and the wall clock, for stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    pub monotonic_ms: u64,
    pub wall: Timestamp,
}

/// Everything one turn left to do. Reused from turn to turn.
#[derive(Debug, Default)]
pub struct Actions {
    /// Log writes, in order; each is confirmed by [`crate::Replica::persisted`].
    pub persists: Vec<Persist>,
    /// To peers, at once. They may be lost.
    pub messages: Vec<Message>,
    pub answers: Vec<(Caller, Answer)>,
    /// Requests that were certainly not executed, because the lead was lost before they were proposed, or because they belong to
    /// another shard by now.
    pub returned: Vec<Returned>,
    /// Replicas of shards that were parted off this one. To be given a seat before anything else happens here.
    pub newborn: Vec<Newborn>,
    /// Who may look at the records now ([`crate::Replica::read_barrier`]).
    pub passed: Vec<Caller>,
    pub loads: Vec<SqlLoad>,
    pub writes: Vec<SqlWrite>,
    pub purges: Vec<SqlPurge>,
    pub snapshot: Vec<SnapshotPart>,
    /// The replica has stopped and says why; it must not be used again.
    pub stop: Option<String>,
}

/// A request that somebody else has to execute.
#[derive(Clone, Debug)]
pub struct Returned {
    pub caller: Caller,
    /// Its bytes. Empty where only the caller can ask again.
    pub request: Vec<u8>,
    /// The definitions that it was read by.
    pub catalogue: CatalogueVersion,
    pub why: ErrorCode,
}

/// What must be on disk before the replica may go on.
#[derive(Debug)]
pub struct Persist {
    pub number: u64,
    pub write: LogWrite,
    /// A snapshot from the leader, to be stored before the log is reset behind it.
    pub install: Option<(SnapshotMeta, Bytes)>,
}

/// Names one question to SQL. Its answer must bring it back: SQL may answer late, twice, or after it was given up on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    pub term: u64,
    /// Grows with every question of the replica.
    pub ticket: u64,
}

/// Rows of one table that SQL is to be asked for.
#[derive(Clone, Debug)]
pub struct SqlLoad {
    pub question: Question,
    pub table: TableId,
    pub rows: Vec<RowKeyBuf>,
}

/// A row as SQL holds it: version 0 if there is none, below 0 for a tombstone.
#[derive(Clone, Debug)]
pub struct LoadedRow {
    pub row: RowKeyBuf,
    pub version: Version,
    pub fields: RowImage,
}

/// Rows of one table to be written to SQL, each at most once.
#[derive(Clone, Debug)]
pub struct SqlWrite {
    pub term: u64,
    pub table: TableId,
    pub rows: Vec<FlushRow>,
    /// By the host's monotonic clock: no statement of it may begin later, when the lease may be another's (write-back 78).
    pub begin_by_ms: u64,
    /// Somebody waits for one of the rows, or one has waited for too long.
    pub is_awaited: bool,
    pub progress: LogProgress,
}

/// How far the log had come from which a write is made. SQL keeps it beside the rows: a leader that finds more of it there
/// than its log held when it was elected has a log that lost entries, an old copy of a directory for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogProgress {
    /// The last applied entry: the rows are as they were after it.
    pub applied: u64,
    /// The last entry that the leader found in its log when it was elected.
    pub inherited: u64,
}

/// Tombstones of one table to be deleted in SQL, each only if it stands there at exactly this version.
#[derive(Clone, Debug)]
pub struct SqlPurge {
    pub term: u64,
    pub table: TableId,
    pub rows: Vec<(RowKeyBuf, Version)>,
    /// As for a write.
    pub begin_by_ms: u64,
}

/// A failure of a statement, in the database's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub class: Class,
    pub message: String,
}

/// A snapshot of this shard on its way to disk.
#[derive(Debug, PartialEq, Eq)]
pub enum SnapshotPart {
    Begin(SnapshotMeta),
    Chunk(Vec<u8>),
    End,
    /// It will not be ended.
    Abandon,
}

impl Actions {
    /// Tells those whose requests were given back that nothing was done, where nobody carries requests to another node.
    pub fn refuse_returned(&mut self) {
        let refused = |returned: Returned| (returned.caller, Answer::Failed(returned.why));
        self.answers.extend(self.returned.drain(..).map(refused));
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.persists.is_empty()
            && self.messages.is_empty()
            && self.answers.is_empty()
            && self.returned.is_empty()
            && self.newborn.is_empty()
            && self.passed.is_empty()
            && self.loads.is_empty()
            && self.writes.is_empty()
            && self.purges.is_empty()
            && self.snapshot.is_empty()
            && self.stop.is_none()
    }
}
