//! Snapshots of what is large: a chunk stays below its limit whatever one record, one partition, one client or one table
//! brings along, and everything comes back.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use shardine_model::command::{Action, Body, Give, Origin};
use shardine_model::entry::open_commands;
use shardine_model::limits::SNAPSHOT_CHUNK_BYTES_MAX;
use shardine_model::table::{KV, SortPart};
use shardine_model::{
    ClientId, Command, Entry, Field, FieldId, FieldRef, FieldType, FieldValue, Request, RowKey, Table, TableId,
    Timestamp, ValueRef,
};
use shardine_records::{CutStep, Nobody, Records, Restore};

fn set(records: &mut Records, row: RowKey<'_>, field: FieldRef<'_>, value: &[u8], origin: Option<Origin>) {
    let fields = [FieldValue { field, value: ValueRef::Blob(value) }];
    let give = if origin.is_some() { Give::New } else { Give::Nothing };
    let command = Command { give, ..Command::plain(row, Action::Set(fields.into_iter().collect())) };
    let mut entry = Vec::new();
    open_commands(&mut entry, Timestamp(300), records.epoch());
    Request { origin, body: Body::One(command) }.encode(&mut entry);
    records.apply(&entry, &mut Nobody).unwrap();
}

fn kv(key: &str) -> RowKey<'_> {
    RowKey { table: KV, key: key.as_bytes(), sort: b"" }
}

/// Cuts everything, looks at every chunk, and reads it back.
fn assert_carried(records: &mut Records) {
    let mut restore = Restore::new(Records::new(9));
    records.begin_cut();
    while let CutStep::Chunk(chunk) = records.cut_step() {
        assert!(chunk.len() <= SNAPSHOT_CHUNK_BYTES_MAX, "a chunk of {} bytes", chunk.len());
        restore.push(&chunk).unwrap();
    }
    let restored = restore.finish().unwrap();
    assert_eq!(restored.state_hash(), records.state_hash());
    assert_eq!(restored.bytes(), records.bytes());
}

#[test]
fn values_of_25_mib() {
    let mut records = Records::new(1);
    let value = vec![7; 25 << 20];
    for number in 0..3 {
        set(&mut records, kv(&format!("k{number}")), FieldRef::Name(b"value"), &value, None);
    }

    assert_carried(&mut records);
}

#[test]
fn many_keys_of_120_kb() {
    let mut records = Records::new(1);
    let value = vec![7; 120 << 10];
    for number in 0..1_000 {
        set(&mut records, kv(&format!("k{number}")), FieldRef::Name(b"value"), &value, None);
    }

    assert_carried(&mut records);
}

#[test]
fn one_partition_of_many_rows() {
    let mut records = Records::new(1);
    let sort = vec![SortPart { name: "at".to_owned(), kind: FieldType::Int64 }];
    let text = Field::of(FieldId(1), "text", FieldType::Blob.zero());
    let table = Table {
        id: TableId(2),
        name: "chat".to_owned(),
        fields: vec![text],
        sort,
        dynamic: false,
        next_field: FieldId(2),
        ..Table::kv()
    };
    records.apply(&Entry::definition(table).to_bytes(), &mut Nobody).unwrap();
    let value = vec![7; 1 << 10];
    for number in 0..100_000u64 {
        let sort = (number | 1 << 63).to_be_bytes();
        let row = RowKey { table: TableId(2), key: b"room", sort: &sort };
        set(&mut records, row, FieldRef::Id(FieldId(1)), &value, None);
    }

    assert_carried(&mut records);
}

#[test]
fn clients_with_many_kept_results() {
    let mut records = Records::new(1);
    let value = vec![7; 15_000];
    for client in 0..60 {
        for sequence in 1..=128 {
            let origin = Origin::new(ClientId(client), sequence);
            set(&mut records, kv(&format!("k{client}")), FieldRef::Name(b"value"), &value, Some(origin));
        }
    }

    assert_carried(&mut records);
}
