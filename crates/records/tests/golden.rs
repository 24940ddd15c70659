//! Golden bytes of snapshot chunks. They are frozen: snapshots out there hold them. The rows of a chunk stand in no
//! particular order, so each of these holds one key.

#[path = "support/words.rs"]
mod words;

use shardine_model::entry::{LoadedRow, RefusedRow, open_commands};
use shardine_model::{Entry, ReplicaId, RequestEpoch, RowImage, RowKey, Table, TableId, Timestamp, Version, limits};
use shardine_records::{CutStep, Nobody, Records};

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

/// Cuts, compares, and reads back.
fn assert_chunks(mut records: Records, golden: &[&str]) {
    records.begin_cut();
    let mut chunks = Vec::new();
    while let CutStep::Chunk(chunk) = records.cut_step() {
        chunks.push(chunk);
    }
    assert_eq!(chunks.len(), golden.len(), "the head, and the rows");
    for (chunk, golden) in chunks.iter().zip(golden) {
        assert_eq!(hex(chunk), *golden);
    }
    let mut restored = Records::new(9);
    chunks.iter().for_each(|chunk| restored.restore_chunk(chunk).expect("golden bytes are readable"));
    assert_eq!(restored.state_hash(), records.state_hash());
}

#[test]
fn golden_bytes_of_an_empty_shard() {
    assert_chunks(
        Records::new(1),
        &["0201000008000000000000000000010100010201026b7601020100000000e807008088b2a0020001010000", "0202"],
    );
}

/// records 67: the flag is part of the state, and of the snapshot.
#[test]
fn golden_bytes_of_a_suspended_shard() {
    let mut records = Records::new(1);
    let serving = records.state_hash();
    records.apply(&Entry::Suspend.to_bytes(), &mut Nobody).expect("a suspension");
    assert_ne!(records.state_hash(), serving);

    assert_chunks(
        records,
        &["0201000008000000000000000000010100010201026b7601020100000000e807008088b2a002000101000001", "0202"],
    );
}

/// A record with an expiry, a kept result, the clock.
#[test]
fn golden_bytes_of_a_dynamic_record() {
    let mut records = Records::new(1);
    ask(&mut records, "set kv:a f=x expires=5000 as=7/1");

    assert_chunks(
        records,
        &[
            "0201ac020008000000000000000000010100010201026b7601020100000000e807008088b2a0020001010001010701000101f21f9b18cad87a59080102000001028827",
            "0202010161000200882706000166050178",
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

    assert_chunks(
        records,
        &[
            "0201ac02010205904e08000000000000000000010100020201026b7601020100000000e807008088b2a002000202057573657273010103020103616765012402046e616d650404616e6f6e000000e807008088b2a0020001010000",
            "020202046c696c690008050003010114",
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

    assert_chunks(
        records,
        &[
            "020190030008000000000000000000010100020201026b7601020100000000e807008088b2a0020002020575736572730101020101036167650100000000e807008088b2a0020001010000020102046c696c690002026e6f0190039003",
            "020202046c696c690002000003010114",
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

    assert_chunks(
        records,
        &[
            "0201ac0200080000000000000000000101010202020201026b7601020100000000e807008088b2a002000202046368617401000201010474657874040001026174010000e807008088b2a0020001010000",
            "02020204726f6f6d08800000000000000102000004010401610204726f6f6d08800000000000000203000000",
        ],
    );
}

/// What is unknown is refused by name, never guessed (records 73).
#[test]
fn records_73_unknown_chunks_are_refused() {
    let refused = |chunk: &[u8]| Records::new(1).restore_chunk(chunk).unwrap_err().to_string();

    assert_eq!(refused(&[1, 1]), "chunk format holds 1, which has no meaning");
    assert_eq!(refused(&[2, 3]), "chunk kind holds 3, which has no meaning");
    let mut head = bytes("0201000008000000000000000000010100010201026b7601020100000000e807008088b2a0020001010000");
    head.push(9);
    assert_eq!(refused(&head), "head mark holds 9, which has no meaning");
    assert_eq!(refused(&[2, 2, 1]), "bytes end inside key");
}
