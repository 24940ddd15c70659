//! Calls and responses in bytes, for those that another node executes. Tags are frozen and never used again; what this version
//! cannot read is an error of whoever sent it, and executed nowhere.

#[macro_use]
mod forms;
mod coord;
mod responses;

use shardine_model::codec::{DecodeError, Reader};
use shardine_model::table::SortPart;
use shardine_model::{Ack, AckAfter, Field, FieldId, NodeId, RowKeyBuf, ShardId, Table, TableId, Version};

use self::forms::Wire;
use crate::call::{Bound, FieldSpec, RowCall, ScanCall, SortRange, TableCall, TableSpec, VerifyCall};
use crate::coord::CoordLook;
use crate::forward::Nature;
use crate::program::{Program, Step};

/// What one node asks of another.
#[derive(Clone, Debug)]
pub enum RemoteCall {
    Row(RowCall),
    /// Of the leader of this shard.
    Shard {
        shard: ShardId,
        ask: ShardAsk,
    },
    /// Of the leader of the shard that is the home of definitions.
    Table(TableCall),
    /// How far SQL is behind with what the node leads.
    Writeback,
    DeadLetters {
        table: Option<TableId>,
    },
    Status,
    /// What the node sees of coordination.
    Coord {
        look: CoordLook,
    },
    /// A command for the leader of the map's group, as `meta` writes it.
    Meta {
        command: Vec<u8>,
    },
    /// That the node give the lead of a group to another one, to the best heir if none is named.
    Transfer {
        shard: ShardId,
        to: Option<NodeId>,
    },
}

/// What is asked of one whole shard. The answer is a number, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardAsk {
    Count {
        table: Option<TableId>,
    },
    Flush {
        table: Option<TableId>,
    },
    RetryDeadLetters {
        table: Option<TableId>,
    },
    /// An entry of the schema manager's or an operator's making.
    Propose {
        entry: Vec<u8>,
    },
    /// The same of a shard that has these bounds still; otherwise `version_mismatch`, and whoever means all rows asks anew.
    AsOf {
        range: u64,
        ask: Box<ShardAsk>,
    },
    /// The position where it would be parted by size; 0 if nowhere.
    Middle,
}

impl ShardAsk {
    fn nature(&self) -> Nature {
        match self {
            Self::Count { .. } | Self::Flush { .. } | Self::RetryDeadLetters { .. } | Self::Middle => Nature::Read,
            Self::Propose { .. } => Nature::Change,
            Self::AsOf { ask, .. } => ask.nature(),
        }
    }
}

impl RemoteCall {
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        self.put(&mut out);
        out
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let call = Self::get(&mut reader)?;
        reader.finish("call")?;
        Ok(call)
    }

    /// What is certain about it when nobody has answered.
    #[must_use]
    pub fn nature(&self) -> Nature {
        match self {
            Self::Row(call) => call.nature(),
            Self::Shard { ask, .. } => ask.nature(),
            Self::Table(_) | Self::Meta { .. } | Self::Transfer { .. } => Nature::Change,
            Self::Writeback | Self::DeadLetters { .. } | Self::Status | Self::Coord { .. } => Nature::Read,
        }
    }

    /// The same after a try of which nobody knows what became: a numbered request says so, and is answered with the result of its
    /// first execution, if there was one.
    #[must_use]
    pub fn again(self) -> Self {
        match self {
            Self::Row(call) => Self::Row(call.again()),
            other => other,
        }
    }
}

choice!(RemoteCall, "call" {
    1 => Row(call),
    2 => Shard { shard, ask },
    3 => Table(call),
    4 => Writeback,
    5 => DeadLetters { table },
    6 => Status,
    7 => Meta { command },
    8 => Transfer { shard, to },
    9 => Coord { look },
});

choice!(ShardAsk, "question to a shard" {
    1 => Count { table },
    2 => Flush { table },
    3 => RetryDeadLetters { table },
    4 => Propose { entry },
    5 => AsOf { range, ask },
    6 => Middle,
});

choice!(RowCall, "call of a row" {
    1 => Read { row },
    2 => ReadStale { row, max_age_ms },
    3 => Submit { request, catalogue, ack },
    4 => Kick { row, nowait },
    5 => Flush { row },
    6 => AwaitSql { row, version, within_ms },
    7 => RetryDeadLetter { row },
    8 => DiscardDeadLetter { row },
    9 => Explain { row },
    10 => Scan(scan),
    11 => Verify(verify),
    12 => Run(program),
});

record!(Program { home, wanders, resp3, is_transaction, reads_only, watched, steps });
listed!(Step, Box<[u8]>, (RowKeyBuf, Version));

choice!(Step, "step of a program" {
    1 => Command { words },
    2 => Script { text, keys, args, reads_only },
    3 => Said { reply },
    4 => Function { library, name, keys, args, reads_only },
});

record!(ScanCall { table, partition, range, descending, limit, cursor, whole_positions });
record!(SortRange { from, to });
record!(VerifyCall { table, limit, cursor });
record!(Ack { after, within_ms });

choice!(Bound, "bound of a scan" {
    1 => Open,
    2 => Including(bytes),
    3 => Excluding(bytes),
});

choice!(AckAfter, "acknowledgement" {
    1 => Table,
    2 => Raft,
    3 => Sql,
});

/// A specification travels as the definition that it would become, without its numbers.
impl Wire for TableCall {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Create(spec) => {
                out.push(1);
                draft(spec).encode(out);
            }
            Self::AddField { table, field } => {
                out.push(2);
                let spec = TableSpec {
                    name: table.clone(),
                    fields: vec![field.clone()],
                    sort: Vec::new(),
                    backing: shardine_model::Backing::None,
                    sql: shardine_model::SqlOptions::default(),
                };
                draft(&spec).encode(out);
            }
            Self::Drop { table } => {
                out.push(3);
                table.put(out);
            }
        }
    }

    fn get(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8("call of a table")? {
            1 => Self::Create(spec(Table::decode(reader)?)),
            2 => {
                let TableSpec { name, mut fields, .. } = spec(Table::decode(reader)?);
                let field = fields.pop().ok_or(DecodeError::Truncated { what: "field" })?;
                Self::AddField { table: name, field }
            }
            3 => Self::Drop { table: Wire::get(reader)? },
            other => return Err(DecodeError::Unknown { what: "call of a table", value: u64::from(other) }),
        })
    }
}

fn draft(spec: &TableSpec) -> Table {
    let field = |(field, id): (&FieldSpec, u16)| field.clone().into_field(FieldId(id));
    let sort = spec.sort.iter().map(|(name, kind)| SortPart { name: name.clone(), kind: *kind });
    Table {
        id: TableId(0),
        name: spec.name.clone(),
        version: 0,
        fields: spec.fields.iter().zip(1..).map(field).collect(),
        sort: sort.collect(),
        backing: spec.backing,
        sql: spec.sql.clone(),
        dynamic: false,
        dropped: false,
        next_field: FieldId(1),
    }
}

fn spec(table: Table) -> TableSpec {
    let field = |field: Field| FieldSpec {
        name: field.name,
        kind: field.kind,
        nullable: field.nullable,
        default: Some(field.default),
    };
    TableSpec {
        name: table.name,
        fields: table.fields.into_iter().map(field).collect(),
        sort: table.sort.into_iter().map(|part| (part.name, part.kind)).collect(),
        backing: table.backing,
        sql: table.sql,
    }
}

#[cfg(test)]
mod tests;
