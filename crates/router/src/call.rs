//! What a door may ask for beyond the two hot paths of [`crate::LocalEngine`], sorted by where it goes. Calls own their bytes,
//! so that they can cross threads.

use shardine_model::codec::Reader;
use shardine_model::command::{Attempt, Body, Origin};
use shardine_model::{
    Ack, Backing, CatalogueVersion, ErrorCode, Field, FieldId, FieldType, NodeMode, Position, Refusal, Request,
    RowKeyBuf, ShardId, SqlOptions, TableId, Value, Version,
};

use crate::balance::BalanceLook;
use crate::coord::CoordLook;
use crate::forward::Nature;
use crate::program::Program;

#[derive(Clone, Debug)]
pub enum Call {
    /// To the one shard that holds its position.
    Row(RowCall),
    /// The same for a client that keeps the map itself: where another node leads, it is told so by `Response::Moved`, and nothing is
    /// done. While nobody leads the request is held as any other.
    Direct(RowCall),
    /// To every shard; what they say is put together.
    Shards(ShardsCall),
    /// To the schema manager.
    Table(TableCall),
    /// To the schema manager: `Response::Done` once every node that lives knows it.
    Libraries(LibraryCall),
    /// About this node, or about all of them as it sees them.
    Node(NodeCall),
}

/// A call that a single position sends to a single shard: that of its row, or the one at which its page begins.
#[derive(Clone, Debug)]
pub enum RowCall {
    /// Linearizable read of one row: `Response::Answer` with the whole row, or refused with `not_found`.
    Read {
        row: RowKeyBuf,
    },
    /// Read of one row that may be this old, answered at once by any replica that is in touch (records 36):
    /// `Response::Stale`, or, where only the leader can tell, as `Read`.
    ReadStale {
        row: RowKeyBuf,
        max_age_ms: u64,
    },
    /// An encoded [`shardine_model::Request`], all of whose rows share one partition, the definitions that it was read by,
    /// and when it is to be answered.
    Submit {
        request: Box<[u8]>,
        catalogue: CatalogueVersion,
        ack: Ack,
    },
    /// Drops a clean record from memory; a dirty one is first written, unless `nowait`, which answers `busy`.
    Kick {
        row: RowKeyBuf,
        nowait: bool,
    },
    /// Answers once SQL holds the row as it was when the call arrived.
    Flush {
        row: RowKeyBuf,
    },
    /// Answers once SQL holds this version of the row, or a newer one: the version of a reply is the token for it
    /// (records 32). Without a time it waits as long as it takes.
    AwaitSql {
        row: RowKeyBuf,
        version: Version,
        within_ms: Option<u64>,
    },
    /// Writes a dead letter again; answers when SQL has taken or refused it.
    RetryDeadLetter {
        row: RowKeyBuf,
    },
    /// Gives a dead letter up: what SQL holds takes the row's place.
    DiscardDeadLetter {
        row: RowKeyBuf,
    },
    Explain {
        row: RowKeyBuf,
    },
    /// A page of rows; it ends where its shard ends.
    Scan(ScanCall),
    /// A page of a comparison of memory with SQL; it ends where its shard ends.
    Verify(VerifyCall),
    /// Commands that happen at one moment: `Response::Written`, or `Response::Elsewhere` of one that wanders.
    Run(Box<Program>),
}

/// A call that every shard has a part in.
#[derive(Clone, Debug)]
pub enum ShardsCall {
    /// Live records, of one table or all.
    Count { table: Option<TableId> },
    /// Answers once SQL holds what was current when the call arrived, of one table or all.
    Flush { table: Option<TableId> },
    /// Empties a table that has no SQL behind it.
    Clear { table: TableId },
    /// Answers requests of one shard, or of all, with `suspended` from now on, or no longer (records 67).
    Suspend { shard: Option<ShardId>, switch: Switch },
    /// How far SQL is behind, table by table.
    Writeback,
    /// Rows that SQL does not take (write-back 113).
    DeadLetters { table: Option<TableId> },
    /// Writes dead letters again, of one table or all; answers when SQL has taken them all, or refused one.
    RetryDeadLetters { table: Option<TableId> },
}

/// A change of definitions.
#[derive(Clone, Debug)]
pub enum TableCall {
    Create(TableSpec),
    AddField { table: String, field: FieldSpec },
    Drop { table: String },
}

/// A change of the libraries of functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryCall {
    /// They come beside those that are there, or, if all begins anew, in their place; all or none.
    Put {
        libraries: Vec<(String, Box<[u8]>)>,
        replaces: bool,
        begins_anew: bool,
    },
    Drop {
        name: String,
    },
}

#[derive(Clone, Debug)]
pub enum NodeCall {
    /// This node alone.
    Status,
    /// The whole cluster, of which this node asks the others.
    Cluster,
    /// Where requests go, as this node knows it, without asking anybody.
    Routes,
    /// A look at coordination.
    Coord(CoordLook),
    /// What an operator wants of a node or of a leader.
    Operate(Operate),
    /// What is still on a node that is to be emptied: `Response::Drain`.
    Drain { node: String },
    /// The balancer and what the cluster did: `Response::Balance`.
    Balance(BalanceLook),
}

/// An order of an operator's. A node goes by its name, or by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operate {
    Mode {
        node: String,
        mode: NodeMode,
    },
    Weight {
        node: String,
        weight: u16,
    },
    /// For good. Refused of one that lives and holds replicas.
    Remove {
        node: String,
    },
    /// The best heir leads if nobody is named: `Response::Count` with the number of its node.
    Transfer {
        shard: ShardId,
        to: Option<String>,
    },
    /// At this place, or where its data has its middle: `Response::Count` with the number of what is parted off.
    Split {
        shard: ShardId,
        at: Option<Position>,
    },
    /// `None` takes a setting back.
    Set {
        name: String,
        value: Option<String>,
    },
    /// A replica goes from one node to another: `Response::Balance` with a sentence. A rehearsal does nothing.
    Move {
        shard: ShardId,
        from: String,
        to: String,
        is_rehearsal: bool,
    },
}

impl RowCall {
    /// The position that says which shard is asked, or why no shard is. Whatever cannot be understood is refused, never dropped.
    pub fn position(&self) -> Result<Position, Refusal> {
        match self {
            Self::Read { row }
            | Self::ReadStale { row, .. }
            | Self::Kick { row, .. }
            | Self::Flush { row }
            | Self::AwaitSql { row, .. }
            | Self::RetryDeadLetter { row }
            | Self::DiscardDeadLetter { row }
            | Self::Explain { row } => Ok(row.as_ref().position()),
            Self::Submit { request, .. } => position_of(request),
            Self::Scan(scan) => Ok(scan.position()),
            Self::Verify(verify) => Ok(begin(verify.cursor.as_deref())),
            Self::Run(program) => Ok(program.home.as_ref().position()),
        }
    }
}

impl RowCall {
    /// What is certain about it when nobody has answered.
    #[must_use]
    pub fn nature(&self) -> Nature {
        match self {
            Self::Read { .. }
            | Self::ReadStale { .. }
            | Self::Explain { .. }
            | Self::Scan(_)
            | Self::Verify(_)
            // These change no record, and to be asked twice changes nothing.
            | Self::Kick { .. }
            | Self::Flush { .. }
            | Self::AwaitSql { .. }
            | Self::RetryDeadLetter { .. } => Nature::Read,
            Self::DiscardDeadLetter { .. } => Nature::Change,
            Self::Run(program) if program.reads_only => Nature::Read,
            Self::Run(_) => Nature::Change,
            Self::Submit { request, .. } => match Request::decode(&mut Reader::new(request)) {
                Ok(Request { body: Body::Read(_), .. }) => Nature::Read,
                Ok(Request { origin: Some(_), .. }) => Nature::Numbered,
                Ok(_) | Err(_) => Nature::Change,
            },
        }
    }

    /// The same, marked as sent before, if it has a number.
    #[must_use]
    pub(crate) fn again(self) -> Self {
        let Self::Submit { request, catalogue, ack } = self else { return self };
        let marked = match Request::decode(&mut Reader::new(&request)) {
            Ok(Request { origin: Some(origin), body }) => {
                let mut bytes = Vec::with_capacity(request.len());
                Request { origin: Some(Origin { attempt: Attempt::Again, ..origin }), body }.encode(&mut bytes);
                Some(bytes.into_boxed_slice())
            }
            Ok(_) | Err(_) => None,
        };
        Self::Submit { request: marked.unwrap_or(request), catalogue, ack }
    }

    /// What it takes of the memory for requests, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let beside = match self {
            Self::Read { row }
            | Self::ReadStale { row, .. }
            | Self::Kick { row, .. }
            | Self::Flush { row }
            | Self::AwaitSql { row, .. }
            | Self::RetryDeadLetter { row }
            | Self::DiscardDeadLetter { row }
            | Self::Explain { row } => row.key.len() + row.sort.len(),
            Self::Submit { request, .. } => request.len(),
            Self::Scan(scan) => scan.cursor.as_ref().map_or(0, Vec::len),
            Self::Verify(verify) => verify.cursor.as_ref().map_or(0, Vec::len),
            Self::Run(program) => program.bytes(),
        };
        size_of::<Self>() + beside
    }
}

fn position_of(request: &[u8]) -> Result<Position, Refusal> {
    let unreadable = || Refusal::new(ErrorCode::BadRequest, "the request cannot be read");
    let request = Request::decode(&mut Reader::new(request)).map_err(|_| unreadable())?;
    if request.rows().next().is_none() {
        return Err(unreadable());
    }
    one_position(&request).ok_or_else(scattered)
}

/// The position that all rows of a request share, if they do.
#[must_use]
pub fn one_position(request: &Request<'_>) -> Option<Position> {
    let mut positions = request.rows().map(|row| row.position());
    let first = positions.next()?;
    positions.all(|position| position == first).then_some(first)
}

/// The refusal of a request whose rows share no partition.
#[must_use]
pub fn scattered() -> Refusal {
    Refusal::new(ErrorCode::BadRequest, "all rows of one request must share a partition")
}

impl ScanCall {
    /// A page begins at its partition, or behind its cursor, or at the beginning.
    fn position(&self) -> Position {
        match &self.partition {
            Some(key) => Position::of_key(key),
            None => begin(self.cursor.as_deref()),
        }
    }
}

fn begin(cursor: Option<&[u8]>) -> Position {
    let cursor = cursor.and_then(|cursor| cursor.first_chunk::<8>());
    cursor.map_or(Position(0), |bytes| Position(u64::from_be_bytes(*bytes)))
}

impl From<RowCall> for Call {
    fn from(call: RowCall) -> Self {
        Self::Row(call)
    }
}

impl From<ShardsCall> for Call {
    fn from(call: ShardsCall) -> Self {
        Self::Shards(call)
    }
}

impl From<TableCall> for Call {
    fn from(call: TableCall) -> Self {
        Self::Table(call)
    }
}

impl From<LibraryCall> for Call {
    fn from(call: LibraryCall) -> Self {
        Self::Libraries(call)
    }
}

impl From<NodeCall> for Call {
    fn from(call: NodeCall) -> Self {
        Self::Node(call)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    On,
    Off,
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

/// Rows of a table with SQL behind it, in routing order.
#[derive(Clone, Debug)]
pub struct VerifyCall {
    pub table: TableId,
    pub limit: usize,
    /// What the previous page gave as `next`.
    pub cursor: Option<Vec<u8>>,
}

/// What `table create` asks for.
#[derive(Clone, Debug)]
pub struct TableSpec {
    pub name: String,
    pub fields: Vec<FieldSpec>,
    pub sort: Vec<(String, FieldType)>,
    pub backing: Backing,
    pub sql: SqlOptions,
}

#[derive(Clone, Debug)]
pub struct FieldSpec {
    pub name: String,
    pub kind: FieldType,
    /// Whether it may be NULL, which it is then if nobody says otherwise.
    pub nullable: bool,
    pub default: Option<Value>,
}

impl FieldSpec {
    #[must_use]
    pub fn into_field(self, id: FieldId) -> Field {
        let Self { name, kind, nullable, default } = self;
        let default = default.unwrap_or_else(|| Field::unnamed_default(kind, nullable));
        Field { id, name, kind, nullable, default }
    }
}

#[cfg(test)]
mod tests {
    use shardine_model::ClientId;
    use shardine_model::command::{Action, Command};

    use super::*;

    fn submit(origin: Option<Origin>) -> RowCall {
        let row = RowKeyBuf { table: TableId(1), key: b"k".as_slice().into(), sort: Box::default() };
        let mut request = Vec::new();
        Request { origin, body: Body::One(Command::plain(row.as_ref(), Action::Delete)) }.encode(&mut request);
        RowCall::Submit { request: request.into(), catalogue: CatalogueVersion::default(), ack: Ack::default() }
    }

    fn origin_of(call: &RowCall) -> Option<Origin> {
        let RowCall::Submit { request, .. } = call else { return None };
        Request::decode(&mut Reader::new(request)).unwrap().origin
    }

    /// records 35
    #[test]
    fn a_numbered_request_that_is_asked_again_says_so() {
        let origin = Origin::new(ClientId(7), 3);
        let call = submit(Some(origin));
        assert_eq!(call.nature(), Nature::Numbered);

        let again = call.again();

        assert_eq!(origin_of(&again), Some(Origin { attempt: Attempt::Again, ..origin }));
        assert_eq!(submit(None).nature(), Nature::Change);
        assert_eq!(origin_of(&submit(None).again()), None);
    }

    /// A call whose request could not be read was once answered never.
    #[test]
    fn a_request_that_cannot_be_read_is_refused() {
        for bytes in [&b""[..], b"\xff\xff\xff", &[0; 40]] {
            assert_eq!(position_of(bytes).unwrap_err().code, ErrorCode::BadRequest, "{bytes:?}");
        }
    }
}
