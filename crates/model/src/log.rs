//! What a Raft group asks to be kept on disk, in words of its own: neither raft-rs nor the log engine appears here.

use bytes::Bytes;

use crate::ids::ShardId;

/// One entry of a group's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub index: u64,
    pub term: u64,
    pub kind: LogEntryKind,
    pub data: Bytes,
}

/// Who reads an entry's data: the state machine, or consensus itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEntryKind {
    Normal,
    Membership,
}

/// What a replica must never forget: its term, its vote, and how far it knew the log to be committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    pub term: u64,
    pub vote: u64,
    pub commit: u64,
}

/// What one group wants written before it may go on. Entries replace whatever the log held from the first of them on.
#[derive(Clone, Debug)]
pub struct LogWrite {
    pub shard: ShardId,
    pub entries: Vec<LogEntry>,
    pub hard_state: Option<HardState>,
}

/// Who takes part in a group, as recorded with its snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    pub voters: Vec<u64>,
    pub learners: Vec<u64>,
}

/// Where a snapshot stands in the log that it replaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMeta {
    pub index: u64,
    pub term: u64,
    pub membership: Membership,
}
