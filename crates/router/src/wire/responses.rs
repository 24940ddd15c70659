//! What comes back. A response that only the node itself can make use of does not travel.

use shardine_model::codec::{DecodeError, Reader};
use shardine_model::{Answer, Epoch, Reply, Table};

use super::forms::Wire;
use crate::cluster_status::ReplicaStatus;
use crate::coord::CoordStatus;
use crate::response::{
    DeadLetterLine, Difference, DifferenceKind, EngineStatus, Explanation, Residence, Response, ScanPage, ScannedRow,
    ShardStatus, SqlError, TableWriteback, VerifiedPage, WritebackReport, WritebackStatus,
};

const TAG_ANSWER: u8 = 1;
const TAG_STALE: u8 = 2;
const TAG_PAGE: u8 = 3;
const TAG_COUNT: u8 = 4;
const TAG_TABLE: u8 = 5;
const TAG_WRITEBACK: u8 = 6;
const TAG_VERIFIED: u8 = 7;
const TAG_DEAD_LETTERS: u8 = 8;
const TAG_EXPLANATION: u8 = 9;
const TAG_DONE: u8 = 10;
const TAG_REFUSED: u8 = 11;
const TAG_STATUS: u8 = 12;
const TAG_COORD: u8 = 13;
const TAG_PLACE: u8 = 14;
const TAG_WRITTEN: u8 = 15;
const TAG_ELSEWHERE: u8 = 16;

impl Response {
    /// `None` for one that is about this node alone.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(64);
        match self {
            Self::Answer(answer) => {
                out.push(TAG_ANSWER);
                answer.encode(&mut out);
            }
            Self::Stale { reply, applied } => {
                out.push(TAG_STALE);
                applied.put(&mut out);
                Answer::One(reply.clone()).encode(&mut out);
            }
            Self::Page(page) => put(TAG_PAGE, page, &mut out),
            Self::Count(count) => put(TAG_COUNT, count, &mut out),
            Self::Table(table) => {
                out.push(TAG_TABLE);
                table.encode(&mut out);
            }
            Self::Writeback(report) => put(TAG_WRITEBACK, report, &mut out),
            Self::Verified(page) => put(TAG_VERIFIED, page, &mut out),
            Self::DeadLetters(letters) => put(TAG_DEAD_LETTERS, letters, &mut out),
            Self::Explanation(explanation) => put(TAG_EXPLANATION, explanation, &mut out),
            Self::Done => out.push(TAG_DONE),
            Self::Refused(refusal) => put(TAG_REFUSED, refusal, &mut out),
            Self::Status(status) => put(TAG_STATUS, status, &mut out),
            Self::Coord(view) => put(TAG_COORD, view, &mut out),
            Self::Place { group, placed } => {
                put(TAG_PLACE, group, &mut out);
                placed.put(&mut out);
            }
            Self::Written(bytes) => put(TAG_WRITTEN, bytes, &mut out),
            Self::Elsewhere(row) => put(TAG_ELSEWHERE, row, &mut out),
            Self::Routes(_) | Self::Moved(_) | Self::Drain(_) | Self::Balance(_) => return None,
        }
        Some(out)
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let response = read(&mut reader)?;
        reader.finish("response")?;
        Ok(response)
    }
}

fn put(tag: u8, what: &impl Wire, out: &mut Vec<u8>) {
    out.push(tag);
    what.put(out);
}

fn read(reader: &mut Reader<'_>) -> Result<Response, DecodeError> {
    Ok(match reader.u8("response")? {
        TAG_ANSWER => Response::Answer(Answer::decode(reader)?),
        TAG_STALE => Response::Stale { applied: Wire::get(reader)?, reply: one_reply(reader)? },
        TAG_PAGE => Response::Page(Wire::get(reader)?),
        TAG_COUNT => Response::Count(Wire::get(reader)?),
        TAG_TABLE => Response::Table(Table::decode(reader)?.into()),
        TAG_WRITEBACK => Response::Writeback(Wire::get(reader)?),
        TAG_VERIFIED => Response::Verified(Wire::get(reader)?),
        TAG_DEAD_LETTERS => Response::DeadLetters(Wire::get(reader)?),
        TAG_EXPLANATION => Response::Explanation(Wire::get(reader)?),
        TAG_DONE => Response::Done,
        TAG_REFUSED => Response::Refused(Wire::get(reader)?),
        TAG_STATUS => Response::Status(Wire::get(reader)?),
        TAG_COORD => Response::Coord(Wire::get(reader)?),
        TAG_PLACE => Response::Place { group: Wire::get(reader)?, placed: Wire::get(reader)? },
        TAG_WRITTEN => Response::Written(Wire::get(reader)?),
        TAG_ELSEWHERE => Response::Elsewhere(Wire::get(reader)?),
        other => return Err(DecodeError::Unknown { what: "response", value: u64::from(other) }),
    })
}

fn one_reply(reader: &mut Reader<'_>) -> Result<Reply, DecodeError> {
    match Answer::decode(reader)? {
        Answer::One(reply) => Ok(reply),
        Answer::Many(_) | Answer::ConditionFailed | Answer::Failed(_) => {
            Err(DecodeError::Unknown { what: "reply of a stale read", value: 0 })
        }
    }
}

record!(ScanPage { rows, next });
record!(ScannedRow { row, version, sql_version, expires_at, fields, in_memory });
record!(VerifiedPage { equal, dirty, not_in_memory, changing, differences, next });
record!(Difference { row, kind, memory, sql });
record!(WritebackReport { database, tables, unheard });
record!(ReplicaStatus { node, name, lives });
record!(CoordStatus {
    group,
    leader,
    term,
    applied,
    snapshot,
    nodes,
    sessions,
    semaphores,
    bytes,
    streams,
    watches,
    waiters,
    stopped,
});
record!(WritebackStatus { url, connected, dirty, last_error, tables_ahead });
record!(SqlError { message, ago_ms, is_past });
record!(DeadLetterLine { row, version, error, tries, first_at, last_at });
record!(Explanation { table, partition_key, position, shard, residence, version, sql_version, expires_at, retries });
record!(TableWriteback {
    table,
    dirty_rows,
    dirty_bytes,
    oldest_dirty_ms,
    paused_ms,
    conflicts,
    dead_letters,
    written_rows,
    written_per_second,
    last_error,
    ahead,
});
record!(ShardStatus {
    shard,
    lo,
    hi,
    lane,
    leader,
    leader_name,
    replicas,
    epoch,
    term,
    applied,
    committed,
    snapshot,
    records,
    bytes,
    bytes_max,
    dirty,
    suspended,
    stopped,
    unsplit,
});

listed!(ScannedRow, Difference, TableWriteback, DeadLetterLine, ShardStatus, ReplicaStatus, CoordStatus);

choice!(DifferenceKind, "difference" {
    1 => Missing,
    2 => Content,
    3 => Older,
    4 => Newer,
    5 => Unfit(why),
});

choice!(Residence, "residence" {
    1 => Live,
    2 => Absent,
    3 => NotInMemory,
});

/// Counters are each node's own, and of the others it speaks only to whoever asked it.
impl Wire for EngineStatus {
    fn put(&self, out: &mut Vec<u8>) {
        self.node.put(out);
        self.version.put(out);
        for number in [self.protocol, self.uptime_ms, self.connections, self.log_bytes] {
            number.put(out);
        }
        self.lanes.put(out);
        self.shards.put(out);
        self.writeback.put(out);
        self.coordination.put(out);
        self.differences.put(out);
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            node: Wire::get(reader)?,
            version: Wire::get(reader)?,
            protocol: Wire::get(reader)?,
            uptime_ms: Wire::get(reader)?,
            connections: Wire::get(reader)?,
            log_bytes: Wire::get(reader)?,
            lanes: Wire::get(reader)?,
            shards: Wire::get(reader)?,
            writeback: Wire::get(reader)?,
            coordination: Wire::get(reader)?,
            differences: Wire::get(reader)?,
            ..Self::default()
        })
    }
}

impl Wire for Epoch {
    fn put(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::decode(reader)
    }
}
