//! The state machine under requests that no door would let through, and under snapshots that no peer would send.

use shardine_model::table::{Field, SortPart};
use shardine_model::{Backing, Entry, FieldId, FieldType, RequestEpoch, Table, TableId, Timestamp};
use shardine_records::{CutStep, Nobody, Records};

/// Requests as a peer might replicate them, applied by two replicas and carried over to a third by a snapshot. All three
/// agree, whatever was asked.
pub fn commands(data: &[u8]) {
    let entry =
        Entry::Commands { proposed_at: Timestamp(1_000), epoch: RequestEpoch::FIRST, requests: data }.to_bytes();
    // The seed only spreads hash tables: it must not show.
    let (mut one, mut other) = (replica(1), replica(2));
    let outcome = one.apply(&entry, &mut Nobody);
    assert_eq!(outcome, other.apply(&entry, &mut Nobody), "replicas must agree on what cannot be applied");
    assert_eq!(one.state_hash(), other.state_hash(), "replicas must agree");
    assert_eq!(one.state_hash(), carried_over(&mut other).state_hash(), "a snapshot must carry everything");
}

/// A snapshot in two chunks, divided at a place that the first byte names. What was taken in can be given on.
pub fn state_chunk(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let (head, rows) = rest.split_at(usize::from(*first).min(rest.len()));
    let chunks = [[&[3, 1, 0], head].concat(), [&[3, 1, 1], rows].concat()];
    if let Ok(mut state) = Records::new(1).restored(chunks) {
        assert_eq!(state.state_hash(), carried_over(&mut state).state_hash(), "a snapshot must carry everything");
    }
}

fn carried_over(state: &mut Records) -> Records {
    Records::new(3).restored(chunks(state)).expect("a snapshot that was written can be read")
}

/// The whole state as chunks of a snapshot.
pub fn chunks(state: &mut Records) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    state.begin_cut();
    while let CutStep::Chunk(chunk) = state.cut_step() {
        chunks.push(chunk);
    }
    chunks
}

/// An empty shard with a typed table, a sorted table and the dynamic one, all without SQL, so that every row is in memory.
pub fn replica(seed: u64) -> Records {
    let mut state = Records::new(seed);
    for table in [typed(), sorted()] {
        let entry = Entry::definition(table).to_bytes();
        state.apply(&entry, &mut Nobody).expect("a definition of our own can be applied");
    }
    state
}

fn typed() -> Table {
    table(2, "typed", Vec::new())
}

fn sorted() -> Table {
    table(3, "sorted", vec![SortPart { name: "at".to_owned(), kind: FieldType::Int64 }])
}

fn table(id: u32, name: &str, sort: Vec<SortPart>) -> Table {
    let kinds = [FieldType::Int64, FieldType::Float64, FieldType::Uint64, FieldType::String, FieldType::Blob];
    let field = |(id, kind): (u16, FieldType)| Field::of(FieldId(id), format!("f{id}"), kind.zero());
    let fields: Vec<Field> = (1..).zip(kinds).map(field).collect();
    Table {
        id: TableId(id),
        name: name.to_owned(),
        version: 1,
        fields,
        sort,
        backing: Backing::None,
        sql: Default::default(),
        dynamic: false,
        dropped: false,
        next_field: FieldId(6),
    }
}
