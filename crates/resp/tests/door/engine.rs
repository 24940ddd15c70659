//! The engine as the door sees it, over a map. Reads can be made late, changes refused, and responses held back.

use shardine_model::codec::Reader;
use shardine_model::table::SortPart;
use shardine_model::{
    AckAfter, Answer, Backing, Catalogue, ErrorCode, Field, FieldId, FieldType, FieldsView, Position, Refusal, Request,
    RowKey, RowView, Table, TableId, Timestamp, Value, Version,
};
use shardine_router::{
    Call, EngineStatus, Explanation, LocalEngine, NodeCall, Read, Residence, Response, RowCall, ScanCall, ScanPage,
    ScannedRow, ShardStatus, ShardsCall, Ticket,
};

use crate::state::State;

#[derive(Default)]
pub struct FakeHall {
    pub state: State,
    pub now: u64,
    /// Every read on the spot answers `Later`.
    pub is_late: bool,
    /// The next changes and reads fail with this.
    pub failure: Option<ErrorCode>,
    /// Flushes fail with this.
    pub flush_failure: Option<ErrorCode>,
    pub responses: Vec<(u64, Response)>,
    pub calls: Vec<String>,
}

fn field(id: u16, name: &str, kind: FieldType, default: Option<Value>) -> Field {
    Field { id: FieldId(id), name: name.into(), kind, default: default.unwrap_or_else(|| kind.zero()) }
}

fn table(id: u32, name: &str, fields: Vec<Field>, sort: Vec<SortPart>) -> Table {
    Table {
        id: TableId(id),
        name: name.into(),
        version: 1,
        next_field: FieldId(fields.len() as u16 + 1),
        fields,
        sort,
        backing: Backing::Sql,
        sql: Default::default(),
        dynamic: false,
        dropped: false,
    }
}

impl FakeHall {
    pub fn new() -> Self {
        let mut engine = Self { now: 1_000_000, ..Self::default() };
        let users = vec![
            field(1, "name", FieldType::String, None),
            field(2, "age", FieldType::Int64, Some(Value::Int(18))),
            field(3, "score", FieldType::Float64, None),
            field(4, "points", FieldType::Uint64, None),
            field(5, "photo", FieldType::Blob, None),
        ];
        let messages = vec![SortPart { name: "number".into(), kind: FieldType::Int64 }];
        engine.put(Table::kv());
        engine.put(table(2, "users", users, Vec::new()));
        engine.put(table(3, "messages", vec![field(1, "text", FieldType::String, None)], messages));
        engine.put(table(4, "notes", vec![field(1, "value", FieldType::String, None)], Vec::new()));
        engine
    }

    pub fn put(&mut self, table: Table) {
        self.state.catalogue.put(table);
    }

    fn scan(&self, call: &ScanCall) -> ScanPage {
        let mut rows: Vec<_> = self.state.rows.iter().filter(|(_, record)| record.version > 0).collect();
        rows.retain(|(row, _)| call.table.is_none_or(|table| table == row.table));
        rows.retain(|(row, _)| call.partition.as_ref().is_none_or(|key| *key == row.key));
        rows.sort_by_key(|(row, _)| (row.as_ref().position(), row.key.clone(), row.table, row.sort.clone()));
        if call.descending {
            rows.reverse();
        }
        let from =
            call.cursor.as_deref().map_or(0, |cursor| u64::from_be_bytes(cursor[..8].try_into().expect("eight bytes")));
        if !call.descending {
            rows.retain(|(row, _)| row.as_ref().position() >= Position(from));
        }
        let next = rows.get(call.limit).map(|(row, _)| row.as_ref().position().to_bytes().to_vec());
        let rows = rows.into_iter().take(call.limit).map(|(row, record)| ScannedRow {
            row: row.clone(),
            version: Version(record.version),
            sql_version: Version(0),
            expires_at: record.expires_at,
            fields: record.image.clone(),
            in_memory: true,
        });
        ScanPage { rows: rows.collect(), next }
    }

    fn explain(&self, row: RowKey<'_>) -> Explanation {
        let version = self.state.version(row);
        Explanation {
            table: self.state.catalogue.get(row.table).expect("a known table").name.clone(),
            partition_key: row.key.to_vec(),
            position: row.position(),
            shard: ShardStatus::default(),
            residence: if version.is_live() { Residence::Live } else { Residence::Absent },
            version,
            sql_version: Version(0),
            expires_at: self.state.rows.get(&row.to_owned()).and_then(|record| record.expires_at),
        }
    }

    fn answer(&mut self, call: Call) -> Response {
        match call {
            Call::Row(RowCall::Read { row }) => match self.failure {
                Some(code) => Response::Answer(Answer::Failed(code)),
                None => Response::Answer(Answer::One(self.state.read(row.as_ref()))),
            },
            Call::Row(RowCall::ReadStale { row, max_age_ms }) => {
                Response::Stale { reply: self.state.read(row.as_ref()), applied: max_age_ms.min(99) }
            }
            Call::Row(RowCall::Scan(call)) => Response::Page(self.scan(&call)),
            Call::Shards(ShardsCall::Count { .. }) => {
                Response::Count(self.state.rows.values().filter(|record| record.version > 0).count() as u64)
            }
            Call::Shards(ShardsCall::Clear { table }) => {
                self.state.rows.retain(|row, _| row.table != table);
                Response::Done
            }
            Call::Row(RowCall::Explain { row }) => Response::Explanation(Box::new(self.explain(row.as_ref()))),
            Call::Node(NodeCall::Status) => {
                let shards = vec![ShardStatus { records: 3, ..ShardStatus::default() }];
                Response::Status(Box::new(EngineStatus { lanes: 1, shards, ..EngineStatus::default() }))
            }
            Call::Row(RowCall::Flush { .. }) | Call::Shards(ShardsCall::Flush { .. }) => match self.flush_failure {
                Some(code) => Response::Refused(Refusal::new(code, "SQL is away")),
                None => Response::Done,
            },
            Call::Row(RowCall::Submit { request, ack, .. }) => {
                let request = Request::decode(&mut Reader::new(&request)).expect("the door encodes what decodes");
                let mut answer = self.state.submit(&request, self.now);
                if let (Answer::One(reply), AckAfter::Sql, None) = (&mut answer, ack.after, self.flush_failure) {
                    reply.sql_version = reply.version;
                }
                Response::Answer(answer)
            }
            Call::Row(RowCall::AwaitSql { .. }) => match self.flush_failure {
                Some(code) => Response::Answer(Answer::Failed(code)),
                None => Response::Done,
            },
            Call::Row(RowCall::Kick { .. }) => Response::Done,
            other => panic!("the door has no business asking {other:?}"),
        }
    }
}

impl LocalEngine for FakeHall {
    fn catalogue(&self) -> &Catalogue {
        &self.state.catalogue
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.now)
    }

    fn read(&mut self, row: RowKey<'_>) -> Read<'_> {
        if self.is_late || self.failure.is_some() {
            return Read::Later;
        }
        let version = self.state.version(row);
        match self.state.rows.get(&row.to_owned()).filter(|record| record.version > 0) {
            None => Read::Absent { version, sql_version: Version(0) },
            Some(record) => {
                let fields: FieldsView<'_> = record.image.view();
                Read::Live(RowView { version, sql_version: Version(0), expires_at: record.expires_at, fields })
            }
        }
    }

    fn submit(&mut self, request: &Request<'_>, ticket: Ticket) {
        let response = match self.failure.map_or_else(|| self.state.submit(request, self.now), Answer::Failed) {
            // As lanes have it.
            Answer::Many(replies) if replies.is_empty() => Response::Done,
            answer => Response::Answer(answer),
        };
        self.responses.push((ticket.sequence, response));
    }

    fn call(&mut self, call: Call, ticket: Ticket) {
        self.calls.push(format!("{call:?}"));
        let response = self.answer(call);
        self.responses.push((ticket.sequence, response));
    }
}
