//! The tables of these tests, in an engine of one shard.

use shardine_fake::{FakeShard, LocalFake};
use shardine_model::table::SortPart;
use shardine_model::{Backing, Field, FieldId, FieldType, Table, TableId, Value};
use shardine_records::Records;

fn field(id: u16, name: &str, kind: FieldType, default: Option<Value>) -> Field {
    Field::of(FieldId(id), name, default.unwrap_or_else(|| kind.zero()))
}

fn typed(id: u16, name: &str, kind: FieldType, nullable: bool) -> Field {
    Field { id: FieldId(id), name: name.into(), kind, nullable, default: Field::unnamed_default(kind, nullable) }
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

pub fn engine() -> LocalFake {
    let mut shard = FakeShard::new(Records::new(1));
    let users = vec![
        field(1, "name", FieldType::String, None),
        field(2, "age", FieldType::Int64, Some(Value::Int(18))),
        field(3, "score", FieldType::Float64, None),
        field(4, "points", FieldType::Uint64, None),
        field(5, "photo", FieldType::Blob, None),
    ];
    let messages = vec![SortPart { name: "number".into(), kind: FieldType::Int64 }];
    shard.define(table(2, "users", users, Vec::new()));
    shard.define(table(3, "messages", vec![field(1, "text", FieldType::String, None)], messages));
    shard.define(table(4, "notes", vec![field(1, "value", FieldType::String, None)], Vec::new()));
    let bills = vec![
        typed(1, "nick", FieldType::String, true),
        typed(2, "paid", FieldType::Bool, false),
        typed(3, "sum", FieldType::Decimal { precision: 6, scale: 2 }, false),
        typed(4, "at", FieldType::Timestamp { digits: 0 }, true),
        typed(5, "doc", FieldType::Json, false),
    ];
    shard.define(table(5, "bills", bills, Vec::new()));
    LocalFake::new(shard)
}
