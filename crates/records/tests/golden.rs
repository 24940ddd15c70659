//! Golden bytes of snapshot chunks. They are frozen: snapshots out there hold them. The rows of a chunk stand in no
//! particular order, so each of these holds one key.

#[path = "support/snapshots.rs"]
mod snapshots;

use shardine_model::entry::{LoadedRow, RefusedRow, open_commands};
use shardine_model::{Entry, ReplicaId, RequestEpoch, RowImage, RowKey, Table, TableId, Timestamp, Version, limits};
use shardine_records::{Nobody, Records};
use shardine_story::words;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits")).collect()
}

fn define(records: &mut Records, definition: &str) {
    let table: Table = words::table(records.catalogue(), &definition.split_whitespace().collect::<Vec<_>>());
    records.apply(&Entry::definition(table).to_bytes(), &mut Nobody).expect("a definition");
}

fn ask(records: &mut Records, line: &str) {
    let mut entry = Vec::new();
    open_commands(&mut entry, Timestamp(300), RequestEpoch::FIRST);
    words::request(records.catalogue(), line).expect("a request").encode(&mut entry);
    records.apply(&entry, &mut Nobody).expect("a request");
}

/// Format, machine and number of the first chunk.
const OPEN: &str = "03 01 00";
/// Generation, range version, state, bounds.
const RANGE: &str = "01 11000000 01 01 01 00 08 0000000000000000 00 00 00 00";
const CLOCK_300: &str = "02 03000000 01 ac02";
const CATALOGUE: &str = "03 03000000 01 01 01";
const KV: &str = "06 16000000 01 02 01 026b76 01 02 01 00 00 00 00 e807 00 8088b2a002 00";
const END: &str = "00 00000000";

fn joined(golden: &[&str]) -> String {
    golden.concat().replace(' ', "")
}

/// Cuts, compares, and reads back.
fn assert_chunk(mut records: Records, golden: &[&str]) {
    let chunks = snapshots::chunks(&mut records);
    assert_eq!(chunks.len(), 1, "a small shard has one chunk");
    assert_eq!(hex(&chunks[0]), joined(&[&[OPEN], golden, &[END]].concat()));
    let restored = snapshots::restore(9, &chunks);
    assert_eq!(restored.state_hash(), records.state_hash());
}

#[test]
fn golden_bytes_of_an_empty_shard() {
    let records = Records::new(1);

    assert_chunk(
        records,
        &[RANGE, "02 02000000 01 00", CATALOGUE, KV, "08 13000000 01 08 0000000000000000 00 00 00 00000000 00 00"],
    );
}

/// records 67: the flag is part of the state, and of the snapshot.
#[test]
fn golden_bytes_of_a_suspended_shard() {
    let mut records = Records::new(1);
    let serving = records.state_hash();
    records.apply(&Entry::Suspend.to_bytes(), &mut Nobody).expect("a suspension");
    assert_ne!(records.state_hash(), serving);

    assert_chunk(
        records,
        &[
            "01 11000000 01 01 01 01 08 0000000000000000 00 00 00 00",
            "02 02000000 01 00",
            CATALOGUE,
            KV,
            "08 13000000 01 08 0000000000000000 00 00 00 00000000 00 00",
        ],
    );
}

/// A record with an expiry, a kept result, the clock.
#[test]
fn golden_bytes_of_a_dynamic_record() {
    let mut records = Records::new(1);
    ask(&mut records, "set kv:a f=x expires=5000 as=7/1");

    assert_chunk(
        records,
        &[
            RANGE,
            CLOCK_300,
            CATALOGUE,
            KV,
            "07 18000000 01 07 01 01 00 01 01 f21f9b18cad87a59 08 0102000001028827",
            "08 22000000 01 08 0000000000000000 00 00 00 01000000 0e 03 01 0161 02 00 8827 00 0166 050178 00 00",
        ],
    );
}

/// A dirty row, the lease.
#[test]
fn golden_bytes_of_a_row_with_sql() {
    let mut records = Records::new(1);
    define(&mut records, "users age:int64=18 name:string=anon sql");
    let row = words::address(records.catalogue(), "users:lili");
    let image = RowImage::default();
    let loaded = LoadedRow { row, version: Version(-3), fields: &image.packed };
    records.apply(&Entry::Load(vec![loaded]).to_bytes(), &mut Nobody).expect("a load");
    ask(&mut records, "set users:lili age=10");
    let lease = Entry::Lease { holder: ReplicaId(2), term: 5, length_ms: 10_000 };
    records.apply(&lease.to_bytes(), &mut Nobody).expect("a lease");

    assert_chunk(
        records,
        &[
            RANGE,
            CLOCK_300,
            CATALOGUE,
            "04 05000000 01 02 05 904e",
            KV,
            "06 2c000000 01 02 02 057573657273 01 01 03 02 01 03616765 0124 02 046e616d65 0404616e6f6e 00 00 00 e807 00 8088b2a002 00",
            "08 20000000 01 08 0000000000000000 00 00 00 01000000 0c 02 02 046c696c69 08 05 01 0114 00 00",
        ],
    );
}

/// write-back 113: dead letters are part of the state, and end the head of a snapshot.
#[test]
fn golden_bytes_of_a_dead_letter() {
    let mut records = Records::new(1);
    define(&mut records, "users age:int64 sql");
    let row = words::address(records.catalogue(), "users:lili");
    let loaded = LoadedRow { row, version: Version(0), fields: &[] };
    records.apply(&Entry::Load(vec![loaded]).to_bytes(), &mut Nobody).expect("a load");
    ask(&mut records, "set users:lili age=10");
    let before = records.state_hash();
    let refused = RefusedRow { row, version: Version(1), error: "no" };
    records
        .apply(&Entry::Refused { at: Timestamp(400), rows: vec![refused] }.to_bytes(), &mut Nobody)
        .expect("a refusal");
    assert_ne!(records.state_hash(), before);

    assert_chunk(
        records,
        &[
            RANGE,
            "02 03000000 01 9003",
            CATALOGUE,
            KV,
            "06 20000000 01 02 02 057573657273 01 01 02 01 01 03616765 0100 00 00 00 e807 00 8088b2a002 00",
            "08 30000000 01 08 0000000000000000 00 00 00 01000000 0c 02 02 046c696c69 02 00 01 0114 00 01 02 046c696c69 00 02 026e6f 01 9003 9003",
        ],
    );
}

/// write-back 113: the list ends at its limit, and an error at its length.
#[test]
fn write_back_113_dead_letters_are_bounded() {
    let mut records = Records::new(1);
    define(&mut records, "users age:int64 sql");
    let long = "ä".repeat(limits::DEAD_LETTER_ERROR_BYTES_MAX);
    for number in 0..limits::DEAD_LETTERS_MAX + 5 {
        let key = format!("u{number}");
        let row = RowKey { table: TableId(2), key: key.as_bytes(), sort: b"" };
        let loaded = LoadedRow { row, version: Version(0), fields: &[] };
        records.apply(&Entry::Load(vec![loaded]).to_bytes(), &mut Nobody).expect("a load");
        ask(&mut records, &format!("set users:{key} age=1"));
        let rows = vec![RefusedRow { row, version: Version(1), error: &long }];
        records.apply(&Entry::Refused { at: Timestamp(400), rows }.to_bytes(), &mut Nobody).expect("a refusal");
    }

    assert_eq!(records.dead_letter_count(), limits::DEAD_LETTERS_MAX);
    assert!(records.dead_letters().all(|(_, letter)| letter.error.len() <= limits::DEAD_LETTER_ERROR_BYTES_MAX));
}

/// Rows of a partition, a tombstone among them, and a floor.
#[test]
fn golden_bytes_of_sorted_rows() {
    let mut records = Records::new(1);
    define(&mut records, "chat text:string sort=at:int64");
    ask(&mut records, "set chat:room@1 text=a");
    ask(&mut records, "set chat:room@2 text=b");
    ask(&mut records, "delete chat:room@2");
    ask(&mut records, "set chat:room@3 text=c");
    ask(&mut records, "delete chat:room@3");
    let row = words::address(records.catalogue(), "chat:room@3");
    records.apply(&Entry::Purge(vec![(row, Version(-2))]).to_bytes(), &mut Nobody).expect("a purge");

    assert_chunk(
        records,
        &[
            RANGE,
            CLOCK_300,
            CATALOGUE,
            "05 04000000 01 01 02 02",
            KV,
            "06 24000000 01 02 02 0463686174 01 00 02 01 01 0474657874 0400 01 026174 01 00 00 e807 00 8088b2a002 00",
            "08 38000000 01 08 0000000000000000 00 00 00 00000000 01 02 04726f6f6d 02 08 8000000000000001 07 00 02 00 01 040161 08 8000000000000002 03 00 03 00 00",
        ],
    );
}

/// What is unknown is refused by name, never guessed (records 73).
#[test]
fn records_73_unknown_sections_are_refused() {
    let refused = |item: &str| {
        let golden = joined(&[OPEN, RANGE, item]);
        Records::new(1).restored([bytes(&golden)]).unwrap_err().to_string()
    };

    assert_eq!(
        refused("63 01000000 01"),
        "the snapshot has section 99 in version 1, which is not known here: upgrade this node"
    );
    assert_eq!(
        refused("02 02000000 02 00"),
        "the snapshot has section 2 in version 2, which is not known here: upgrade this node"
    );
}
